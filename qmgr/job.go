package qmgr

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
)

// A job is one message within one transport. It groups the peers, one for each
// destination that the message has there.
//
// A job that has entries to select, or whose message has unread recipients, is
// listed: it stands on its transport's scheduler list and on the list by time.
// It is retired from both when nothing is left to select, and listed again if
// further recipients turn up; its counters go on where they were. It is freed
// with its message.
type job struct {
	message   *message
	transport *transport
	listed    bool
	inOrder   ilist.Link[job] // on transport.jobs
	inTime    ilist.Link[job] // on transport.jobsByTime

	peers  ilist.List[peer] // those with entries left, the next one to serve in front
	byDest map[*queue]*peer // nil until there are more than a few peers
	// selected and read count the entries ever selected and ever created; their
	// difference is the entries that wait.
	selected, read int
	// blockerTag equals the transport's while the job is known to be blocked:
	// none of its peers may be selected.
	blockerTag uint64

	stack stacking
	slots recipientSlots
}

func newJob(m *message, t *transport) *job {
	j := &job{message: m, transport: t}
	m.jobs = append(m.jobs, j)
	return j
}

// waiting is the number of entries that wait to be selected.
func (j *job) waiting() int { return j.read - j.selected }

func (j *job) blocked() bool { return j.blockerTag == j.transport.blockerTag }

// after tells whether j's message was admitted after k's.
func (j *job) after(k *job) bool { return j.message.queued > k.message.queued }

// list puts the job on its transport's lists, behind every job whose message
// was not admitted later, and makes it current if selection had gone past that
// place. On the scheduler list only jobs without a stack parent show the time;
// those that have preempted another stand where they were put.
func (j *job) list() {
	t := j.transport
	assert.That(!j.listed, "job of %v is listed twice", j.message.id)
	passed := t.current == nil
	at := t.jobs.Back()
	for ; at != nil && (at.stack.parent != nil || at.after(j)); at = t.jobs.Prev(&at.inOrder) {
		passed = passed || at == t.current
	}
	if at == nil {
		t.jobs.PushFront(&j.inOrder, j)
	} else {
		t.jobs.InsertAfter(&j.inOrder, j, &at.inOrder)
	}
	j.listed = true
	if passed {
		t.current = j
	}
	t.pool.enlist(t, j)
}

// listByTime puts the job on the list by time and tells whether that is before
// the given job.
func (j *job) listByTime(other *job) (before bool) {
	t := j.transport
	at := t.jobsByTime.Back()
	for ; at != nil && at.after(j); at = t.jobsByTime.Prev(&at.inTime) {
		before = before || at == other
	}
	if at == nil {
		t.jobsByTime.PushFront(&j.inTime, j)
	} else {
		t.jobsByTime.InsertAfter(&j.inTime, j, &at.inTime)
	}
	return before
}

// retire takes the job off the lists: off its preemption stack first, then its
// recipient slots go to those who can use them.
func (j *job) retire() {
	t := j.transport
	assert.That(j.listed, "job of %v is retired twice", j.message.id)
	if j.stack.level > 0 {
		j.pop()
	}
	t.pool.moveSlots(t, j)
	j.unlist()
}

// free ends a job with its message: what it holds goes back.
func (j *job) free() {
	if j.stack.level > 0 {
		j.pop()
	}
	j.transport.pool.moveSlots(j.transport, j)
	assert.That(j.slots.limit == 0, "job of %v ends with %d slots", j.message.id, j.slots.limit)
	if j.listed {
		j.unlist()
	}
}

func (j *job) unlist() {
	t := j.transport
	j.orphanChildren()
	if t.current == j {
		t.current = t.jobs.Next(&j.inOrder)
	}
	if t.cache.candidate == j || t.cache.current == j {
		t.cache.reset()
	}
	t.jobs.Remove(&j.inOrder)
	t.jobsByTime.Remove(&j.inTime)
	j.listed = false
}

// block marks the job and the destinations it waits for, so that selection
// passes it by until one of them can take an entry again.
func (j *job) block() {
	tag := j.transport.blockerTag
	j.blockerTag = tag
	for p := range j.peers.All() {
		if p.todo.Len() > 0 {
			p.queue.blockerTag = tag
		}
	}
}

// selectPeer returns the next peer, in turn, that has an entry which its
// destination can take now; nil if there is none. The turn goes to the peer
// behind it.
func (j *job) selectPeer() *peer {
	for p := range j.peers.All() {
		if p.todo.Len() > 0 && p.queue.hasRoom() {
			j.peers.RotateAfter(&p.inJob)
			return p
		}
	}
	return nil
}

// peer returns the job's peer for a destination, and makes it if need be.
func (j *job) peer(q *queue) *peer {
	if p := j.findPeer(q); p != nil {
		return p
	}
	p := newPeer(j, q)
	j.peers.PushBack(&p.inJob, p)
	switch {
	case j.byDest != nil:
		j.byDest[q] = p
	case j.peers.Len() > fewPeers:
		j.byDest = make(map[*queue]*peer)
		for p := range j.peers.All() {
			j.byDest[p.queue] = p
		}
	}
	return p
}

// fewPeers is up to how many peers a walk is cheaper than a map.
const fewPeers = 8

func (j *job) findPeer(q *queue) *peer {
	if j.byDest != nil {
		return j.byDest[q]
	}
	for p := range j.peers.All() {
		if p.queue == q {
			return p
		}
	}
	return nil
}

func (j *job) dropPeer(p *peer) {
	j.peers.Remove(&p.inJob)
	if j.byDest != nil {
		delete(j.byDest, p.queue)
	}
}
