package outbound

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/posthaste-mta/posthaste/dane"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp/client"
	"github.com/posthaste-mta/posthaste/tlspolicy"
)

// A TLSConfig configures TLS to the receivers of one transport.
type TLSConfig struct {
	// CAFile has the authorities whose certificates are valid, in PEM form (default: the
	// system's).
	CAFile string
	// CertFile and KeyFile have our certificate, for servers that ask for one, and its
	// private key, in PEM form. Without a KeyFile the key is in CertFile.
	CertFile, KeyFile string
	// HandshakeTimeout is the time that the reply to STARTTLS may take, and the handshake
	// (smtp_starttls_timeout; default 60 s).
	HandshakeTimeout time.Duration
}

// An identity is the contents of the files of a TLSConfig.
type identity struct {
	trusted *x509.CertPool // nil: the system's
	own     []tls.Certificate
}

// load reads the files.
func (t *TLSConfig) load() (identity, error) {
	var id identity
	if t.CAFile != "" {
		data, err := os.ReadFile(t.CAFile)
		if err != nil {
			return id, fmt.Errorf("tls_ca_file: %w", err)
		}
		if id.trusted = x509.NewCertPool(); !id.trusted.AppendCertsFromPEM(data) {
			return id, fmt.Errorf("tls_ca_file: %s has no certificate in PEM form", t.CAFile)
		}
	}
	if t.CertFile == "" {
		if t.KeyFile != "" {
			return id, errors.New("tls_key_file: there is no tls_cert_file to which the key belongs")
		}
		return id, nil
	}
	key := cmp.Or(t.KeyFile, t.CertFile)
	if info, err := os.Stat(key); err == nil && info.Mode().Perm()&0o077 != 0 {
		return id, fmt.Errorf("tls_key_file: others than its owner can read or write %s, which has a private key (mode %04o): chmod 600 %s", key, info.Mode().Perm(), key)
	}
	pair, err := tls.LoadX509KeyPair(t.CertFile, key)
	if err != nil {
		return id, fmt.Errorf("tls_cert_file: %w", err)
	}
	id.own = []tls.Certificate{pair}
	return id, nil
}

// CheckFiles returns what is wrong with the files, as New would.
func (t *TLSConfig) CheckFiles() error {
	_, err := t.load()
	return err
}

// A protection says how one connection must be secured, and with what result it was.
type protection struct {
	tlspolicy.Requirement
	host      string // the MX host's name, "" for an address
	nexthop   string
	transport string
	tlsa      dane.Answer // CheckTLSA: by what the certificate is judged
	domains   []string    // CheckTLSA, with DANE-TA: those of the mail
	records   tlspolicy.Records
	identity
	trust  mail.Trust
	login  *login // nil: we do not authenticate
	failed bool   // TLS could not be negotiated
	fault  Fault  // of the certificate, whether or not it matters
}

// protectionOf returns how a connection must be secured. If the host must not be used, the reply
// says why; otherwise it is zero.
func (c *Client) protectionOf(ctx context.Context, config *TransportConfig, o *mail.Opening) (*protection, mail.Reply) {
	if _, local := mail.SocketPath(o.Host.Addr); local {
		return &protection{Requirement: tlspolicy.Requirement{Use: tlspolicy.UseNever}}, mail.Reply{} // no network is between its ends
	}
	demand, err := tlspolicy.ParseDemand(o.Security)
	if err != nil { // of a later version, or damaged
		return nil, mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 3, Detail: 5}, Text: mail.CleanText(err.Error())}
	}
	if !demand.Allows(o.Host.Name) {
		p := &protection{Requirement: tlspolicy.Requirement{Keyword: demand.Keyword}, fault: FaultNotPermitted}
		return p, mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 7, Detail: 5}, Text: hostLabel(o.Host) + ": the domain's MTA-STS policy does not name this host"}
	}
	p := &protection{host: o.Host.Name, nexthop: o.Nexthop, transport: o.Transport, identity: c.identities[o.Transport]}
	records := tlspolicy.RecordsNone
	if demand.WantsRecords() && c.cfg.TLSA != nil && o.Host.Name != "" {
		p.tlsa = c.cfg.TLSA.TLSA(ctx, o.Host.Name, o.Host.Addr.Port())
		records = recordsOf(p.tlsa.State)
	}
	var why mail.Reply
	p.records = records
	p.Requirement, why = demand.For(records)
	if !why.IsZero() {
		p.fault = refusals[records]
		why.Text = hostLabel(o.Host) + ": " + why.Text
		if p.tlsa.Why != "" {
			why.Text += ": " + p.tlsa.Why
		}
	}
	if p.Check == tlspolicy.CheckTLSA && slices.ContainsFunc(p.tlsa.Records, func(r dane.Record) bool { return r.Usage == dane.DANETA }) {
		p.domains = c.cfg.TLSA.Names(ctx, o.Nexthop)
	}
	if why.IsZero() {
		p.login, why = c.loginOf(ctx, demand.Credential, p, o.Host)
	}
	if p.Use == tlspolicy.UseIfOffered && c.broken.remembers(o.Host.Addr, time.Now()) {
		p.Use = tlspolicy.UseNever
	}
	return p, why
}

