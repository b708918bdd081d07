package window

// evidence is what attempts have shown about each level.
//
// It is about attempts in the order in which they began, not in the order in
// which they came back: a refusal takes milliseconds and a delivery seconds, so
// that of the attempts at a new level all that fail come back before any that
// does not. An attempt is well if it succeeded, or as soon as one that began
// later has come back. If it fails after all, it is judged anew together with
// those after it, as far back as trail reaches.
type evidence struct {
	at     []level // at[i] is about level i+1
	weight float64 // of the next attempt; it grows, so that older ones count less
	uneasy bool    // there is some doubt

	// The attempts after settled are in trail, attempt n at n % len(trail).
	// Those up to judged are part of the doubts, those up to settled for good.
	trail                 []step
	settled, judged, last uint64

	well   uint64 // the last attempt that was judged to be well
	failed uint64 // the one that failed last of all
}

// A level is what is known of one concurrency.
type level struct {
	// doubt is how many times likelier the latest outcomes at this level and
	// above are if it is too high than if it is not; at least 1. settled is
	// what it was after the attempts that are settled.
	doubt, settled float64
	// odds is what a failure multiplies doubt by: see weigh.
	odds float64
	// attempts and failures at this level, weighted.
	attempts, failures float64
}

// A step is one attempt, at its level.
type step struct {
	level   int32
	verdict verdict
}

// A verdict is what an attempt counts as once it is judged.
type verdict uint8

const (
	stepWell   verdict = iota
	stepFailed         // at its level
	stepVoid           // it says nothing: it was lost, or failed above the window
)

// What is believed, and when. docs/simulation.md has the figures.
const (
	// lost is how much a level that is too high takes away: of the attempts
	// that would have succeeded, one in so many still does.
	lost = 4
	// proof is the doubt that closes a level. Two failures in a row are proof
	// where hardly anything else fails, seven where every fourth attempt does.
	// Without a reason that happens once in so many attempts, at most.
	proof = 2000
	// wary is the doubt that is left once something was closed: its square is
	// proof. One failure is enough then where hardly anything fails, four
	// where every fourth attempt does.
	wary = 45
	// forgets is how many attempts that are well leave no doubt.
	forgets = 6

	// memory is how many successes the share of failures is learned from: each
	// counts 1+1/memory times what the one before it does.
	memory = 128
	// Before anything is known, the share of failures is taken to be
	// priorFailures of prior attempts.
	prior         = 20
	priorFailures = 0.5
	// pooled is how many attempts the share of failures at all levels is worth
	// beside that of those below. It decides where a window has long been as
	// wide as it is, and nothing recent is known from below.
	pooled = 2
	// rarest keeps one failure from being proof, and commonest keeps a window
	// from taking it for granted that nearly everything fails.
	rarest    = 0.01
	commonest = 0.5

	shortestTrail = 64
)

func newEvidence(untroubled int, begun uint64) evidence {
	e := evidence{weight: 1, trail: make([]step, shortestTrail), settled: begun, judged: begun, last: begun}
	e.reach(1)
	e.at[0].attempts = float64(untroubled) // below the first failure, wherever that was
	return e
}

// reach makes sure that a level is there.
func (e *evidence) reach(at int) {
	for len(e.at) < at {
		e.at = append(e.at, level{doubt: 1, settled: 1})
	}
}

func (e *evidence) step(serial uint64) *step { return &e.trail[serial%uint64(len(e.trail))] }

// record notes an attempt that begins. Half of the trail is settled when it is
// full, unless most of it is still to be judged: then it is too short.
func (e *evidence) record(a Attempt) {
	if n := uint64(len(e.trail)); a.serial-e.settled > n {
		if e.judged-e.settled < n/2 {
			e.lengthen()
		} else {
			e.settleUntil(e.settled + n/2)
		}
	}
	e.last = a.serial
	*e.step(a.serial) = step{level: int32(a.level)}
}

func (e *evidence) lengthen() {
	longer := make([]step, 2*len(e.trail))
	for s := e.settled + 1; s <= e.last; s++ {
		longer[s%uint64(len(longer))] = *e.step(s)
	}
	e.trail = longer
}

// settleUntil makes attempts part of the doubts for good.
func (e *evidence) settleUntil(serial uint64) {
	e.weigh()
	e.replay(serial, len(e.at))
	for i := range e.at {
		e.at[i].settled = e.at[i].doubt
	}
	e.settled = serial
	e.replay(e.judged, len(e.at))
}

// replay works out the doubts after an attempt from those that are settled. It
// returns the highest level up to size against which there was proof on the
// way, 0 if there was none.
func (e *evidence) replay(until uint64, size int) (closed int) {
	for i := range e.at {
		e.at[i].doubt = e.at[i].settled
	}
	e.uneasy = true // as far as is known
	for s := e.settled + 1; s <= until; s++ {
		switch st := e.step(s); st.verdict {
		case stepWell:
			e.trust(int(st.level))
		case stepFailed:
			closed = max(closed, e.suspect(int(st.level), size))
		case stepVoid:
		}
	}
	return closed
}

// settle makes an end of what has led to the closing of a level. Some doubt is
// left, of all levels above most.
func (e *evidence) settle(closed int) {
	for i := 1; i < len(e.at); i++ {
		v := &e.at[i]
		if i >= closed-1 || v.doubt > wary {
			v.doubt = wary
		}
		v.settled = v.doubt
	}
	e.settled, e.uneasy = e.judged, true
}

