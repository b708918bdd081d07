package sched

import (
	"time"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
)

// The candidate is the job behind the current one that gains most by going
// first: the longest wait for each of its entries, among those whose entries the
// current job can surely pay for before it ends. Jobs that have been preempted
// themselves and jobs that are blocked are passed over.
//
// By definition it is found by looking at every job. But of two jobs with
// equally many entries, had and to come, the one that has waited longer is
// better, and that is the one nearer to the head. So jobs are filed by these two
// numbers, and of each file only the first that is not blocked is looked at.
//
// Because recipients in the spool count, too, there may be as many files as jobs. So
// the files are a tree, and each knows of itself and those below it the least numbers
// of entries and the oldest job: if none of them could have a better score even with
// the best of each, none is looked at.
//
// Jobs that stand on a stack are not in the order of their age. They are few and
// are looked at one by one; so are open jobs, which stand before the blocked
// ones.

// candidates is a lane's part in this.
type candidates struct {
	files   sequence[file]  // by total, then by need
	spare   []*file         // empty ones, for reuse
	stacked ilist.List[Job] // those with a level above 0
}

// A file is the jobs that wait, have no children and no parent, are not current,
// and have the same numbers of entries.
type file struct {
	total, need int
	jobs        sequence[Job]
	place       place[file] // in candidates.files
	below       holdings    // of this file and those below it in the tree
}

// holdings is what some files have.
type holdings struct {
	total, need int  // the least of each
	first, last *Job // in list order
}

func (f *file) before(g *file) bool {
	return f.total < g.total || f.total == g.total && f.need < g.need
}

// holdings returns what the file has by itself.
func (f *file) holdings() holdings {
	return holdings{total: f.total, need: f.need, first: f.jobs.first.elem, last: f.jobs.last.elem}
}

// with adds what other files have.
func (h holdings) with(p *place[file]) holdings {
	if p == nil {
		return h
	}
	b := &p.elem.below
	h.total, h.need = min(h.total, b.total), min(h.need, b.need)
	if b.first.label < h.first.label {
		h.first = b.first
	}
	if b.last.label > h.last.label {
		h.last = b.last
	}
	return h
}

// summarizeFiles is for candidates.files.
func summarizeFiles(p *place[file]) bool {
	f := p.elem
	h := f.holdings().with(p.left).with(p.right)
	if f.below == h {
		return false
	}
	f.below = h
	return true
}

// filing is a job's part.
type filing struct {
	file      *file // nil if it is not filed
	place     place[Job]
	stackedIn ilist.Link[Job] // on lane.stacked
}

// most is the number of entries the job can have had in the end: those it had and
// one for each recipient of its message that is not in an entry yet.
func (j *Job) most() int {
	m := j.message
	return j.read + m.Unread + m.Unbound
}

// need is how many of them are left to select.
func (j *Job) need() int { return j.most() - j.selected }

// setCurrent says where the next selection starts.
func (l *Lane) setCurrent(j *Job) {
	old := l.current
	if old == j {
		return
	}
	l.current = j
	if old != nil {
		old.touch()
	}
	if j != nil {
		j.touch()
	}
}

// refile brings the files up to date for a job.
func (l *Lane) refile(j *Job) {
	total, need := j.most(), j.need()
	if !j.listed || j == l.current || j.stack.level > 0 || !j.stack.children.Empty() || need <= 0 {
		l.unfile(j)
		return
	}
	if f := j.filing.file; f != nil {
		if f.total == total && f.need == need {
			return
		}
		l.unfile(j)
	}
	j.filing.file = l.file(total, need, j)
}

func (l *Lane) unfile(j *Job) {
	f := j.filing.file
	if f == nil {
		return
	}
	j.filing.file = nil
	if f.jobs.count == 1 {
		l.files.drop(&f.place)
		f.jobs.drop(&j.filing.place)
		f.below = holdings{}
		l.spare = append(l.spare, f)
		return
	}
	f.jobs.drop(&j.filing.place)
	l.files.changed(&f.place)
}

// findFile returns the file for jobs with these numbers, nil if there is none.
func (l *Lane) findFile(total, need int) *file {
	for p := l.files.root; p != nil; {
		switch f := p.elem; {
		case f.total == total && f.need == need:
			return f
		case total < f.total || total == f.total && need < f.need:
			p = p.left
		default:
			p = p.right
		}
	}
	return nil
}

// file puts a job into the file for jobs with these numbers, which it makes if need
// be, and returns that.
func (l *Lane) file(total, need int, j *Job) *file {
	f := l.findFile(total, need)
	if f != nil {
		f.jobs.add(&j.filing.place, j, j)
		l.files.changed(&f.place)
		return f
	}
	f = &file{}
	if n := len(l.spare); n > 0 {
		f = l.spare[n-1]
		l.spare = l.spare[:n-1]
	}
	f.total, f.need = total, need
	f.jobs.add(&j.filing.place, j, j)
	l.files.add(&f.place, f, nil)
	return f
}

// A score is a wait divided by a number of entries. Scores are compared by
// multiplying out.
type score struct {
	job   *Job
	delay int64
	total int64
}

