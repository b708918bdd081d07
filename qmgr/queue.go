package qmgr

import (
	"iter"

	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
	"github.com/posthaste-mta/posthaste/qmgr/directory"
	"github.com/posthaste-mta/posthaste/qmgr/flows"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
	"github.com/posthaste-mta/posthaste/qmgr/source"
	"github.com/posthaste-mta/posthaste/qmgr/spread"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// A queue is everything that one transport has for one nexthop: the
// destination. It owns the window, which says how many entries may be busy.
//
// A queue exists while it has entries, or while its window is not Ready: what
// is known of a dead or resting destination outlives its mail. What a window
// has learned is forgotten with an idle queue, as in Postfix.
type queue struct {
	flows.Destination
	transport *transport
	identity
	inOrder  directory.Link[queue]
	instead  mail.Origin // TransportRetry and TransportError: where the mail was to go; zero if it was routed there
	said     mail.Reply  // TransportRetry and TransportError: the reply that led to it; zero if it was routed there
	outcomes [4]uint64   // recipients by mail.Result, since it came about
	health
	limits *limits // what holds for it
	pacing
	reaching
	detouring
	spreading spreading
}

// identity is what distinguishes a queue from the others of its transport. It does not change.
type identity struct {
	name     string        // among those of the transport that share neither source nor security
	source   *source.State // from which its mail leaves; nil where none is chosen
	security string        // what its mail demands of connections (mail.Route.Security)
	nexthop  string        // what deliveries are to reach: the name, but for PerRecipientQueues and TransportRetry
	avoids   string        // the hosts that come behind all others, as detourKey writes them (detour.go); "" but of a detour
}

// health is what has been learned about a destination. Invariant: the timer runs if the window is not Ready, and reason is
// zero unless it is Dead.
type health struct {
	window window.Window
	volley spread.Volley
	reason mail.Reply // why the window is Dead
	told   *Feedback  // the last that was emitted, without cause; nil if none was
	timer  timer      // Dead: end of the back-off; Suspended: end of the rest
}

// pacing is a destination's limits by time.
type pacing struct {
	rate   rate.Bucket
	paused bool  // one of them is reached
	pace   timer // when it may have more, or need not be remembered any more
	// measures are those of rules on replies; nil if there were none.
	measures *measures
}

// reaching is a destination's hosts and connections.
type reaching struct {
	site      *conns.Site       // nil where the core does not decide on them
	resolving bool              // the hosts are being looked up
	reset     uint64            // the last retry reset for the hosts that is not carried out, 0 for none
	pinned    bool              // must not be freed: a caller is working on it
	inWanting ilist.Link[queue] // on Qmgr.wanting or transport.resting
}

// key is under which its transport has the queue.
func (q *identity) key() directory.Key {
	return directory.Key{Name: q.name, Source: q.source.String(), Security: q.security, Avoids: q.avoids}
}

func newQueue(t *transport, is identity) *queue {
	q := t.stocks.queues.Take()
	q.transport, q.window = t, window.New(&t.limits.window)
	q.identity = is
	q.Destination.SetUp(&t.Transport, is.name, q)
	q.limits = &t.limits
	q.timer.Of = timed{kind: timerQueue, queue: q}
	q.pace.Of = timed{kind: timerPace, queue: q}
	q.spreading.pause.Of = timed{kind: timerSpread, queue: q}
	t.queues.Add(q.key(), &q.inOrder, q)
	return q
}

func (q *queue) ready() bool { return q.whole().window.State() == window.Ready }

// Room is the number of further deliveries that the destination may take now; it may be
// negative where a window has shrunk.
func (q *queue) Room() int {
	switch {
	case q.waits():
		return 0
	case q.site == nil:
		return q.window.Size() - q.Busy
	case q.ready():
		return q.site.Room()
	}
	return 0
}

// waits reports whether time has to pass, or a delivery has to end, before the next
// one may begin, whatever connections there are. With a rate delay there is one
// delivery at a time, be it on a connection that ends and that the window does not
// count any more.
func (q *queue) waits() bool {
	return q.paused || q.spreading.Pausing() || q.site != nil && q.limits.rateDelay > 0 && q.Busy > 0
}

// concurrency is how much there is of what the window limits.
func (q *queue) concurrency() int {
	if q.site == nil {
		return q.Busy
	}
	return q.site.Count()
}

func (q *queue) dead() bool { return q.whole().window.State() == window.Dead }

// Dead reports whether the destination takes nothing at all.
func (q *queue) Dead() bool { return q.dead() }

// Paced reports whether starts are limited by time.
func (q *queue) Paced() bool { return q.whole().rate.Limited() || q.spreading.Gap(q.Busy) > 0 }

// Starved has a connection asked for: nothing that waits can start.
func (q *queue) Starved() {
	if q.site != nil {
		q.want()
	}
}

// Place says which destination it is.
func (q *queue) Place() flows.Place {
	return flows.Place{Transport: q.transport.Name, Nexthop: q.nexthop, Source: q.source.String(), Security: q.security}
}

// touch says that the queue may have more or less room, or connections, than before.
func (q *queue) touch() {
	q.Touch()
	q.rearrange()
}

func (q *queue) entries() iter.Seq[*sched.Entry] { return q.Entries() }

// want has a connection asked for, if entries wait for one and asking is worth
// while.
func (q *queue) want() {
	switch t := q.transport; {
	case q.inWanting.Listed():
		return
	case (t.paused || t.taken()) && q.Waiting > 0:
		t.resting.PushBack(&q.inWanting, q)
		return
	case !q.eager():
		return
	}
	if q.site.MayAsk() {
		q.transport.wanting.PushBack(&q.inWanting, q)
	}
}
