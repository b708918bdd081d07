package debts

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

const now = mail.Instant(1e18)

// As many messages as the limit says are in core on account of reports, whatever the reason; beyond that, one report
// is made every 20 ms.
func TestReportsArePaced(t *testing.T) {
	b := New()
	b.Ask(now)
	b.Collect(now)
	if !b.May(3, now) {
		t.Error("two of three are in core")
	}
	b.LetterComes()
	if b.May(3, now) || b.May(3, now.Add(19*time.Millisecond)) {
		t.Error("a fourth may come at once")
	}
	if !b.May(3, now.Add(20*time.Millisecond)) {
		t.Error("nothing is reported on while hosts are slow")
	}
	b.Check(1, 1, 1)
	b.Answered()
	b.Collected()
	b.LetterLeaves()
	b.Check(0, 0, 0)
}

// The message that was parked first has the first turn, and the line does not grow with those that have had theirs.
func TestLineIsInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	b := New()
	var last, next mail.QueueID
	for range 10_000 {
		if r.IntN(2) == 0 {
			last++
			b.Park(last)
		} else if b.HasParked() {
			if next++; b.NextParked() != next || b.IsParked(next) {
				t.Fatalf("%d is not the first in line", next)
			}
		}
		b.Check(0, 0, 0)
		if len(b.line) > 2*int(last-next)+1 {
			t.Fatalf("a line of %d for %d messages", len(b.line), last-next)
		}
	}
}

// The core wakes up for what is owed: for messages at rest only if there is room for them.
func TestWake(t *testing.T) {
	b := New()
	if b.Wake(true) != mail.Never {
		t.Error("nothing is owed")
	}
	b.Ask(now)
	b.Owe(7)
	if b.Wake(false) != mail.Never || b.Wake(true) != now.Add(20*time.Millisecond) || b.Idle() {
		t.Errorf("wakes at %v without room, at %v with it", b.Wake(false), b.Wake(true))
	}
	b.Wait(Stay{9, 1})
	if b.Wake(false) != now.Add(20*time.Millisecond) {
		t.Error("a message in core needs no room")
	}
	if b.NextOrdered() != 7 || b.NextWaiting() != (Stay{9, 1}) || !b.Idle() || b.HasOrdered() || len(b.Waiting()) != 0 {
		t.Error("something else was owed")
	}
}

// The line is bounded: what does not fit is deferred.
func TestLineIsBounded(t *testing.T) {
	b := New()
	for id := range mail.QueueID(parkedMost) {
		b.Park(id + 1)
	}
	if b.MayPark() {
		t.Errorf("%d messages are in line, and one more may be", parkedMost)
	}
	if b.NextParked(); !b.MayPark() {
		t.Error("one has left the line, and none may come")
	}
}
