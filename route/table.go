package route

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/ascii"
	"github.com/posthaste-mta/posthaste/mail"
)

// DefaultTransport is the transport of mail for which no rule names one.
const DefaultTransport = "smtp"

// A Config configures the routing of recipients. The zero Config sends all mail to
// the MX hosts of its domain with transport smtp.
type Config struct {
	// Hostname is the domain of addresses that have none. Set it to this
	// machine's full name; without it such addresses fail.
	Hostname string
	// Postmaster is the address whose route "postmaster" without a domain takes
	// (RFC 5321 4.5.1). Set it where Hostname does not receive mail.
	Postmaster mail.Address
	// DefaultTransport is a transport, or "transport:nexthop", for mail that no
	// rule matches; "" means smtp. Change it to send by a transport of your own.
	DefaultTransport string
	// Relayhost is a list of nexthops, separated by commas or spaces, for all mail
	// that no rule sends elsewhere. Set it where a provider's server must be used.
	Relayhost string
	// Rules are lines in the form of ParseRule, for recipients that go elsewhere.
	Rules []string
	// SenderRules are lines in the form of ParseSenderRule, for senders whose mail goes
	// elsewhere unless a rule is for the recipient.
	SenderRules []string
}

// WithDefaults sets the defaults of all fields that are not set.
func (c Config) WithDefaults() Config {
	if c.DefaultTransport == "" {
		c.DefaultTransport = DefaultTransport
	}
	return c
}

// Validate returns all errors of the configuration, joined.
func (c Config) Validate() error {
	_, err := NewTable(c)
	return err
}

// A Table maps recipients to routes. It is immutable and safe for concurrent use.
type Table struct {
	recipients patterns
	senders    patterns
	fallback   mail.Route   // of mail that no rule matches
	host       string       // domain of addresses that have none; "" if unknown
	master     mail.Address // whose route postmaster without a domain takes
}

// patterns are rules by what they match. The route of a rule that is as if there were none is
// zero.
type patterns struct {
	addresses   map[string]mail.Route
	domains     map[string]mail.Route
	suffixes    map[string]mail.Route // keys begin with a dot
	expressions []expression
	any         *mail.Route
}

// An expression is a rule with a regular expression.
type expression struct {
	match *regexp.Regexp
	route mail.Route
}

func newPatterns() patterns {
	return patterns{addresses: make(map[string]mail.Route), domains: make(map[string]mail.Route), suffixes: make(map[string]mail.Route)}
}

// NewTable builds a table. Its error joins all errors of the configuration.
func NewTable(c Config) (*Table, error) {
	c = c.WithDefaults()
	t := &Table{recipients: newPatterns(), senders: newPatterns()}
	var errs []error
	complain := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	complain(t.setFallback(c.DefaultTransport, c.Relayhost))
	complain(t.addAll(&t.recipients, c.Rules, ParseRule))
	complain(t.addAll(&t.senders, c.SenderRules, ParseSenderRule))
	complain(t.setHost(c.Hostname, c.Postmaster))
	return t, errors.Join(errs...)
}

