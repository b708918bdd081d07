package resolve

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/route"
)

// A Resolver finds hosts. It is safe for concurrent use.
type Resolver struct {
	cfg     Config
	trusted map[string]bool // canonical nexthops
	system  *file[system]
	hosts   *file[hostsTable]
	health  health
	slots   chan struct{} // one element for each question under way
	slow    chan struct{} // one for each that gave its slot back because it took too long
	sets    *cache[string, verdict]
	records *cache[question, record]
	counts  *Counters

	cancel context.CancelFunc
	makers sync.WaitGroup // the flights of both caches
}

// A verdict is the result of the lookup of a nexthop.
type verdict struct {
	set   mail.HostSet
	reply mail.Reply // zero if set has a host
	// site is the nexthop of the site that serves it; "" if it is not a domain, has
	// no MX records, or was written by the operator.
	site string
	// secure and names are those of a Finding.
	secure bool
	names  []string
}

// New returns a resolver. It sends no query before it is used.
func New(c Config) (*Resolver, error) {
	c = c.WithDefaults()
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("resolve: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if c.Counters == nil {
		c.Counters = &Counters{}
	}
	r := &Resolver{
		counts:  c.Counters,
		cfg:     c,
		trusted: make(map[string]bool, len(c.Trusted)),
		system:  newFile(c.ResolvConf, parseSystem(c)),
		hosts:   newFile(c.HostsFile, parseHosts),
		health:  health{sick: make(map[netip.AddrPort]time.Time), last: make(map[netip.AddrPort]time.Time)},
		slots:   make(chan struct{}, c.Concurrency),
		slow:    make(chan struct{}, c.Slow),
		cancel:  cancel,
	}
	r.sets = newCache[string](ctx, c.CacheEntries, func(verdict) int { return 1 }, c.Deadline, &r.makers, r.counts)
	r.records = newCache[question](ctx, c.CacheEntries, record.weight, c.Deadline, &r.makers, r.counts)
	for _, n := range c.Trusted {
		r.trusted[n] = true
	}
	return r, nil
}

// Close cancels all lookups and waits for them to end. Callers that wait for one
// get a temporary failure.
func (r *Resolver) Close() {
	r.cancel()
	r.sets.close()
	r.records.close()
	r.makers.Wait()
}

// Flush clears the caches, for an operator who knows that the answers have changed.
func (r *Resolver) Flush() {
	r.records.clear()
	r.sets.clear()
}

// Hosts returns the hosts that serve a nexthop, which is a text as
// route.ParseNexthops parses it; the hosts of further nexthops in a list follow
// those of the first. A reply that is not zero is the reason why there are none: a
// temporary one (4.4.3, or 4.3.5 for a nexthop configured by the operator) if a
// later lookup may find some, otherwise a permanent one (5.1.2, 5.1.10, 5.4.4,
// 5.4.6).
//
// The host set is shared and must not be changed.
//
// Find returns the same, and what DNSSEC says of it.
func (r *Resolver) Hosts(ctx context.Context, nexthop string) (mail.HostSet, mail.Reply) {
	v := r.find(ctx, nexthop)
	return v.set, v.reply
}

// find returns the verdict for a nexthop from the cache or by a lookup.
func (r *Resolver) find(ctx context.Context, nexthop string) verdict {
	r.counts.lookups.Add(1)
	if v, _, ok := r.sets.get(nexthop, time.Now()); ok {
		r.counts.hits.Add(1)
		return v
	}
	v, _, err := r.sets.wait(ctx, nexthop, r.resolve)
	if err != nil {
		return verdict{reply: mail.Reply{
			Code: 451, Status: mail.Status{Class: 4, Subject: 4, Detail: 3},
			Text: "DNS lookup of the mail hosts of " + mail.CleanText(nexthop) + " timed out",
		}}
	}
	return v
}

// resolve looks up a list of nexthops.
func (r *Resolver) resolve(ctx context.Context, text string, _ verdict) (verdict, time.Time) {
	list, err := route.ParseNexthops(text)
	if err != nil {
		return verdict{reply: misconfigured(err.Error())}, time.Now().Add(r.cfg.PositiveMax)
	}
	v := verdict{secure: true}
	until := time.Now().Add(r.cfg.PositiveMax)
	for _, n := range list {
		one, end := r.resolveOne(ctx, n)
		v.secure = v.secure && one.secure
		until = earlier(until, end)
		v.set.Tiers = appendTiers(v.set.Tiers, one.set.Tiers)
		if v.reply.IsZero() || one.reply.Temporary() && v.reply.Permanent() {
			v.reply = one.reply
		}
		if len(list) == 1 {
			v.site, v.names = one.site, one.names
		}
		if route.IsFinal(one.reply) {
			break
		}
	}
	if len(v.set.Tiers) > 0 {
		v.reply = mail.Reply{}
		v.set.Until = mail.Instant(until.UnixNano())
	}
	return v, until
}

