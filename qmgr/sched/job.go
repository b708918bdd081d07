package sched

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
)

// A Job is one message within one lane. It groups the peers, one for each
// destination that the message has there.
//
// A job that has entries to select, or whose message has unread recipients, is
// listed: it stands on its lane's scheduler list and on the list by time.
// It is retired from both when nothing is left to select, and listed again if
// further recipients turn up; its counters go on where they were. It is freed
// with its message.
type Job struct {
	message *Message
	lane    *Lane
	listing

	peers  ilist.List[Peer]       // those with entries left, the next one to serve in front
	byDest map[*Destination]*Peer // nil until there are more than a few peers
	// servable are the peers whose destinations have room, and for which no job that
	// stands before this one waits. Of a job that selection looks at these are all
	// that have room: whoever is before it has been passed.
	servable sequence[Peer]
	// selected and read count the entries ever selected and ever created; their
	// difference is the entries that wait.
	selected, read int

	stale    bool // it is among lane.staleJobs
	blocking blocking
	filing   filing
	stack    stacking
	slots    recipientSlots
}

// listing is where a job stands on the lists of its lane.
type listing struct {
	listed   bool
	inOrder  ilist.Link[Job] // on lane.jobs
	inTime   place[Job]      // in lane.jobsByTime
	unread   place[Job]      // in lane.unread
	turnedUp uint64          // counts up with every job that is listed
	// label grows along the scheduler list: order.go says what it is for.
	label uint64
}

func newJob(m *Message, l *Lane) *Job {
	j := l.spares.jobs.Take()
	j.message, j.lane = m, l
	j.servable.before = earlierPeer
	m.jobs = append(m.jobs, j)
	return j
}

// waiting is the number of entries that wait to be selected.
func (j *Job) waiting() int { return j.read - j.selected }

// after reports whether j's message was admitted after k's.
func (j *Job) after(k *Job) bool { return j.message.Queued > k.message.Queued }

// list puts the job on its lane's lists, behind every job whose message
// was not admitted later, and makes it current if selection had gone past that
// place. On the scheduler list only jobs without a stack parent show the time;
// those that have preempted another stand where they were put.
func (j *Job) list() {
	l := j.lane
	assert.That(!j.listed, "job of %v is listed twice", j.message.ID)
	previous := l.pool.unread
	first := previous != nil && previous.after(j)
	l.listings++
	j.turnedUp = l.listings
	l.jobsByTime.add(&j.inTime, j, j)
	if at := l.find.place(l, j); at == nil {
		l.jobs.PushFront(&j.inOrder, j)
	} else {
		l.jobs.InsertAfter(&j.inOrder, j, &at.inOrder)
	}
	l.label(j)
	j.listed = true
	j.blocking.tag = 0 // a job that has been listed before was looked at then, and not now
	l.openIfPassed(j)
	if l.current == nil || j.label < l.current.label {
		l.setCurrent(j)
	}
	j.touch()
	l.attendUnread(j)
	l.pool.enlist(l, j, first)
}

// place returns the job behind which j goes on the scheduler list, nil if it
// goes to its head: the last one in list order that has no stack parent and was
// not admitted later. j is on the list by time.
//
// Jobs on no stack are in the order of their age. Of those on a stack only
// orphans have no parent, and there are hardly any.
func (quick) place(l *Lane, j *Job) *Job {
	at := j.inTime.prev().element()
	for at != nil && at.stack.level > 0 {
		at = at.inTime.prev().element()
	}
	for o := range l.stacked.All() {
		if o.stack.parent == nil && !o.after(j) && (at == nil || at.label < o.label) {
			at = o
		}
	}
	return at
}

// older is the order of the list by time: by admission, and of jobs admitted at the
// same instant the one that was listed first.
func older(j, k *Job) bool {
	return k.after(j) || !j.after(k) && j.turnedUp < k.turnedUp
}

// retire takes the job off the lists: off its preemption stack first, then its
// recipient slots go to those who can use them.
func (j *Job) retire() {
	l := j.lane
	assert.That(j.listed, "job of %v is retired twice", j.message.ID)
	if j.stack.level > 0 {
		j.pop()
	}
	l.pool.moveSlots(l, j)
	j.unlist()
}