// addAll adds the rules of some lines.
func (t *Table) addAll(p *patterns, rules []string, parse func(string) (Rule, error)) error {
	var errs []error
	lines := make(map[string]string, len(rules)) // by key
	for _, line := range rules {
		r, err := parse(line)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if first, ok := lines[r.Key]; ok {
			errs = append(errs, fmt.Errorf("transport rule %q: the same pattern already has the rule %q", line, first))
			continue
		}
		lines[r.Key] = line
		if err := t.add(p, r); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (t *Table) setFallback(transport, relayhost string) error {
	target, flaw := parseTarget(transport)
	if flaw != nil || target.Transport == "" {
		return fmt.Errorf("default transport %q: it must begin with the name of a transport", transport)
	}
	t.fallback = target
	if relayhost == "" || target.Nexthop != "" {
		return nil
	}
	list, err := ParseNexthops(relayhost)
	if err != nil {
		return fmt.Errorf("relayhost: %w", err)
	}
	t.fallback.Nexthop = FormatNexthops(list)
	return nil
}

func (t *Table) setHost(hostname string, postmaster mail.Address) error {
	var errs []error
	if hostname != "" {
		name, flaw := parseDomain(hostname)
		if flaw != nil {
			errs = append(errs, fmt.Errorf("hostname: %w", flaw))
		}
		t.host = name
	}
	switch {
	case postmaster == "":
		postmaster = "postmaster"
	case postmaster.Domain() == "":
		errs = append(errs, fmt.Errorf("postmaster %q: a domain is missing", postmaster))
	default:
		if _, flaw := parseMailDomain(postmaster.Domain()); flaw != nil {
			errs = append(errs, fmt.Errorf("postmaster: %w", flaw))
		}
	}
	if t.master = mail.Address(ascii.Lower(string(postmaster))); t.master.Domain() == "" && t.host != "" {
		t.master += mail.Address("@" + t.host)
	}
	return errors.Join(errs...)
}

// add adds a rule with its defaults filled in, except for the recipient's domain as
// the nexthop.
func (t *Table) add(p *patterns, r Rule) error {
	route := r.Route
	if route.Transport == "" && route.Nexthop != "" {
		route.Transport = t.fallback.Transport
	}
	switch r.Pattern {
	case PatternAddress, PatternNullSender:
		p.addresses[r.Key] = route
	case PatternDomain:
		p.domains[r.Key] = route
	case PatternSuffix:
		p.suffixes[r.Key] = route
	case PatternExpression:
		match, err := compile(r.Key)
		if err != nil {
			return err
		}
		p.expressions = append(p.expressions, expression{match, route})
	case PatternAny:
		p.any = &route
	}
	return nil
}

// Route is RouteFrom without regard to the sender.
func (t *Table) Route(a mail.Address) mail.Route { return t.RouteFrom("", a) }

// RouteFrom returns the route of mail for an address from a sender: "<>" is the null sender, and
// "" means that no route depends on it. Addresses that cannot be routed have a Reply of status
// 5.1.3. Mail for our own host name is routed like any other; that it would loop back is detected
// when its hosts are looked up (RFC 5321 5.1).
//
// It allocates nothing for addresses in lower case.
func (t *Table) RouteFrom(sender, a mail.Address) mail.Route {
	a, local, domain, problem := t.split(a)
	if problem != "" {
		return unroutable(problem)
	}
	r, ok := t.recipients.match(a, local, domain)
	if !ok || r.Transport == "" {
		r = t.standard(sender)
	}
	if r.Nexthop == "" {
		r.Nexthop = domain
	}
	return r
}

// split returns the parts of an address, the domain in canonical form, and the address itself, which differs for
// postmaster without a domain; or why it cannot be routed.
func (t *Table) split(a mail.Address) (whole mail.Address, local, domain, problem string) {
	const postmaster = "postmaster"
	if len(a) == len(postmaster) && strings.EqualFold(string(a), postmaster) {
		a = t.master
	}
	at := strings.LastIndexByte(string(a), '@')
	local, domain = string(a), t.host
	if at >= 0 {
		local = local[:at]
		var flaw *SyntaxError
		if domain, flaw = parseMailDomain(string(a[at+1:])); flaw != nil {
			problem = "invalid domain: " + flaw.Problem
		}
	} else if domain == "" {
		problem = "the address has no domain"
	}
	return a, local, domain, problem
}

// standard returns the route of mail that no rule is for, or whose rule is as if there were
// none.
func (t *Table) standard(sender mail.Address) mail.Route {
	if sender == "" {
		return t.fallback
	}
	local, domain := sender.Local(), sender.Domain()
	if name, flaw := parseMailDomain(domain); flaw == nil {
		domain = name
	}
	if r, ok := t.senders.match(sender, local, domain); ok && r.Transport != "" {
		return r
	}
	return t.fallback
}

// match returns the route of the most specific rule, unchanged: of the address, of its domain,
// of those above it from the longest on, of the first expression, of all.
func (p *patterns) match(a mail.Address, local, domain string) (r mail.Route, ok bool) {
	if len(p.addresses) > 0 {
		if r, ok := p.addresses[addressKey(a, local, domain)]; ok {
			return r, true
		}
	}
	if r, ok := p.domains[domain]; ok {
		return r, true
	}
	if len(p.suffixes) > 0 {
		for rest := domain; ; {
			dot := strings.IndexByte(rest, '.')
			if dot < 0 {
				break
			}
			if r, ok := p.suffixes[rest[dot:]]; ok {
				return r, true
			}
			rest = rest[dot+1:]
		}
	}
	for i := range p.expressions {
		if p.expressions[i].match.MatchString(string(a)) {
			return p.expressions[i].route, true
		}
	}
	if p.any != nil {
		return *p.any, true
	}
	return mail.Route{}, false
}

// addressKey returns the key of an address's rule, which is usually the address
// itself.
func addressKey(a mail.Address, local, domain string) string {
	folded := ascii.Lower(local)
	if folded == local && string(a[min(len(local)+1, len(a)):]) == domain {
		return string(a)
	}
	return folded + "@" + domain
}

func unroutable(why string) mail.Route {
	return mail.Route{
		Transport: TransportError,
		Reply:     reply(501, mail.Status{Class: 5, Subject: 1, Detail: 3}, why),
	}
}

// Nexthops returns all nexthops that the operator configured. They may have any
// address, and errors in their lookup are taken for errors in the configuration.
func (t *Table) Nexthops() []string {
	names := make(map[string]bool)
	for r := range t.routes() {
		list, err := ParseNexthops(r.Nexthop)
		if err != nil || r.Transport == TransportDiscard {
			continue // empty, a path, or the text of a log line
		}
		for _, n := range list {
			names[n.String()] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// routes yields every route of the table, in no particular order.
func (t *Table) routes() iter.Seq[mail.Route] {
	return func(yield func(mail.Route) bool) {
		if yield(t.fallback) && t.recipients.routes(yield) {
			t.senders.routes(yield)
		}
	}
}

// routes yields every route, in no particular order, and reports whether to go on.
func (p *patterns) routes(yield func(mail.Route) bool) bool {
	if p.any != nil && !yield(*p.any) {
		return false
	}
	for i := range p.expressions {
		if !yield(p.expressions[i].route) {
			return false
		}
	}
	for _, byKey := range [...]map[string]mail.Route{p.addresses, p.domains, p.suffixes} {
		for _, r := range byKey { //archtest:anyorder the callers sort what they gather
			if !yield(r) {
				return false
			}
		}
	}
	return true
}
