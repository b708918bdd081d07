package qmgr

import "github.com/posthaste-mta/posthaste/mail"

// A load is what a message is to the scheduler: when it was admitted, how many
// recipients it has in core, in the spool and on the way, and how many it may have.
type load struct {
	id       mail.QueueID
	owner    *message
	queued   mail.Instant // when it was admitted: the key of the job lists
	unread   int          // recipients that are left in the spool, at most
	unbound  int          // recipients in core that are in no entry yet
	inCore   int          // recipients in core: unbound and in entries
	own      int          // recipients that may be in core whatever the jobs hold
	limit    int          // recipients that may be in core: own and the jobs' slots
	reserved int          // recipients that are being read and count as if they were there
	refilled mail.Instant // when recipients were read last
	more     bool         // unsettled recipients are left in the spool
	reading  bool         // some of them are being read
	entries  int          // entries, todo and busy
	jobs     []*job       // in order of creation
}

// job returns the message's job in a lane, or nil.
func (m *load) job(l *lane) *job {
	for _, j := range m.jobs {
		if j.lane == l {
			return j
		}
	}
	return nil
}

// touch says that recipients of the message have come or gone, or that it may have
// more or fewer.
func (m *load) touch() {
	for _, j := range m.jobs {
		j.touch()
	}
}

// setMore notes whether unsettled recipients are left in the spool, and how many at
// most.
func (m *load) setMore(more bool, unread int) {
	m.unread = unread
	m.touch()
	if m.more == more {
		return
	}
	m.more = more
	for _, j := range m.jobs {
		j.lane.attendUnread(j)
	}
}

// endRead notes that no more recipients can be read.
func (m *load) endRead() {
	m.setMore(false, 0)
}

// allRead gives the slots back that a message does not need any more when it is
// wholly in core.
func (m *load) allRead() {
	if m.more {
		return
	}
	for _, j := range m.jobs {
		j.lane.pool.moveSlots(j.lane, j)
	}
}
