package orders

import (
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
)

// A Book has the changes of messages at rest that are under way because of orders, and what happens next. It belongs to one
// goroutine.
type Book struct {
	moving map[mail.QueueID]Wish   // what is wished after each change
	chosen map[mail.QueueID]choice // recipients of named messages that will be tried
	wishes []pending               // for messages that have come to rest

	lapsing int          // removals of held mail that are being made durable
	begun   bool         // LookHeld was asked
	first   mail.Instant // begun: when to look for held mail first; Never if that was done
}

// A choice is some recipients of a message.
type choice struct {
	some  Indexes
	asked mail.Instant // when the last of them were chosen
}

// A pending wish will be carried out before the Step goes on.
type pending struct {
	id mail.QueueID
	Wish
}

const (
	// firstLook is the time from the start to the first look for held mail to
	// remove; there is more urgent work before. It is no reason to wake up.
	firstLook = time.Hour
	// lapsingMost is the number of removals that are made durable at once: enough to fill a
	// commit, few enough that those of other mail do not wait behind all of them.
	lapsingMost = 256
)

// New returns a book without orders.
func New() *Book {
	return &Book{moving: make(map[mail.QueueID]Wish), chosen: make(map[mail.QueueID]choice)}
}

// Idle reports whether no change is under way.
func (b *Book) Idle() bool { return len(b.moving) == 0 }

// Moving reports whether a change of a message is under way.
func (b *Book) Moving(id mail.QueueID) bool {
	_, moving := b.moving[id]
	return moving
}

// Begin notes that a change of a message begins, after which something is wished.
func (b *Book) Begin(id mail.QueueID, after Wish) {
	assert.That(!b.Moving(id), "two changes of %v are under way", id)
	b.moving[id] = after
}

// Then adds to what is wished after the change of a message that is under way; it reports false if there is none.
func (b *Book) Then(id mail.QueueID, add func(*Wish)) bool {
	w, moving := b.moving[id]
	if moving {
		add(&w)
		b.moving[id] = w
	}
	return moving
}

// An End is that of the change of a message at rest.
type End uint8

// The ends.
const (
	EndUnknown  End = iota // no change was under way
	EndOrdered             // one that an operator wanted
	EndRemoved             // held mail was removed, because its time was over
	EndReleased            // held mail is due, because the time was over for which its sender had it held
)

// Moved notes that a change is durable, by which a message has come to a place, and remembers what was wished after it.
func (b *Book) Moved(id mail.QueueID, to mail.Place) (e End) {
	w, moving := b.moving[id]
	if !moving {
		return EndUnknown
	}
	delete(b.moving, id)
	e = EndOrdered
	if w.lapse {
		b.lapsing--
		switch to.Area {
		case mail.AreaNone:
			e = EndRemoved
		case mail.AreaDeferred:
			e = EndReleased
		}
	}
	if to.Area != mail.AreaNone { // else nothing is left to carry a wish out for
		b.Wish(id, to, w)
	}
	return e
}

// Wish has something done with a message that is at rest at a place now.
func (b *Book) Wish(id mail.QueueID, at mail.Place, w Wish) {
	if w = w.at(at); !w.Empty() {
		b.wishes = append(b.wishes, pending{id, w})
	}
}

// Wishes returns the number of messages for which something is wished now.
func (b *Book) Wishes() int { return len(b.wishes) }

// Next takes the first of them, of which there is one, and returns what is wished for it.
func (b *Book) Next() (id mail.QueueID, w Wish) {
	first := b.wishes[0]
	b.wishes = b.wishes[1:]
	return first.id, first.Wish
}

// Choose has some recipients of a message tried when it is opened, and reports whether it was named for that before.
func (b *Book) Choose(id mail.QueueID, some Indexes, now mail.Instant) (named bool) {
	before, named := b.chosen[id]
	b.chosen[id] = choice{before.some.With(some), now}
	return named
}

// TakeChosen returns the chosen recipients of a message that is opened, and when the last of them were chosen.
func (b *Book) TakeChosen(id mail.QueueID) (some Indexes, asked mail.Instant) {
	c := b.chosen[id]
	assert.That(len(c.some) > 0, "no recipients of %v are chosen", id)
	delete(b.chosen, id)
	return c.some, c.asked
}

// LookHeld reports whether held mail whose time is over must be searched for: it is due, as far as is known, or
// there was no search since the start.
func (b *Book) LookHeld(due bool, now mail.Instant) bool {
	if !b.begun {
		b.begun, b.first = true, now.Add(firstLook)
	}
	if !due && b.first > now {
		return false
	}
	b.first = mail.Never
	return true
}

// MayLapse reports whether one more removal of held mail may begin.
func (b *Book) MayLapse() bool { return b.lapsing < lapsingMost }

// Lapse notes that the removal of a message begins, which is at rest.
func (b *Book) Lapse(id mail.QueueID) {
	b.Begin(id, Wish{lapse: true})
	b.lapsing++
}

// Check checks the invariants; named is the number of messages that the intake has named for some of their recipients.
func (b *Book) Check(named int) {
	assert.That(len(b.wishes) == 0, "a Step has left %d wishes", len(b.wishes))
	lapsing := 0
	for _, w := range b.moving { //archtest:anyorder a sum
		if w.lapse {
			lapsing++
		}
	}
	assert.That(lapsing == b.lapsing && lapsing <= lapsingMost, "%d removals of held mail are under way, counted %d", lapsing, b.lapsing)
	assert.That(named == len(b.chosen), "recipients of %d messages are chosen, and %d are named", len(b.chosen), named)
	for id, c := range b.chosen { //archtest:anyorder assertions
		assert.That(len(c.some) > 0 && slices.IsSorted(c.some), "the recipients %v of %v are chosen", c.some, id)
	}
}
