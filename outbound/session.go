package outbound

import (
	"cmp"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/dane"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp/client"
	"github.com/posthaste-mta/posthaste/tlspolicy"
)

// A Fault is a defect of TLS with a host.
type Fault uint8

const (
	FaultNone         Fault = iota // the certificate is the one that TLSA records demand, or valid for the host's name
	FaultPlaintext                 // the host does not offer STARTTLS, or refuses it
	FaultHandshake                 // it failed
	FaultName                      // the certificate is valid for other names
	FaultExpired                   // it has expired, or is not valid yet
	FaultUntrusted                 // no known authority vouches for it
	FaultMismatch                  // no TLSA record matches it
	FaultRecords                   // none of the TLSA records is usable
	FaultDNSSEC                    // the TLSA records cannot be looked up, or are forged
	FaultNoRecords                 // there are no TLSA records, and the level is dane-only
	FaultNotPermitted              // the domain's MTA-STS policy does not name the host
)

// A Session describes how one SMTP session with a host was secured, or why there is none.
type Session struct {
	Transport, Security string // of the mail.Opening
	// Nexthop is that of the mail, if the session carries any. A connection may carry mail for
	// other nexthops than the one for which it was opened.
	Nexthop string
	// Domain is that of the recipients, if Nexthop stands for several. "" means that it is that of
	// the nexthop, or that the session ended before there were any recipients.
	Domain string
	Host   mail.Host
	From   netip.Addr // our own; invalid if it is not known
	// Records says whether the DNS has TLSA records of the host, and TLSA holds them, if there are any.
	Records tlspolicy.Records
	TLSA    dane.Answer
	Fault   Fault
	Failed  bool // no mail can be sent on it
}

// A telling reports one session to Config.Sessions. It belongs to the goroutine of the connection.
// A nil telling reports nothing.
type telling struct {
	session Session
	sink    func(Session)
	told    []string // domains and nexthops
}

// toldMax is the maximum number of domains and nexthops for which one session is reported. The
// list is searched for each message, so it must be short.
const toldMax = 64

// telling returns the telling of a new session. It returns nil if the operator alone decides how
// the session is secured: no policy of the receiver's domain was looked up then, so there is
// nothing to report.
func (c *Client) telling(o *mail.Opening, p *protection, sock net.Conn) *telling {
	if c.cfg.Sessions == nil || !wantsAccount(o) {
		return nil
	}
	s := sessionOf(o, p)
	if local, ok := sock.LocalAddr().(*net.TCPAddr); ok {
		s.From = local.AddrPort().Addr().Unmap()
	}
	return &telling{session: s, sink: c.cfg.Sessions}
}

func wantsAccount(o *mail.Opening) bool {
	demand, err := tlspolicy.ParseDemand(o.Security)
	return err == nil && demand.WantsRecords()
}

func sessionOf(o *mail.Opening, p *protection) Session {
	s := Session{Transport: o.Transport, Nexthop: o.Nexthop, Security: o.Security, Host: o.Host}
	if p != nil {
		s.Records, s.TLSA = p.records, p.tlsa
	}
	return s
}

// tellRefused reports a host that must not be used. p is nil if the reason is the host's name.
func (c *Client) tellRefused(o *mail.Opening, from netip.Addr, p *protection) {
	if c.cfg.Sessions == nil || !wantsAccount(o) || p != nil && p.fault == FaultNone {
		return // or there is no password, which says nothing of the host
	}
	s := sessionOf(o, p)
	s.From, s.Failed, s.Fault = from, true, FaultNotPermitted
	if p != nil {
		s.Fault = p.fault
	}
	c.cfg.Sessions(s)
}

// failed reports that the session could not be secured as required.
func (t *telling) failed(p *protection, stage client.WaitKind) {
	if t == nil {
		return
	}
	t.session.Failed, t.session.Fault = true, FaultHandshake
	switch {
	case stage == client.WaitStartTLS:
		t.session.Fault = FaultPlaintext
	case p.Check != tlspolicy.CheckNothing && p.fault != FaultNone:
		t.session.Fault = p.fault
	}
	t.sink(t.session)
}

// ready notes how the session is secured.
func (t *telling) ready(p *protection, got mail.Security) {
	if t == nil {
		return
	}
	switch {
	case got != (mail.Security{}) && p.records == tlspolicy.RecordsUnusable:
		t.session.Fault = FaultRecords
	case got != (mail.Security{}):
		t.session.Fault = p.fault
	case p.Use == tlspolicy.UseNever: // because no handshake with the host succeeds
		t.session.Fault = FaultHandshake
	default:
		t.session.Fault = FaultPlaintext
	}
}

// carries reports the session once for each nexthop whose mail it carries or, if the nexthop is a
// site, once for each domain.
func (t *telling) carries(d *mail.Delivery) {
	if t == nil || d.Callout {
		return
	}
	if !strings.HasPrefix(d.Nexthop, "{") {
		t.once(d.Nexthop, "")
		return
	}
	for i := range d.Recipients {
		if domain := strings.ToLower(d.Recipients[i].Address.Domain()); domain != "" {
			t.once(d.Nexthop, domain)
		}
	}
}

// once reports the session, unless it has been reported for this domain or nexthop.
func (t *telling) once(nexthop, domain string) {
	key := cmp.Or(domain, nexthop)
	if len(t.told) >= toldMax || slices.Contains(t.told, key) {
		return
	}
	t.told = append(t.told, key)
	t.session.Nexthop, t.session.Domain = nexthop, domain
	t.sink(t.session)
}

// faultOf returns what a certificate lacks.
func faultOf(p *protection, err error) Fault {
	var invalid x509.CertificateInvalidError
	switch {
	case err == nil:
		return FaultNone
	case p.Check == tlspolicy.CheckTLSA:
		return FaultMismatch
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return FaultExpired
	case p.trust == mail.TrustChain:
		return FaultName
	}
	return FaultUntrusted
}

// refusals are why a host must not be used, by its TLSA records.
var refusals = [...]Fault{tlspolicy.RecordsNone: FaultNoRecords, tlspolicy.RecordsUsable: FaultMismatch, tlspolicy.RecordsUnusable: FaultRecords, tlspolicy.RecordsFailed: FaultDNSSEC}
