package spool

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// totalsOf waits until the messages that were there at the start are counted.
func totalsOf(t *testing.T, s *Spool) Totals {
	t.Helper()
	for range 10_000 {
		if sum, known := s.Totals(); known {
			return sum
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("the messages are not counted within 10 s")
	return Totals{}
}

// compareTotals checks what is kept against the twin, in which it is counted.
func (r *trial) compareTotals() {
	r.t.Helper()
	var want [mail.AreaCorrupt + 1]uint64
	var oldest [mail.AreaCorrupt + 1]mail.QueueID
	for id, m := range r.twin.messages {
		area := m.place.Area
		want[area]++
		if oldest[area] == 0 || id < oldest[area] {
			oldest[area] = id
		}
	}
	got := totalsOf(r.t, r.s)
	if got.Messages != want {
		r.t.Fatalf("kept: %v messages by area, want %v", got.Messages, want)
	}
	for area, id := range oldest {
		if at := got.Oldest[area]; id == 0 && at != 0 || id != 0 && (at > id.Time() || at < id.Time().Add(-68*time.Second)) {
			r.t.Fatalf("kept: the oldest message in %v is of %v, want %v", mail.Area(area), at, id.Time())
		}
	}
}

// What a dashboard asks for every few seconds must not read the queue: with a million messages each time
// would take a tenth of a second of the disk's cache.
func TestTotalsReadNothing(t *testing.T) {
	s := open(t, small(vfs.NewMem()))
	for i := range 50 {
		a := accept(t, s, mail.Envelope{}, addresses(1), text(10))
		if i%2 == 0 {
			apply(t, s, mail.Change{Op: mail.ChangeDefer, ID: a.Envelope.ID, Place: a.Place, Due: 5, At: 1})
		}
	}
	totalsOf(t, s)
	before := s.Health()
	for range 100 {
		if got := totalsOf(t, s).Messages; got != [...]uint64{0, 25, 25, 0, 0} {
			t.Fatalf("%v messages by area", got)
		}
	}
	if after := s.Health(); after.Steps != before.Steps || after.Commits != before.Commits {
		t.Errorf("asking reads the indexes: %d keys", after.Steps-before.Steps)
	}
}

// After a start what is there is counted, while other messages come and go.
func TestTotalsAfterAStart(t *testing.T) {
	fs := vfs.NewMem()
	s := mustOpen(t, small(fs))
	for range 30 {
		accept(t, s, mail.Envelope{}, addresses(1), text(10))
	}
	mustClose(t, s)
	s = open(t, small(fs))
	for range 20 {
		a := accept(t, s, mail.Envelope{}, addresses(1), text(10))
		apply(t, s, mail.Change{Op: mail.ChangeHold, ID: a.Envelope.ID, Place: a.Place})
	}
	if got := totalsOf(t, s).Messages; got != [...]uint64{0, 30, 0, 20, 0} {
		t.Errorf("%v messages by area", got)
	}
}

// When it is unknown what a batch has changed, all is counted again, but not at once: the batch may be
// repeated first.
func TestTotalsAfterDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustOpen(t, small(vfs.NewMem()))
		accept(t, s, mail.Envelope{}, addresses(1), text(10))
		totalsOf(t, s)
		s.totals.moved([]move{{1 << 60, mail.AreaNone, mail.AreaHold}, {1 << 60, mail.AreaIncoming, mail.AreaNone}})
		s.totals.doubt()
		time.Sleep(totalsPause / 2)
		if got := totalsOf(t, s).Messages; got != [...]uint64{0, 0, 0, 1, 0} {
			t.Errorf("%v messages by area before they are counted again", got)
		}
		time.Sleep(totalsPause)
		if got := totalsOf(t, s).Messages; got != [...]uint64{0, 1, 0, 0, 0} {
			t.Errorf("%v messages by area after they were counted again", got)
		}
		mustClose(t, s)
	})
}

// However many messages of however many years there are, the ages take a megabyte; what is oldest stays
// right within the width of an age, and counts that were coarsened apart can be added.
func TestAgesAreBounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	a, b := newAreas()[mail.AreaHold], newAreas()[mail.AreaHold]
	const minute = mail.QueueID(time.Minute/time.Microsecond) << 12
	const years = 10 * 366 * 24 * 60
	for i := range 100_000 {
		id := 1<<62 + mail.QueueID(rng.IntN(years))*minute
		a.add(id, 1)
		if i%10 == 0 { // it is removed while messages are counted
			b.add(id, -1)
		}
	}
	if len(a.arrived) > agesMost {
		t.Errorf("%d ages", len(a.arrived))
	}
	a.merge(&b)
	if a.messages != 90_000 {
		t.Errorf("%d messages", a.messages)
	}
	if first := mail.QueueID(1 << 62).Time(); a.oldest() < first.Add(-3*24*time.Hour) || a.oldest() > first.Add(3*24*time.Hour) {
		t.Errorf("the oldest message is of %v", a.oldest())
	}
	for at, n := range a.arrived {
		if n <= 0 {
			t.Fatalf("%d messages of age %d", n, at)
		}
	}
	// What has gone leaves nothing behind.
	c := newAreas()[mail.AreaHold]
	c.merge(&a)
	for at, n := range a.arrived {
		c.add(at<<a.shift, -n)
	}
	if len(c.arrived) != 0 || c.messages != 0 || c.oldest() != 0 {
		t.Errorf("%d ages and %d messages are left", len(c.arrived), c.messages)
	}
}
