package outbound

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
	"github.com/posthaste-mta/posthaste/smtp/client"
	"github.com/posthaste-mta/posthaste/tlspolicy"
)

// Dial connects to a host and begins a session: connection, greeting, EHLO, TLS and AUTH as the
// Opening demands.
// The Conn is not nil if and only if the Reply of the other result is zero. The
// Reply is permanent and our own (By is "") only if the host turned out to be this one;
// any other refusal that precedes the envelope is about the host, not the mail, whatever
// its code is, which is left as the host gave it.
func (c *Client) Dial(ctx context.Context, o mail.Opening) (*Conn, mail.OpenedConnection) {
	config := c.transports[o.Transport]
	if config == nil {
		return nil, mail.OpenedConnection{Reply: unconfigured(o.Transport), Unavailable: true}
	}
	from, ok := c.origin(config, &o)
	if !ok {
		return nil, mail.OpenedConnection{Unbound: true, Reply: unbound("it has no address of this family")}
	}
	protect, why := c.protectionOf(ctx, config, &o)
	if !why.IsZero() {
		c.tellRefused(&o, from.addr, protect)
		return nil, mail.OpenedConnection{Insecure: true, Reply: protect.refusal(why, protect != nil && protect.fault != FaultNone && protect.fault != FaultDNSSEC)}
	}
	k, opened := c.open(ctx, config, o, from, protect)
	if k == nil && protect.failed && protect.Use == tlspolicy.UseIfOffered && ctx.Err() == nil {
		// The handshake failed, and mail that may be sent in plaintext must not wait because of
		// that. It gets a new connection, since the server's state on this one is unknown.
		c.broken.add(o.Host.Addr, time.Now())
		protect.Use = tlspolicy.UseNever
		k, opened = c.open(ctx, config, o, from, protect)
	}
	if k == nil && protect.login.renew(ctx) {
		k, opened = c.open(ctx, config, o, from, protect)
	}
	return k, opened
}

// open opens a connection and protects it as protect says.
func (c *Client) open(ctx context.Context, config *TransportConfig, o mail.Opening, from origin, protect *protection) (*Conn, mail.OpenedConnection) {
	began := time.Now()
	sock, failure, err := c.connect(ctx, config, from.addr, o.Host)
	if sock == nil {
		if o.Source != "" && ctx.Err() == nil && blamesAddress(err, from.addr, o.Host.Addr) {
			return nil, mail.OpenedConnection{Unbound: true, Reply: unbound(cause(err).Error())}
		}
		unavailable := failure.Kind == client.FailAbandoned && !failure.Reply.IsZero()
		return nil, mail.OpenedConnection{Reply: atTheDoor(failure), Unavailable: unavailable}
	}
	opened := mail.OpenedConnection{RTT: time.Since(began)}
	k := newConn(c, config, o, from.hello, sock, protect)
	k.telling = c.telling(&o, protect, sock)
	if failure, ok := k.greet(ctx); !ok {
		c.count.handshakeFails.Add(1)
		failure = protect.explained(failure, o.Host.Addr.Port())
		c.unauthenticated(&failure, protect.login, o.Host)
		c.logFailure(o.Host.Addr, failure)
		opened.Reply = atTheDoor(failure)
		opened.Stage = stageOf(&opened.Reply, failure.Stage)
		protect.failed = failure.Kind == client.FailSecurity || failure.Stage == client.WaitHandshake && failure.Kind != client.FailAbandoned
		opened.Insecure = protect.failed || failure.Stage == client.WaitAuth && failure.Kind != client.FailAbandoned
		if protect.failed {
			lasts := failure.Stage == client.WaitStartTLS && !k.line.session.Caps().StartTLS || failure.Stage == client.WaitHandshake && protect.fault != FaultNone
			opened.Reply = protect.refusal(opened.Reply, lasts)
		}
		if protect.failed && protect.Use != tlspolicy.UseIfOffered { // else plaintext is next
			k.telling.failed(protect, failure.Stage)
		}
		return nil, opened
	}
	if protect.Keyword == tlspolicy.KeywordRequired && !k.line.session.Caps().RequireTLS {
		k.line.session.Quit()
		k.line.close()
		return nil, mail.OpenedConnection{Insecure: true, Reply: keywordMissing(hostLabel(o.Host))}
	}
	k.telling.ready(protect, k.security)
	k.requires = protect.Keyword != tlspolicy.KeywordNone && k.security.Trust == mail.TrustVerified && k.line.session.Caps().RequireTLS
	opened.Security, k.protect = k.security, nil // thousands may be idle
	opened.RTT = max(opened.RTT, k.hello)
	opened.Connect = time.Since(began)
	opened.Level = levelOf(k.line.session.Level())
	caps := k.line.session.Caps()
	opened.Mails, opened.Extensions, opened.SizeMax = caps.Limits.Mails, extensions(&caps), caps.SizeMax
	opened.Probes = o.Probe && k.line.session.MayStream()
	k.connect = opened.Connect
	return k, opened
}

