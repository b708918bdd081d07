package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/mtasts"
	"github.com/posthaste-mta/posthaste/outbound"
	"github.com/posthaste-mta/posthaste/route"
	"github.com/posthaste-mta/posthaste/tlspolicy"
	"github.com/posthaste-mta/posthaste/tlsrpt"
	"github.com/posthaste-mta/posthaste/tlsrpt/courier"
)

// tlsReportFile is the file of the counts for reports on TLS, in the queue directory.
const tlsReportFile = "tls-reports"

// tlsReports counts the sessions of outbound under the policies of their domains. A nil
// tlsReports counts nothing.
type tlsReports struct {
	*courier.Courier
	sts     *stsFinder
	exclude []string
	sites   siteDomains
}

// newTLSReports returns nil if reports are switched off.
func newTLSReports(cfg *config.Config, d *Daemon) (*tlsReports, error) {
	if cfg.TLSReports.Organization == "" {
		return nil, nil
	}
	c := d.options.TLSReports
	c.Identity = courier.Identity{Organization: cfg.TLSReports.Organization, Contact: cfg.TLSReports.Contact, From: cfg.TLSReportsFrom(), Hostname: cfg.Hostname}
	c.Resolver, c.Mail, c.Logger = currentResolver{d.agents}, d.mailTLSReport, d.log
	c.File = filepath.Join(cfg.QueueDirectory, tlsReportFile)
	if c.Permit == nil {
		c.Permit = d.sts.permits
	}
	keeper, err := courier.New(c)
	if err != nil {
		return nil, fmt.Errorf("tls_reports: %w", err)
	}
	r := &tlsReports{Courier: keeper, sts: d.sts}
	for _, domain := range cfg.TLSReports.Exclude {
		r.exclude = append(r.exclude, strings.ToLower(domain))
	}
	return r, nil
}

// watch returns the function that outbound calls with each session, nil if reports are switched off.
func (r *tlsReports) watch() func(outbound.Session) {
	if r == nil {
		return nil
	}
	return r.session
}

// session counts a session for the domains whose mail it was for.
func (r *tlsReports) session(s outbound.Session) {
	for _, domain := range r.domains(&s) {
		if !slices.Contains(r.exclude, domain) {
			r.count(domain, &s)
		}
	}
}

// domains returns the domains of a session. One that failed before there was any mail counts for all
// domains whose mail is lately routed to the site.
func (r *tlsReports) domains(s *outbound.Session) []string {
	if strings.HasPrefix(s.Nexthop, "{") {
		if s.Domain == "" {
			return r.sites.of(siteKey{s.Nexthop, s.Security}, time.Now())
		}
		domain, err := route.ParseDomain(s.Domain)
		if err != nil {
			return nil
		}
		return []string{domain}
	}
	n, err := route.ParseNexthop(s.Nexthop)
	if err != nil || n.Form != route.FormDomain { // a host that the operator has written has no policy
		return nil
	}
	return []string{n.Name}
}

// count counts a session for one domain.
func (r *tlsReports) count(domain string, s *outbound.Session) {
	p, wrong := r.policy(domain, s)
	if wrong == "" {
		wrong = resultOf(p.Type, s)
	}
	if wrong == "" {
		r.Success(domain, p)
		return
	}
	f := tlsrpt.Failure{Result: wrong, MX: s.Host.Name, Receiving: s.Host.Addr.Addr().Unmap().String()}
	if s.From.IsValid() {
		f.SendingIP = s.From.String()
	}
	if wrong == tlsrpt.ValidationFailure {
		f.ReasonCode = reasons[s.Fault]
	}
	r.Failure(domain, p, f)
}

// policy returns the policy that applies to a session, and what is wrong with the policy itself.
// TLSA records come before MTA-STS (RFC 8461 2).
func (r *tlsReports) policy(domain string, s *outbound.Session) (p tlsrpt.Policy, wrong tlsrpt.Result) {
	demand, err := tlspolicy.ParseDemand(s.Security)
	if err == nil && (s.Records != tlspolicy.RecordsNone || demand.Level == tlspolicy.DANEOnly) {
		p = tlsrpt.Policy{Type: tlsrpt.TLSA, Domain: s.TLSA.Base}
		if p.Domain == "" {
			p.Domain = strings.TrimSuffix(s.Host.Name, ".")
		}
		if p.Domain == "" {
			p.Domain = domain
		}
		for _, one := range s.TLSA.Records {
			p.Text = append(p.Text, one.String())
		}
		return p, ""
	}
	none := tlsrpt.Policy{Type: tlsrpt.NoPolicy, Domain: domain}
	if demand.Level != tlspolicy.STS {
		return none, ""
	}
	st, found := r.sts.status(domain)
	switch {
	case found && st.InForce && st.Policy.Mode != mtasts.None:
		if !st.Policy.Matches(strings.TrimSuffix(s.Host.Name, ".")) {
			s.Fault = outbound.FaultNotPermitted
		}
		return stsPolicyOf(domain, &st.Policy), ""
	case found && !st.InForce && st.Err != nil:
		wrong = tlsrpt.STSPolicyInvalid
		if e, ok := st.Err.(*mtasts.Error); ok {
			wrong = tlsrpt.Result(e.Problem)
		}
		return tlsrpt.Policy{Type: tlsrpt.STS, Domain: domain}, wrong
	}
	return none, ""
}

// stsPolicyOf returns an MTA-STS policy in the words of reports.
func stsPolicyOf(domain string, p *mtasts.Policy) tlsrpt.Policy {
	text := []string{"version: STSv1", "mode: " + p.Mode.String()}
	for _, mx := range p.MX {
		text = append(text, "mx: "+mx)
	}
	text = append(text, fmt.Sprintf("max_age: %d", int64(p.MaxAge/time.Second)))
	return tlsrpt.Policy{Type: tlsrpt.STS, Text: text, Domain: domain, MX: p.MX}
}

