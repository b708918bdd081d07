package rate

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Bucket counts what goes under some limits. The zero Bucket has none. It
// belongs to one goroutine; now must not decrease from call to call, and a
// step back counts as none.
type Bucket struct {
	windows []window
}

// New returns a bucket of which nothing was taken yet.
func New(limits Limits) Bucket {
	var b Bucket
	b.Configure(limits, 0)
	return b
}

// Limited tells whether there is any limit.
func (b *Bucket) Limited() bool { return len(b.windows) > 0 }

// Ready tells whether one may go now, or else when it may if nothing goes
// before that.
func (b *Bucket) Ready(now mail.Instant) (ready bool, at mail.Instant) {
	at = now
	for i := range b.windows {
		at = max(at, b.windows[i].readyAt(now))
	}
	return at == now, at
}

// Binding returns the limit that keeps the next from going, and until when; the
// zero Limit if one may go now.
func (b *Bucket) Binding(now mail.Instant) (l Limit, until mail.Instant) {
	until = now
	for i := range b.windows {
		if at := b.windows[i].readyAt(now); at > until {
			l, until = b.windows[i].limit, at
		}
	}
	return l, until
}

// Take counts one that goes now. Who takes without being Ready exceeds a limit,
// and what follows waits for it.
func (b *Bucket) Take(now mail.Instant) {
	for i := range b.windows {
		b.windows[i].take(now, 1)
	}
}

// TakeWithin counts one that goes now, but only in the limits for at most longest:
// it is gone from memory by then, whatever the others allow.
func (b *Bucket) TakeWithin(longest time.Duration, now mail.Instant) {
	for i := range b.windows {
		if w := &b.windows[i]; w.limit.Per <= longest {
			w.take(now, 1)
		}
	}
}

// Configure changes the limits. What was taken counts under the new ones, too,
// as far back as the longest of the old limits reaches: a limit for a longer
// time than any before begins with what is known.
func (b *Bucket) Configure(limits Limits, now mail.Instant) {
	old := b.windows
	b.windows = nil
	for _, l := range limits.list[:limits.n] {
		b.windows = append(b.windows, newWindow(l, old, now))
	}
}

// A Use is how much of a limit is used.
type Use struct {
	Limit Limit
	Used  int
}

// Uses returns the limits and how much of each counts as used now.
func (b *Bucket) Uses(now mail.Instant) []Use {
	uses := make([]Use, len(b.windows))
	for i := range b.windows {
		w := &b.windows[i]
		uses[i] = Use{Limit: w.limit, Used: int(w.sum - w.expired(w.number(now)))}
	}
	return uses
}

// parts is in how many slices the time of a limit is cut, and how many more
// than that are counted is one: a span that begins within a slice ends within
// the one slices later.
const parts = 16

// A window is one limit and what went lately.
type window struct {
	limit  Limit
	slice  time.Duration
	latest int64             // the number of the last slice that is counted; slices are numbered since 1970
	counts [parts + 1]uint32 // by the slice's number modulo parts+1
	sum    uint32            // of counts
}

// newWindow takes over what the old windows know: the one for the same time
// as it is; else the shortest that is longer, or the longest there is, each
// slice's count as if all of it had been taken at the slice's end, or now,
// which is never too early.
func newWindow(l Limit, old []window, now mail.Instant) window {
	w := window{limit: l, slice: (l.Per + parts - 1) / parts}
	var best *window
	for i := range old {
		o := &old[i]
		if best == nil || better(o.limit.Per, best.limit.Per, l.Per) {
			best = o
		}
	}
	switch {
	case best == nil:
	case best.limit.Per == l.Per:
		w = *best
		w.limit = l
	default:
		for number := max(0, best.latest-parts); number <= best.latest; number++ {
			if n := best.counts[place(number)]; n > 0 {
				end := mail.Instant((number + 1) * int64(best.slice))
				w.take(min(end-1, now), n)
			}
		}
	}
	return w
}

// better tells whether a time tells more than another about a third.
func better(a, b, about time.Duration) bool {
	if a >= about && b >= about {
		return a < b
	}
	return a > b
}

func place(number int64) int64 { return number % (parts + 1) }

func (w *window) number(now mail.Instant) int64 { return max(w.latest, int64(now)/int64(w.slice)) }

// expired returns how many of sum went in slices that do not count any more in
// the slice of that number.
func (w *window) expired(number int64) (n uint32) {
	gone := number - w.latest
	if gone > parts {
		return w.sum
	}
	for i := range gone {
		n += w.counts[place(w.latest+1+i)]
	}
	return n
}

// readyAt returns now if one may go, or else from when on.
func (w *window) readyAt(now mail.Instant) mail.Instant {
	number := w.number(now)
	used := w.sum - w.expired(number)
	if used < uint32(w.limit.N) {
		return now
	}
	for used >= uint32(w.limit.N) {
		number++
		used -= w.counts[place(number)]
	}
	return mail.Instant(number * int64(w.slice))
}

func (w *window) take(now mail.Instant, n uint32) {
	number := w.number(now)
	w.sum -= w.expired(number)
	for i := range min(number-w.latest, parts+1) {
		w.counts[place(w.latest+1+i)] = 0
	}
	w.latest = number
	w.counts[place(number)] += n
	w.sum += n
}
