package rate

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// Saved is what one limit has counted, for a host that keeps it beyond the life of the
// process.
type Saved struct {
	Per    time.Duration
	Latest int64             // number of the last slice
	Counts [parts + 1]uint32 // of the slices up to the last, the last one first
}

// Slices is the number of counts of a Saved.
const Slices = parts + 1

// Save returns what limits for a time of at least shortest have counted, or nothing if
// nothing of that still counts.
func (b *Bucket) Save(shortest time.Duration, now mail.Instant) (list []Saved) {
	some := false
	for i := range b.windows {
		w := &b.windows[i]
		if w.limit.Per < shortest {
			continue
		}
		some = some || w.sum != w.expired(w.number(now))
		s := Saved{Per: w.limit.Per, Latest: w.latest}
		for j := range s.Counts {
			if number := w.latest - int64(j); number >= 0 {
				s.Counts[j] = w.counts[place(number)]
			}
		}
		list = append(list, s)
	}
	if !some {
		return nil
	}
	return list
}

// Restore takes over what was saved. It is as if limits with the saved times were
// configured before those of the bucket: see Configure.
func (b *Bucket) Restore(list []Saved, now mail.Instant) {
	var old []window
	for i := range list {
		s := &list[i]
		w := window{limit: Limit{N: 1, Per: s.Per}, slice: (s.Per + parts - 1) / parts, latest: s.Latest}
		if s.Per < perMin || s.Per > perMax || s.Latest < 0 || s.Latest > int64(now)/int64(w.slice)+1 {
			continue // of a clock that was wrong
		}
		for j, n := range s.Counts {
			if number := s.Latest - int64(j); number >= 0 {
				w.counts[place(number)] = n
				w.sum += n
			}
		}
		old = append(old, w)
	}
	for i := range b.windows {
		b.windows[i] = newWindow(b.windows[i].limit, old, now)
	}
}

// Idle reports whether nothing counts any more.
func (b *Bucket) Idle(now mail.Instant) bool {
	for i := range b.windows {
		if w := &b.windows[i]; w.sum != w.expired(w.number(now)) {
			return false
		}
	}
	return true
}
