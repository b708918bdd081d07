package server

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// Unlimited disables a limit whose zero value means a default.
const Unlimited = -1

// Config is the configuration that all sessions of a server share. It must not
// change while sessions use it. The names in parentheses are Postfix's.
type Config struct {
	// Hostname is our name, a domain, in the greeting, in replies and in
	// Received fields (myhostname). There is no default.
	Hostname string
	// Banner follows the name in the greeting (smtpd_banner). Default "ESMTP
	// Posthaste". Change it if clients must not learn the program's name.
	Banner string

	// SizeLimit is the largest content accepted, in octets, as announced by
	// SIZE (message_size_limit). Default 10240000; Unlimited.
	SizeLimit int64
	// RecipientLimit is the maximum number of recipients of a message
	// (smtpd_recipient_limit). Default 1000; at least 100 (RFC 5321
	// 4.5.3.1.8); Unlimited. Peer.RecipientLimit overrides it.
	RecipientLimit int
	// RecipientOvershoot is the number of recipients beyond the limit that are
	// answered with 452 before the session is ended
	// (smtpd_recipient_overshoot_limit). Default 1000.
	RecipientOvershoot int
	// LineLimit is the maximum length of a command line, in octets with its CRLF.
	// Default 4096, which is enough for every extension offered. Raise it only for
	// an extension with longer lines.
	LineLimit int
	// TextLineLimit is the maximum length of a line of content, in octets with its
	// CRLF (line_length_limit, which truncates instead). Default 65536. RFC 5321
	// 4.5.3.1.6 requires 1000; longer ones are common and relayed unchanged.
	TextLineLimit int
	// HeaderLimit, in octets (header_size_limit, which truncates instead), and
	// HeaderFieldLimit, in fields, limit the message header. Defaults 1 MiB and 2000.
	HeaderLimit, HeaderFieldLimit int
	// HopLimit is the maximum number of Received fields in a message
	// (hopcount_limit). Default 100 (RFC 5321 6.3). OwnHopLimit is the maximum number
	// of those written by Hostname. Default 20; lower it where no message has a
	// reason to arrive twice.
	HopLimit, OwnHopLimit int

	// SoftErrorLimit is the number of errors after which each further error of a
	// client is answered with a delay of ErrorDelay (smtpd_soft_error_limit,
	// smtpd_error_sleep_time). Defaults 10 and 1 s.
	SoftErrorLimit int
	ErrorDelay     time.Duration
	// HardErrorLimit is the number of errors that end the session
	// (smtpd_hard_error_limit). Default 20. Accepting a message resets the
	// count. Raise it for clients that send to long lists with dead addresses.
	HardErrorLimit int
	// JunkLimit is the number of commands without effect (NOOP, RSET, VRFY …)
	// that a client may send per message before they count as errors
	// (smtpd_junk_command_limit). Default 100.
	JunkLimit int

	// ShowUser adds the user who has authenticated to the Received field
	// (smtpd_sasl_authenticated_header). Every recipient can read it.
	ShowUser bool

	// LenientPaths accepts MAIL and RCPT without angle brackets
	// (strict_rfc821_envelopes = no), for submission by old programs.
	LenientPaths bool
	// Underscores allows "_" in the domains of addresses.
	Underscores bool
	// LocalPartLimit is the maximum length of a local part, in octets. Default 64
	// (RFC 5321 4.5.3.1.1). Raise it for list software with longer sender addresses.
	LocalPartLimit int
}

// WithDefaults returns c with its zero values replaced by the defaults.
func (c Config) WithDefaults() Config {
	set := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	if c.Banner == "" {
		c.Banner = "ESMTP Posthaste"
	}
	if c.SizeLimit == 0 {
		c.SizeLimit = 10240000
	}
	set(&c.RecipientLimit, 1000)
	set(&c.RecipientOvershoot, 1000)
	set(&c.LineLimit, 4096)
	set(&c.TextLineLimit, 64<<10)
	set(&c.HeaderLimit, 1<<20)
	set(&c.HeaderFieldLimit, 2000)
	set(&c.HopLimit, 100)
	set(&c.OwnHopLimit, 20)
	set(&c.SoftErrorLimit, 10)
	if c.ErrorDelay == 0 {
		c.ErrorDelay = time.Second
	}
	set(&c.HardErrorLimit, 20)
	set(&c.JunkLimit, 100)
	set(&c.LocalPartLimit, smtp.LocalMax)
	return c
}

// LineLimitMax is the maximum of LineLimit: a host's input buffer must be larger.
const LineLimitMax = 12288