// extensions returns the server's extensions that are recorded.
func extensions(caps *smtp.Caps) (set mail.Extensions) {
	for _, e := range []struct {
		offered bool
		bit     mail.Extensions
	}{
		{caps.Pipelining, mail.ExtPipelining}, {caps.Chunking, mail.ExtChunking}, {caps.EightBit, mail.Ext8BitMIME}, {caps.UTF8, mail.ExtSMTPUTF8},
		{caps.DSN, mail.ExtDSN}, {caps.StartTLS, mail.ExtStartTLS}, {caps.RequireTLS, mail.ExtRequireTLS}, {caps.Burl, mail.ExtBurl},
	} {
		if e.offered {
			set |= e.bit
		}
	}
	return set
}

// atTheDoor returns the reply for a host with which no session could be begun.
// Even after a permanent refusal other hosts are tried and the mail is kept
// (smtp_skip_5xx_greeting); the core takes care of that. The host's reply is evidence and
// stays as it is: an operator could not find a 554 in the host's log if it became a 454 here.
func atTheDoor(f client.Failure) mail.Reply {
	if f.Kind == client.FailAbandoned && f.Reply.IsZero() {
		return interrupted()
	}
	return f.Reply
}

// connect opens a TCP connection, or returns the reason why it could not.
func (c *Client) connect(ctx context.Context, config *TransportConfig, from netip.Addr, h mail.Host) (net.Conn, client.Failure, error) {
	dialCtx, cancel := context.WithTimeout(ctx, config.ConnectTimeout)
	defer cancel()
	sock, err := c.dialer.Dial(dialCtx, from, h.Addr)
	if err != nil {
		c.count.connectFailures.Add(1)
		c.cfg.Log.Debug("connection failed", "host", h.Addr, "error", err)
		return nil, dialFailure(ctx, hostAddress(h), err), err
	}
	c.count.connects.Add(1)
	return sock, client.Failure{}, nil
}

// lacking reports whether a connection failed because this machine or process has
// run out of a resource. That says nothing about the host, and the next one would
// fail as well.
func lacking(e syscall.Errno) bool {
	return e == syscall.EMFILE || e == syscall.ENFILE || e == syscall.ENOBUFS || e == syscall.ENOMEM
}

// dialFailure converts an error of the dialer to a failure. Only the system's error
// text is passed on, not our own addresses.
func dialFailure(ctx context.Context, host string, err error) client.Failure {
	if ctx.Err() != nil {
		return client.Failure{Kind: client.FailAbandoned}
	}
	text := err.Error()
	var sys syscall.Errno
	if errors.As(err, &sys) && lacking(sys) {
		return client.Failure{Kind: client.FailAbandoned, Reply: mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 3, Detail: 1},
			Text: mail.CleanText("no connections can be made here: " + sys.Error())}}
	}
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		text = "timed out"
	case errors.As(err, &sys):
		text = sys.Error() + socketHint(host, sys)
	}
	return client.Failure{Kind: client.FailLost, Reply: mail.Reply{
		Code:   451,
		Status: mail.Status{Class: 4, Subject: 4, Detail: 1},
		Text:   mail.CleanText("connect to " + host + ": " + text),
	}}
}
