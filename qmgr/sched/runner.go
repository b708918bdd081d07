package sched

// A queue runner is how mail was sent before there were schedulers: a program
// walks along the queue, opens one message, delivers it to each of its
// destinations, and goes on to the next. It shares the lists of jobs with the
// preemptive scheduler and has nothing of its own but patience: whatever keeps
// the message that it has opened keeps all those behind it.
//
// A program like that starts its deliveries one after the other. Here as many of
// one message's entries may be under way as windows and process limit allow;
// with a process limit of 1 it is that program.

// nextInRun returns the next entry of the message that the run has come to; nil if
// all that it has left are under way, or wait for a destination that has no room.
func (l *Lane) nextInRun() *Entry {
	j := l.runAt()
	if l.run != j && l.run != nil {
		l.run.retire()
	}
	for first := l.jobs.Front(); first != nil && !first.holdsRun(); first = l.jobs.Front() {
		first.retire()
	}
	l.run = j
	if j == nil {
		return nil
	}
	if p := j.selectPeer(); p != nil {
		return p.Todo.Front()
	}
	return nil
}

// runAt returns the job that the run has come to: that of the message it has
// opened, although older ones may have come since, or else the first.
func (l *Lane) runAt() *Job {
	if l.run != nil && l.run.holdsRun() {
		return l.run
	}
	for j := l.jobs.Front(); j != nil; j = l.jobs.Next(&j.inOrder) {
		if j.holdsRun() {
			return j
		}
	}
	return nil
}

// holdsRun reports whether a run cannot go on to the message behind: some of the
// job's entries have not ended, or further recipients of its message are about
// to come. Recipients that cannot be read now, because those of another
// transport fill the message's share of memory, are left for later: two runs
// could wait for each other.
func (j *Job) holdsRun() bool {
	return j.lane.Scheduler == Runner &&
		(!j.peers.Empty() || j.message.Reading || j.message.Unbound > 0)
}

// RunsTo reports whether the message that the run has come to has something left to
// start for a destination, if there is a run: the others have no use for
// connections yet, and would take them away from each other for ever.
func (l *Lane) RunsTo(d *Destination) bool {
	if l.Scheduler != Runner {
		return true
	}
	j := l.runAt()
	if j == nil {
		return false
	}
	p := j.findPeer(d)
	return p != nil && !p.Todo.Empty()
}

// AskForRun asks for connections when the run has come to another message.
func (l *Lane) AskForRun() {
	j := l.runAt()
	if l.wanted == j {
		return
	}
	l.wanted = j
	if j == nil {
		return
	}
	for p := range j.peers.All() {
		if !p.Destination.hasRoom() {
			p.Destination.Outlet.Starved()
		}
	}
}

// CanRun reports whether the message that the run has come to has an entry that
// may start.
func (l *Lane) CanRun() bool {
	j := l.runAt()
	return j != nil && l.find.nextPeer(j) != nil
}
