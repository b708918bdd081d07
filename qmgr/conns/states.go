package conns

import (
	"fmt"

	"github.com/posthaste-mta/posthaste/internal/assert"
)

// An enum is a state that only change changes.
type enum interface {
	~uint8
	fmt.Stringer
}

// change moves a state to another one that its table, next[from][to], allows.
func change[S enum](p *Pool, at *S, to S, next [][]bool) {
	if int(*at) >= len(next) || int(to) >= len(next[*at]) || !next[*at][to] {
		assert.Unreachable("%T: %v cannot become %v", to, *at, to)
	}
	if p.observe != nil {
		p.observe(*at, to)
	}
	*at = to
}

// A State is where a connection is in its life. It only ever grows.
type State uint8

const (
	Connecting State = iota // being dialed
	Ready                   // takes entries
	Draining                // takes no more entries, and is gone when it has finished those it has
	gone                    // not in the pool any more
)

var stateTransitions = [][]bool{
	Connecting: {Ready: true, gone: true},
	Ready:      {Draining: true},
	Draining:   {gone: true},
}

// String returns the state's name.
func (s State) String() string { return [...]string{"connecting", "ready", "draining", "gone"}[s] }

func (c *Conn) become(s State) { change(c.pool, &c.state, s, stateTransitions) }

// A Wait is the reason why a site gets no connection now.
type Wait uint8

const (
	WaitNone    Wait = iota
	WaitWindow       // as many connections as the window allows serve the site
	WaitShare        // the message at its head has reached its share while others need connections
	WaitPart         // it has as many itself as it may while others may need them
	WaitSlot         // as many connections as there may be are open and busy
	WaitStart        // enough are being opened
	WaitRate         // enough were opened lately
	WaitHost         // every host is at its limit
	WaitBusy         // every host has said lately that it takes no more
	WaitCallout      // a host has lately ended a connection over a call-out, and only call-outs wait
	WaitOutage       // nothing can be reached; one site at a time is tried
)

// A site waits for one thing at a time. Open, and whatever wakes the site, ends the wait
// before it can wait for something else.
var waitTransitions = oneAtATime(WaitOutage)

// oneAtATime returns the transitions of a state that leaves its zero value for any other
// one, and comes back to it before the next.
func oneAtATime[S enum](last S) [][]bool {
	next := make([][]bool, last+1)
	for s := range next {
		next[s] = make([]bool, last+1)
		next[0][s], next[s][0] = s != 0, s != 0
	}
	return next
}

// String returns the reason's name, for tests and panics. Commands show that of the
// wait reason which follows from it (views.FromSite): a WaitSlot is most often
// "process-limit" there, and a WaitCallout "host-busy".
func (w Wait) String() string {
	return [...]string{"none", "window", "message-share", "destination-share", "connection-limit", "slow-start", "connection-rate",
		"host-limit", "host-busy", "call-out-pause", "local-outage"}[w]
}

// A cause is what woke a site, if it is something that only one site can use.
type cause uint8

const (
	causeNone   cause = iota
	causeSlot         // a connection has ended or fallen idle
	causeHost         // one to a certain host has
	causeOutage       // our network may be tried
	causeShare        // the message on whose account it waits uses a connection fewer
)

var causeTransitions = oneAtATime(causeShare)

func (c cause) String() string { return [...]string{"none", "slot", "host", "outage", "share"}[c] }

// A trust is whether a site is known to take mail.
type trust uint8

const (
	trustNone   trust = iota // it is not
	trustKnown               // one of its hosts took mail before, and has not failed since
	trustProven              // one of its hosts has given a verdict on an entry of the site
)

// What is known of a site before its first entry is judged may change whenever its hosts
// are looked up. After that it stands.
var trustTransitions = [][]bool{
	trustNone:  {trustKnown: true, trustProven: true},
	trustKnown: {trustNone: true, trustProven: true},
}

func (t trust) String() string { return [...]string{"none", "known", "proven"}[t] }

