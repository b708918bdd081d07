package inbound

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// A Purpose is the kind of clients of a listener.
type Purpose uint8

const (
	PurposeRelay       Purpose = iota // other mail servers, and the clients that the Policy trusts (RFC 5321)
	PurposeSubmission                 // mail programs: only clients that may send anywhere are served (RFC 6409)
	PurposeSubmissions                // the same, with TLS from the first octet (RFC 8314)
)

// String returns the word in configurations and logs.
func (p Purpose) String() string { return [...]string{"relay", "submission", "submissions"}[p] }

// closed reports whether clients that may not send anywhere are not served at all.
func (p Purpose) closed() bool { return p != PurposeRelay }

// A Listener is a source of connections, TCP or a unix socket, and the terms on which its
// clients are served.
type Listener struct {
	net.Listener
	// Name is that of the listener in the log and for classes; "" for the submission
	// socket.
	Name         string
	Purpose      Purpose
	EarlyTalkers EarlyTalkers
	Limits       Limits
	Forwarders   Forwarders
	// RequireTLS is whether REQUIRETLS is offered under TLS, and TLSOptional whether a header
	// field TLS-Required: No counts (RFC 8689).
	RequireTLS, TLSOptional bool
	// Priority is whether clients may use MT-PRIORITY (RFC 6710), and PriorityMax the highest
	// priority that they get.
	Priority    bool
	PriorityMax int8
	// FutureRelease is the time for which clients may have mail kept before it is sent (RFC 4865); 0
	// does not offer it. It is in whole seconds, and at most FutureReleaseMax.
	FutureRelease time.Duration
	// VERP says to which clients XVERP is offered.
	VERP VERP
	// DeliverBy is whether clients may name a deadline for a message (RFC 2852), and
	// DeliverByMin the shortest time that BY may have with R, in whole seconds and at most
	// smtp.ByMax; 0 for any time.
	DeliverBy    bool
	DeliverByMin time.Duration
	// ETRN is which clients may use ETRN (RFC 1985); only for PurposeRelay (RFC 6409 7).
	ETRN ETRNUse
	// Domain completes addresses of clients that give none, or one without a dot; "" does
	// not. Only for submission (RFC 6409 4.2).
	Domain string
	Use    TLSUse
	// Auth is whether clients may, and must, log in, and Mechanisms by what.
	Auth       AuthUse
	Mechanisms smtp.Mechanisms
	// TLS is the server's side of TLS, which chooses the certificate; nil if Use is TLSNone.
	// With the same Config, clients can resume sessions after a reload.
	TLS *tls.Config
}

// VERP says to which clients a listener offers XVERP. The names in parentheses are Postfix's.
type VERP struct {
	Clients    []netip.Prefix // smtpd_authorized_verp_clients
	Unix       bool           // clients of a unix socket, who have no address
	Delimiters mail.VERP      // of XVERP without a value (default_verp_delimiters); zero: +=
	Filter     string         // the characters of a value (verp_delimiter_filter); "": smtp.VERPFilter
}

// of returns what XVERP means without a value; zero if the client at an address may not use it.
func (v *VERP) of(addr netip.Addr) mail.VERP {
	switch {
	case addr.IsValid() && !contains(v.Clients, addr), !addr.IsValid() && !v.Unix:
		return mail.VERP{}
	case v.Delimiters.IsZero():
		return mail.VERP{Before: '+', At: '='}
	}
	return v.Delimiters
}

// FutureReleaseMax is the longest Listener.FutureRelease: the seconds have nine digits.
const FutureReleaseMax = 999_999_999 * time.Second

// Limits are those of one listener, which replace the Config's. Zero values stand for
// the Config's.
type Limits struct {
	// Connections is the maximum number of connections to the listener; those to all
	// listeners count for Config.ConnectionLimit, too.
	Connections int
	// ClientConnections is the maximum number of connections from one address to the
	// listener; they do not count for Config.ClientConnectionLimit then. Unlimited turns
	// it off.
	ClientConnections int
	// Recipients and Size are Session.RecipientLimit, that of unix sockets included, and
	// Session.SizeLimit.
	Recipients int
	Size       int64
	// CommandTimeout is Config.CommandTimeout.
	CommandTimeout time.Duration
	// GreetPause is Config.GreetPause; negative: none.
	GreetPause time.Duration
}

// terms are the rules for the sessions of a listener. They do not change; a reload
// replaces them for connections that are accepted later.
type terms struct {
	Listener
	cfg    Config  // the server's, with the listener's limits
	counts *counts // of clients; nil: the server's
	room   int     // for connections
}

