package inbound

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/posthaste-mta/posthaste/flow"
	"github.com/posthaste-mta/posthaste/internal/wiretap"
	"github.com/posthaste-mta/posthaste/smtp/server"
)

// Unlimited turns off a limit whose zero value stands for a default.
const Unlimited = server.Unlimited

// Config configures a Server. The names in parentheses are Postfix's.
type Config struct {
	// Session configures all sessions: our hostname, and the limits on messages,
	// commands and errors.
	Session server.Config
	// LocalRecipientLimit is Session.RecipientLimit for unix sockets. Default
	// Unlimited: local programs can hardly split a message. Memory does not grow
	// with recipients.
	LocalRecipientLimit int

	// NormalizeNetworks are networks whose clients may end lines with a bare LF,
	// which is repaired instead of refused (smtpd_forbid_bare_newline = normalize).
	// Default none. Use it for old devices in your own network.
	NormalizeNetworks []netip.Prefix
	// RefuseNetworks are networks that get no service: their clients are greeted
	// with 554. Default none.
	RefuseNetworks []netip.Prefix

	// ConnectionLimit is the maximum number of connections (similar to
	// default_process_limit). Default 4000. At the limit, the oldest connection
	// that has not given MAIL yet makes room for a new one.
	ConnectionLimit int
	// ClientConnectionLimit is the maximum number of connections from one address
	// (smtpd_client_connection_count_limit). Default 50; Unlimited turns it off.
	ClientConnectionLimit int
	// PrefixConnectionLimit is the maximum number of connections from one network.
	// Default 250; Unlimited turns it off. Both limits are capped at half of
	// ConnectionLimit.
	PrefixConnectionLimit int
	// IPv4PrefixLength and IPv6PrefixLength are the lengths in bits of the prefix
	// that identifies a network (similar to smtpd_client_ipv4_prefix_length and
	// smtpd_client_ipv6_prefix_length). Defaults 24 and 64.
	IPv4PrefixLength, IPv6PrefixLength int
	// LimitExceptions are networks exempt from the limits on one client or network
	// (smtpd_client_event_limit_exceptions): ClientConnectionLimit, PrefixConnectionLimit,
	// the share of one network in HandshakeLimit, and failed logins by address. Default
	// loopback.
	LimitExceptions []netip.Prefix

	// CommandTimeout limits a client's silence between commands (smtpd_timeout, RFC
	// 5321 4.5.3.2.7). Default 5 minutes.
	CommandTimeout time.Duration
	// StressTimeout replaces CommandTimeout while more than four fifths of
	// ConnectionLimit are in use (smtpd_timeout under stress). Default 10 s.
	StressTimeout time.Duration
	// LineTimeout limits the time from the first byte of a command to its last.
	// Default 60 s.
	LineTimeout time.Duration
	// IdleTime limits the total time spent waiting for a client, outside of
	// messages and in envelopes, until a message is accepted. Default 30 minutes.
	IdleTime time.Duration
	// EnvelopeTime limits the time spent waiting for a client from MAIL to the
	// beginning of the content; RecipientTime extends it for each accepted
	// recipient. Defaults 5 minutes and 1 s.
	EnvelopeTime  time.Duration
	RecipientTime time.Duration
	// DataRate is the minimum average rate of content, by DATA or in chunks, in bytes per
	// second, over periods of DataRatePeriod of waiting (smtpd_min_data_rate). Defaults
	// 500 and 60 s. Lower the rate for clients with very slow links.
	DataRate       int
	DataRatePeriod time.Duration
	// TransactionTimeout limits the time from MAIL to the end of content. Default 2
	// h.
	TransactionTimeout time.Duration
	// WriteTimeout limits the time that a client may leave replies unread. Default
	// 60 s.
	WriteTimeout time.Duration
	// HandshakeTimeout limits the time of a TLS handshake (smtpd_starttls_timeout).
	// Default 30 s.
	HandshakeTimeout time.Duration
	// HandshakeLimit is the maximum number of TLS handshakes in progress, of which no
	// network of clients has more than half. Beyond it STARTTLS is answered with 454.
	// Default 100.
	HandshakeLimit int
	// Flusher executes ETRN; nil: no listener offers it. The caller runs it.
	Flusher *Flusher
	// Auth configures the logins of clients.
	Auth AuthConfig
	// GreetPause is the delay before the greeting, during which a client of a
	// listener with EarlyReject must be silent (postscreen_greet_wait). Default
	// none.
	GreetPause time.Duration
	// Grace limits how long content in transfer may continue when Serve ends.
	// Default 10 s.
	Grace time.Duration

	// Verifier verifies every recipient that the policy permits; nil disables
	// verification. Set it where clients can use the answer, or where reports would
	// go to strangers.
	Verifier Verifier
	// Flows classifies messages, until Server.SetFlows replaces it; nil leaves them
	// unclassified.
	Flows *flow.Rules
	// Edits are made to messages, until Server.SetEdits replaces them; nil makes none.
	Edits *Edits
	// Milters are asked about messages, until Server.SetMilters replaces them; nil: none are.
	Milters *Milters
	// Quotas limit what classes, tenants and flows have waiting and send; nil does not. A
	// message that is not classified has no limits.
	Quotas *Quotas
	// Wiretap has those who watch sessions; nil: they cannot be watched.
	Wiretap *wiretap.Hub
	// Logger gets a line for every accepted message and every refusal (info), and
	// for connections (debug). Default: nothing is logged.
	Logger *slog.Logger
}

