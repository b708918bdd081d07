package qmgr

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/minheap"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/callout"
	"github.com/posthaste-mta/posthaste/qmgr/flows"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
	"github.com/posthaste-mta/posthaste/qmgr/orders"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
	"github.com/posthaste-mta/posthaste/qmgr/suspend"
)

// A message is one mail that is in core: some of its recipients are queued for
// delivery or about to be, or its round is being closed. Messages that rest in
// the spool have no representation in core at all, which is what makes memory
// independent of the backlog.
//
// Qmgr.messages points to it, as do its jobs and entries.
type message struct {
	sched.Message
	env     mail.Envelope
	flow    *flows.Flow // nil if it was not classified
	place   mail.Place
	callout *callout.Callout // whose pseudo-message it is; nil for mail
	held    int              // connections that carry entries of it, or are being opened for it

	deadline   minheap.Slot // in core.deadlines, until it passes
	overdue    overdue
	inLine     bool // in line for its report (debts.Book.Wait)
	suspension suspend.Stay
	stay
	reading
	round
	ordering
}

// stay is how a message has come into core, and how far it has come there.
type stay struct {
	from intake.Origin
	// account is where it counts as one of its bucket's messages in core; nil while that
	// is not known.
	account *intake.Account
	stage   stage
	serial  uint64 // distinguishes it from an earlier stay of the same message
	// awaits is the set of answers that are outstanding. While it is not empty, the
	// message stays in core.
	awaits   answers
	put      mail.Instant   // stageClosing: when it was put off; 0 if it is not
	returned bool           // it was parked until lookups had ended
	letter   bool           // it is a report of ours, and counts in debts
	reset    uint64         // for the hosts that it goes to, 0 for none
	asked    mail.Instant   // intake.FromRetry: when an operator asked for it; 0: it is tried whenever that was
	chosen   orders.Indexes // the recipients to be tried in this round; nil: all
	attended int            // position in Qmgr.attended, from 1 on; 0 if it is not there
}

// reading is the recipients that are on their way from the spool into entries.
// Invariant: len(unrouted) + routing.Len() is Message.Unbound.
type reading struct {
	next     uint32           // index from which to read on
	unrouted []mail.Recipient // sent with Route, not yet answered
	routing  intake.Routing   // those whose routes are being looked up
	outdated bool             // an outstanding answer may be that of routes before the last Reroute
}

// round is what has become of recipients since the message came into core, as far as its
// end needs to know. What of it is durable is in the spool, so that it can be lost.
type round struct {
	outcomes   []mail.Outcome // known but not yet durable
	owed       bool           // outcomes has one that owes a report
	settled    bool           // outcomes has one that is settled
	debts      bool           // the spool holds an outcome that owes a report
	unreported bool           // the reports could not be made in this round
	postponed
	changed bool // a change was made
	// requeued is whether the change under way puts another message in its place, so that it may be gone after that.
	requeued bool
	failed   bool // some recipient failed for good
	unsure   bool // it is unknown of some recipient whether a host has the message for him
	doubt    bool // some recipient may have the message, which will be held for that reason
	gaveUp   bool // recipients were given up because of its deadline
}

// postponed is whether recipients will be tried again, and why, from which it follows when. Invariant: at most one of
// stuck, warming and suspended is true, since a recipient is put off for one reason.
type postponed struct {
	retry     bool // some recipient will be tried again
	stuck     bool // each of those was put off because its destination is stuck
	warming   bool // likewise, because its sources may send no more today
	suspended bool // likewise, because of suspensions
	aside     bool // some of those that wait because of one, or of a warm-up, were left as they are
}

// ordering is what operators want done with a message, and what that has left behind.
type ordering struct {
	order  orders.Order
	reason string // why, for orders.Hold and orders.Corrupt
	left   bool   // recipients were left untried because of it
	// settling is what operators want done with some of its recipients: it is recorded at
	// the end of the round, before anything else.
	settling orders.Settling
	// splits and reroutes are those of settling from the end of the round until the change that makes
	// them.
	splits   []mail.Split
	reroutes []mail.Reroute
	// again is what operators have ordered too late for this round: it is carried out once
	// the message has left the core.
	again orders.Wish
}

// A stage is how far a message has come in core.
type stage uint8

const (
	stageOpening stage = iota // Open is outstanding
	stageRunning              // recipients are queued, being routed or being read
	stageClosing              // the last change of this round is outstanding
	stages       = iota
)

// stageTransitions[from][to] reports which changes there are. A message that turns out to
// be damaged runs, or runs on, to its end in the corrupt area. Any may leave the core.
var stageTransitions = [stages][stages]bool{
	stageOpening: {stageRunning: true},
	stageRunning: {stageRunning: true, stageClosing: true},
}

// become takes a message to its next stage.
func (m *message) become(s stage) {
	assert.That(stageTransitions[m.stage][s], "message %v in stage %d cannot come to stage %d", m.ID, m.stage, s)
	m.stage = s
}

// answers is a set of outstanding answers.
type answers uint8

const (
	awaitsOpen   answers = 1 << iota // Opened or Broken
	awaitsRead                       // Recipients or Broken
	awaitsRoute                      // Routed
	awaitsChange                     // Changed
	awaitsReport                     // Reported
)

func (m *message) await(a answers) {
	assert.That(m.awaits&a == 0, "message %v already awaits %b", m.ID, a)
	m.awaits |= a
}

// answered notes that an answer has come, and reports whether it was awaited.
func (m *message) answered(a answers) bool {
	if m.awaits&a == 0 {
		return false
	}
	m.awaits &^= a
	return true
}

// note stores an outcome until it can be made durable, and derives from it
// what the end of the round needs to know.
func (m *message) note(o *mail.Outcome) {
	m.outcomes = append(m.outcomes, *o)
	m.owed = m.owed || o.Report != mail.ReportNone
	m.settled = m.settled || o.Result.Settled()
	switch o.Result {
	case mail.Deferred:
		m.retry = true
	case mail.Failed:
		m.failed = true
	case mail.Delivered:
	default:
		assert.Unreachable("outcome of recipient %d of %v is %v", o.Index, m.ID, o.Result)
	}
}

// takeOutcomes hands the collected outcomes over for a Change.
func (m *message) takeOutcomes() []mail.Outcome {
	o := m.outcomes
	m.outcomes, m.owed, m.settled = nil, false, false
	return o
}
