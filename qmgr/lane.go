package qmgr

import (
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
)

// A lane is everything that decides in which order the mail of one transport is
// selected: the jobs of its messages, the destinations they go to, and what is
// known about both so that nobody has to walk along them. A transport has one lane.
type lane struct {
	name      string // for assertions and dumps
	owner     *transport
	rules     laneRules
	scheduler Scheduler
	exact     bool // keep the marks that Postfix would set (Config.AsPostfix)

	// jobs is the order in which entries are selected; jobsByTime the order in
	// which the messages were admitted.
	jobs       ilist.List[job]
	jobsByTime sequence[job]
	unread     sequence[job] // those of jobsByTime whose messages have unread recipients
	lists      uint64        // how often a job was listed
	topLabel   uint64        // the largest label that was ever given
	labelGap   uint64
	// current is where the next selection starts; nil means that nothing can be
	// selected until a job is listed or unblocked.
	current *job

	order     ilist.List[dest] // destinations in order of creation
	servable  sequence[dest]   // RoundRobin: the destinations that have entries to start
	run       *job             // Runner: the one whose message has been opened
	wanted    *job             // Runner: the one for which connections have been asked for
	busy      int              // entries under way
	startable int              // sum over the destinations

	// Something has changed for these since refresh.
	staleJobs  ilist.List[job]
	staleDests ilist.List[dest]

	blockers
	candidates
	cache candidateCache
	pool  recipientPool

	find   finder
	spares *spares // the queue manager's
}

// laneRules are the parameters of a transport that decide about preemption and
// recipient slots; TransportConfig tells what they mean.
type laneRules struct {
	slotCost, slotLoan, slotDiscount, minimumSlots int
	recipientPool, extraRecipients                 int
	refill                                         refill
}

// A finder answers the questions that would take linear time by definition. The
// tests put the definition in its place.
type finder interface {
	// place returns the job behind which a new one goes on the scheduler list.
	place(l *lane, j *job) *job
	// nextUnread returns the job that is to own the free recipient slots after
	// another.
	nextUnread(j *job) *job
	// nextVisit returns the first job that selection has to look at.
	nextVisit(l *lane) *job
	// nextPeer returns the next peer of a job, in turn, that can be served.
	nextPeer(j *job) *peer
	// nextQueue returns the next destination, in turn, that has an entry to start.
	nextQueue(l *lane) *dest
	// candidate returns the job that gains most by going first.
	candidate(l *lane, current *job, slots int, now mail.Instant) *job
}

// quick is the finder.
type quick struct{}

// setUp prepares a lane that is the zero value but for its name and its owner.
func (l *lane) setUp(rules laneRules, scheduler Scheduler) {
	l.rules, l.scheduler = rules, scheduler
	l.tag = 1
	l.pool.unused = rules.recipientPool
	l.jobsByTime.before, l.unread.before, l.servable.before = older, older, earlierDest
	l.files.before, l.files.summarize = (*file).before, summarizeFiles
}

// configure puts new rules in force. Whatever a job is blocked for may have
// changed, too.
func (l *lane) configure(rules laneRules) {
	l.pool.unused += rules.recipientPool - l.rules.recipientPool
	l.rules = rules
}

// refresh brings up to date what follows from the state of jobs and destinations:
// which have room, which jobs are blocked and which have to be visited, and where
// candidates are filed. Whatever changes a job or a destination touches it; before
// anything is selected, this is the one place where the consequences are drawn.
func (l *lane) refresh() {
	for d := l.staleDests.PopFront(); d != nil; d = l.staleDests.PopFront() {
		d.refresh()
	}
	for j := l.staleJobs.PopFront(); j != nil; j = l.staleJobs.PopFront() {
		l.refile(j)
		l.attend(j)
	}
}

// ready reports whether selection would find an entry to start.
func (l *lane) ready() bool {
	l.refresh()
	switch {
	case l.startable == 0:
		return false
	case l.scheduler == RoundRobin:
		return true
	case l.scheduler == Runner:
		return l.canRun()
	}
	return l.current != nil
}