// EarlyTalkers is the action for clients that do not wait for replies where they
// must.
type EarlyTalkers uint8

const (
	EarlyLog    EarlyTalkers = iota // log it: for submission, where legitimate programs do it
	EarlyReject                     // reply 554 and close: for port 25, where only malicious clients do it
)

// UnmarshalText reads "log" or "reject".
func (e *EarlyTalkers) UnmarshalText(text []byte) error {
	switch string(text) {
	case "log":
		*e = EarlyLog
	case "reject":
		*e = EarlyReject
	default:
		return fmt.Errorf("early talkers %q: must be log or reject", text)
	}
	return nil
}

// MarshalText is the inverse of UnmarshalText.
func (e EarlyTalkers) MarshalText() ([]byte, error) {
	if e == EarlyReject {
		return []byte("reject"), nil
	}
	return []byte("log"), nil
}

// WithDefaults returns c with its zero values replaced.
func (c Config) WithDefaults() Config {
	c.Session = c.Session.WithDefaults()
	setInt := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	setTime := func(field *time.Duration, value time.Duration) {
		if *field == 0 {
			*field = value
		}
	}
	setInt(&c.LocalRecipientLimit, Unlimited)
	setInt(&c.ConnectionLimit, 4000)
	setInt(&c.ClientConnectionLimit, 50)
	setInt(&c.PrefixConnectionLimit, 250)
	setInt(&c.IPv4PrefixLength, 24)
	setInt(&c.IPv6PrefixLength, 64)
	if c.LimitExceptions == nil {
		c.LimitExceptions = loopback()
	}
	setTime(&c.CommandTimeout, 5*time.Minute)
	setTime(&c.StressTimeout, 10*time.Second)
	setTime(&c.LineTimeout, time.Minute)
	setTime(&c.IdleTime, 30*time.Minute)
	setTime(&c.EnvelopeTime, 5*time.Minute)
	setTime(&c.RecipientTime, time.Second)
	setInt(&c.DataRate, 500)
	setTime(&c.DataRatePeriod, time.Minute)
	setTime(&c.TransactionTimeout, 2*time.Hour)
	setTime(&c.WriteTimeout, time.Minute)
	setTime(&c.HandshakeTimeout, 30*time.Second)
	setInt(&c.HandshakeLimit, 100)
	c.Auth = c.Auth.WithDefaults()
	setTime(&c.Grace, 10*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

// Validate returns all errors of a Config with its defaults, joined.
func (c Config) Validate() error {
	complaints := []error{c.Session.Validate(), c.Auth.Validate()}
	complain := func(bad bool, format string, args ...any) {
		if bad {
			complaints = append(complaints, fmt.Errorf(format, args...))
		}
	}
	limit := func(name string, value int) {
		complain(value != Unlimited && value < 1, "%s %d is not positive", name, value)
	}
	positive := func(name string, value time.Duration) {
		complain(value <= 0, "%s %s is not positive", name, value)
	}
	limit("local recipient limit", c.LocalRecipientLimit)
	complain(c.ConnectionLimit < 1, "connection limit %d is not positive", c.ConnectionLimit)
	limit("client connection limit", c.ClientConnectionLimit)
	limit("prefix connection limit", c.PrefixConnectionLimit)
	complain(c.IPv4PrefixLength < 1 || c.IPv4PrefixLength > 32, "IPv4 prefix length %d is not between 1 and 32", c.IPv4PrefixLength)
	complain(c.IPv6PrefixLength < 1 || c.IPv6PrefixLength > 128, "IPv6 prefix length %d is not between 1 and 128", c.IPv6PrefixLength)
	positive("command timeout", c.CommandTimeout)
	positive("stress timeout", c.StressTimeout)
	positive("line timeout", c.LineTimeout)
	positive("idle time", c.IdleTime)
	positive("envelope time", c.EnvelopeTime)
	positive("recipient time", c.RecipientTime)
	complain(c.DataRate < 1, "data rate %d is not positive", c.DataRate)
	positive("data rate period", c.DataRatePeriod)
	positive("transaction timeout", c.TransactionTimeout)
	positive("write timeout", c.WriteTimeout)
	positive("handshake timeout", c.HandshakeTimeout)
	complain(c.HandshakeLimit < 1, "handshake limit %d is not positive", c.HandshakeLimit)
	complain(c.GreetPause < 0, "greet pause %s is negative", c.GreetPause)
	positive("grace", c.Grace)
	for _, p := range append(append([]netip.Prefix(nil), c.NormalizeNetworks...), c.RefuseNetworks...) {
		complain(!p.IsValid(), "a network is not valid: %s", p)
	}
	return errors.Join(complaints...)
}

// contains reports whether one of the networks contains the address.
func contains(networks []netip.Prefix, addr netip.Addr) bool {
	for _, p := range networks {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
