package qmgr

import (
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// A queue is everything that one transport has for one nexthop: the
// destination. It owns the window, which says how many entries may be busy.
//
// A queue exists while it has entries, or while its window is not Ready: what
// is known of a dead or resting destination outlives its mail. What a window
// has learned is forgotten with an idle queue, as in Postfix.
type queue struct {
	transport *transport
	name      string // among the queues of the transport
	nexthop   string // what deliveries are to reach: the name, but for PerRecipientQueues
	window    window.Window
	todo      ilist.List[entry] // those that wait, oldest first, all messages
	busy      int
	volley    int        // deliveries started since the last one ended
	reason    mail.Reply // why the window is Dead
	// blockerTag equals the transport's while some blocked job waits for this
	// destination.
	blockerTag uint64
	// startable is how many of the waiting entries may be started now. It is
	// kept so that a transport knows in constant time whether to look for
	// something to select.
	startable int
	inOrder   ilist.Link[queue] // on transport.order
	timer     timer             // Dead: end of the back-off; Suspended: end of the rest
}

func newQueue(t *transport, name, nexthop string) *queue {
	q := &queue{transport: t, name: name, nexthop: nexthop, window: window.New(&t.cfg.Window)}
	q.timer.queue = q
	t.queues[name] = q
	t.order.PushBack(&q.inOrder, q)
	return q
}

func (q *queue) ready() bool { return q.window.State() == window.Ready }

// hasRoom tells whether the destination may take one more delivery now.
func (q *queue) hasRoom() bool { return q.window.Size() > q.busy }

// changed brings startable up to date. It is called after every change of the
// window, of busy or of todo.
func (q *queue) changed() {
	n := min(q.window.Size()-q.busy, q.todo.Len())
	n = max(n, 0)
	q.transport.startable += n - q.startable
	q.startable = n
}

// unblock lets selection look at the blocked jobs again if the destination,
// for which one of them waits, can take an entry now.
//
// The tags of all blocked jobs of the transport go stale at once, and
// selection starts at the head of the list; jobs that are still blocked are
// marked again as they are passed.
func (q *queue) unblock() {
	t := q.transport
	if q.blockerTag != t.blockerTag {
		return
	}
	if q.hasRoom() && q.todo.Len() > 0 {
		t.releaseBlockers()
	}
	if q.hasRoom() || q.window.State() == window.Dead {
		q.blockerTag = 0
	}
}

// releaseBlockers makes all tags of the transport stale and lets selection start
// at the head of the list.
func (t *transport) releaseBlockers() {
	t.blockerTag += 2
	t.current = t.jobs.Front()
	t.cache.reset()
}