// resultOf returns what failed, or "". Without a policy any certificate will do.
func resultOf(policy tlsrpt.PolicyType, s *outbound.Session) tlsrpt.Result {
	if policy == tlsrpt.NoPolicy && s.Fault != outbound.FaultPlaintext && s.Fault != outbound.FaultHandshake {
		return ""
	}
	return [...]tlsrpt.Result{
		outbound.FaultNone:         "",
		outbound.FaultPlaintext:    tlsrpt.StartTLSNotSupported,
		outbound.FaultHandshake:    tlsrpt.ValidationFailure,
		outbound.FaultName:         tlsrpt.CertificateHostMismatch,
		outbound.FaultExpired:      tlsrpt.CertificateExpired,
		outbound.FaultUntrusted:    tlsrpt.CertificateNotTrusted,
		outbound.FaultMismatch:     tlsrpt.ValidationFailure,
		outbound.FaultRecords:      tlsrpt.TLSAInvalid,
		outbound.FaultDNSSEC:       tlsrpt.DNSSECInvalid,
		outbound.FaultNoRecords:    tlsrpt.DANERequired,
		outbound.FaultNotPermitted: tlsrpt.ValidationFailure,
	}[s.Fault]
}

// reasons are the reason codes of general failures.
var reasons = map[outbound.Fault]string{
	outbound.FaultHandshake: "tls-handshake-failed", outbound.FaultMismatch: "tlsa-mismatch", outbound.FaultNotPermitted: "mx-not-in-policy",
}

// page shows the administration what would be reported.
func (r *tlsReports) page(day, domain string) (page admin.TLSReportPage, err error) {
	if r == nil {
		return page, nil
	}
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return page, err
	}
	page.Counting = true
	for _, d := range r.Days() {
		page.Days = append(page.Days, d.String())
	}
	page.Domains = r.Domains(tlsrpt.DayOf(at))
	if report, ok := r.Report(tlsrpt.DayOf(at), strings.ToLower(domain)); ok {
		page.Report, err = json.Marshal(report)
	}
	return page, err
}

// mailTLSReport spools mail with a report, if a key signs it.
func (d *Daemon) mailTLSReport(ctx context.Context, m courier.Message) error {
	draft, err := d.spool.BeginReport(ctx)
	if err != nil {
		return err
	}
	one := d.signer.begin(draft)
	if err := one.AddRecipient(mail.Recipient{Address: m.To}); err != nil {
		one.Abort()
		return err
	}
	if _, err := one.Write(m.Content); err != nil {
		one.Abort()
		return err
	}
	e := mail.Envelope{Sender: m.From, TLS: mail.TLSOptional, Arrived: mail.Instant(time.Now().UnixNano())}
	one.finish(&e)
	if one.plan.Octets() == 0 {
		one.Abort()
		return courier.ErrUnsigned
	}
	if err := one.sign(ctx); err != nil {
		one.Abort()
		return err
	}
	if err := one.Commit(ctx, e); err != nil {
		return err
	}
	d.driver.Arrived(one.Arrival())
	return nil
}

// siteDomains remembers which domains have mail at a site. It is safe for concurrent use.
type siteDomains struct {
	mu  sync.RWMutex
	all map[siteKey][]siteDomain
}

// A siteKey identifies what mail for several domains shares.
type siteKey struct{ site, security string }

// A siteDomain is a domain whose mail was routed to a site, and when that was last.
type siteDomain struct {
	name string
	last time.Time
}

const (
	sitesMax       = 20000 // then all are forgotten, and noted again as mail comes
	siteDomainsMax = 32    // of one site: the last ones
	// siteRecent is for how long a domain is taken to have mail at a site. Mail that waits is deferred and routed
	// again when no host can be reached, after an hour at most, so that others' mail fails then, and not its own.
	siteRecent = time.Hour
	siteGrain  = time.Minute // of siteDomain.last
)

// note notes what a route says.
func (s *siteDomains) note(to *mail.Route, now time.Time) {
	if to.Site == "" || to.Security == "" {
		return
	}
	key := siteKey{to.Site, to.Security}
	named := func(d siteDomain) bool { return d.name == to.Nexthop }
	s.mu.RLock()
	i := slices.IndexFunc(s.all[key], named)
	known := i >= 0 && now.Sub(s.all[key][i].last) < siteGrain
	s.mu.RUnlock()
	if known {
		return
	}
	n, err := route.ParseNexthop(to.Nexthop)
	if err != nil || n.Form != route.FormDomain || n.Name != to.Nexthop {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil || len(s.all) >= sitesMax && s.all[key] == nil {
		s.all = make(map[siteKey][]siteDomain)
	}
	list := slices.DeleteFunc(slices.Clone(s.all[key]), named) // readers may have the old one
	if len(list) >= siteDomainsMax {
		list = list[1:]
	}
	s.all[key] = append(list, siteDomain{n.Name, now})
}

// of returns the domains whose mail was lately routed to a site, the last one last; at least that one, since
// some mail has to be there.
func (s *siteDomains) of(key siteKey, now time.Time) (names []string) {
	s.mu.RLock()
	list := s.all[key]
	s.mu.RUnlock()
	for i, d := range list {
		if now.Sub(d.last) < siteRecent+siteGrain || i == len(list)-1 {
			names = append(names, d.name)
		}
	}
	return names
}

// notes notes routes.
func (r *tlsReports) notes(routes ...mail.Route) {
	if r == nil {
		return
	}
	now := time.Now()
	for i := range routes {
		r.sites.note(&routes[i], now)
	}
}