func (s *Server) termsOf(l Listener) *terms {
	t := &terms{Listener: l, cfg: s.cfg, room: l.Limits.Connections}
	if n := l.Limits.ClientConnections; n != 0 {
		t.counts = newCounts(atMostHalf(n, s.cfg.ConnectionLimit), atMostHalf(s.cfg.PrefixConnectionLimit, s.cfg.ConnectionLimit))
	}
	if n := l.Limits.Recipients; n != 0 {
		t.cfg.Session.RecipientLimit, t.cfg.LocalRecipientLimit = n, n
	}
	if n := l.Limits.Size; n != 0 {
		t.cfg.Session.SizeLimit = n
	}
	if d := l.Limits.CommandTimeout; d != 0 {
		t.cfg.CommandTimeout = d
	}
	if d := l.Limits.GreetPause; d != 0 {
		t.cfg.GreetPause = max(d, 0)
	}
	return t
}

// A socket is a listener at work.
type socket struct {
	net.Listener
	terms   atomic.Pointer[terms]
	retired atomic.Bool // taken out of service
	open    int         // connections; under the admission's mutex
}

// Validate returns all errors of the listener, joined.
func (l *Listener) Validate() error {
	var complaints []error
	complain := func(bad bool, format string, args ...any) {
		if bad {
			complaints = append(complaints, fmt.Errorf("listener %s: "+format, append([]any{l.Name}, args...)...))
		}
	}
	complaints = append(complaints, l.validTLS())
	complain(l.Auth > AuthRequired, "no such use of AUTH: %d", l.Auth)
	complain(l.Auth != AuthOff && l.Mechanisms == 0, "AUTH without mechanisms")
	complain(l.ETRN > ETRNAll, "no such use of ETRN: %d", l.ETRN)
	complain(l.ETRN != ETRNOff && l.Purpose.closed(), "ETRN is not for submission")
	complain(l.Purpose > PurposeSubmissions, "no such purpose: %d", l.Purpose)
	complain(l.PriorityMax < mail.PriorityMin || l.PriorityMax > mail.PriorityMax, "priority %d is not between %d and %d", l.PriorityMax, mail.PriorityMin, mail.PriorityMax)
	complain(l.FutureRelease < 0 || l.FutureRelease > FutureReleaseMax || l.FutureRelease%time.Second != 0, "future release %s is not within 0 and %s, in seconds", l.FutureRelease, FutureReleaseMax)
	complain(l.DeliverByMin < 0 || l.DeliverByMin > smtp.ByMax || l.DeliverByMin%time.Second != 0, "shortest time of delivery %s is not within 0 and %s, in seconds", l.DeliverByMin, smtp.ByMax)
	complain(l.Limits.Connections < 0, "connection limit %d is negative", l.Limits.Connections)
	complain(l.Limits.ClientConnections < Unlimited, "client connection limit %d is negative", l.Limits.ClientConnections)
	complain(l.Limits.Recipients < Unlimited, "recipient limit %d is negative", l.Limits.Recipients)
	complain(l.Limits.Size < Unlimited, "size limit %d is negative", l.Limits.Size)
	complain(l.Limits.CommandTimeout < 0, "command timeout %s is negative", l.Limits.CommandTimeout)
	return errors.Join(complaints...)
}

// SetListeners replaces the listeners of Serve, also before it is called. One that is
// served already stays open, and its new terms apply to connections that it accepts from
// now on; others open, and those that are not in the list close, while their sessions go
// on. It closes the listeners if Serve has ended.
func (s *Server) SetListeners(listeners ...Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setListeners(listeners)
}

func (s *Server) setListeners(listeners []Listener) {
	switch s.stage {
	case stageNew:
		s.early = append([]Listener{}, listeners...)
		return
	case stageEnded:
		for _, l := range listeners {
			l.Close() // the program is ending
		}
		return
	}
	var sockets []*socket
	for _, l := range listeners {
		sockets = append(sockets, s.socketFor(l))
	}
	for _, old := range s.sockets {
		if !holds(sockets, old.Listener) {
			old.retired.Store(true)
			old.Close() // it may already be closed
		}
	}
	s.sockets = sockets
}

// socketFor returns the socket of a listener, which it opens if there is none, with the
// listener's terms.
func (s *Server) socketFor(l Listener) *socket {
	for _, k := range s.sockets {
		if k.Listener == l.Listener {
			k.terms.Store(s.termsOf(l))
			return k
		}
	}
	k := &socket{Listener: l.Listener}
	k.terms.Store(s.termsOf(l))
	s.listen(k)
	return k
}

func holds(sockets []*socket, l net.Listener) bool {
	for _, k := range sockets {
		if k.Listener == l {
			return true
		}
	}
	return false
}
