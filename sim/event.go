package sim

import (
	"github.com/posthaste-mta/posthaste/internal/minheap"
	"github.com/posthaste-mta/posthaste/mail"
)

// An event is something of the model that is to happen at an instant. It is a
// field of whatever it happens to, so that none is ever allocated; each of them
// waits for one thing at a time.
type event struct {
	at    mail.Instant
	seq   uint64 // the order of events of one instant
	slot  minheap.Slot
	owner happening
}

// A happening is what has an event.
type happening interface {
	happen(w *world)
}

type byInstant struct{}

func (byInstant) Before(a, b *event) bool     { return a.at < b.at || a.at == b.at && a.seq < b.seq }
func (byInstant) Slot(e *event) *minheap.Slot { return &e.slot }

// at makes an event happen.
func (w *world) at(e *event, owner happening, when mail.Instant) {
	w.events++
	e.at, e.seq, e.owner = when, w.events, owner
	w.heap.Push(e)
}

// cancel makes an event not happen, if it still waits.
func (w *world) cancel(e *event) {
	if e.slot.Heaped() {
		w.heap.Remove(e)
	}
}
