package intake

import (
	"testing"

	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// room is one for so many messages, some of which are there.
func room(limit, mails, retries int) *Room {
	r := &Room{}
	r.Configure(RoomLimits{Messages: limit, Recipients: 1000, Minimum: 10})
	for i := range mails {
		from := FromIncoming
		if i < retries {
			from = FromDeferred
		}
		r.Comes(from)
	}
	return r
}

// New mail has a quarter of the room for itself. Where buckets share the core, retries have three quarters whatever else is there.
func TestRoomForScans(t *testing.T) {
	for _, c := range []struct {
		mails, retries        int
		incoming, alone, both bool
	}{
		{0, 0, true, true, true}, {74, 74, true, true, true}, {75, 75, true, false, false}, {75, 74, true, false, true},
		{99, 10, true, false, true}, {100, 10, false, false, false},
	} {
		r := room(100, c.mails, c.retries)
		r.Comes(FromCallout)
		if r.For(ScanIncoming, false) != c.incoming || r.For(ScanDeferred, false) != c.alone || r.For(ScanFlush, true) != c.both || r.Any() != (r.Free() > 0) || r.Free() != 100-c.mails {
			t.Errorf("%+v: new mail %t, retries alone %t, shared %t", c, r.For(ScanIncoming, false), r.For(ScanDeferred, false), r.For(ScanFlush, true))
		}
		r.Check(c.mails, c.retries)
	}
}

// What does not get on has no bound while half of the core is free. After that as many leave as are too many for what is free then, or
// until half is free, and one may always stay.
func TestRoomForWhatIsStuck(t *testing.T) {
	left := 0
	for limit := 1; limit <= 64; limit++ {
		for mails := range limit + 1 {
			r := room(limit, mails, 0)
			scarce := 2*(limit-mails) < limit-limit%2
			for waiting := range mails + 1 {
				stay := r.MayStay(waiting, 0)
				switch gone := max(waiting-stay, 0); {
				case !scarce && (gone > 0 || !r.MayWait(waiting) || r.TooMany(waiting, 0)):
					t.Fatalf("%d of %d are in core, and of %d stuck %d leave", mails, limit, waiting, gone)
				case scarce && stay < 1:
					t.Fatalf("%d of %d are in core, and %d may stay", mails, limit, stay)
				case scarce && gone > 0:
					left++
					after := room(limit, mails-gone, 0)
					if after.Scarce() > 0 && stay-2 > after.unused()/8 { // one, and one because of the rounding
						t.Fatalf("%d of %d are in core, and of %d stuck %d stay", mails, limit, waiting, stay)
					}
					if less := room(limit, mails-gone+1, 0); less.Scarce() <= 0 || stay+1 <= less.unused()/8 {
						t.Fatalf("%d of %d are in core, and of %d stuck only %d stay", mails, limit, waiting, stay)
					}
				}
			}
		}
	}
	if left == 0 {
		t.Error("nothing ever left")
	}
}

// What is leaving already makes room as if it had left.
func TestLeavingMakesRoom(t *testing.T) {
	r := room(100, 90, 0)
	if !r.TooMany(50, 0) || r.TooMany(50, 40) || !r.TooMany(50, 39) {
		t.Error("half of the core will be free when 40 have left, and not before")
	}
	if r.MayStay(50, 40) < 50 || r.MayStay(50, 0) >= 50 {
		t.Errorf("%d and %d may stay", r.MayStay(50, 40), r.MayStay(50, 0))
	}
}

// Recipients are read as far as there is room for them, and where they are read in turn, in steps.
func TestReads(t *testing.T) {
	r := room(10, 0, 0)
	m := &sched.Message{Own: 10, Limit: 10_000}
	if n := r.FirstRead(m); n != 910 { // of 1000, nine other messages may have ten each
		t.Errorf("%d are read of the first message", n)
	}
	r.Recipients.Hold(m, 910)
	if n := r.NextRead(m); n != 0 || r.Low() {
		t.Errorf("%d more are read", n)
	}
	r.Configure(RoomLimits{Messages: 10, Recipients: 1000, Minimum: 10, InTurn: true, Fudge: 50})
	if n := r.FirstRead(&sched.Message{Own: 10}); n != 10 || r.Low() {
		t.Errorf("in turn %d are read where there is no room", n)
	}
	r.Recipients.Hold(m, -600)
	if n := r.FirstRead(&sched.Message{Own: 10}); n != 500 || !r.Low() {
		t.Errorf("in turn %d are read", n)
	}
}
