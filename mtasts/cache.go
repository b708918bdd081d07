package mtasts

import (
	"container/list"
	"time"
)

// An entry is the cached information about a domain.
type entry struct {
	domain  string
	policy  Policy
	fetched time.Time // when the policy was; zero: none ever was
	used    time.Time // when there was last mail
	checked time.Time // when the id was last looked for
	tried   time.Time // when a fetch last ended

	flawed   bool   // the TXT record was malformed when the id was last looked for
	problem  *Error // of the last fetch
	failures int    // fetches in a row that failed
	failedID string // the id of the last of them
	retry    time.Time
}

func (e *entry) expires() time.Time { return e.fetched.Add(max(e.policy.MaxAge, inForceMin)) }

func (e *entry) inForce(now time.Time) bool { return !e.fetched.IsZero() && now.Before(e.expires()) }

// wants reports whether the policy with an id, which the DNS announces, should be
// fetched. e may be nil.
func (e *entry) wants(id string, now time.Time) bool {
	switch {
	case e == nil:
		return true
	case now.Before(e.tried.Add(rest)):
		return false
	case e.failures > 0 && e.failedID == id:
		return !now.Before(e.retry)
	}
	return !e.inForce(now) || e.policy.ID != id
}

// due reports whether the policy should be renewed, though its id has not changed.
func (e *entry) due(now time.Time) bool {
	if !e.inForce(now) || now.Sub(e.used) > usedWithin {
		return false
	}
	age := max(min(e.policy.MaxAge/2, renewEvery), inForceMin/2)
	return !now.Before(e.fetched.Add(age)) && !now.Before(e.tried.Add(rest)) && (e.failures == 0 || !now.Before(e.retry))
}

// weight returns the weight of an entry in the cache: one, plus one for each KiB.
func (e *entry) weight() int {
	size := len(e.policy.MX) * 16
	for _, mx := range e.policy.MX {
		size += len(mx)
	}
	return 1 + size/1024
}

// A cache holds entries up to a total weight, the most recently used ones.
type cache struct {
	max     int
	weight  int
	byName  map[string]*list.Element // of *slot
	byUsage *list.List               // the most recently used first
}

type slot struct {
	*entry
	weight int
}

func newCache(max int) cache {
	return cache{max: max, byName: make(map[string]*list.Element), byUsage: list.New()}
}

// get returns the entry of a domain, now the most recently used one, or nil.
func (c *cache) get(name string) *entry {
	at := c.byName[name]
	if at == nil {
		return nil
	}
	c.byUsage.MoveToFront(at)
	return at.Value.(*slot).entry
}

// peek is get, but does not count as use.
func (c *cache) peek(name string) *entry {
	if at := c.byName[name]; at != nil {
		return at.Value.(*slot).entry
	}
	return nil
}

// put stores an entry, or what has changed of it, and forgets others if there is not
// enough room.
func (c *cache) put(e *entry) {
	at := c.byName[e.domain]
	if at == nil {
		at = c.byUsage.PushFront(&slot{entry: e})
		c.byName[e.domain] = at
	}
	s := at.Value.(*slot)
	c.weight += e.weight() - s.weight
	s.weight = e.weight()
	for last := c.byUsage.Back(); c.weight > c.max && last != at; last = c.byUsage.Back() {
		c.byUsage.Remove(last)
		old := last.Value.(*slot)
		c.weight -= old.weight
		delete(c.byName, old.domain)
	}
}

// all calls visit with all entries, the least recently used first.
func (c *cache) all(visit func(*entry)) {
	for at := c.byUsage.Back(); at != nil; at = at.Prev() {
		visit(at.Value.(*slot).entry)
	}
}
