package rate

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Bucket counts events under some limits. The zero Bucket has no limits. It
// belongs to one goroutine; now must not decrease from call to call, and a step
// back is ignored.
type Bucket struct {
	windows []window
}

// New returns an unused bucket.
func New(limits Limits) Bucket {
	var b Bucket
	b.Configure(limits, 0)
	return b
}

// Limited reports whether there is any limit.
func (b *Bucket) Limited() bool { return len(b.windows) > 0 }

// Ready reports whether one event may happen now, or else when it may if none
// happens before that.
func (b *Bucket) Ready(now mail.Instant) (ready bool, at mail.Instant) {
	at = now
	for i := range b.windows {
		at = max(at, b.windows[i].readyAt(now))
	}
	return at == now, at
}

// Binding returns the limit that delays the next event, and until when; the zero
// Limit if one may happen now.
func (b *Bucket) Binding(now mail.Instant) (l Limit, until mail.Instant) {
	until = now
	for i := range b.windows {
		if at := b.windows[i].readyAt(now); at > until {
			l, until = b.windows[i].limit, at
		}
	}
	return l, until
}

// BindingFor is Binding for n events at once. Of a limit that never has room for n, until
// is mail.Never.
func (b *Bucket) BindingFor(n int, now mail.Instant) (l Limit, until mail.Instant) {
	until = now
	for i := range b.windows {
		if at := b.windows[i].readyFor(n, now); at > until {
			l, until = b.windows[i].limit, at
		}
	}
	return l, until
}

// TakeMany counts n events now.
func (b *Bucket) TakeMany(n int, now mail.Instant) {
	for i := range b.windows {
		b.windows[i].take(now, uint32(n))
	}
}

// GiveBack takes n events back that were counted at an instant and did not happen after
// all, as far as they are still counted there.
func (b *Bucket) GiveBack(n int, at mail.Instant) {
	for i := range b.windows {
		b.windows[i].giveBack(at, uint32(n))
	}
}

// Take counts one event now. A caller that calls Take before Ready exceeds a limit,
// and later events wait for it.
func (b *Bucket) Take(now mail.Instant) {
	for i := range b.windows {
		b.windows[i].take(now, 1)
	}
}

// TakeWithin counts one event now, but only under the limits for at most longest:
// after that it is forgotten, whatever the other limits are.
func (b *Bucket) TakeWithin(longest time.Duration, now mail.Instant) {
	for i := range b.windows {
		if w := &b.windows[i]; w.limit.Per <= longest {
			w.take(now, 1)
		}
	}
}

// Configure changes the limits. Earlier events count under the new ones, too, as
// far back as the longest of the old limits reaches: a limit for a longer time than
// any before starts with what is known.
func (b *Bucket) Configure(limits Limits, now mail.Instant) {
	old := b.windows
	b.windows = nil
	for _, l := range limits.list[:limits.n] {
		b.windows = append(b.windows, newWindow(l, old, now))
	}
}

// A Use is the used part of a limit.
type Use struct {
	Limit Limit
	Used  int
}

// Uses returns the limits and the current use of each.
func (b *Bucket) Uses(now mail.Instant) []Use {
	uses := make([]Use, len(b.windows))
	for i := range b.windows {
		w := &b.windows[i]
		uses[i] = Use{Limit: w.limit, Used: int(w.sum - w.expired(w.number(now)))}
	}
	return uses
}

// parts is the number of slices into which the time of a limit is divided. One
// slice more than that is counted: a span that begins within a slice ends within
// the one parts slices later.
const parts = 16

// A window is one limit and its recent events.
type window struct {
	limit  Limit
	slice  time.Duration
	latest int64             // the number of the last slice that is counted; slices are numbered from 1970 on
	counts [parts + 1]uint32 // by the slice's number modulo parts+1
	sum    uint32            // of counts
}

// newWindow takes over the counts of the old windows: the one for the same time
// unchanged; otherwise those of the shortest that is longer, or of the longest,
// each slice's count as if all of it had been taken at the slice's end, or now,
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

// better reports whether counts over time a say more about the span about than
// those over b.
func better(a, b, about time.Duration) bool {
	if a >= about && b >= about {
		return a < b
	}
	return a > b
}

func place(number int64) int64 { return number % (parts + 1) }

func (w *window) number(now mail.Instant) int64 { return max(w.latest, int64(now)/int64(w.slice)) }

// expired returns the part of sum in slices that no longer count in the slice of
// that number.
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

// readyAt returns now if an event may happen, otherwise the earliest instant at
// which one may happen.
func (w *window) readyAt(now mail.Instant) mail.Instant { return w.readyFor(1, now) }

// readyFor is readyAt for n events at once; mail.Never if the limit is less than n.
func (w *window) readyFor(n int, now mail.Instant) mail.Instant {
	if n > w.limit.N {
		return mail.Never
	}
	most := uint32(w.limit.N - n) // of what counts
	number := w.number(now)
	used := w.sum - w.expired(number)
	if used <= most {
		return now
	}
	for used > most {
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

func (w *window) giveBack(at mail.Instant, n uint32) {
	number := int64(at) / int64(w.slice)
	if number > w.latest || w.latest-number > parts {
		return
	}
	n = min(n, w.counts[place(number)])
	w.counts[place(number)] -= n
	w.sum -= n
}
