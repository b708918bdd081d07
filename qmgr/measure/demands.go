package measure

import (
	"slices"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
)

// Demands are the measures on one destination, and the replies counted for rules that want several. The zero value has none.
type Demands struct {
	Record
	seen []sighting
}

// A Verdict says what the replies that were counted for a rule are enough for.
type Verdict uint8

const (
	NotEnough Verdict = iota
	// EnoughForDomain is for the mail to the domain of the recipient whom the last reply refused.
	EnoughForDomain
	// EnoughForAll is for all mail of the destination.
	EnoughForAll
)

// A subject is the mail that counted replies are about.
type subject uint8

const (
	ofDestination subject = iota // all of it, or the rule does not distinguish domains
	ofDomains                    // that to the recipients who were refused, whatever their domains
	ofDomain                     // that to recipients of one domain
)

// An account is what is counted together.
type account struct {
	rule   string
	of     subject
	domain string // of ofDomain
}

// A sighting counts replies that matched a rule which needs several.
type sighting struct {
	account
	ends  mail.Instant // when they do not count any more
	times int          // 0: none counts
	// Of a rule to which it matters whose mail was refused.
	senders, tenants, recipients, domains parties
	messages                              []mail.QueueID // at most messagesMost
	inARow                                bool           // a message that is accepted ends the count
	taken                                 int            // how often there were enough, of a rule whose suspensions become longer
	known                                 mail.Instant   // when taken and the messages are forgotten
}

// parties are those whose mail was refused.
type parties struct {
	names []string
	all   bool // something was refused that cannot have been about one of them
}

// partiesMost and messagesMost are the numbers of names and of messages that a sighting knows at most.
const (
	partiesMost  = 16
	messagesMost = 256
)

// enough adds a party, and reports whether there are as many as a rule wants.
func (p *parties) enough(name string, wanted int) bool {
	switch {
	case wanted <= 1:
		return true
	case name == "":
		p.all = true
	case len(p.names) < partiesMost && !slices.Contains(p.names, name):
		p.names = append(p.names, name)
	}
	return p.all || len(p.names) >= min(wanted, partiesMost)
}

// sightingsMost is the number of accounts of one destination. Of more, the oldest of a single domain is
// forgotten, or the oldest of all.
const sightingsMost = 32

// Count counts a reply, and returns for what there have been as many as the rule wants, and how often that was so
// before, as far as it matters (mail.Measure.SuspendFirst).
func (d *Demands) Count(m *mail.Measure, now mail.Instant) (v Verdict, before int) {
	if m.Times <= 1 && !m.Parties() && m.SuspendFirst == 0 {
		return EnoughForAll, 0
	}
	d.Forget(now)
	if m.Domains <= 1 || m.Refused.Domain == "" {
		if before, enough := d.account(account{rule: m.Rule}).count(m, now); enough {
			return EnoughForAll, before
		}
		return NotEnough, 0
	}
	allBefore, ofAll := d.account(account{rule: m.Rule, of: ofDomains}).count(m, now)
	before, ofOne := d.account(account{m.Rule, ofDomain, m.Refused.Domain}).count(m, now)
	switch {
	case ofAll:
		return EnoughForAll, allBefore
	case ofOne:
		return EnoughForDomain, before
	}
	return NotEnough, 0
}

// account returns the sighting of an account, and makes it if need be.
func (d *Demands) account(a account) *sighting {
	i := slices.IndexFunc(d.seen, func(s sighting) bool { return s.account == a })
	if i < 0 {
		if len(d.seen) == sightingsMost {
			oldest := max(slices.IndexFunc(d.seen, func(s sighting) bool { return s.of == ofDomain }), 0)
			d.seen = slices.Delete(d.seen, oldest, oldest+1)
		}
		i = len(d.seen)
		d.seen = append(d.seen, sighting{account: a})
	}
	return &d.seen[i]
}

// count adds a reply, and reports whether there have been enough, and how often that was so before.
func (s *sighting) count(m *mail.Measure, now mail.Instant) (before int, enough bool) {
	if s.again(m) {
		if s.known > 0 {
			s.known = max(s.known, now.Add(m.Suspend), now.Add(m.Within)) // it is tried again and again
		}
		return 0, false
	}
	if s.times == 0 {
		s.ends = now.Add(m.Within)
	}
	s.times++
	s.inARow = m.InARow
	if !s.ofEnough(m) || s.times < m.Times {
		return 0, false
	}
	before = s.taken
	s.restart() // the next measure needs as many again
	if m.Parties() {
		s.known = now.Add(m.Within)
	}
	if m.SuspendFirst > 0 {
		s.taken++
		s.known = now.Add(m.SuspendAfter(before)).Add(m.Suspend)
	}
	return before, true
}

// restart forgets the replies that were counted, but not their messages: what a suspension has kept is refused again after
// it, and must not be enough for the next one.
func (s *sighting) restart() {
	*s = sighting{account: s.account, inARow: s.inARow, taken: s.taken, known: s.known, messages: s.messages}
}

