package resolve

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/posthaste-mta/posthaste/dane"
	"github.com/posthaste-mta/posthaste/route"
)

const (
	// aliasesMax is the maximum length of a chain of CNAME records.
	aliasesMax = 8
	// recordsMax is the maximum number of records kept from one answer. Far fewer
	// are ever used; the limit exists because a message may contain thousands.
	recordsMax = 64
)

// A record is the cached answer to a question.
type record struct {
	answer route.Answer
	mx     []route.MX   // best preferences first
	addrs  []netip.Addr // in the server's order
	tlsa   dane.Records
	texts  []string // of TXT records, their strings joined
	alias  string   // the name that had the answer, if another one than that of the question; of a CNAME record, its target
	secure bool     // DNSSEC vouches for the answer, and for all aliases on the way to it
	why    string   // Unknown: what went wrong
	ttl    time.Duration

	goodUntil time.Time // when the answer expires
	failures  int       // lookups without an answer since then
}

// weight returns the weight of a record in the cache: one, plus one for each KiB,
// so that zones with many long names evict others instead of adding up.
func (rec record) weight() int {
	const each = 32 // octets of a record besides its name
	size := each * (len(rec.mx) + len(rec.addrs) + len(rec.tlsa) + len(rec.texts))
	for _, mx := range rec.mx {
		size += len(mx.Name)
	}
	for _, t := range rec.tlsa {
		size += len(t.Data)
	}
	for _, t := range rec.texts {
		size += len(t)
	}
	return 1 + size/1024
}

// lookup answers a question from the cache or from the servers.
func (r *Resolver) lookup(ctx context.Context, q question) (rec record, until time.Time) {
	rec, until, err := r.records.wait(ctx, q, r.refresh)
	if err != nil {
		return record{answer: route.Unknown, why: "the lookup took too long"}, time.Now().Add(r.cfg.FailureMin)
	}
	return rec, until
}

// refresh asks the servers, and falls back on the old record if they do not
// answer.
func (r *Resolver) refresh(ctx context.Context, q question, old record) (record, time.Time) {
	rec := r.chase(ctx, q)
	now := time.Now()
	if rec.answer != route.Unknown {
		rec.goodUntil = now.Add(r.clamp(rec))
		return rec, rec.goodUntil
	}
	r.counts.failures.Add(1)
	if r.mayServe(q, old, now) {
		r.counts.stale.Add(1)
		rec = old
	}
	rec.failures = old.failures + 1
	return rec, now.Add(r.failureTime(rec.failures))
}

// mayServe reports whether an expired record is better than none. A negative answer
// is not used after it expires, since mail would be returned because of it. The
// absence of MX records still is, since it leads to a host. Expired TLSA and TXT
// records are not used either: their owner may have withdrawn what they demand.
func (r *Resolver) mayServe(q question, old record, now time.Time) bool {
	if r.cfg.NoStale || now.After(old.goodUntil.Add(r.cfg.StaleMax)) {
		return false
	}
	switch q.qtype {
	case dns.TypeMX:
		return old.answer == route.Found || old.answer == route.NoData
	case dns.TypeA, dns.TypeAAAA:
		return old.answer == route.Found
	}
	return false
}

func (r *Resolver) clamp(rec record) time.Duration {
	if rec.answer == route.Found {
		return min(max(rec.ttl, r.cfg.PositiveMin), r.cfg.PositiveMax)
	}
	return min(max(rec.ttl, r.cfg.NegativeMin), r.cfg.NegativeMax)
}

// failureTime returns the time for which the n-th failure in a row is cached.
func (r *Resolver) failureTime(n int) time.Duration {
	d := r.cfg.FailureMin
	for ; n > 1 && d < r.cfg.FailureMax; n-- {
		d *= 2
	}
	return min(d, r.cfg.FailureMax)
}

// chase looks up a name, and the names it is an alias of, until there are records
// or no further alias.
func (r *Resolver) chase(ctx context.Context, q question) record {
	c := chain{name: q.name, qtype: q.qtype, ttl: r.cfg.PositiveMax, secure: true}
	for {
		m, why := r.query(ctx, question{c.name, q.qtype})
		if why != nil {
			return record{answer: route.Unknown, why: why.Error()}
		}
		c.secure = c.secure && m.AuthenticatedData
		if rec, done := c.follow(m); done {
			rec.secure = c.secure
			if c.links > 0 {
				rec.alias = c.name
			}
			if c.links > 0 && q.qtype != dns.TypeMX {
				r.cfg.Logger.Debug("host name is an alias", "name", q.name, "of", c.name) // RFC 5321 5.1 allows none here
			}
			return rec
		}
	}
}

// A chain is the state of following the aliases of a name.
type chain struct {
	name  string
	qtype uint16
	links int
	seen  []string
	ttl   time.Duration // the minimum so far
	// secure means that all answers so far are secure. The AD bit is for the whole
	// of an answer, so an insecure link makes all behind it insecure (RFC 7672 2.1.3).
	secure bool
}

