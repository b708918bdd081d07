package qmgr

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// An entry is a batch of recipients of one message that go to one destination
// in one transaction.
//
// While it waits, it is on its peer's and on its queue's todo list. While it
// is busy, Qmgr.busy knows it by its ID.
type entry struct {
	id         EntryID // 0 until it is selected
	message    *message
	peer       *peer
	recipients []mail.Recipient
	// domain is what else its recipients have in common where a queue is a
	// site's: the nexthop that each has without that. A server that takes several
	// domains may still treat them as strangers to each other: a policy, a filter
	// or a limit of the one would hit the mail of the other. "" is anything.
	domain  string
	attempt window.Attempt // while it is busy
	conn    *conns.Conn    // that carries it, while it is busy
	inPeer  ilist.Link[entry]
	inQueue ilist.Link[entry]
}

func (e *entry) queue() *queue { return e.peer.queue }

// newEntry appends an empty entry to a peer.
func newEntry(p *peer) *entry {
	e := takeEntry(p)
	if p.todo.Empty() {
		p.wait()
	}
	p.todo.PushBack(&e.inPeer, e)
	p.queue.todo.PushBack(&e.inQueue, e)
	p.queue.changed()
	return e
}

// takeEntry makes an entry that is not queued yet.
func takeEntry(p *peer) *entry {
	e := p.queue.transport.stocks.entries.Take()
	e.message, e.peer = p.job.message, p
	p.entries++
	p.job.read++
	e.message.entries++
	return e
}

// newEntryInFront puts an empty entry before a peer's waiting ones.
func newEntryInFront(p *peer) *entry {
	e := takeEntry(p)
	if p.todo.Empty() {
		p.wait()
	}
	p.todo.PushFront(&e.inPeer, e)
	p.queue.todo.PushFront(&e.inQueue, e)
	p.queue.changed()
	return e
}

// start takes a waiting entry off the todo lists: it is busy from now on.
func (e *entry) start(id EntryID) {
	assert.That(e.id == 0, "entry %d is started twice", e.id)
	e.id = id
	e.unqueue()
	q := e.queue()
	q.busy++
	if q.site == nil {
		e.attempt = q.window.Begin(q.busy)
	}
	q.changed()
	q.transport.busy++
}

// unqueue takes a waiting entry off the todo lists.
func (e *entry) unqueue() {
	p := e.peer
	p.todo.Remove(&e.inPeer)
	p.queue.todo.Remove(&e.inQueue)
	if p.todo.Empty() {
		p.queue.marking.waiting.drop(&p.waiting)
	}
	p.queue.changed()
	p.job.selected++
}

// finish ends an entry, waiting or busy, and frees what nothing else needs:
// its peer and its queue. Feedback has been given before.
func (e *entry) finish(q *Qmgr) {
	p, dest, m := e.peer, e.queue(), e.message
	wasBusy := e.id != 0
	if wasBusy {
		dest.busy--
		dest.volley = 0
		dest.changed()
		dest.transport.busy--
		q.endLull(dest.transport)
		q.sent(dest.transport)
	} else {
		e.unqueue()
		dest.transport.refile(p.job)
		dest.transport.attend(p.job)
	}
	q.hold(m, -len(e.recipients))
	p.job.slots.count -= len(e.recipients)
	p.job.releaseSlots()
	if m.more {
		m.attend()
	}
	if wasBusy {
		q.restAfterDelivery(dest, m.callout != nil)
	}
	if dest.window.State() != window.Suspended {
		dest.unblock()
	}
	p.entries--
	if p.entries == 0 {
		p.job.dropPeer(p)
	}
	m.entries--
	q.stocks.giveEntry(e)
	q.freeIfIdle(dest)
}
