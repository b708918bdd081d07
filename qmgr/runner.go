package qmgr

// A queue runner is how mail was sent before there were schedulers: a program
// walks along the queue, opens one message, delivers it to each of its
// destinations, and goes on to the next. It shares the lists of jobs with the
// preemptive scheduler and has nothing of its own but patience: whatever keeps
// the message that it has opened keeps all those behind it.
//
// A program like that starts its deliveries one after the other. Here as many of
// one message's entries may be under way as windows and process limit allow;
// with a process limit of 1 it is that program.

// nextInRun returns the next entry of the message that the run has come to,
// started; nil if all that it has left are under way, or wait for a destination
// that has no room.
func (q *Qmgr) nextInRun(t *transport) *entry {
	j := t.runAt()
	if t.run != j && t.run != nil {
		t.run.retire()
	}
	for first := t.jobs.Front(); first != nil && !first.holdsRun(); first = t.jobs.Front() {
		first.retire()
	}
	t.run = j
	if j == nil {
		return nil
	}
	p := j.selectPeer()
	if p == nil {
		return nil
	}
	e := p.todo.Front()
	q.lastEntry++
	e.start(q.lastEntry)
	t.refile(j)
	t.attend(j)
	return e
}

// runAt returns the job that the run has come to: that of the message it has
// opened, although older ones may have come since, or else the first.
func (t *transport) runAt() *job {
	if t.run != nil && t.run.holdsRun() {
		return t.run
	}
	for j := t.jobs.Front(); j != nil; j = t.jobs.Next(&j.inOrder) {
		if j.holdsRun() {
			return j
		}
	}
	return nil
}

// holdsRun tells whether a run cannot go on to the message behind: some of the
// job's entries have not ended, or further recipients of its message are about
// to come. Recipients that cannot be read now, because those of another
// transport fill the message's share of memory, are left for later: two runs
// could wait for each other.
func (j *job) holdsRun() bool {
	return j.transport.cfg.Scheduler == Runner &&
		(!j.peers.Empty() || j.message.awaits&(awaitsRead|awaitsRoute) != 0 || j.message.routing.count > 0)
}

// runsTo tells whether the message that the run has come to has something left to
// start for a destination, if there is a run: the others have no use for
// connections yet, and would take them away from each other for ever.
func (t *transport) runsTo(d *queue) bool {
	if t.cfg.Scheduler != Runner {
		return true
	}
	j := t.runAt()
	if j == nil {
		return false
	}
	p := j.findPeer(d)
	return p != nil && !p.todo.Empty()
}

// wantForRun asks for connections when the run has come to another message.
func (t *transport) wantForRun() {
	j := t.runAt()
	if t.wanted == j {
		return
	}
	t.wanted = j
	if j == nil {
		return
	}
	for p := range j.peers.All() {
		if !p.queue.hasRoom() {
			p.queue.want()
		}
	}
}

// canRun tells whether the message that the run has come to has an entry that
// may start.
func (t *transport) canRun() bool {
	j := t.runAt()
	return j != nil && t.find.nextPeer(j) != nil
}
