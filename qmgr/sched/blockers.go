package sched

import "github.com/posthaste-mta/posthaste/internal/ilist"

// A job is blocked when selection has looked at it and found no destination of
// it with room. It is passed by until one of its destinations can take an entry
// again.
//
// The definition is Postfix's: selection walks along the list and marks a job
// that it has to pass by, and its destinations, with its transport's tag. When
// a marked destination has room again, the tag changes, so that all marks are
// void at once, and the next walk starts at the head. With many blocked jobs
// that is a long way to go after every delivery.
//
// Here there is no walk. In Postfix it can only end at the first job in list order that
// has an entry for a destination with room, which the lane knows
// (lane.roomy); everything before that one has been passed then. So one
// label, lane.passed, stands for all the marks:
//
//   - A job is blocked if it stands before passed. The exceptions are open jobs:
//     those that got recipients since, and those that were put where others have
//     been passed.
//   - A destination is marked if some blocked job waits for it: then the first
//     job in list order that waits for it is blocked, or open. For the latter
//     case there is a mark, which is set whenever a job that is open comes to
//     wait for the destination.
//   - Jobs at which the walk would do more than mark them have to be visited
//     each: those that are open, those for which recipients may be read, and
//     those that have nothing to select and will be retired
//     (lane.special).
//
// A blocked job has no destination with room, because whatever makes room for
// one that is waited for also makes the marks void (dest.unblock). Check
// compares all this with real marks where Config.AsPostfix wants them for its
// dumps, and a twin in the tests walks.

// blockers is a lane's part in this.
type blockers struct {
	// tag counts how often the marks have become void, by two, beginning with 1.
	tag uint64
	// passed is a label: the jobs before it have been looked at under this tag.
	passed uint64
	// open are the jobs before passed that are not blocked.
	open ilist.List[Job]
	// special are the jobs that have to be visited if they are not blocked.
	special sequence[Job]
	// roomy are the destinations that have room and entries, each where the
	// first job stands that has an entry for it.
	roomy sequence[Destination]
}

// blocking is a job's part.
type blocking struct {
	openIn  ilist.Link[Job] // on lane.open
	special place[Job]      // in lane.special
	// tag is the tag under which the job was marked last. It is kept up to date
	// for Config.AsPostfix only.
	tag uint64
}

// marking is a destination's part.
type marking struct {
	waiting sequence[Peer]     // peers that have entries to select
	roomy   place[Destination] // in lane.roomy
	first   *Peer              // that of the job where roomy stands; nil if it is not taken
	mark    uint64             // equal to the lane's tag: marked
	tag     uint64             // as that of jobs
}

func (l *Lane) blocked(j *Job) bool {
	return j.label < l.passed && !j.blocking.openIn.Listed()
}

// marked reports whether a blocked job waits for the destination, or has done so
// under the present tag.
func (l *Lane) marked(d *Destination) bool {
	if d.marking.mark == l.tag {
		return true
	}
	first := d.marking.waiting.first.element()
	return first != nil && l.blocked(first.job)
}

// nextVisit returns the first job in list order at which selection would have
// to do more than mark it: nil if there is none.
func (quick) nextVisit(l *Lane) *Job {
	var next *Job
	consider := func(j *Job) {
		if j != nil && (next == nil || j.label < next.label) {
			next = j
		}
	}
	if d := l.roomy.first; d != nil {
		consider(d.job)
	}
	consider(l.special.from(l.passed).element())
	for j := range l.open.All() {
		consider(j)
	}
	return next
}

// pass notes that the jobs before j have been looked at.
func (l *Lane) pass(j *Job) {
	before := l.jobs.Prev(&j.inOrder)
	if before == nil || before.label < l.passed {
		return
	}
	l.passUpTo(before)
}

// passUpTo notes that j and the jobs before it have been looked at.
func (l *Lane) passUpTo(j *Job) {
	if l.exact {
		for k := j; k != nil && k.label >= l.passed; k = l.jobs.Prev(&k.inOrder) {
			l.writeTags(k)
		}
	}
	l.passed = j.label + 1
}

// block marks a job that has been looked at.
func (l *Lane) block(j *Job) {
	if l.exact {
		l.writeTags(j)
	}
	if j.label < l.passed {
		l.open.Remove(&j.blocking.openIn)
		return
	}
	l.passed = j.label + 1
}

// writeTags sets the tags that Postfix would set.
func (l *Lane) writeTags(j *Job) {
	j.blocking.tag = l.tag
	for p := range j.peers.All() {
		if p.Todo.Len() > 0 {
			p.Destination.marking.tag = l.tag
		}
	}
}

// reopen opens a job that is blocked; selection starts at the head again.
func (l *Lane) reopen(j *Job) {
	l.keepMarks(j)
	j.blocking.tag = 0
	l.open.PushBack(&j.blocking.openIn, j)
	l.setCurrent(l.jobs.Front())
}

// keepMarks marks the destinations that a job waits for, if they are marked
// because it is blocked: it is about to be opened, moved or withdrawn.
func (l *Lane) keepMarks(j *Job) {
	for p := range j.peers.All() {
		if p.Todo.Len() > 0 {
			l.keepMark(p.Destination)
		}
	}
}

func (l *Lane) keepMark(d *Destination) {
	if l.marked(d) {
		d.marking.mark = l.tag
	}
}

// openIfPassed opens a job that has been put where others have been passed.
func (l *Lane) openIfPassed(j *Job) {
	if j.label < l.passed {
		l.open.PushBack(&j.blocking.openIn, j)
	}
}

// voidMarks makes all marks void and lets selection start at the head.
func (l *Lane) voidMarks() {
	l.tag += 2
	l.passed = 0
	for j := l.open.PopFront(); j != nil; j = l.open.PopFront() {
	}
	l.setCurrent(l.jobs.Front())
	l.cache.reset()
}

// unblock lets selection look at the blocked jobs again if one of them waits for a
// destination that can take an entry now.
func (d *Destination) unblock() {
	l := d.Lane
	if l.exact && d.marking.tag == l.tag {
		d.marking.tag = 0
	}
	if d.Startable > 0 && l.marked(d) {
		l.voidMarks()
	}
	d.marking.mark = 0
}

// attend keeps special up to date for a job.
func (l *Lane) attend(j *Job) {
	m := j.message
	special := j.listed && (j.waiting() == 0 || m.More && m.Limit > m.InCore)
	switch {
	case special == j.blocking.special.taken():
	case special:
		l.special.add(&j.blocking.special, j, j)
	default:
		l.special.drop(&j.blocking.special)
	}
}