// Validate returns all errors of a Config with its defaults filled in, joined.
func (c Config) Validate() error {
	var complaints []error
	complain := func(bad bool, format string, args ...any) {
		if bad {
			complaints = append(complaints, fmt.Errorf(format, args...))
		}
	}
	complain(!smtp.ValidDomain(c.Hostname), "hostname %q is not a domain name", c.Hostname)
	complain(!isPrintable(c.Banner) || len(c.Banner) > 256, "banner %q: want at most 256 printable ASCII characters", c.Banner)
	complain(c.SizeLimit != Unlimited && c.SizeLimit < 64<<10, "size limit %d is below the 65536 of RFC 5321 4.5.3.1.7", c.SizeLimit)
	complain(c.RecipientLimit != Unlimited && c.RecipientLimit < 100,
		"recipient limit %d is below the 100 of RFC 5321 4.5.3.1.8", c.RecipientLimit)
	complain(c.RecipientOvershoot < 0, "recipient overshoot %d is negative", c.RecipientOvershoot)
	complain(c.LineLimit < 2048 || c.LineLimit > LineLimitMax, "line limit %d is not within 2048 and %d", c.LineLimit, LineLimitMax)
	complain(c.TextLineLimit < 1000, "text line limit %d is below the 1000 of RFC 5321 4.5.3.1.6", c.TextLineLimit)
	complain(c.HeaderLimit < 4096, "header limit %d is below 4096", c.HeaderLimit)
	complain(c.HeaderFieldLimit < 100, "header field limit %d is below 100", c.HeaderFieldLimit)
	complain(c.HopLimit < 1, "hop limit %d is not positive", c.HopLimit)
	complain(c.OwnHopLimit < 1, "own hop limit %d is not positive", c.OwnHopLimit)
	complain(c.SoftErrorLimit < 1, "soft error limit %d is not positive", c.SoftErrorLimit)
	complain(c.HardErrorLimit < c.SoftErrorLimit, "hard error limit %d is below the soft error limit %d", c.HardErrorLimit, c.SoftErrorLimit)
	complain(c.ErrorDelay < 0 || c.ErrorDelay > time.Minute, "error delay %s is not within 0 and 1 minute", c.ErrorDelay)
	complain(c.JunkLimit < 1, "junk limit %d is not positive", c.JunkLimit)
	complain(c.LocalPartLimit < smtp.LocalMax, "local part limit %d is below the %d of RFC 5321 4.5.3.1.1", c.LocalPartLimit, smtp.LocalMax)
	return errors.Join(complaints...)
}

func isPrintable(text string) bool {
	for i := 0; i < len(text); i++ {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// A Peer is the client of a session, and the rules that apply to it.
type Peer struct {
	// Addr is its address; invalid if it did not connect by TCP.
	Addr netip.Addr
	// RecipientLimit overrides the Config's unless it is 0.
	RecipientLimit int
	// Normalize converts a bare LF in commands and content to CRLF instead of
	// rejecting it (smtpd_forbid_bare_newline = normalize). The end of content
	// remains exactly the five octets. Only for trusted programs with this fault.
	Normalize bool
	// RejectEarly ends the session when a client does not wait for a reply that it
	// must wait for. If false, this is only reported to the host.
	RejectEarly bool
	// XClient and XForward permit these commands, which proxies and filters send.
	XClient, XForward bool
	// Domain completes addresses of MAIL and RCPT without a domain, or with one that has no
	// dot (append_at_myorigin, append_dot_mydomain); "" does not. Only for submission.
	Domain string
	// Priority is whether MT-PRIORITY is offered (RFC 6710), and PriorityMax the highest
	// priority that the client gets.
	Priority    bool
	PriorityMax int8
	// FutureRelease is the time for which clients may have mail kept before it is sent (RFC 4865); 0
	// does not offer it. Begun is when the session began, from which on the latest date that
	// is offered counts.
	FutureRelease time.Duration
	Begun         mail.Instant
	// VERP is what XVERP without a value means; zero if the client may not use XVERP
	// (smtpd_authorized_verp_clients, default_verp_delimiters). VERPFilter has the characters
	// that its value may have (verp_delimiter_filter); "" means smtp.VERPFilter.
	VERP       mail.VERP
	VERPFilter string
	// DeliverBy is whether DELIVERBY is offered (RFC 2852), and DeliverByMin the shortest time that
	// is accepted for mail to be returned after it, in whole seconds; 0 for any.
	DeliverBy    bool
	DeliverByMin time.Duration
	// ETRN is whether ETRN is offered (RFC 1985). For whom and for which domains is for the host to decide.
	ETRN bool
	// TLS is whether STARTTLS is offered, or required.
	TLS TLS
	// RequireTLS is whether REQUIRETLS is offered (RFC 8689) in sessions that are encrypted.
	RequireTLS bool
	// Mechanisms are those of AUTH that may be offered, none if AUTH is not known. Those that
	// show the password are offered with TLS only.
	Mechanisms smtp.Mechanisms
	// Refusal, if not zero, replaces the greeting; QUIT is then the only command
	// that is executed (RFC 5321 3.1).
	Refusal mail.Reply
}
