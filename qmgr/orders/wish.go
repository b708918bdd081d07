package orders

import (
	"slices"

	"github.com/posthaste-mta/posthaste/mail"
)

// An Order is an operator's wish about one message.
type Order uint8

// The orders.
const (
	None Order = iota
	Hold
	Drop
	Release
	Retry
	Settle  // the round ends, so that something can be done with some recipients
	Return  // not an operator's: the deadline has passed, and what is left is given up
	Corrupt // not an operator's: the message is damaged
)

// Change returns the change that carries out a Hold, a Drop or a Release of a message at rest.
func Change(id mail.QueueID, o Order, reason string, now mail.Instant) mail.Change {
	c := mail.Change{ID: id, At: now, Reason: reason}
	switch o {
	case Hold:
		c.Op = mail.ChangeHold
	case Drop:
		c.Op = mail.ChangeRemove
	default:
		c.Op, c.Due = mail.ChangeRelease, now
	}
	return c
}

// Settling is recipients of one message to be given up, to be put into a message of their own, or to go elsewhere.
type Settling struct {
	Outcomes []mail.Outcome
	Splits   []mail.Split
	Reroutes []mail.Reroute
	Last     bool // no other recipient waits
}

// Add adds more.
func (s *Settling) Add(more Settling) {
	s.Outcomes = append(s.Outcomes, more.Outcomes...) // its own: no other message has these
	s.Splits = append(s.Splits, more.Splits...)
	s.Reroutes = append(s.Reroutes, more.Reroutes...)
	s.Last = s.Last || more.Last
}

// Empty reports whether there is nothing to do.
func (s *Settling) Empty() bool { return len(s.Outcomes)+len(s.Splits)+len(s.Reroutes) == 0 }

// Owes reports whether the sender will get a report of any of them.
func (s *Settling) Owes() bool {
	return slices.ContainsFunc(s.Outcomes, func(o mail.Outcome) bool { return o.Report != mail.ReportNone })
}

// Rerouted returns the recipients that go elsewhere.
func (s *Settling) Rerouted() (list Indexes) {
	for _, r := range s.Reroutes {
		list = append(list, r.Recipients...)
	}
	return sorted(list)
}

// Dated returns the outcomes, with the present where they have no time.
func (s *Settling) Dated(now mail.Instant) []mail.Outcome {
	list := append([]mail.Outcome(nil), s.Outcomes...)
	for i := range list {
		if list[i].At == 0 {
			list[i].At = now
		}
	}
	return list
}

// Indexes are recipients of one message, sorted, each once. An empty list is nil.
type Indexes []uint32

// With returns the recipients of two lists.
func (x Indexes) With(y Indexes) Indexes {
	if len(y) == 0 {
		return x
	}
	return sorted(slices.Concat(x, y))
}

// sorted makes Indexes of a list, which it changes.
func sorted(list []uint32) Indexes {
	slices.Sort(list)
	return slices.Compact(list)
}

// Has reports whether a recipient is among them.
func (x Indexes) Has(index uint32) bool {
	_, found := slices.BinarySearch(x, index)
	return found
}

// A Wish is what operators want done with a message once the change that is under
// way for it, or the last one of its round, is durable. The zero Wish is for
// nothing.
type Wish struct {
	Settling Settling // first
	Order    Order    // Hold, Drop or Release: the last one counts
	Reason   string   // why, for Hold
	Retry    bool     // and then it is tried
	Chosen   Indexes  // otherwise, these recipients are
	Report   bool     // its sender receives a report, though other recipients wait
	lapse    bool     // the change under way removes it from the hold area
}

// Add adds an order to those given before. Hold and Drop make void what was to
// happen before them; a Release leaves a message where it can be tried.
func (w *Wish) Add(o Order, reason string) {
	if o == Retry {
		w.Retry = true
		return
	}
	chosen := w.Chosen
	if o != Release {
		chosen = nil
	}
	*w = Wish{Settling: w.Settling, Order: o, Reason: reason, Retry: w.Retry && o == Release, Chosen: chosen, lapse: w.lapse, Report: w.Report}
}

// Choose has some recipients tried.
func (w *Wish) Choose(some Indexes) { w.Chosen = w.Chosen.With(some) }

// Empty reports whether nothing is wished.
func (w *Wish) Empty() bool {
	return w.Settling.Empty() && w.Order == None && !w.Retry && len(w.Chosen) == 0 && !w.Report
}

// at returns what is left of a wish for a message that rests at a place: recipients are tried only
// where mail is tried.
func (w Wish) at(p mail.Place) Wish {
	if p.Area != mail.AreaIncoming && p.Area != mail.AreaDeferred {
		w.Chosen = nil
	}
	return w
}