// free ends a job with its message: what it holds goes back.
func (j *Job) free() {
	if j.stack.level > 0 {
		j.pop()
	}
	j.lane.pool.moveSlots(j.lane, j)
	assert.That(j.slots.limit == 0, "job of %v ends with %d slots", j.message.ID, j.slots.limit)
	if j.listed {
		j.unlist()
	}
}

func (j *Job) unlist() {
	l := j.lane
	j.orphanChildren()
	j.listed = false
	next := l.jobs.Next(&j.inOrder)
	l.jobs.Remove(&j.inOrder)
	l.jobsByTime.drop(&j.inTime)
	if l.current == j {
		l.setCurrent(next)
	}
	if l.run == j {
		l.run = nil
	}
	if l.wanted == j {
		l.wanted = nil
	}
	if l.cache.candidate == j || l.cache.current == j {
		l.cache.reset()
	}
	if j.blocking.openIn.Listed() {
		l.open.Remove(&j.blocking.openIn)
	}
	l.unfile(j)
	l.attend(j)
	l.attendUnread(j)
}

// touch says that something has changed from which it follows where the job is filed,
// or whether it has to be visited. It may be called too often, but never too seldom.
func (j *Job) touch() {
	if !j.stale {
		j.markStale()
	}
}

// markStale is apart from touch so that the latter is inlined.
func (j *Job) markStale() {
	j.stale = true
	j.lane.staleJobs = append(j.lane.staleJobs, j)
	j.lane.touch()
}

// attendUnread keeps lane.unread up to date. The lane is looked at again, because whether it has some at all matters to how the lanes
// share the recipient slots.
func (l *Lane) attendUnread(j *Job) {
	unread := j.listed && j.message.More
	if unread == j.unread.taken() {
		return
	}
	if unread {
		l.unread.add(&j.unread, j, j)
	} else {
		l.unread.drop(&j.unread)
	}
	l.touch()
}

// selectPeer returns the next peer, in turn, that has an entry which its
// destination can take now; nil if there is none. The turn goes to the peer
// behind it.
func (j *Job) selectPeer() *Peer {
	p := j.lane.find.nextPeer(j)
	if p != nil {
		j.peers.RotateAfter(&p.inJob)
	}
	return p
}

// nextPeer has nothing to pass over where the job is the first that waits for its
// destinations. A runner may stay with a message although older ones have been
// listed before it since.
func (quick) nextPeer(j *Job) *Peer {
	if l := j.lane; l.Scheduler == Runner && l.jobs.Front() != j {
		return firstPeer(j)
	}
	if j.servable.count == 0 {
		return nil
	}
	return nextInRing(&j.servable, j.peers.Front().turn, (*Peer).ringNumber)
}

// firstPeer is the definition.
func firstPeer(j *Job) *Peer {
	for p := range j.peers.All() {
		if !p.Todo.Empty() && p.Destination.hasRoom() {
			return p
		}
	}
	return nil
}

// peer returns the job's peer for a destination, and makes it if need be.
func (j *Job) peer(d *Destination) *Peer {
	if p := j.findPeer(d); p != nil {
		return p
	}
	p := newPeer(j, d)
	p.turn = joinRing(&j.peers, (*Peer).ringNumber, j.lane.labelGap)
	j.peers.PushBack(&p.inJob, p)
	switch {
	case j.byDest != nil:
		j.byDest[d] = p
	case j.peers.Len() > fewPeers:
		j.byDest = make(map[*Destination]*Peer)
		for p := range j.peers.All() {
			j.byDest[p.Destination] = p
		}
	}
	return p
}

// fewPeers is up to how many peers a walk is cheaper than a map.
const fewPeers = 8

func (j *Job) findPeer(d *Destination) *Peer {
	if j.byDest != nil {
		return j.byDest[d]
	}
	for p := range j.peers.All() {
		if p.Destination == d {
			return p
		}
	}
	return nil
}

func (j *Job) dropPeer(p *Peer) {
	j.peers.Remove(&p.inJob)
	if j.byDest != nil {
		delete(j.byDest, p.Destination)
	}
	j.lane.spares.givePeer(p)
}