// better reports whether a is the better candidate: of equal ones the one nearer
// to the head is.
func (a score) better(b score) bool {
	x, y := a.delay*b.total, b.delay*a.total
	return x > y || x == y && a.job.label < b.job.label
}

// atLeast reports whether the score is as good as that of a wait and a number of
// entries.
func (a score) atLeast(delay, total int64) bool { return a.delay*total >= delay*a.total }

// waited is the wait of a job as the score counts it: what has begun counts as
// a whole second.
func (j *Job) waited(now mail.Instant) int64 {
	return int64((now.Sub(j.message.Queued) + time.Second) / time.Millisecond)
}

func (j *Job) score(now mail.Instant) score { return score{j, j.waited(now), int64(j.most())} }

// candidate searches behind the current job for one that needs at most the given
// number of slots.
func (quick) candidate(l *Lane, current *Job, slots int, now mail.Instant) *Job {
	best := score{total: 1}
	consider := func(j *Job) {
		if need := j.need(); need > 0 && need <= slots {
			if s := j.score(now); best.job == nil || s.better(best) {
				best = s
			}
		}
	}
	for j := range l.open.All() {
		if j.filing.file != nil {
			consider(j)
		}
	}
	for j := range l.stacked.All() {
		if !j.stack.children.Empty() || l.blocked(j) || j.label <= current.label {
			continue
		}
		if j.overtaken() {
			return scanForCandidate(l, current, slots, now)
		}
		consider(j)
	}
	if oldest := l.oldestFiled(); oldest != nil {
		l.searchFiles(l.files.root, &candidateSearch{best: &best, consider: consider, slots: slots, now: now, longest: oldest.waited(now)})
	}
	return best.job
}

// A candidateSearch is a search through the files.
type candidateSearch struct {
	best     *score
	consider func(*Job)
	slots    int
	now      mail.Instant
	longest  int64 // no filed job that is not blocked has waited longer
}

// searchFiles looks at the first job of each file that is not blocked, as far as it
// may be better than the best one yet.
func (l *Lane) searchFiles(p *place[file], s *candidateSearch) {
	for p != nil && l.promising(&p.elem.below, s) {
		f := p.elem
		if f.need <= s.slots {
			if first := f.jobs.from(l.passed); first != nil {
				s.consider(first.elem)
			}
		}
		l.searchFiles(p.left, s) // those with fewer entries first
		p = p.right
	}
}

// promising reports whether one of some files may hold a better candidate than the
// best one yet.
func (l *Lane) promising(h *holdings, s *candidateSearch) bool {
	if h.need > s.slots || h.last.label < l.passed {
		return false
	}
	best := s.best
	if best.job == nil {
		return true
	}
	bound := score{job: h.first, delay: min(h.first.waited(s.now), s.longest), total: int64(h.total)}
	return bound.better(*best)
}

// oldestFiled returns a job that has waited at least as long as any that is
// filed and has not been passed.
func (l *Lane) oldestFiled() *Job {
	j := l.current
	if j == nil || j.label < l.passed {
		j = l.jobs.Front()
	}
	for ; j != nil; j = l.jobs.Next(&j.inOrder) {
		if j.stack.level == 0 {
			return j
		}
	}
	return nil
}

// overtaken reports whether a job on a stack stands behind a younger job that is on
// none. The definition stops its search where nothing better can follow, and
// takes for granted that this is not so.
func (j *Job) overtaken() bool {
	l := j.lane
	for k := l.jobs.Prev(&j.inOrder); k != nil; k = l.jobs.Prev(&k.inOrder) {
		if k.stack.level == 0 {
			return k.after(j)
		}
	}
	return false
}

// scanForCandidate is the definition.
func scanForCandidate(l *Lane, current *Job, slots int, now mail.Instant) *Job {
	best := score{total: 1}
	for j := l.jobs.Next(&current.inOrder); j != nil; j = l.jobs.Next(&j.inOrder) {
		if !j.stack.children.Empty() || l.blocked(j) {
			continue
		}
		s := j.score(now)
		if need := j.need(); need > 0 && need <= slots && s.delay*best.total > best.delay*s.total {
			best = s
		}
		// Those behind are younger, so they cannot have a better score than
		// their wait, unless they stand on a stack.
		if best.atLeast(s.delay, 1) && j.stack.level == 0 {
			break
		}
	}
	return best.job
}

// checkFiling panics unless a listed job is filed as it should be.
func (l *Lane) checkFiling(j *Job) {
	f := j.filing.file
	filed := j != l.current && j.stack.level == 0 && j.stack.children.Empty() && j.need() > 0
	assert.That((f != nil) == filed, "%s: job of %v is filed wrongly", l.Name, j.message.ID)
	assert.That(f == nil || f.total == j.most() && f.need == j.need(), "%s: job of %v is in the wrong file", l.Name, j.message.ID)
	assert.That(j.filing.stackedIn.Listed() == (j.stack.level > 0), "%s: job of %v has level %d", l.Name, j.message.ID, j.stack.level)
}