// refusal returns why a host cannot be secured, for the mail. With REQUIRETLS it is for good where the next
// attempt would show the same, and the mail is returned at once if no host does better (RFC 8689 4.2.1).
// Where the DNS has not answered, or the handshake was cut, it waits.
func (p *protection) refusal(why mail.Reply, lasts bool) mail.Reply {
	if p == nil || p.Keyword != tlspolicy.KeywordRequired || !lasts {
		return why
	}
	return mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 7, Detail: 10}, Text: mail.CleanText("the sender demands REQUIRETLS: " + why.Text)}
}

// use converts it for a session.
func (p *protection) use() client.TLSUse {
	if p.Implicit {
		return client.TLSImplicit
	}
	return [...]client.TLSUse{client.TLSNever, client.TLSOffered, client.TLSRequired}[p.Use]
}

// config returns what the handshake needs. The certificate is judged here, and not by package
// tls: that knows one kind of judgment only.
func (p *protection) config(sessions tls.ClientSessionCache) *tls.Config {
	cfg := &tls.Config{
		ServerName:         p.serverName(),
		Certificates:       p.own,
		InsecureSkipVerify: true,
		VerifyConnection:   p.verify,
		ClientSessionCache: sessions,
		MinVersion:         tls.VersionTLS12,
	}
	if p.Use == tlspolicy.UseIfOffered {
		cfg.MinVersion = tls.VersionTLS10 // better than plaintext
	}
	return cfg
}

// serverName is the name that the server is asked for (RFC 7672 8.1, RFC 8461 4.1).
func (p *protection) serverName() string {
	if p.Check == tlspolicy.CheckTLSA {
		return p.tlsa.Base
	}
	return strings.TrimSuffix(p.host, ".")
}

// verify judges a connection. It is called for resumed sessions, too.
func (p *protection) verify(state tls.ConnectionState) (err error) {
	p.trust, err = p.judge(state.PeerCertificates)
	if p.fault = faultOf(p, err); p.Check == tlspolicy.CheckNothing {
		return nil
	}
	return err
}

// judge returns how far the server is known by its certificate, and why not farther: the error is
// nil if and only if it is verified.
func (p *protection) judge(chain []*x509.Certificate) (mail.Trust, error) {
	if len(chain) == 0 {
		return mail.TrustNone, errors.New("the server has no certificate")
	}
	switch p.Check {
	case tlspolicy.CheckFingerprint:
		return verified(p.matchesDigest(chain[0]))
	case tlspolicy.CheckTLSA:
		_, err := dane.Verify(p.tlsa.Records, chain, p.references(), time.Now())
		return verified(err)
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{Roots: p.trusted, Intermediates: between}); err != nil {
		return mail.TrustNone, err
	}
	if err := p.matchesName(chain[0]); err != nil {
		return mail.TrustChain, err
	}
	return mail.TrustVerified, nil
}

// references are the names of which a certificate under a DANE-TA record must have one (RFC 7672 3.2.2): the
// host's, before and after its aliases, and the domain's likewise. A site has hosts, and no domain: those whose
// mail it has may differ from message to message.
func (p *protection) references() []string {
	return slices.Concat([]string{p.tlsa.Base, p.host}, p.domains)
}

// recordsOf converts a state of TLSA records.
func recordsOf(s dane.State) tlspolicy.Records {
	switch s {
	case dane.None:
		return tlspolicy.RecordsNone
	case dane.Usable:
		return tlspolicy.RecordsUsable
	case dane.Unusable:
		return tlspolicy.RecordsUnusable
	}
	return tlspolicy.RecordsFailed
}

func verified(err error) (mail.Trust, error) {
	if err != nil {
		return mail.TrustNone, err
	}
	return mail.TrustVerified, nil
}

