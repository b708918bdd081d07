package inbound

import (
	"crypto/tls"
	"sync/atomic"

	"github.com/posthaste-mta/posthaste/mail"
)

// Counters are facts about a Server since its start, for metrics.
type Counters struct {
	Connections int64 // admitted
	Open        int64 // open now
	Refused     int64 // not admitted, because of a limit
	Shed        int64 // closed to make room
	Messages    int64 // accepted
	Recipients  int64 // of these
	Octets      int64 // bytes of content of these
	Rejections  int64 // commands, recipients and messages refused
	// Refusals are Rejections by reason.
	Refusals    [RefusalReasons]int64
	Early       int64 // sessions that did not wait for replies
	ProxyFailed int64 // connections of proxies without a proper header
	TLS         int64 // TLS handshakes that succeeded
	// TLSVersions are TLS by version: TLS 1.0 to TLS 1.3.
	TLSVersions [tls.VersionTLS13 - tls.VersionTLS10 + 1]int64
	TLSFailed   int64 // those that did not
	TLSRefused  int64 // those that were not begun, because of the limit
	Logins      int64 // clients that have logged in
	LoginFailed int64 // logins that failed
	LoginLater  int64 // those that were not tried, because of a limit
	Timeouts    int64 // sessions ended because the client was too slow
	Failures    int64 // errors of the Sink or the Gate
	Panics      int64 // connections lost to a bug
}

// A RefusalReason is what a refusal of a command, a recipient or a message is about, by the enhanced
// status code of the reply (RFC 3463). Those of milters are refusals like others.
type RefusalReason uint8

// The reasons.
const (
	RefusalProtocol   RefusalReason = iota // syntax or order of commands (X.5.Y)
	RefusalAddress                         // a sender's or recipient's address (X.1.Y, X.2.Y)
	RefusalRecipients                      // there are too many recipients (X.5.3)
	RefusalPolicy                          // relaying, quotas, filters (X.7.Y)
	RefusalLogin                           // a login, or that there was none (AUTH and the replies 530, 534, 535 and 538)
	RefusalSize                            // the message is too large (X.3.4)
	RefusalContent                         // the form of the message (X.6.Y), or too many hops (5.4.6)
	RefusalSystem                          // our disk, our maps, or lookups that came to nothing (X.3.Y, X.4.Y)
	RefusalOther                           // a reply without a status, or with another one

	// RefusalReasons is the number of reasons.
	RefusalReasons = iota
)

// String returns the word that views show.
func (r RefusalReason) String() string {
	return [...]string{"protocol", "address", "recipients", "policy", "login", "size", "content", "system", "other"}[r]
}

// reasonOf returns the reason of a refusal.
func reasonOf(r mail.Reply) RefusalReason {
	switch s := r.Status; {
	case r.Code == 530 || r.Code == 534 || r.Code == 535 || r.Code == 538 || r.Code == 454 && s.Subject == 7:
		return RefusalLogin
	case s.Subject == 5 && s.Detail == 3:
		return RefusalRecipients
	case s.Subject == 3 && s.Detail == 4:
		return RefusalSize
	case s.Subject == 5, s == mail.Status{} && r.Code >= 500 && r.Code <= 504:
		return RefusalProtocol
	case s.Subject == 1, s.Subject == 2:
		return RefusalAddress
	case s.Subject == 7:
		return RefusalPolicy
	case s.Subject == 6, s.Subject == 4 && s.Detail == 6:
		return RefusalContent
	case s.Subject == 3, s.Subject == 4:
		return RefusalSystem
	}
	return RefusalOther
}

// reject counts a refusal.
func (c *counters) reject(r mail.Reply) {
	c.rejections.Add(1)
	c.refusals[reasonOf(r)].Add(1)
}

type counters struct {
	connections, open, refused, shed             atomic.Int64
	messages, recipients, octets                 atomic.Int64
	rejections, early, timeouts, failed, panicks atomic.Int64
	proxyFailed, tls, tlsFailed, tlsRefused      atomic.Int64
	logins, loginFailed, loginLater              atomic.Int64
	tlsVersions                                  [tls.VersionTLS13 - tls.VersionTLS10 + 1]atomic.Int64
	refusals                                     [RefusalReasons]atomic.Int64
}

// Snapshot returns the present values. It may be called at any time, and takes some nanoseconds. Each value
// is exact, but they are not of one moment.
func (s *Server) Snapshot() Counters {
	c := &s.counters
	var refusals [RefusalReasons]int64
	for i := range refusals {
		refusals[i] = c.refusals[i].Load()
	}
	var versions [len(c.tlsVersions)]int64
	for i := range versions {
		versions[i] = c.tlsVersions[i].Load()
	}
	return Counters{
		TLSVersions: versions,
		Refusals:    refusals,
		Connections: c.connections.Load(),
		Open:        c.open.Load(),
		Refused:     c.refused.Load(),
		Shed:        c.shed.Load(),
		Messages:    c.messages.Load(),
		Recipients:  c.recipients.Load(),
		Octets:      c.octets.Load(),
		Rejections:  c.rejections.Load(),
		Early:       c.early.Load(),
		ProxyFailed: c.proxyFailed.Load(),
		TLS:         c.tls.Load(),
		TLSFailed:   c.tlsFailed.Load(),
		TLSRefused:  c.tlsRefused.Load(),
		Logins:      c.logins.Load(),
		LoginFailed: c.loginFailed.Load(),
		LoginLater:  c.loginLater.Load(),
		Timeouts:    c.timeouts.Load(),
		Failures:    c.failed.Load(),
		Panics:      c.panicks.Load(),
	}
}