// appendTiers appends further tiers, without the addresses that are already in
// tiers.
func appendTiers(tiers, more [][]mail.Host) [][]mail.Host {
	if len(tiers) == 0 {
		return more
	}
	for _, tier := range more {
		tier = slices.DeleteFunc(slices.Clone(tier), func(h mail.Host) bool {
			return slices.ContainsFunc(tiers, func(known []mail.Host) bool {
				return slices.ContainsFunc(known, func(k mail.Host) bool { return k.Addr == h.Addr })
			})
		})
		if len(tier) > 0 {
			tiers = append(tiers, tier)
		}
	}
	return tiers
}

// resolveOne looks up one nexthop.
func (r *Resolver) resolveOne(ctx context.Context, n route.Nexthop) (verdict, time.Time) {
	policy := r.cfg.Policy
	trusted := r.isTrusted(n)
	if trusted {
		policy.Reach = route.ReachAny
	}
	var mx record
	until := time.Now().Add(r.cfg.PositiveMax)
	if n.Form == route.FormDomain {
		mx, until = r.lookup(ctx, question{n.Name, dns.TypeMX})
	}
	why := mx.why
	plan, reply := route.NewPlan(n, mx.answer, mx.mx, policy, rand.Shuffle)
	v := verdict{reply: reply}
	v.secure, v.names = vouched(n, mx)
	if reply.IsZero() {
		var end time.Time
		v.set, v.reply, why, end = r.firstUsable(ctx, n, plan)
		until = earlier(until, end)
	}
	if v.reply.Temporary() && why != "" {
		v.reply.Text = mail.CleanText(v.reply.Text + ": " + why)
	}
	if trusted && v.reply.Permanent() {
		v.reply = misconfigured("configured nexthop " + n.String() + ": " + v.reply.Text)
	}
	if site, ok := route.Site(mx.mx); ok && !trusted {
		v.site = site.String()
	}
	return v, until
}

// batchesMax is the maximum number of batches of hosts that are looked up, each as
// large as the policy allows, until one of them is usable. It limits the cost of a
// domain with very many hosts.
const batchesMax = 5

// firstUsable looks up the plan's hosts, batch by batch, until one is usable. A
// temporary failure takes precedence over a permanent one.
func (r *Resolver) firstUsable(ctx context.Context, n route.Nexthop, plan route.Plan) (set mail.HostSet, reply mail.Reply, why string, until time.Time) {
	until = time.Now().Add(r.cfg.PositiveMax)
	for batch := 1; ; batch++ {
		answers, reasons, end := r.addresses(ctx, n, plan)
		until = earlier(until, end)
		found, verdict := plan.Tiers(answers)
		if verdict.IsZero() {
			return found, verdict, reasons, until
		}
		if reply.IsZero() || verdict.Temporary() && reply.Permanent() {
			reply, why = verdict, reasons
		}
		next, more := plan.Next(verdict)
		switch {
		case !more:
			return set, reply, why, until
		case batch == batchesMax && reply.Permanent():
			return set, plan.Unfinished(), why, until
		case batch == batchesMax:
			return set, reply, why, until
		}
		plan = next
	}
}

// isTrusted reports whether an operator has written a nexthop, in the configuration or in an order. An address literal
// in a recipient's address yields "[address]", so this form must be listed.
func (r *Resolver) isTrusted(n route.Nexthop) bool { return n.Written() || r.trusted[n.String()] }

// trusts is isTrusted for a text; a list is not trusted as a whole.
func (r *Resolver) trusts(nexthop string) bool {
	if r.trusted[nexthop] {
		return true
	}
	if strings.IndexByte(nexthop, ':') < 0 && !strings.HasPrefix(nexthop, "[") { // as nearly all are; no allocation
		return false
	}
	n, err := route.ParseNexthop(nexthop)
	return err == nil && n.Written()
}

// misconfigured returns the reply for mail that waits until the operator corrects
// the configuration.
func misconfigured(text string) mail.Reply {
	return mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 3, Detail: 5}, Text: mail.CleanText(text)}
}

