package qmgr

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
)

// An entry is a batch of recipients of one message that go to one destination
// in one transaction. While it waits, it is on its peer's and on its queue's todo
// list.
type entry struct {
	message    *load
	peer       *peer
	recipients []mail.Recipient
	// domain is what else its recipients have in common where a queue is a
	// site's: the nexthop that each has without that. A server that takes several
	// domains may still treat them as strangers to each other: a policy, a filter
	// or a limit of the one would hit the mail of the other. "" is anything.
	domain  string
	state   entryState
	inPeer  ilist.Link[entry]
	inQueue ilist.Link[entry]
}

// entryState is whether a delivery of an entry has begun.
type entryState uint8

const (
	entryWaiting entryState = iota
	entryBusy
)

func (e *entry) dest() *dest { return e.peer.queue }

// newEntry appends an empty entry to a peer.
func newEntry(p *peer) *entry {
	e := takeEntry(p)
	if p.todo.Empty() {
		p.wait()
	}
	p.todo.PushBack(&e.inPeer, e)
	p.queue.todo.PushBack(&e.inQueue, e)
	p.queue.touch()
	return e
}

// takeEntry makes an entry that is not queued yet.
func takeEntry(p *peer) *entry {
	e := p.queue.lane.spares.entries.Take()
	e.message, e.peer = p.job.message, p
	p.entries++
	p.job.read++
	p.job.touch()
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
	p.queue.touch()
	return e
}

// cut keeps the first recipients of a waiting entry. The others become an entry of
// their own, which waits before all others of their peer and of their destination.
func (e *entry) cut(keep int) {
	rest := newEntryInFront(e.peer)
	rest.domain = e.domain
	rest.recipients = append(rest.recipients, e.recipients[keep:]...)
	clear(e.recipients[keep:])
	e.recipients = e.recipients[:keep]
}

// start takes a waiting entry off the todo lists: it is busy from now on.
func (e *entry) start() {
	assert.That(e.state == entryWaiting, "an entry of %v is started twice", e.message.id)
	e.state = entryBusy
	e.unqueue()
	d := e.dest()
	d.busy++
	d.lane.busy++
}

// unqueue takes a waiting entry off the todo lists.
func (e *entry) unqueue() {
	p := e.peer
	p.todo.Remove(&e.inPeer)
	p.queue.todo.Remove(&e.inQueue)
	if p.todo.Empty() {
		p.queue.unawait(p)
	}
	p.queue.touch()
	p.job.selected++
	p.job.touch()
}

// leave takes an entry that is to end out of what waits, or of what is busy.
func (e *entry) leave() {
	d := e.dest()
	if e.state == entryBusy {
		d.busy--
		d.lane.busy--
		d.touch()
		return
	}
	d.lane.keepMark(d) // it may be marked because of this very entry
	e.unqueue()
}

// release gives up the slots of an entry that has left.
func (e *entry) release() {
	j, m := e.peer.job, e.message
	j.slots.count -= len(e.recipients)
	j.releaseSlots()
	m.touch()
}

// free ends an entry that has given up everything, and its peer if it was the last.
func (e *entry) free() {
	p, m := e.peer, e.message
	spares := p.queue.lane.spares
	p.entries--
	if p.entries == 0 {
		p.job.dropPeer(p)
	}
	m.entries--
	spares.giveEntry(e)
}
