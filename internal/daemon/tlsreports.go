package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/dkim"
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

// tlsReports counts the sessions of outbound under the policies of their domains, and has reports on them
// sent, while the configuration in force asks for that. It is safe for concurrent use.
type tlsReports struct {
	base  courier.Config // without the identity
	sts   *stsFinder
	sites siteDomains
	rules atomic.Pointer[reportRules] // nil: off
	told  atomic.Int64                // the day on which checkKeys has logged something last

	mu      sync.Mutex
	keeper  *courier.Courier // nil until it is needed; from then on it keeps its counts
	changed chan struct{}    // of one element: reports were switched on or off
}

// reportRules are what a reload replaces.
type reportRules struct {
	*courier.Courier
	exclude []string
}

// newTLSReports returns reports that are switched off.
func newTLSReports(cfg *config.Config, d *Daemon) *tlsReports {
	c := d.options.TLSReports
	c.Identity = courier.Identity{Hostname: cfg.Hostname} // as long as the process lives
	c.Resolver, c.Mail, c.Logger = currentResolver{d.agents}, d.mailTLSReport, d.log
	c.File = filepath.Join(cfg.QueueDirectory, tlsReportFile)
	if c.Permit == nil {
		c.Permit = d.sts.permits
	}
	return &tlsReports{base: c, sts: d.sts, changed: make(chan struct{}, 1)}
}

// config returns the courier's configuration, and whether reports are wanted.
func (r *tlsReports) config(cfg *config.Config) (c courier.Config, wanted bool) {
	c = r.base
	c.Identity.Organization, c.Identity.Contact, c.Identity.From = cfg.TLSReports.Organization, cfg.TLSReports.Contact, mail.Address(cfg.TLSReports.From)
	if c.Identity.From == "" {
		c.Identity.From = mail.Address("tls-reports@" + c.Identity.Hostname)
	}
	return c, cfg.TLSReports.Organization != ""
}

// check returns the mistakes of a configuration for which configure must not be called.
func (r *tlsReports) check(cfg *config.Config) error {
	c, wanted := r.config(cfg)
	if !wanted {
		return nil
	}
	if err := c.Validate(); err != nil {
		return fmt.Errorf("tls_reports: %w", err)
	}
	return nil
}

// configure puts a configuration into force. What was counted stays when reports are switched off, and is sent, if it is
// not too old by then, after they are switched on again.
func (r *tlsReports) configure(cfg *config.Config) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, wanted := r.config(cfg)
	var next *reportRules
	if wanted {
		next = &reportRules{}
		for _, domain := range cfg.TLSReports.Exclude {
			next.exclude = append(next.exclude, strings.ToLower(domain))
		}
		if r.keeper == nil {
			var err error
			if r.keeper, err = courier.New(c); err != nil {
				return fmt.Errorf("tls_reports: %w", err)
			}
		}
		r.keeper.Identify(c.Identity)
		next.Courier = r.keeper
	}
	if before := r.rules.Swap(next); (before == nil) != (next == nil) {
		select {
		case r.changed <- struct{}{}:
		default:
		}
	}
	return nil
}

// run saves counts and sends reports, while they are switched on, until ctx ends.
func (r *tlsReports) run(ctx context.Context, atPanic func()) {
	for ctx.Err() == nil {
		on, stop := context.WithCancel(ctx)
		var running sync.WaitGroup
		if rules := r.rules.Load(); rules != nil {
			running.Go(func() {
				defer atPanic()
				rules.Run(on)
			})
		}
		select {
		case <-ctx.Done():
		case <-r.changed:
		}
		stop()
		running.Wait()
		r.close()
	}
}

// close saves what was counted.
func (r *tlsReports) close() {
	r.mu.Lock()
	keeper := r.keeper
	r.mu.Unlock()
	if keeper != nil {
		keeper.Close()
	}
}

// watch returns the function that outbound calls with each session, nil if a configuration has reports switched off.
func (r *tlsReports) watch(cfg *config.Config) func(outbound.Session) {
	if cfg.TLSReports.Organization == "" {
		return nil
	}
	return r.session
}

// session counts a session for the domains whose mail it was for.
func (r *tlsReports) session(s outbound.Session) {
	rules := r.rules.Load()
	if rules == nil {
		return // on a connection from before a reload
	}
	for _, domain := range r.domains(&s) {
		if !slices.Contains(rules.exclude, domain) {
			r.count(rules, domain, &s)
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
func (r *tlsReports) count(rules *reportRules, domain string, s *outbound.Session) {
	p, wrong := r.policy(domain, s)
	if wrong == "" {
		wrong = resultOf(p.Type, s)
	}
	if wrong == "" {
		rules.Success(domain, p)
		return
	}
	f := tlsrpt.Failure{Result: wrong, MX: s.Host.Name, Receiving: s.Host.Addr.Addr().Unmap().String()}
	if s.From.IsValid() {
		f.SendingIP = s.From.String()
	}
	if wrong == tlsrpt.ValidationFailure {
		f.ReasonCode = reasons[s.Fault]
	}
	rules.Failure(domain, p, f)
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
	rules := r.rules.Load()
	if rules == nil {
		return page, nil
	}
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return page, err
	}
	page.Counting = true
	for _, d := range rules.Days() {
		page.Days = append(page.Days, d.String())
	}
	page.Domains = rules.Domains(tlsrpt.DayOf(at))
	if report, ok := rules.Report(tlsrpt.DayOf(at), strings.ToLower(domain)); ok {
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
	d.tlsReports.checkKeys(ctx, one.plan.Signatures())
	return nil
}

// checkKeys logs once a day that a report was mailed that receivers may ignore, because none of the keys that have signed
// it is for reports. What the DNS does not say now is not a reason.
func (r *tlsReports) checkKeys(ctx context.Context, names []string) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	why := ""
	for _, name := range names {
		texts, err := r.base.Resolver.TXT(ctx, name)
		wrong := dkim.CheckReports(texts)
		if err != nil || len(wrong) == 0 {
			return
		}
		why = name + ": " + wrong[0].Text
	}
	today := tlsrpt.DayOf(r.base.WithDefaults().Now())
	if r.told.Swap(int64(today)) != int64(today) {
		r.base.Logger.Warn("a TLS report was mailed, and receivers may ignore it", "reason", why)
	}
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
	if r == nil || r.rules.Load() == nil {
		return
	}
	now := time.Now()
	for i := range routes {
		r.sites.note(&routes[i], now)
	}
}
