package spread

import "time"

const (
	least = time.Millisecond
	most  = 50 * time.Millisecond
	// part is how much of the mean is the latest delivery.
	part = 8
	// costPart is the part of the time that pauses may cost in the long run.
	costPart = 250
)

// A Spreading is what is known of the deliveries to one destination. The zero Spreading knows nothing, and spreads
// nothing. Its owner has the timer of the pause.
type Spreading struct {
	mean, latest time.Duration // of the deliveries; 0 as long as none has ended
	credit       time.Duration // for slots that wait
	slots        int           // the most that were under way when one ended
	pausing      bool
}

// Pausing reports whether a pause goes on.
func (s *Spreading) Pausing() bool { return s.pausing }

// Ended notes how long a delivery took, of so many that were under way.
func (s *Spreading) Ended(took time.Duration, busy int) {
	s.latest = took
	if s.mean == 0 {
		s.mean = took
	}
	s.mean += (took - s.mean) / part
	s.credit += took / costPart
	if busy > s.slots {
		s.credit += took / 2 * time.Duration(busy-s.slots)
		s.slots = busy
	}
	s.credit = min(s.credit, took/2*time.Duration(s.slots))
}

// Gap is the pause after a start, when so many deliveries are under way; 0 for none.
func (s *Spreading) Gap(busy int) time.Duration {
	gap := min(s.mean, s.latest) / 2 / time.Duration(max(busy, 1))
	if gap < least {
		return 0
	}
	return min(gap, most)
}

// Begin returns the pause that begins after a start, when so many deliveries are under way and there is room for
// so many more, which may be negative; 0 for none. The slots that wait are paid for.
func (s *Spreading) Begin(busy, room int) time.Duration {
	gap := s.Gap(busy)
	if gap == 0 || s.pausing {
		return 0
	}
	cost := gap * time.Duration(max(room, 0))
	if cost > s.credit {
		return 0
	}
	s.credit -= cost
	s.pausing = true
	return gap
}

// Spare notes that a delivery has ended when so much of a pause is left: its slot waits for the rest of it. It reports
// whether there is credit for that; if not, the pause should end.
func (s *Spreading) Spare(rest time.Duration) bool {
	s.credit -= rest
	return s.credit >= 0
}

// Over ends the pause.
func (s *Spreading) Over() { s.pausing = false }