func (p *protection) matchesDigest(leaf *x509.Certificate) error {
	for _, octets := range [][]byte{leaf.Raw, leaf.RawSubjectPublicKeyInfo} {
		digest := sha256.Sum256(octets)
		if slices.Contains(p.Names, hex.EncodeToString(digest[:])) {
			return nil
		}
	}
	digest := sha256.Sum256(leaf.Raw)
	return fmt.Errorf("the server's certificate has the fingerprint %x", digest)
}

// matchesName reports whether a certificate has one of the names wanted; without any, the
// host's own.
func (p *protection) matchesName(leaf *x509.Certificate) error {
	wanted := p.Names
	if p.Check != tlspolicy.CheckName || len(wanted) == 0 {
		wanted = []string{tlspolicy.MatchHost}
	}
	for _, want := range wanted {
		if want == tlspolicy.MatchHost {
			want = p.host
		}
		if slices.ContainsFunc(leaf.DNSNames, func(has string) bool { return tlspolicy.MatchName(want, has) }) {
			return nil
		}
	}
	// What was wanted comes first: of a long text the end is cut off in some views.
	return fmt.Errorf("the server's certificate is not for %s; it is for %s", strings.ReplaceAll(strings.Join(wanted, " or "), tlspolicy.MatchHost, p.host), namesOf(leaf))
}

// namesOf returns some of a certificate's names, for people.
func namesOf(leaf *x509.Certificate) string {
	const most = 4
	names := leaf.DNSNames
	if len(names) == 0 {
		return "no name"
	}
	text := strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		text += ", …"
	}
	return mail.CleanText(text)
}

// described returns the negotiated parameters, as logs and views show them.
func (p *protection) described(state *tls.ConnectionState) mail.Security {
	return mail.Security{Version: tls.VersionName(state.Version), Cipher: tls.CipherSuiteName(state.CipherSuite), Trust: p.trust}
}

// handshakeText says why TLS could not be negotiated. Without STARTTLS it may be that the server does not
// expect TLS: it greets in plaintext, waits for something else, or closes the connection.
func (p *protection) handshakeText(err error) string {
	const needs = "; tls_wrappermode needs a port at which the server expects TLS first, such as 465"
	var timeout interface{ Timeout() bool }
	var record tls.RecordHeaderError
	text := err.Error()
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		text = "timed out"
	case closed(err):
		text = "the server closed the connection"
	case errors.As(err, &record) && p.Implicit:
		text = fmt.Sprintf("the server speaks plaintext (%.5q)", record.RecordHeader[:])
	default:
		return mail.CleanText("TLS handshake failed: " + text)
	}
	if p.Implicit {
		text += needs
	}
	return mail.CleanText("TLS handshake failed: " + text)
}

// closed reports whether an error is that the other end has closed the connection.
func closed(err error) bool {
	return slices.ContainsFunc([]error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, syscall.ECONNRESET, syscall.EPIPE}, func(e error) bool { return errors.Is(err, e) })
}

// portOfTLS is the port of submissions, at which TLS comes first (RFC 8314 7.3).
const portOfTLS = 465

// explained adds to the failure of a session in plaintext what is likely to be wrong, if it had no greeting
// from the port at which servers wait for TLS.
func (p *protection) explained(f client.Failure, port uint16) client.Failure {
	if port != portOfTLS || p.Implicit || f.Stage != client.WaitGreeting {
		return f
	}
	switch f.Kind {
	case client.FailLost, client.FailTimeout, client.FailProtocol:
		f.Reply.Text += "; servers expect TLS first at port 465: set tls_wrappermode = true for the transport"
	}
	return f
}

// brokenHosts remembers hosts that offer TLS with which no handshake succeeds, so that mail
// for which plaintext will do does not try it each time. It is safe for concurrent use.
type brokenHosts struct {
	mu    sync.Mutex
	until map[netip.AddrPort]time.Time
}

const (
	brokenTTL = time.Hour
	brokenMax = 4096
)

func (b *brokenHosts) remembers(host netip.AddrPort, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	until, ok := b.until[host]
	if ok && !now.Before(until) {
		delete(b.until, host)
		return false
	}
	return ok
}

func (b *brokenHosts) add(host netip.AddrPort, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until == nil {
		b.until = make(map[netip.AddrPort]time.Time)
	}
	if len(b.until) >= brokenMax {
		for old := range b.until { // any
			delete(b.until, old)
			break
		}
	}
	b.until[host] = now.Add(brokenTTL)
}
