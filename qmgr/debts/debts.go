package debts

import (
	"time"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
)

// A Book is what is owed. It belongs to one goroutine. Make it with New.
//
// Invariant: a message is in line exactly once if it is parked, and else not at all.
type Book struct {
	counts
	last   mail.Instant   // when a report was asked for, or its message opened
	line   []mail.QueueID // parked, oldest first, from head on
	head   int
	parked map[mail.QueueID]struct{}
	// ordered are messages at rest of which an order has given up some recipients while
	// others wait. They are opened to report, and stay where they are: the others are not
	// to be tried for it, and a held message would have its sender wait for a release.
	ordered []mail.QueueID
	// running are messages in core that go on, and wait for a report because of their deadlines.
	running []Stay
}

// counts are the messages that are in core on account of reports.
type counts struct {
	making     int // messages whose Report is outstanding
	letters    int // reports in core: our own, not those that are relayed for others
	collecting int // messages in core because their turn has come
}

// A Stay names a message's stay in core: one that has left and come back has another serial.
type Stay struct {
	ID     mail.QueueID
	Serial uint64
}

const (
	// parkedMost bounds the line: 100,000 IDs are some 5 MB.
	parkedMost = 100_000
	// every is the interval at which reports are made although many wait.
	every = 20 * time.Millisecond
)

// New returns a book in which nothing is owed.
func New() *Book { return &Book{parked: make(map[mail.QueueID]struct{})} }

// May reports whether one more report may be made now, if so many messages may be in core on account of reports.
func (b *Book) May(limit int, now mail.Instant) bool {
	return b.making+b.collecting+b.letters < limit || now >= b.last.Add(every)
}

// Ask notes that a report is asked for, until Answered.
func (b *Book) Ask(now mail.Instant) {
	b.making++
	b.last = now
}

// Answered notes that the report was made, or could not be.
func (b *Book) Answered() { b.making-- }

// Collect notes that a message is opened because its turn has come, until Collected.
func (b *Book) Collect(now mail.Instant) {
	b.collecting++
	b.last = now
}

// Collected notes that such a message leaves.
func (b *Book) Collected() { b.collecting-- }

// LetterComes notes that a report of ours comes into core, until LetterLeaves.
func (b *Book) LetterComes() { b.letters++ }

// LetterLeaves notes that it leaves.
func (b *Book) LetterLeaves() { b.letters-- }

// MayPark reports whether one more message may be parked.
func (b *Book) MayPark() bool { return len(b.parked) < parkedMost }

// Park puts a message in line for its turn.
func (b *Book) Park(id mail.QueueID) {
	assert.That(b.MayPark() && !b.IsParked(id), "message %v is parked, with %d others", id, len(b.parked))
	b.parked[id] = struct{}{}
	b.line = append(b.line, id)
}

// IsParked reports whether a message is in line.
func (b *Book) IsParked(id mail.QueueID) bool {
	_, is := b.parked[id]
	return is
}

// HasParked reports whether any message is.
func (b *Book) HasParked() bool { return b.head < len(b.line) }

// NextParked takes the first message out of the line, which has one.
func (b *Book) NextParked() mail.QueueID {
	id := b.line[b.head]
	b.head++
	delete(b.parked, id)
	if b.head > len(b.line)/2 {
		b.line, b.head = append(b.line[:0], b.line[b.head:]...), 0
	}
	return id
}

// Owe has a message at rest opened for its report alone.
func (b *Book) Owe(id mail.QueueID) { b.ordered = append(b.ordered, id) }

// HasOrdered reports whether there is a message whose report has been ordered.
func (b *Book) HasOrdered() bool { return len(b.ordered) > 0 }

// NextOrdered takes the first of those, of which there is one.
func (b *Book) NextOrdered() mail.QueueID {
	id := b.ordered[0]
	b.ordered = b.ordered[1:]
	return id
}

// Wait has a message in core wait for its report.
func (b *Book) Wait(s Stay) { b.running = append(b.running, s) }

// Waiting are the messages in core that wait.
func (b *Book) Waiting() []Stay { return b.running }

// NextWaiting takes the first of those, of which there is one.
func (b *Book) NextWaiting() Stay {
	s := b.running[0]
	b.running = b.running[1:]
	return s
}

// Idle reports whether no message at rest waits for its turn.
func (b *Book) Idle() bool { return !b.HasParked() && !b.HasOrdered() }

// Wake returns when a report is made although many wait; Never if none is owed. Messages at rest can only be reported on
// if there is room for them in core.
func (b *Book) Wake(room bool) mail.Instant {
	if len(b.running) == 0 && (b.Idle() || !room) {
		return mail.Never
	}
	return b.last.Add(every)
}

// Check panics if the messages in core on account of reports are others than were counted, or an invariant does not hold.
func (b *Book) Check(making, letters, collecting int) {
	assert.That(making == b.making, "%d reports are being made, counted %d", making, b.making)
	assert.That(letters == b.letters, "%d reports are in core, counted %d", letters, b.letters)
	assert.That(collecting == b.collecting, "%d messages are in core for their report, counted %d", collecting, b.collecting)
	assert.That(len(b.line)-b.head == len(b.parked), "%d messages are in line for their report, %d are parked", len(b.line)-b.head, len(b.parked))
}
