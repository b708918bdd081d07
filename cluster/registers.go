package cluster

import (
	"cmp"
	"slices"

	"github.com/posthaste-mta/posthaste/mail"
)

// Registers are the latest registers of other nodes that have not expired. It belongs
// to one goroutine.
type Registers struct {
	limit   int
	entries map[registerKey]*held
}

type registerKey struct{ topic, node string }

type held struct {
	register Register
	until    mail.Instant
}

// NewRegisters returns an empty table for at most limit registers.
func NewRegisters(limit int) *Registers {
	return &Registers{limit: limit, entries: map[registerKey]*held{}}
}

// Hear adds a register. It reports whether it was news: not if a later one is known,
// nor if there is no room.
func (t *Registers) Hear(r Register, now mail.Instant) bool {
	k := registerKey{r.Topic, r.Node}
	h := t.entries[k]
	switch {
	case h == nil && len(t.entries) >= t.limit:
		if t.Expire(now); len(t.entries) >= t.limit {
			return false
		}
		fallthrough
	case h == nil:
		t.entries[k] = &held{r, now.Add(r.TTL)}
		return true
	case now < h.until && !r.Version.After(h.register.Version):
		return false
	}
	*h = held{r, now.Add(r.TTL)}
	return true
}

// Of returns the registers of a topic, in the order of their nodes' names.
func (t *Registers) Of(topic string, now mail.Instant) []Register {
	var out []Register
	for k, h := range t.entries { //archtest:anyorder sorted below
		if k.topic == topic && now < h.until {
			out = append(out, h.register)
		}
	}
	slices.SortFunc(out, func(a, b Register) int { return cmp.Compare(a.Node, b.Node) })
	return out
}

// Expire removes what has expired. It returns the instant at which it should be
// called again, Never if nothing is left.
func (t *Registers) Expire(now mail.Instant) (next mail.Instant) {
	next = mail.Never
	for k, h := range t.entries { //archtest:anyorder the minimum, and removals
		if h.until <= now {
			delete(t.entries, k)
			continue
		}
		next = min(next, h.until)
	}
	return next
}

// Len returns the number of registers, expired ones included.
func (t *Registers) Len() int { return len(t.entries) }
