package sched

import (
	"iter"

	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
)

// A Lane is everything that decides in which order the mail of one flow and transport is
// selected: the jobs of its messages, the destinations they go to, and what is
// known about both so that no walk along them is needed.
type Lane struct {
	Name      string // of the transport
	Owner     Owner
	Scheduler Scheduler
	sums

	rules Rules
	// current is where the next selection starts; nil means that nothing can be
	// selected until a job is listed or unblocked.
	current *Job
	order   ilist.List[Destination] // destinations in order of creation
	lists
	blockers
	candidates
	cache candidateCache
	pool  recipientPool
	changes
	comparison

	tools
}

// sums count what waits and what is under way. Invariant: Load is the sum over the destinations.
type sums struct {
	Load
	Sum *Load // that of all lanes of the transport
}

// tools are how the lane answers questions, and from where it takes its structures.
type tools struct {
	find   finder
	spares *Spares // the queue manager's
}

// A Load counts entries.
type Load struct {
	Waiting   int
	Busy      int // under way
	Startable int // of those that wait, how many may be started now
}

// Add changes a load by another.
func (l *Load) Add(n Load) {
	l.Waiting += n.Waiting
	l.Busy += n.Busy
	l.Startable += n.Startable
}

// An Owner has a lane.
type Owner interface {
	// Refreshed is called when something has changed from which it follows whether the
	// lane is Ready, or HasUnread.
	Refreshed()
}

// lists are the orders in which jobs stand. Invariant: a job is on jobs and jobsByTime if
// it is listed, and on neither if it is not.
type lists struct {
	// jobs is the order in which entries are selected; jobsByTime the order in
	// which the messages were admitted.
	jobs       ilist.List[Job]
	jobsByTime sequence[Job]
	unread     sequence[Job] // those of jobsByTime whose messages have unread recipients
	listings   uint64        // how often a job was listed
	topLabel   uint64        // the largest label that was ever given
	labelGap   uint64
}

// changes are what Refresh has to look at: something has changed for these jobs and
// destinations. One that has been freed meanwhile is not marked as stale any more, and
// one that was used again may stand here twice, or is another lane's.
type changes struct {
	staleJobs  []*Job
	staleDests []*Destination
	stale      bool // it is among Options.Stale
	all        *Stale
}

// comparison is what only the schedulers need that are there for comparison, and Postfix's
// marks.
type comparison struct {
	servable sequence[Destination] // RoundRobin: the destinations that have entries to start
	run      *Job                  // Runner: the one whose message has been opened
	wanted   *Job                  // Runner: the one for which connections have been asked for
	exact    bool                  // keep the marks that Postfix would set (Options.Exact)
}

// Rules are the parameters of a transport that decide about preemption and
// recipient slots; TransportConfig says what they mean.
type Rules struct {
	SlotCost, SlotLoan, SlotDiscount, MinimumSlots int
	RecipientPool, ExtraRecipients                 int
	Refill                                         Refill
}

// A finder answers the questions that would take linear time by definition. The
// tests put the definition in its place.
type finder interface {
	// place returns the job behind which a new one goes on the scheduler list.
	place(l *Lane, j *Job) *Job
	// nextUnread returns the job that is to own the free recipient slots after
	// another.
	nextUnread(j *Job) *Job
	// nextVisit returns the first job that selection has to look at.
	nextVisit(l *Lane) *Job
	// nextPeer returns the next peer of a job, in turn, that can be served.
	nextPeer(j *Job) *Peer
	// nextQueue returns the next destination, in turn, that has an entry to start.
	nextQueue(l *Lane) *Destination
	// candidate returns the job that gains most by going first.
	candidate(l *Lane, current *Job, slots int, now mail.Instant) *Job
}

// quick is the finder.
type quick struct{}

// Stale are the lanes of a queue manager in which something has changed since they were
// refreshed.
type Stale struct{ lanes []*Lane }

// Refresh draws the consequences in all of them.
func (s *Stale) Refresh() {
	if len(s.lanes) > 0 {
		s.refresh()
	}
}

func (s *Stale) refresh() {
	for i := 0; i < len(s.lanes); i++ {
		s.lanes[i].refresh()
	}
	s.lanes = s.lanes[:0]
}

