package inbound

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/internal/certificate"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp/server"
)

// TLSUse is when a listener's sessions are encrypted.
type TLSUse uint8

const (
	TLSNone     TLSUse = iota // never
	TLSMay                    // after STARTTLS, if the client wants it
	TLSRequire                // after STARTTLS, before anything else
	TLSImplicit               // from the first octet (RFC 8314)
)

// String returns the word that logs show.
func (u TLSUse) String() string { return [...]string{"none", "may", "require", "implicit"}[u] }

// session returns what sessions offer.
func (u TLSUse) session() server.TLS {
	return [...]server.TLS{server.TLSNone, server.TLSOffered, server.TLSRequired, server.TLSNone}[u]
}

// network returns the network under which the client's handshakes are counted, an invalid
// one if they are not.
func (c *connection) network() netip.Prefix {
	a := c.server.admission
	if !a.counted(c.client.Addr) {
		return netip.Prefix{}
	}
	return a.prefixOf(c.client.Addr)
}

// mayShake takes a place among the handshakes in progress.
func (c *connection) mayShake() bool {
	if c.server.handshakes.begin(c.network()) {
		return true
	}
	c.server.counters.tlsRefused.Add(1)
	c.server.refusals.note(slog.LevelWarn, "no TLS handshake: too many are in progress", c.name(), "", "listener", c.terms.Name, "limit", c.server.cfg.HandshakeLimit)
	return false
}

// tlsBusy is the answer to STARTTLS if there are too many handshakes (RFC 3207 4). The
// client may try again, or send in plaintext if it would rather do that.
func tlsBusy() mail.Reply {
	return mail.Reply{Code: 454, Status: mail.Status{Class: 4, Subject: 3, Detail: 0}, Text: "TLS not available at the moment"}
}

// handshake makes a TLS handshake, which has a place since mayShake. The deadline is one
// for all of it: a client that sends an octet now and then does not extend it.
func (c *connection) handshake() (server.Security, bool) {
	defer c.server.handshakes.end(c.network())
	if len(c.input.waiting()) > 0 { // the session has made sure that there is none
		panic("inbound: input before a TLS handshake")
	}
	from := time.Now()
	until := from.Add(min(c.terms.cfg.HandshakeTimeout, c.patience.left(server.PhaseNone)))
	c.conn.SetDeadline(until) // then the handshake fails too
	if !c.dismissal(server.ForCommand).IsZero() {
		return server.Security{}, false
	}
	conn := tls.Server(c.conn, c.terms.TLS)
	err := conn.Handshake()
	now := time.Now()
	c.patience.received(from, now, server.PhaseNone, 0)
	if err != nil {
		if c.dismissal(server.ForCommand).IsZero() { // which ends a handshake, too
			c.noteHandshake(err)
		}
		return server.Security{}, false
	}
	c.conn.SetDeadline(time.Time{}) // each read and write has its own
	c.server.counters.tls.Add(1)
	c.encrypt(conn)
	state := conn.ConnectionState()
	c.server.counters.tlsVersions[min(max(state.Version, tls.VersionTLS10), tls.VersionTLS13)-tls.VersionTLS10].Add(1)
	if len(state.PeerCertificates) > 0 {
		c.client.Certificates = certificate.Fingerprints(state.PeerCertificates[0])
	}
	return c.security, true
}

// encrypt has all input and output go through a connection of TLS.
func (c *connection) encrypt(conn *tls.Conn) {
	c.tls = conn
	c.input.release()
	c.input = newEncryptedInput(conn, &c.server.inputs)
	state := conn.ConnectionState()
	c.security = server.Security{Version: versionName(state.Version), Cipher: tls.CipherSuiteName(state.CipherSuite)}
	c.note(c.security.Version + " " + c.security.Cipher)
	c.debug("TLS", "version", c.security.Version, "cipher", c.security.Cipher, "sni", state.ServerName, "resumed", state.DidResume)
}

func (c *connection) noteHandshake(err error) {
	c.server.counters.tlsFailed.Add(1)
	if isTimeout(err) {
		c.server.counters.timeouts.Add(1)
	}
	var garbage tls.RecordHeaderError
	why := err.Error()
	if errors.As(err, &garbage) {
		why = "the client does not speak TLS"
	}
	c.note("TLS handshake failed: " + why)
	c.server.refusals.note(slog.LevelInfo, "TLS handshake failed", c.name(), why, "listener", c.terms.Name, "reason", why)
}

// versionName returns a version of TLS as Postfix and OpenSSL write it.
func versionName(v uint16) string {
	if v == tls.VersionTLS10 {
		return "TLSv1"
	}
	return strings.Replace(tls.VersionName(v), "TLS ", "TLSv", 1)
}

// validTLS returns the error of a listener's TLS.
func (l *Listener) validTLS() error {
	switch {
	case l.Use > TLSImplicit:
		return fmt.Errorf("listener %s: no such use of TLS: %d", l.Name, l.Use)
	case l.Use == TLSImplicit != (l.Purpose == PurposeSubmissions):
		return fmt.Errorf("listener %s: its purpose is %s, and its use of TLS %s", l.Name, l.Purpose, l.Use)
	}
	return nil
}
