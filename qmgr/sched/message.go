package sched

import (
	"iter"
	"slices"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Message is what a message is to the scheduler: when it was admitted, how many
// recipients it has in core, in the spool and on the way, and how many it may have.
type Message struct {
	ID       mail.QueueID
	Owner    any          // the message itself
	Queued   mail.Instant // when it was admitted: the key of the job lists
	Unread   int          // recipients that are left in the spool, at most
	Unbound  int          // recipients in core that are in no entry yet
	InCore   int          // recipients in core: unbound and in entries
	Own      int          // recipients that may be in core whatever the jobs hold
	Limit    int          // recipients that may be in core: own and the jobs' slots
	Reserved int          // recipients that are being read and count as if they were there
	Refilled mail.Instant // when recipients were read last
	More     bool         // unsettled recipients are left in the spool
	Reading  bool         // some of them are being read
	Entries  int          // entries, todo and busy
	jobs     []*Job       // in order of creation
}

// job returns the message's job in a lane, or nil.
func (m *Message) job(l *Lane) *Job {
	for _, j := range m.jobs {
		if j.lane == l {
			return j
		}
	}
	return nil
}

// jobIn returns the message's job in a lane, listed and not blocked, and makes it if
// need be.
func (m *Message) jobIn(l *Lane) *Job {
	j := m.job(l)
	if j == nil {
		j = newJob(m, l)
	}
	if l.Scheduler == RoundRobin {
		return j // it has no list of jobs
	}
	if !j.listed {
		j.list()
	}
	l.cache.reset()
	if l.blocked(j) {
		l.reopen(j)
	}
	return j
}

// Touch says that recipients of the message have come or gone, or that it may have
// more or fewer.
func (m *Message) Touch() {
	for _, j := range m.jobs {
		j.touch()
	}
}

// SetMore notes whether unsettled recipients are left in the spool, and how many at
// most.
func (m *Message) SetMore(more bool, unread int) {
	m.Unread = unread
	m.Touch()
	if m.More == more {
		return
	}
	m.More = more
	for _, j := range m.jobs {
		j.lane.attendUnread(j)
	}
}

// EndRead notes that no more recipients can be read.
func (m *Message) EndRead() {
	m.SetMore(false, 0)
}

// AllRead gives the slots back that a message does not need any more when it is
// wholly in core.
func (m *Message) AllRead() {
	if m.More {
		return
	}
	for _, j := range m.jobs {
		j.lane.pool.moveSlots(j.lane, j)
	}
}

// Waiting are the entries of the message that wait, lane by lane. The one that is
// yielded may be ended.
func (m *Message) Waiting() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		for _, j := range m.jobs {
			for p := range j.peers.All() {
				for e := p.Todo.Front(); e != nil; {
					next := p.Todo.Next(&e.inPeer)
					if !yield(e) {
						return
					}
					e = next
				}
			}
		}
	}
}

// Peers are the destinations for which the message has entries, lane by lane.
func (m *Message) Peers() iter.Seq[*Peer] {
	return func(yield func(*Peer) bool) {
		for _, j := range m.jobs {
			for p := range j.peers.All() {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// HasPeer reports whether the message has entries for a destination.
func (m *Message) HasPeer(d *Destination) bool {
	j := m.job(d.Lane)
	return j != nil && j.findPeer(d) != nil
}

// WorthReading reports whether one of its jobs would have recipients of it read.
func (m *Message) WorthReading(now mail.Instant) bool {
	return slices.ContainsFunc(m.jobs, func(j *Job) bool { return j.worthReading(now) })
}

// Lanes are those in which the message has jobs.
func (m *Message) Lanes() iter.Seq[*Lane] {
	return func(yield func(*Lane) bool) {
		for _, j := range m.jobs {
			if !yield(j.lane) {
				return
			}
		}
	}
}

// RetireIdle takes jobs off the lists that have nothing left to select: what waited
// has been taken back.
func (m *Message) RetireIdle() {
	for _, j := range m.jobs {
		if j.listed && j.waiting() == 0 && !j.holdsRun() {
			j.retire()
		}
	}
}

// Free ends the jobs of a message that has no entries any more.
func (m *Message) Free() {
	for _, j := range m.jobs {
		j.free()
	}
	for _, j := range m.jobs { // only now: slots that one gives back are given to all
		j.lane.spares.giveJob(j)
	}
	clear(m.jobs)
	m.jobs = m.jobs[:0]
}

// Spare returns the zero value with the memory of a message that has been freed.
func (m *Message) Spare() Message { return Message{jobs: m.jobs} }
