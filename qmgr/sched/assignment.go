package sched

import "github.com/posthaste-mta/posthaste/mail"

// An Assignment puts recipients of one message into entries, one after the other:
// into the last waiting entry of their peer if that has room, else into a new one.
// Recipients that share a transaction come one after the other.
type Assignment struct {
	Message *Message
	job     *Job
	peer    *Peer
	entry   *Entry // of the recipient before
}

// Add puts one recipient into an entry for a destination. No entry has more than limit
// recipients, if that is not 0, nor recipients of two domains (entry.domain).
func (a *Assignment) Add(d *Destination, r mail.Recipient, domain string, limit int) {
	if a.job == nil || a.job.lane != d.Lane {
		a.job, a.peer, a.entry = a.Message.jobIn(d.Lane), nil, nil
	}
	if a.peer == nil || a.peer.Destination != d {
		a.peer, a.entry = a.job.peer(d), nil
	}
	e := d.Lane.openEntry(a.peer, a.entry)
	if e == nil || e.Domain != domain || limit > 0 && len(e.Recipients) >= limit {
		e = newEntry(a.peer)
		e.Domain = domain
	}
	e.Recipients = append(e.Recipients, r)
	a.job.slots.count++
	a.entry = e
}

// Done ends the assignment. The number of unread recipients has changed, and with it
// what the jobs of the message count for as candidates.
func (a *Assignment) Done() {
	for _, j := range a.Message.jobs {
		if j.waiting() > 0 && !j.lane.blocked(j) {
			j.lane.cache.reset()
		}
		j.touch()
	}
}

// PutBack has recipients of a busy entry wait again, whose turn did not come: before
// all others that wait for the same destination.
func (e *Entry) PutBack(recipients []mail.Recipient) *Entry {
	j := e.Message.jobIn(e.Destination().Lane)
	back := newEntryInFront(e.peer)
	back.Domain, back.Recipients = e.Domain, recipients
	j.slots.count += len(recipients)
	return back
}

// MoveTo gives the recipients of a waiting entry to a new one for another destination.
// What is left of the entry must be ended.
func (e *Entry) MoveTo(d *Destination) {
	j := e.Message.jobIn(d.Lane)
	moved := newEntry(j.peer(d))
	moved.Domain = e.Domain
	moved.Recipients, e.Recipients = e.Recipients, nil
	e.peer.job.slots.count -= len(moved.Recipients)
	j.slots.count += len(moved.Recipients)
}

// Keep has a waiting entry go on with some of its recipients, and gives up the slots of the others.
func (e *Entry) Keep(recipients []mail.Recipient) {
	j, m := e.peer.job, e.Message
	j.slots.count -= len(e.Recipients) - len(recipients)
	e.Recipients = recipients
	j.releaseSlots()
	if m.More {
		m.Touch()
	}
}
