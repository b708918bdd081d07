package sched

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
)

// An Entry is a batch of recipients of one message that go to one destination
// in one transaction. While it waits, it is on its peer's and on its queue's todo
// list.
type Entry struct {
	Message    *Message
	peer       *Peer
	Recipients []mail.Recipient
	// domain is what else its recipients have in common where a queue is a
	// site's: the nexthop that each has without that. A server that takes several
	// domains may still treat them as strangers to each other: a policy, a filter
	// or a limit of the one would hit the mail of the other. "" is anything.
	Domain  string
	state   entryState
	inPeer  ilist.Link[Entry]
	inQueue ilist.Link[Entry]
}

// entryState is whether a delivery of an entry has begun.
type entryState uint8

const (
	entryWaiting entryState = iota
	entryBusy
)

// Destination returns where the entry goes.
func (e *Entry) Destination() *Destination { return e.peer.Destination }

// Busy reports whether a delivery of it has begun.
func (e *Entry) Busy() bool { return e.state == entryBusy }

// Leads reports whether a waiting entry is the first of its message for its destination.
func (e *Entry) Leads() bool { return e.peer.Todo.Front() == e }

// newEntry appends an empty entry to a peer.
func newEntry(p *Peer) *Entry {
	e := takeEntry(p)
	p.Todo.PushBack(&e.inPeer, e)
	p.Destination.Todo.PushBack(&e.inQueue, e)
	return e
}

// takeEntry makes an entry that is about to be queued.
func takeEntry(p *Peer) *Entry {
	e := p.Destination.Lane.spares.entries.Take()
	e.Message, e.peer = p.job.message, p
	p.entries++
	p.job.read++
	p.job.touch()
	e.Message.Entries++
	if p.Todo.Empty() {
		p.wait()
	}
	p.Destination.add(Load{Waiting: 1})
	p.Destination.Touch()
	return e
}

// newEntryInFront puts an empty entry before a peer's waiting ones.
func newEntryInFront(p *Peer) *Entry {
	e := takeEntry(p)
	p.Todo.PushFront(&e.inPeer, e)
	p.Destination.Todo.PushFront(&e.inQueue, e)
	return e
}

// Cut keeps the first recipients of a waiting entry. The others become an entry of
// their own, which waits before all others of their peer and of their destination.
func (e *Entry) Cut(keep int) {
	rest := newEntryInFront(e.peer)
	rest.Domain = e.Domain
	rest.Recipients = append(rest.Recipients, e.Recipients[keep:]...)
	clear(e.Recipients[keep:])
	e.Recipients = e.Recipients[:keep]
}

// start takes a waiting entry off the todo lists: it is busy from now on.
func (e *Entry) start() {
	assert.That(e.state == entryWaiting, "an entry of %v is started twice", e.Message.ID)
	e.state = entryBusy
	e.unqueue()
	e.Destination().add(Load{Busy: 1})
}

// unqueue takes a waiting entry off the todo lists.
func (e *Entry) unqueue() {
	p := e.peer
	p.Todo.Remove(&e.inPeer)
	p.Destination.Todo.Remove(&e.inQueue)
	p.Destination.add(Load{Waiting: -1})
	if p.Todo.Empty() {
		p.Destination.dropWaiting(p)
	}
	p.Destination.Touch()
	p.job.selected++
	p.job.touch()
}

// Leave takes an entry that is to end out of what waits, or of what is busy.
func (e *Entry) Leave() {
	d := e.Destination()
	if e.state == entryBusy {
		d.add(Load{Busy: -1})
		d.Touch()
		return
	}
	d.Lane.keepMark(d) // it may be marked because of this very entry
	e.unqueue()
}

// Release gives up the slots of an entry that has left.
func (e *Entry) Release() {
	j, m := e.peer.job, e.Message
	j.slots.count -= len(e.Recipients)
	j.releaseSlots()
	if m.More {
		m.Touch()
	}
}

// Free ends an entry that has given up everything, and its peer if it was the last.
func (e *Entry) Free() {
	p, m := e.peer, e.Message
	spares := p.Destination.Lane.spares
	p.entries--
	if p.entries == 0 {
		p.job.dropPeer(p)
	}
	m.Entries--
	spares.giveEntry(e)
}