// addresses looks up the plan's hosts, all at once, and returns the reason why some
// of them have no answer.
func (r *Resolver) addresses(ctx context.Context, n route.Nexthop, plan route.Plan) (answers []route.HostAnswer, why string, until time.Time) {
	until = time.Now().Add(r.cfg.PositiveMax)
	if n.Form == route.FormAddress {
		return []route.HostAnswer{{Answer: route.Found, Addrs: []netip.Addr{n.Addr}}}, "", until
	}
	found := make([]hostRecord, len(plan.Hosts))
	var all sync.WaitGroup
	for i, h := range plan.Hosts {
		if n.Form != route.FormHost {
			var known bool
			if found[i], known = r.knownHost(h.Name); known {
				continue
			}
		}
		all.Go(func() {
			if n.Form == route.FormHost {
				found[i] = r.namedHost(ctx, h.Name)
			} else {
				found[i] = r.host(ctx, h.Name)
			}
		})
	}
	all.Wait()
	answers = make([]route.HostAnswer, len(found))
	for i, f := range found {
		answers[i] = f.HostAnswer
		until = earlier(until, f.until)
		if why == "" {
			why = f.why
		}
	}
	return answers, why, until
}

// A hostRecord is the result of the lookup of a host's addresses.
type hostRecord struct {
	route.HostAnswer
	alias  string // the name that has the addresses, if another one
	secure bool
	why    string
	until  time.Time
}

// namedHost looks up a host that the operator configured: in the hosts file, then
// in the DNS with the search list.
func (r *Resolver) namedHost(ctx context.Context, name string) (h hostRecord) {
	now := time.Now()
	if addrs := r.hosts.get(now)[name]; len(addrs) > 0 {
		return hostRecord{HostAnswer: route.HostAnswer{Answer: route.Found, Addrs: addrs}, until: now.Add(fileCheckInterval)}
	}
	worst := route.NoName
	until := now.Add(r.cfg.PositiveMax)
	for _, candidate := range r.system.get(now).candidates(name) {
		h = r.host(ctx, candidate)
		until = earlier(until, h.until)
		if h.Answer == route.Found || h.Answer == route.Unknown {
			break
		}
		if h.Answer != route.NoName {
			worst = h.Answer
		}
		h.Answer = worst
	}
	h.until = until
	return h
}

// host looks up a host's addresses in the DNS, for the address families in use.
func (r *Resolver) host(ctx context.Context, name string) hostRecord {
	types := r.addressTypes()
	found := make([]hostRecord, len(types))
	var all sync.WaitGroup
	for i, t := range types {
		all.Go(func() { found[i] = single(r.lookup(ctx, question{name, t})) })
	}
	all.Wait()
	if len(found) == 1 {
		return found[0]
	}
	return join(found[0], found[1])
}

// knownHost is like host, but uses only the cache. Most lookups of a new domain
// yield hosts that other domains share, and need no goroutine.
func (r *Resolver) knownHost(name string) (hostRecord, bool) {
	var h hostRecord
	now := time.Now()
	for i, t := range r.addressTypes() {
		rec, until, ok := r.records.get(question{name, t}, now)
		switch {
		case !ok:
			return hostRecord{}, false
		case i == 0:
			h = single(rec, until)
		default:
			h = join(h, single(rec, until))
		}
	}
	return h, true
}

// addressTypes returns the types of address records in use.
func (r *Resolver) addressTypes() []uint16 {
	types := []uint16{dns.TypeAAAA, dns.TypeA}
	switch r.cfg.Policy.Families {
	case route.FamiliesIPv4:
		return types[1:]
	case route.FamiliesIPv6:
		return types[:1]
	}
	return types
}

func single(rec record, until time.Time) hostRecord {
	return hostRecord{route.HostAnswer{Answer: rec.answer, Addrs: rec.addrs}, rec.alias, rec.secure, rec.why, until}
}

// join merges the answers for two address families: addresses alternate. Without
// any, the result is the answer that is more likely to change.
func join(a, b hostRecord) hostRecord {
	h := hostRecord{until: earlier(a.until, b.until), why: a.why}
	if h.why == "" {
		h.why = b.why
	}
	// A zone is signed as a whole. If the answers differ, one is older, and the
	// cautious conclusion is that the host may have TLSA records.
	h.alias, h.secure = a.alias, a.secure
	if a.Answer != route.Found || b.Answer == route.Found && b.secure {
		h.alias, h.secure = b.alias, b.secure
	}
	for i := range max(len(a.Addrs), len(b.Addrs)) {
		if i < len(a.Addrs) {
			h.Addrs = append(h.Addrs, a.Addrs[i])
		}
		if i < len(b.Addrs) {
			h.Addrs = append(h.Addrs, b.Addrs[i])
		}
	}
	for _, answer := range [...]route.Answer{route.Found, route.Unknown, route.Endless, route.NoData, route.NoName} {
		if a.Answer == answer || b.Answer == answer {
			h.Answer = answer
			break
		}
	}
	return h
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