// Options are what all lanes of a queue manager have in common.
type Options struct {
	Spares *Spares
	Stale  *Stale
	// Exact keeps the marks that Postfix would set, which dumps show.
	Exact bool
	// ByDefinition has a lane walk wherever it has an index, for tests that compare
	// the two.
	ByDefinition bool
	// LabelGap is the distance between the labels of jobs that are listed one after
	// the other; 0 is the default. Tests make it small.
	LabelGap uint64
}

// SetUp prepares a lane, which is the zero value. The lane adds to sum, which has the
// entries of all lanes of its transport.
func (l *Lane) SetUp(name string, owner Owner, sum *Load, rules Rules, scheduler Scheduler, o Options) {
	l.Name, l.Owner, l.Sum, l.rules, l.Scheduler = name, owner, sum, rules, scheduler
	l.exact, l.spares, l.all = o.Exact, o.Spares, o.Stale
	l.find = quick{}
	if o.ByDefinition {
		l.find = &walker{}
	}
	l.labelGap = o.LabelGap
	if l.labelGap == 0 {
		l.labelGap = labelGap
	}
	l.tag = 1
	l.pool.unused = rules.RecipientPool
	l.jobsByTime.before, l.unread.before, l.servable.before = older, older, earlierDest
	l.files.before, l.files.summarize = (*file).before, summarizeFiles
}

// Configure puts new rules in force. Whatever a job is blocked for may have
// changed, too.
func (l *Lane) Configure(rules Rules) {
	l.SetPools(rules.RecipientPool, rules.ExtraRecipients)
	l.rules = rules
	l.voidMarks()
}

// SetPools changes how many recipient slots the lane has, and how many of those that a
// job gets which preempts another.
func (l *Lane) SetPools(pool, extra int) {
	l.pool.unused += pool - l.rules.RecipientPool
	l.rules.RecipientPool, l.rules.ExtraRecipients = pool, extra
	if l.pool.unread != nil && l.pool.unused > 0 {
		l.pool.give(l.pool.unread)
	}
}

// Spare returns the zero value with the memory of a lane that has no jobs and no
// destinations.
func (l *Lane) Spare() Lane {
	return Lane{
		candidates: candidates{spare: l.spare},
		changes:    changes{staleJobs: l.staleJobs[:0], staleDests: l.staleDests[:0]},
	}
}

// Destinations are those of the lane in the order in which they came about, or in round
// robin in that of their turns.
func (l *Lane) Destinations() iter.Seq[*Destination] { return l.order.All() }

// Refresh brings up to date what follows from the state of jobs and destinations:
// which have room, which jobs are blocked and which have to be visited, and where
// candidates are filed. Whatever changes a job or a destination touches it; before
// anything is selected, this is the one place where the consequences are drawn.
func (l *Lane) Refresh() {
	if l.stale {
		l.refresh()
	}
}

func (l *Lane) refresh() {
	l.stale = false
	for i := 0; i < len(l.staleDests); i++ {
		if d := l.staleDests[i]; d.stale && d.Lane == l {
			d.stale = false
			d.refresh()
		}
	}
	l.staleDests = l.staleDests[:0]
	for i := 0; i < len(l.staleJobs); i++ {
		if j := l.staleJobs[i]; j.stale {
			j.stale = false
			j.lane.refile(j)
			j.lane.attend(j)
		}
	}
	l.staleJobs = l.staleJobs[:0]
	l.Owner.Refreshed()
}

// touch says that something has changed in the lane.
func (l *Lane) touch() {
	if !l.stale {
		l.stale = true
		l.all.lanes = append(l.all.lanes, l)
	}
}

// Ready reports whether selection would find an entry to start.
func (l *Lane) Ready() bool {
	l.Refresh()
	switch {
	case l.Startable == 0:
		return false
	case l.Scheduler == RoundRobin:
		return true
	case l.Scheduler == Runner:
		return l.CanRun()
	}
	return l.current != nil
}

// HasUnread reports whether some message of the lane that is listed has unread recipients.
func (l *Lane) HasUnread() bool { return l.unread.count > 0 }

// Listed is the number of jobs that are on the scheduler list.
func (l *Lane) Listed() int { return l.jobs.Len() }