// follow follows the aliases in an answer. done is false if they lead to a name
// that the answer contains nothing about.
func (c *chain) follow(m *dns.Msg) (rec record, done bool) {
	before := c.links
	for {
		if rec = c.gather(m); rec.answer == route.Found {
			return rec, true
		}
		target, ok := c.alias(m)
		if !ok {
			break
		}
		c.seen = append(c.seen, c.name)
		if c.links++; c.links > aliasesMax || slices.Contains(c.seen, target) {
			return record{answer: route.Endless}, true
		}
		c.name = target
	}
	soa, known := negativeTTL(m)
	switch {
	case m.Rcode == dns.RcodeNameError:
		return record{answer: route.NoName, ttl: min(c.ttl, soa)}, true
	case c.links > before && !known:
		return record{}, false
	}
	return record{answer: route.NoData, ttl: min(c.ttl, soa)}, true
}

// gather collects the records of the type that the chain's name owns.
func (c *chain) gather(m *dns.Msg) record {
	rec := record{ttl: c.ttl}
	for _, rr := range m.Answer {
		h := rr.Header()
		if h.Rrtype != c.qtype || h.Class != dns.ClassINET || !sameName(h.Name, c.name) {
			continue
		}
		switch rr := rr.(type) {
		case *dns.MX:
			rec.mx = append(rec.mx, route.MX{Preference: rr.Preference, Name: rr.Mx})
		case *dns.A:
			if a, ok := netip.AddrFromSlice(rr.A); ok {
				rec.addrs = append(rec.addrs, a.Unmap())
			}
		case *dns.AAAA:
			if a, ok := netip.AddrFromSlice(rr.AAAA); ok {
				rec.addrs = append(rec.addrs, a)
			}
		case *dns.CNAME: // the question was whether the name is an alias
			rec.alias = strings.ToLower(strings.TrimSuffix(rr.Target, "."))
		case *dns.TLSA:
			rec.tlsa = append(rec.tlsa, tlsaRecord(rr))
		case *dns.TXT:
			rec.texts = append(rec.texts, strings.Join(rr.Txt, ""))
		}
		rec.ttl = min(rec.ttl, seconds(h.Ttl))
	}
	if len(rec.mx) > 0 || len(rec.addrs) > 0 || len(rec.tlsa) > 0 || len(rec.texts) > 0 || rec.alias != "" {
		rec.answer = route.Found
	}
	rec.trim()
	return rec
}

// trim keeps the best MX records, a random selection among those of equal
// preference, and the first of the others.
func (rec *record) trim() {
	if len(rec.mx) > recordsMax {
		rand.Shuffle(len(rec.mx), func(i, j int) { rec.mx[i], rec.mx[j] = rec.mx[j], rec.mx[i] })
	}
	slices.SortStableFunc(rec.mx, func(a, b route.MX) int { return cmp.Compare(a.Preference, b.Preference) })
	if len(rec.mx) > recordsMax {
		rec.mx = slices.Clone(rec.mx[:recordsMax])
	}
	if len(rec.addrs) > recordsMax {
		rec.addrs = slices.Clone(rec.addrs[:recordsMax])
	}
	rec.tlsa = rec.tlsa[:min(len(rec.tlsa), recordsMax)]
	rec.texts = rec.texts[:min(len(rec.texts), recordsMax)]
}

// alias returns the name that the chain's name is an alias of.
func (c *chain) alias(m *dns.Msg) (target string, ok bool) {
	for _, rr := range m.Answer {
		if cname, is := rr.(*dns.CNAME); is && cname.Hdr.Class == dns.ClassINET && sameName(cname.Hdr.Name, c.name) {
			c.ttl = min(c.ttl, seconds(cname.Hdr.Ttl))
			return strings.ToLower(strings.TrimSuffix(cname.Target, ".")), true
		}
	}
	return "", false
}

// negativeTTL returns the time for which a negative answer may be cached
// (RFC 2308 5), and whether the answer states it; an incomplete answer does not.
func negativeTTL(m *dns.Msg) (ttl time.Duration, known bool) {
	for _, rr := range m.Ns {
		if soa, ok := rr.(*dns.SOA); ok {
			return seconds(min(soa.Hdr.Ttl, soa.Minttl)), true
		}
	}
	return 0, false
}

// seconds converts a TTL; one with the highest bit set means zero (RFC 2181 8).
func seconds(ttl uint32) time.Duration {
	if ttl >= 1<<31 {
		return 0
	}
	return time.Duration(ttl) * time.Second
}

// sameName compares a name from a message with one of ours.
func sameName(fqdn, name string) bool {
	return len(fqdn) == len(name)+1 && fqdn[len(name)] == '.' && strings.EqualFold(fqdn[:len(name)], name)
}
