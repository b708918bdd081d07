package qmgr

import "github.com/posthaste-mta/posthaste/internal/ilist"

// A job is blocked when selection has looked at it and found no destination of
// it with room. It is passed by until one of its destinations can take an entry
// again.
//
// The definition is Postfix's: selection walks along the list and marks a job
// that it has to pass by, and its destinations, with the transport's tag. When
// a marked destination has room again, the tag changes, so that all marks are
// void at once, and the next walk starts at the head. With many blocked jobs
// that is a long way to go after every delivery.
//
// Here nobody walks. The walk can only end at the first job in list order that
// has an entry for a destination with room, which the transport knows
// (transport.roomy); everything before that one has been passed then. So one
// label, transport.passed, stands for all the marks:
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
//     those that have nothing to select and are to be retired
//     (transport.special).
//
// A blocked job has no destination with room, because whatever makes room for
// one that is waited for also makes the marks void (queue.unblock). Check
// compares all this with real marks where Config.AsPostfix wants them for its
// dumps, and a twin in the tests walks.

// blockers is a transport's part in this.
type blockers struct {
	// tag counts how often the marks have become void, by two, beginning with 1.
	tag uint64
	// passed is a label: the jobs before it have been looked at under this tag.
	passed uint64
	// open are the jobs before passed that are not blocked.
	open ilist.List[job]
	// special are the jobs that have to be visited if they are not blocked.
	special sequence[job]
	// roomy are the destinations that have room and entries, each where the
	// first job stands that has an entry for it.
	roomy sequence[queue]
}

// blocking is a job's part.
type blocking struct {
	openIn  ilist.Link[job] // on transport.open
	special place[job]      // in transport.special
	// tag is the tag under which the job was marked last. It is kept up to date
	// for Config.AsPostfix only.
	tag uint64
}

// marking is a destination's part.
type marking struct {
	waiting sequence[peer] // peers that have entries to select
	roomy   place[queue]   // in transport.roomy
	first   *peer          // while roomy is taken: that of the job where it stands
	mark    uint64         // equal to the transport's tag: marked
	tag     uint64         // as that of jobs
}

func (t *transport) blocked(j *job) bool {
	return j.label < t.passed && !j.blocking.openIn.Listed()
}

// marked tells whether a blocked job waits for the destination, or has done so
// under the present tag.
func (t *transport) marked(d *queue) bool {
	if d.marking.mark == t.tag {
		return true
	}
	first := d.marking.waiting.first.element()
	return first != nil && t.blocked(first.job)
}

// nextVisit returns the first job in list order at which selection would have
// to do more than mark it: nil if there is none.
func (quick) nextVisit(t *transport) *job {
	var next *job
	consider := func(j *job) {
		if j != nil && (next == nil || j.label < next.label) {
			next = j
		}
	}
	if d := t.roomy.first; d != nil {
		consider(d.job)
	}
	consider(t.special.from(t.passed).element())
	for j := range t.open.All() {
		consider(j)
	}
	return next
}

// pass notes that the jobs before j have been looked at.
func (t *transport) pass(j *job) {
	before := t.jobs.Prev(&j.inOrder)
	if before == nil || before.label < t.passed {
		return
	}
	t.passUpTo(before)
}

// passUpTo notes that j and the jobs before it have been looked at.
func (t *transport) passUpTo(j *job) {
	if t.exact {
		for k := j; k != nil && k.label >= t.passed; k = t.jobs.Prev(&k.inOrder) {
			t.writeTags(k)
		}
	}
	t.passed = j.label + 1
}

// block marks a job that has been looked at.
func (t *transport) block(j *job) {
	if t.exact {
		t.writeTags(j)
	}
	if j.label < t.passed {
		t.open.Remove(&j.blocking.openIn)
		return
	}
	t.passed = j.label + 1
}

// writeTags sets the tags that Postfix would set.
func (t *transport) writeTags(j *job) {
	j.blocking.tag = t.tag
	for p := range j.peers.All() {
		if p.todo.Len() > 0 {
			p.queue.marking.tag = t.tag
		}
	}
}

// reopen opens a job that is blocked; selection starts at the head again.
func (t *transport) reopen(j *job) {
	t.keepMarks(j)
	j.blocking.tag = 0
	t.open.PushBack(&j.blocking.openIn, j)
	t.setCurrent(t.jobs.Front())
}

// keepMarks marks the destinations that a job waits for, if they are marked
// because it is blocked: it is about to be opened, moved or withdrawn.
func (t *transport) keepMarks(j *job) {
	for p := range j.peers.All() {
		if p.todo.Len() > 0 {
			t.keepMark(p.queue)
		}
	}
}

func (t *transport) keepMark(d *queue) {
	if t.marked(d) {
		d.marking.mark = t.tag
	}
}

// openIfPassed opens a job that has been put where others have been passed.
func (t *transport) openIfPassed(j *job) {
	if j.label < t.passed {
		t.open.PushBack(&j.blocking.openIn, j)
	}
}

// voidMarks makes all marks void and lets selection start at the head.
func (t *transport) voidMarks() {
	t.tag += 2
	t.passed = 0
	for j := t.open.PopFront(); j != nil; j = t.open.PopFront() {
	}
	t.setCurrent(t.jobs.Front())
	t.cache.reset()
}

// unblock lets selection look at the blocked jobs again if the destination,
// for which one of them waits, can take an entry now.
func (q *queue) unblock() {
	t := q.transport
	room, dead := q.hasRoom(), q.dead()
	if !room && !dead {
		return
	}
	if t.exact && q.marking.tag == t.tag {
		q.marking.tag = 0
	}
	if room && q.todo.Len() > 0 && t.marked(q) {
		t.voidMarks()
	}
	q.marking.mark = 0
}

// attend keeps special and unread up to date for a job. It is called after every
// change of what makes a job so.
func (t *transport) attend(j *job) {
	m := j.message
	special := j.listed && (j.waiting() == 0 || m.more && m.limit > m.inCore)
	switch {
	case special == j.blocking.special.taken():
	case special:
		t.special.add(&j.blocking.special, j, j)
	default:
		t.special.drop(&j.blocking.special)
	}
	t.attendUnread(j)
}

func (t *transport) attendUnread(j *job) {
	switch unread := j.listed && j.message.more; {
	case unread == j.unread.taken():
	case unread:
		t.unread.add(&j.unread, j, j)
	default:
		t.unread.drop(&j.unread)
	}
}

// attend does so for all jobs of a message.
func (m *message) attend() {
	for _, j := range m.jobs {
		j.transport.attend(j)
	}
}

// refile does so, and keeps the files of candidates up to date, when the
// recipients that are not in entries have changed.
func (m *message) refile() {
	for _, j := range m.jobs {
		j.transport.refile(j)
		j.transport.attend(j)
	}
}