// presume judges attempts up to a serial number: they are well, as they have
// not failed.
func (e *evidence) presume(serial uint64) {
	for e.judged < serial {
		e.judged++
		st := e.step(e.judged)
		if st.verdict == stepVoid {
			continue
		}
		e.count(int(st.level), false)
		e.trust(int(st.level))
		e.well = e.judged
	}
}

// void notes that an attempt says nothing.
func (e *evidence) void(a Attempt) {
	if a.serial > e.judged {
		e.step(a.serial).verdict = stepVoid
	}
}

// fail takes a failure, in a window of a size, and returns from which level on
// there is proof that it is too high, 0 if there is none.
func (e *evidence) fail(a Attempt, size int) (closed int) {
	at := e.met(a)
	if at > size {
		e.void(a) // what it says has been acted upon
		return 0
	}
	e.reach(at)
	if a.serial > e.judged {
		e.presume(a.serial - 1)
	}
	e.weigh()
	switch {
	case a.serial > e.judged:
		*e.step(a.serial) = step{int32(at), stepFailed}
		e.judged = a.serial
		closed = e.suspect(at, size)
		e.count(at, false)
	case a.serial > e.settled:
		*e.step(a.serial) = step{int32(at), stepFailed}
		closed = e.replay(e.judged, size)
	default:
		// It waited for long, as others may that began together with it. What
		// began between it and the failure before it is well.
		for range min(max(a.serial, e.failed)-min(a.serial, e.failed), forgets+1) {
			e.trust(len(e.at))
		}
		closed = e.suspect(at, size)
	}
	e.failed = a.serial
	e.count(at, true)
	return closed
}

// met returns the level that a failed attempt is held against: the highest
// that was reached while it ran. Of two that begin together, either may be the
// one that is refused.
func (e *evidence) met(a Attempt) int {
	at := a.level
	if a.serial <= e.judged {
		return at
	}
	for s := a.serial + 1; s <= e.last; s++ {
		at = max(at, int(e.step(s).level))
	}
	return at
}

// count adds an attempt to its level, or that it failed.
func (e *evidence) count(at int, failed bool) {
	e.reach(at)
	v := &e.at[at-1]
	if failed {
		v.failures += e.weight
		return
	}
	v.attempts += e.weight
	e.weight += e.weight / memory
	if e.weight > 1<<60 {
		e.rescale()
	}
}

// rescale makes the weights small again, which changes no ratio of them.
func (e *evidence) rescale() {
	e.weight /= 1 << 60
	for i := range e.at {
		e.at[i].attempts /= 1 << 60
		e.at[i].failures /= 1 << 60
	}
}

// share returns the share of failures at all levels together.
func (e *evidence) share() float64 {
	attempts, failures := float64(prior*e.weight), float64(priorFailures*e.weight)
	for i := range e.at {
		attempts += e.at[i].attempts
		failures += e.at[i].failures
	}
	return failures / attempts
}

// below returns the share of failures below a level.
func (e *evidence) below(at int) float64 {
	attempts := float64(pooled * e.weight)
	failures := float64(attempts * e.share())
	for i := range e.at[:at-1] {
		attempts += e.at[i].attempts
		failures += e.at[i].failures
	}
	return credible(failures / attempts)
}

func credible(share float64) float64 { return min(max(share, rarest), commonest) }

// against is how many times likelier a failure is at a level that is too high,
// if a share of attempts fails anyway.
func against(share float64) float64 { return (lost - 1 + share) / float64(lost*share) }

// price returns how many failures it takes to close a level again.
func price(share float64) int {
	odds := against(share)
	n := 1
	for doubt := float64(wary * odds); doubt < proof; n++ {
		doubt = float64(doubt * odds)
	}
	return n
}

// weigh works out what a failure means at each level, by the share of failures
// below it as it is known now.
func (e *evidence) weigh() {
	attempts := float64(pooled * e.weight)
	failures := float64(attempts * e.share())
	for i := 1; i < len(e.at); i++ {
		attempts += e.at[i-1].attempts
		failures += e.at[i-1].failures
		e.at[i].odds = against(credible(failures / attempts))
	}
}

// suspect raises the doubt about every level up to that of a failed attempt,
// but the first, which cannot be closed. It returns the highest one up to size
// against which there is proof, 0 if there is none.
func (e *evidence) suspect(at, size int) (closed int) {
	e.uneasy = true
	for i := 1; i < at; i++ {
		v := &e.at[i]
		v.doubt = float64(v.doubt * v.odds)
		if v.doubt >= proof && i < size {
			closed = i + 1
		}
	}
	return closed
}

// trust lowers the doubt about every level up to that of an attempt that is
// well.
func (e *evidence) trust(at int) {
	if !e.uneasy {
		return
	}
	e.uneasy = false
	for i := range e.at {
		v := &e.at[i]
		if i < at {
			v.doubt = max(v.doubt/lost, 1)
		}
		e.uneasy = e.uneasy || v.doubt > 1
	}
}

// doubted tells whether there is any doubt about a level.
func (e *evidence) doubted(at int) bool { return e.at[at-1].doubt > 1 }