// again reports whether the reply is about a message that has been counted, for a rule to which that matters: otherwise one
// message that is tried often enough would be enough.
func (s *sighting) again(m *mail.Measure) bool {
	id := m.Refused.Message
	if !m.Parties() || id == 0 {
		return false
	}
	if slices.Contains(s.messages, id) {
		return true
	}
	if len(s.messages) == messagesMost {
		s.messages = slices.Delete(s.messages, 0, 1)
	}
	s.messages = append(s.messages, id)
	return false
}

// ofEnough counts whose mail was refused, and reports whether it was that of as many as the rule wants.
func (s *sighting) ofEnough(m *mail.Measure) bool {
	senders := s.senders.enough(m.Refused.Sender, m.Senders)
	tenants := s.tenants.enough(m.Refused.Tenant, m.Tenants)
	recipients := s.recipients.enough(m.Refused.Recipient, m.Recipients)
	domains := s.of != ofDomains || s.domains.enough(m.Refused.Domain, m.Domains)
	return senders && tenants && recipients && domains
}

// Counts reports whether replies are counted for some rule.
func (d *Demands) Counts() bool { return len(d.seen) > 0 }

// Accepted is for a message that the destination has accepted for a recipient of a domain, so that it refuses neither everything
// nor all mail to that domain.
func (d *Demands) Accepted(domain string) {
	ends := func(s *sighting) bool { return s.inARow && (s.of != ofDomain || s.domain == domain) }
	d.seen = slices.DeleteFunc(d.seen, func(s sighting) bool { return ends(&s) && len(s.messages) == 0 })
	for i := range d.seen {
		if s := &d.seen[i]; ends(s) {
			s.known, s.taken = max(s.known, s.ends), 0 // the messages that were counted do not count again
			s.restart()
		}
	}
}

// Forget drops replies that do not count any more, and returns when the next ones do not; Never if there are none.
func (d *Demands) Forget(now mail.Instant) (next mail.Instant) {
	next = mail.Never
	d.seen = slices.DeleteFunc(d.seen, func(s sighting) bool { return s.ends <= now && s.known <= now })
	for i := range d.seen {
		s := &d.seen[i]
		if s.times > 0 && s.ends <= now {
			s.restart()
		}
		for _, at := range [...]mail.Instant{s.ends, s.known} {
			if at > now {
				next = min(next, at)
			}
		}
	}
	return next
}

// Resting reports whether the destination is to get no mail.
func (r *Record) Resting(now mail.Instant) bool { return r.Rest.Until > now }

// Lowers reports whether limits are lowered.
func (r *Record) Lowers(now mail.Instant) bool { return r.Lower.Until > now }

// WithRest returns the record with a rest that begins now; false if it would end earlier than the present one.
func (r Record) WithRest(m *mail.Measure, now mail.Instant) (Record, bool) {
	until := now.Add(m.Rest)
	if r.Rest.Until >= until {
		return r, false
	}
	r.Rest = Rest{Rule: m.Rule, Since: now, Until: until, Reason: m.Reply}
	return r, true
}

// WithLowering returns the record with limits that are lowered from now on, and reports whether no rule had lowered them, or another
// one.
func (r Record) WithLowering(m *mail.Measure, now mail.Instant) (_ Record, first bool) {
	first = !r.Lowers(now) || r.Lower.Rule != m.Rule
	r.Lower = Lowering{Rule: m.Rule, Since: now, Until: now.Add(m.For), Concurrency: m.Concurrency}
	if m.RateCount > 0 {
		r.Lower.Count, r.Lower.Per = m.RateCount, m.RatePer
	}
	return r, first
}

// Concurrencies returns the initial and the highest concurrency of a destination below those that it has otherwise, where 0 is
// no limit.
func (l *Lowering) Concurrencies(initial, limit int) (int, int) {
	if l.Concurrency > 0 {
		if limit == 0 || limit > l.Concurrency {
			limit = l.Concurrency
		}
		initial = min(initial, limit)
	}
	return initial, limit
}

// Rates returns the limits by time with that of the lowering among them.
func (l *Lowering) Rates(others rate.Limits) rate.Limits {
	if l.Count == 0 {
		return others
	}
	own := rate.Limit{N: l.Count, Per: l.Per}
	both, err := rate.Of(append(others.All(), own)...)
	if err != nil { // more than there may be, or two for the same time
		both, _ = rate.Of(own)
	}
	return both
}

// Rules are the rules on replies that there are. The zero value has all.
type Rules struct {
	known bool
	names []string // in order
}

// NewRules returns the rules of these names.
func NewRules(names []string) Rules {
	return Rules{known: true, names: slices.Sorted(slices.Values(names))}
}

// Has reports whether there is a rule.
func (r *Rules) Has(name string) bool {
	_, found := slices.BinarySearch(r.names, name)
	return found || !r.known
}

// Leave returns what remains of a record without rules that there are not any more.
func (r *Rules) Leave(m Record) Record {
	if m.Rest.Rule != "" && !r.Has(m.Rest.Rule) {
		m.Rest = Rest{}
	}
	if m.Lower.Rule != "" && !r.Has(m.Lower.Rule) {
		m.Lower = Lowering{}
	}
	return m
}
