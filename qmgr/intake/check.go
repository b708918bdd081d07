package intake

import (
	"iter"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/roster"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// Check panics where an invariant does not hold. routings are those of all messages in
// core, and inCore reports whether a message is there. Tests call it after every step;
// it takes linear time.
func (s *Lookups) Check(routings iter.Seq2[*sched.Message, *Routing], inCore func(mail.QueueID) bool) {
	c := checker{owned: make(map[*Routing]int), networks: make(map[*roster.Network[Question]]roster.Use), parked: make(map[*absentee]int)}
	for key, l := range s.known { //archtest:anyorder sums and assertions
		assert.That(l.Key == key, "lookup of %s is known as %s", l.Nexthop, key.Nexthop)
		s.checkLookup(l)
		c.count(s, l)
	}
	jobs := 0
	var inLine [lines]int
	for m, r := range routings {
		assert.That(r.count == 0 || r.message == m, "the recipients of %v wait as those of another message", m.ID)
		count, stalled := 0, 0
		for j := range r.jobs.All() {
			count += len(j.Recipients)
			if s.stalls(j.lookup) {
				stalled++
			}
			jobs++
		}
		assert.That(stalled == r.stalled, "message %v has %d jobs that are stalled, counted %d", m.ID, r.stalled, stalled)
		assert.That(count == r.count, "message %v has %d recipients waiting for lookups, counted %d", m.ID, count, r.count)
		assert.That(c.owned[r] == r.owned.Len(), "message %v has %d lookups under way, counted %d", m.ID, c.owned[r], r.owned.Len())
		assert.That(r.inLine.Listed() == !r.waiting.Empty(), "message %v is in line: %t", m.ID, r.inLine.Listed())
		if r.inLine.Listed() {
			inLine[r.line]++
		}
	}
	assert.That(jobs == c.jobs, "%d jobs wait for lookups, those of messages in core are %d", c.jobs, jobs)
	for l := range s.lines {
		s.lines[l].Check()
		assert.That(inLine[l] == s.lines[l].Len(), "%d messages in line %d, counted %d", s.lines[l].Len(), l, inLine[l])
	}
	assert.That(s.young.Len()+s.slow.Len() == len(s.busy), "%d and %d lookups are listed by age, %d are under way", s.young.Len(), s.slow.Len(), len(s.busy))
	assert.That(c.silent == s.silent.busy && c.silentYoung == s.silent.young, "%d lookups of silent names are under way, %d of them not slow, counted %d and %d",
		c.silent, c.silentYoung, s.silent.busy, s.silent.young)
	assert.That(c.retrying == s.retrying, "%d lookups under way for retries, counted %d", s.retrying, c.retrying)
	waiting := s.clients.Check(c.networks)
	assert.That(waiting == c.waiting, "%d questions are in line, %d wait for a lookup to begin", waiting, c.waiting)
	s.parked.check(inCore, c.parked)
}

// A checker counts what Lookups counts.
type checker struct {
	owned               map[*Routing]int
	networks            map[*roster.Network[Question]]roster.Use
	parked              map[*absentee]int
	jobs, waiting       int
	retrying            int
	silent, silentYoung int
}

func (c *checker) count(s *Lookups, l *Lookup) {
	c.owned[l.owner]++
	if l.network != nil {
		n := c.networks[l.network]
		if l.inAge.On(&s.slow) {
			n.Slow++
		} else {
			n.Busy++
		}
		c.networks[l.network] = n
	}
	if l.retry {
		c.retrying++
	}
	for _, a := range l.parked {
		c.parked[a]++
	}
	if l.quiet && l.id != 0 {
		c.silent++
		if l.inAge.On(&s.young) {
			c.silentYoung++
		}
	}
	c.jobs += l.jobs.Len()
	if l.id == 0 && !l.quiet {
		c.waiting += l.questions.Len()
	}
}

func (s *Lookups) checkLookup(l *Lookup) {
	assert.That((l.id != 0) == (s.busy[l.id] == l), "lookup %d of %s has begun and is not known as busy", l.id, l.Nexthop)
	assert.That(l.id != 0 || !l.jobs.Empty() || !l.questions.Empty() || len(l.parked) > 0, "nothing waits for the lookup of %s", l.Nexthop)
	assert.That(l.id != 0 || l.owner == nil && l.network == nil, "the lookup of %s is on some account and has not begun", l.Nexthop)
	assert.That(l.inAge.On(&s.silent.waiting) == (l.quiet && l.id == 0), "the lookup of %s is quiet %t, begun %t", l.Nexthop, l.quiet, l.id != 0)
	l.jobs.Check()
	l.questions.Check()
	for j := range l.jobs.All() {
		m := j.routing.message
		assert.That(j.inLine.On(&s.stalled) == s.stalls(l), "a job of %v is stalled by the lookup of %s", m.ID, l.Nexthop)
		assert.That(j.inLine.Listed() == (l.id == 0 || s.stalls(l)), "a job of %v is in line for the lookup of %s", m.ID, l.Nexthop)
	}
	for c := range l.questions.All() {
		inLine := l.id == 0 && !l.quiet
		assert.That(c.lookup == l && c.inLine.Listed() == inLine && inLine == (c.network != nil), "a question about %s is in line: %t", l.Nexthop, c.inLine.Listed())
	}
}