// A pace is how the mail of a site gets on.
type pace uint8

const (
	pacePrompt    pace = iota
	paceSlow           // one of its entries lately took longer than stallTime
	paceStuck          // nothing gets on: no host has answered for some time, or our network is down
	paceSlowStuck      // nothing gets on, and it was slow before; or all its connections have stalled
)

// Slow and stuck come and go independently of each other: any answer ends being stuck,
// and the last of some prompt verdicts ends being slow. A verdict is an answer first.
var paceTransitions = [][]bool{
	pacePrompt:    {paceSlow: true, paceStuck: true},
	paceSlow:      {pacePrompt: true, paceSlowStuck: true},
	paceStuck:     {pacePrompt: true, paceSlowStuck: true},
	paceSlowStuck: {paceSlow: true},
}

func (p pace) String() string { return [...]string{"prompt", "slow", "stuck", "slow and stuck"}[p] }

// A doubt is why the slot of a connection counts as doubtful: the connection has not
// shown that it gets on.
type doubt uint8

const (
	doubtNone            doubt = iota
	doubtSlow                  // its site is slow
	doubtUntested              // its site is not known to take mail
	doubtTrial                 // so, and it has one of the slots for trials
	doubtStalled               // it has made no progress for stallTime
	doubtUntestedStalled       // so, and its site is not known to take mail
	doubtTrialStalled          // so, and it has one of the slots for trials
)

// Whether a connection is a trial is decided when it becomes untested. Progress, and
// whatever ends a connection's claim to its slot, ends every doubt.
var doubtTransitions = [][]bool{
	doubtNone:            {doubtSlow: true, doubtUntested: true, doubtStalled: true},
	doubtSlow:            {doubtNone: true, doubtStalled: true},
	doubtUntested:        {doubtNone: true, doubtTrial: true, doubtUntestedStalled: true},
	doubtTrial:           {doubtNone: true, doubtTrialStalled: true},
	doubtStalled:         {doubtNone: true},
	doubtUntestedStalled: {doubtNone: true},
	doubtTrialStalled:    {doubtNone: true},
}

func (d doubt) String() string {
	return [...]string{"no doubt", "slow site", "untested", "trial", "stalled", "untested and stalled", "trial and stalled"}[d]
}

func (d doubt) untested() bool {
	return d == doubtUntested || d == doubtTrial || d == doubtUntestedStalled || d == doubtTrialStalled
}

func (d doubt) trial() bool { return d == doubtTrial || d == doubtTrialStalled }

func (d doubt) stalled() bool { return d >= doubtStalled }

// An inquiry is what the connections that are being opened to a host are to show, as long
// as none is ready.
type inquiry uint8

const (
	inquiryNone  inquiry = iota
	inquiryProbe         // one, whether a host that had failed is back
	inquiryDoubt         // all, whether it was by chance that another was refused
)

// A host that is probed has one connection at a time, and that shows whatever there is to
// show, even if an older one ends badly meanwhile.
var inquiryTransitions = [][]bool{
	inquiryNone:  {inquiryProbe: true, inquiryDoubt: true},
	inquiryProbe: {inquiryNone: true},
	inquiryDoubt: {inquiryNone: true, inquiryProbe: true},
}

func (i inquiry) String() string { return [...]string{"none", "probing", "doubted"}[i] }

// A refusal is what a host has refused, until host.full.
type refusal uint8

const (
	refusedNothing refusal = iota
	refusedMore            // one connection beside others that do their work
	refusedAll             // the only ones
)

// A host that has refused its only connections can refuse one beside others only after
// one was accepted, which ends the refusal.
var refusalTransitions = [][]bool{
	refusedNothing: {refusedMore: true, refusedAll: true},
	refusedMore:    {refusedNothing: true, refusedAll: true},
	refusedAll:     {refusedNothing: true},
}

func (r refusal) String() string { return [...]string{"nothing", "more", "all"}[r] }
