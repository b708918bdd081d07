package qmgr

import "time"

// Entries of one recipient cannot be cut as stagger does. So where a destination has more
// waiting than it can take, deliveries that begin together and take equally long end
// together ever after: all room comes at one moment, and mail of another flow that arrives in
// between waits for half the time that a delivery takes, on average.
//
// So starts are spread: after each there is a pause of half the time in which one slot
// would come free on average, if they came free evenly. What was bunched is spread out once,
// which costs each connection a fraction of one delivery, and stays spread: deliveries that
// start one after the other also end so. The pause is at most half of what deliveries
// leave between them anyway, and when they become faster, the latest of them counts. A pause
// of less than a millisecond is not worth a timer.
//
// Deliveries that vary in length spread out by themselves, and chance brings two of them close
// together again and again, where a pause would only cost. So there is a credit: half a
// delivery for each slot when it is used first, which is what a bunch takes to be spread out, and then one
// part in spreadCost of each delivery. What a slot waits because of a pause is paid from it, and
// without credit there is no pause.
//
// It is done for mail that is classified, over connections.

const (
	spreadLeast = time.Millisecond
	spreadMost  = 50 * time.Millisecond
	// spreadPart is how much of the mean is the latest delivery.
	spreadPart = 8
	// spreadCost is the part of the time that pauses may cost in the long run.
	spreadCost = 250
)

// spreading is a destination's part in this.
type spreading struct {
	mean, latest time.Duration // of the deliveries; 0 as long as none has ended
	credit       time.Duration // for slots that wait
	slots        int           // the most that were under way when one ended
	pausing      bool
	pause        timer
}

// ended notes how long a delivery took, of so many that were under way.
func (s *spreading) ended(took time.Duration, busy int) {
	s.latest = took
	if s.mean == 0 {
		s.mean = took
	}
	s.mean += (took - s.mean) / spreadPart
	s.credit += took / spreadCost
	if busy > s.slots {
		s.credit += took / 2 * time.Duration(busy-s.slots)
		s.slots = busy
	}
	s.credit = min(s.credit, took/2*time.Duration(s.slots))
}

// gap is the pause after a start, when so many deliveries are under way; 0 for none.
func (s *spreading) gap(busy int) time.Duration {
	gap := min(s.mean, s.latest) / 2 / time.Duration(max(busy, 1))
	if gap < spreadLeast {
		return 0
	}
	return min(gap, spreadMost)
}

// spread begins the pause after a start, if more is waiting.
func (q *Qmgr) spread(d *queue) {
	gap := d.spreading.gap(d.Busy)
	if gap == 0 || d.Waiting == 0 || d.spreading.pausing {
		return
	}
	cost := gap * time.Duration(max(d.Room(), 0))
	if cost > d.spreading.credit {
		return
	}
	d.spreading.credit -= cost
	d.spreading.pausing = true
	q.arm(&d.spreading.pause, q.now.Add(gap))
	d.touch()
}

// spare notes that a delivery has ended during a pause: its slot waits for the rest of it, if
// there is credit.
func (q *Qmgr) spare(d *queue) {
	s := &d.spreading
	if !s.pausing {
		return
	}
	if s.credit -= s.pause.at.Sub(q.now); s.credit < 0 {
		q.disarm(&s.pause)
		q.spreadOn(d)
	}
}

// spreadOn ends the pause.
func (q *Qmgr) spreadOn(d *queue) {
	d.spreading.pausing = false
	d.touch()
}
