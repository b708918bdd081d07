package window

// evidence is what attempts have shown about each level.
//
// It considers attempts in the order in which they began, not in the order of their
// results: a refusal takes milliseconds and a delivery seconds, so that of the
// attempts at a new level all failures arrive before any success. An attempt is
// good if it succeeded. It is presumed good when it has had time to fail: when it
// has lasted longer than two consecutive later failures. If it fails after all,
// that then counts against its level.
type evidence struct {
	at     []level // at[i] is for level i+1
	weight float64 // of the next attempt; it grows, so that older attempts count less
	uneasy bool    // some level has a doubt above 1

	// The levels of the attempts after judged are in trail, attempt n at n %
	// len(trail); 0 marks one that must not be presumed good. Those up to judged
	// are part of the doubts.
	trail        []int32
	judged, last uint64
	well         uint64 // the last attempt that has succeeded

	// When an attempt that began after round fails, all up to before have lasted
	// for two rounds, each from the beginning of an attempt to its failure.
	before, round uint64
}

// A level is the evidence about one concurrency.
type level struct {
	// doubt is how many times likelier the latest outcomes at this level and above
	// are if it is too high than if it is not; at least 1. There is one for each of
	// the effects.
	doubt [2]float64
	// odds is the factor by which a failure multiplies doubt: see weigh.
	odds [2]float64
	// attempts and failures at this level, weighted.
	attempts, failures float64
	// known means that attempts at this level or above were once good often enough
	// to leave no doubt: its failures are then typical of the receiver.
	known bool
}

// An effect is a possible consequence of a level that is too high.
type effect struct {
	lost   float64 // of the attempts that would have succeeded, one in lost still does
	undone float64 // factor of doubt for a failure that was presumed good
}

// effects are the two that are detected: a limit beyond which nearly all attempts
// are refused; and a receiver that makes surplus attempts wait and fails only a few
// of them. The second needs a hundred attempts for a proof.
var effects = [2]effect{{4, 2}, {1.03, 1.015}}

// Thresholds and prior beliefs.
const (
	// proof is the doubt that closes a level. Two failures in a row are proof where
	// hardly anything else fails, seven where every fourth attempt does. It is also
	// the minimum mean number of attempts between false alarms.
	proof = 2000
	// wary is the doubt that remains after a level was closed, and the initial
	// doubt of a level that is reached for the first time: its square is about
	// proof. One failure is then enough where hardly anything fails, four where
	// every fourth attempt does.
	wary = 45

	// memory is the number of successes from which the failure rate is estimated:
	// each counts 1+1/memory times as much as the previous one.
	memory = 128
	// Before anything is known, the failure rate is assumed to be priorFailures of
	// prior attempts.
	prior         = 20
	priorFailures = 0.2
	// pooled is the weight, in attempts, of the failure rate at all levels beside
	// that of the levels below. It matters where a window has had its size for
	// long, and nothing recent is known from below.
	pooled = 20
	// mostRare keeps one failure from being proof, and commonest keeps a window
	// from accepting as normal that nearly everything fails.
	mostRare  = 0.002
	commonest = 0.5
	// Up to the rate rare, new failures are attributed to what is new: higher
	// levels. From common on they are as likely to be chance, which comes in
	// clusters.
	rare   = 0.0172
	common = 0.12

	shortestTrail = 64
)

// newEvidence returns the evidence at the first failure, in a window of a size: all
// proven levels are good, and any of the latest attempts may have begun at the
// highest.
func newEvidence(untroubled, proven, size int, begun uint64) evidence {
	e := evidence{weight: 1, at: make([]level, max(proven, 1)), trail: make([]int32, shortestTrail), judged: begun, last: begun}
	for i := range e.at {
		e.at[i] = level{doubt: [2]float64{1, 1}, known: true}
	}
	for i := range e.trail {
		e.trail[i] = int32(size)
	}
	e.at[0].attempts = float64(untroubled)
	return e
}

// reach ensures that a level exists.
func (e *evidence) reach(at int) {
	for len(e.at) < at {
		doubt := 1.0
		if e.share() <= rare {
			doubt = wary
		}
		e.at = append(e.at, level{doubt: [2]float64{doubt, 1}})
		e.uneasy = true
	}
}

// begin records the beginning of an attempt.
func (e *evidence) begin(a Attempt) {
	if n := uint64(len(e.trail)); a.serial-e.judged > n {
		longer := make([]int32, 2*n)
		for s := e.judged + 1; s <= e.last; s++ {
			longer[s%(2*n)] = e.trail[s%n]
		}
		e.trail = longer
	}
	e.last = a.serial
	*e.begunAt(a.serial) = int32(a.level)
}

// begunAt returns the level of an attempt on the trail.
func (e *evidence) begunAt(serial uint64) *int32 { return &e.trail[serial%uint64(len(e.trail))] }

// presume judges attempts up to a serial number as good, since they have not
// failed.
func (e *evidence) presume(serial uint64) {
	for e.judged < serial {
		e.judged++
		if at := int(*e.begunAt(e.judged)); at > 0 {
			e.count(at, false)
			e.trust(at)
		}
	}
}

// void records that an attempt has no result.
func (e *evidence) void(a Attempt) {
	if a.serial > e.judged {
		*e.begunAt(a.serial) = 0
	}
}

// succeed records a success. All attempts that began before it have lasted at least
// as long.
func (e *evidence) succeed(a Attempt) {
	e.presume(a.serial)
	e.well = max(e.well, a.serial)
}

// fail records a failure, in a window of a size, and returns the level from which
// on it is proven that the level is too high, 0 if there is none.
func (e *evidence) fail(a Attempt, size int) (closed int) {
	at := e.met(a)
	presumed := a.serial <= e.judged
	e.void(a)
	if a.serial > e.round {
		e.presume(min(e.before, a.serial))
		e.before, e.round = e.round, e.last
	}
	if at > size {
		return 0 // it has already been acted upon
	}
	e.reach(at)
	e.weigh()
	closed = e.suspect(at, size, presumed)
	if !presumed {
		e.count(at, false)
	}
	e.count(at, true)
	return closed
}

// met returns the level that a failed attempt counts against: the highest that was
// reached while it ran, unless one that began later has succeeded. Of two that
// begin together, either may be the one that is refused.
func (e *evidence) met(a Attempt) int {
	at := a.level
	if a.serial <= e.well || a.serial+uint64(len(e.trail)) <= e.last {
		return at
	}
	for s := a.serial + 1; s <= e.last; s++ {
		at = max(at, int(*e.begunAt(s)))
	}
	return at
}

// count adds an attempt, or its failure, to its level.
func (e *evidence) count(at int, failed bool) {
	e.reach(at)
	v := &e.at[at-1]
	if failed {
		v.failures += e.weight
		return
	}
	v.attempts += e.weight
	e.weight += float64(e.weight / memory) // never fused, though memory is a power of two: test/arm64 looks for that
	if e.weight > 1<<60 {
		e.rescale()
	}
}

// forget reduces the weight of the failure rate to that of prior attempts.
func (e *evidence) forget() {
	attempts := 0.0
	for i := range e.at {
		attempts += e.at[i].attempts
	}
	e.weight = max(e.weight, attempts/prior)
}

// rescale reduces all weights by the same factor, which keeps their ratios.
func (e *evidence) rescale() {
	e.weight /= 1 << 60
	for i := range e.at {
		e.at[i].attempts /= 1 << 60
		e.at[i].failures /= 1 << 60
	}
}

// share returns the failure rate at all levels that are known to be good. At other
// levels failures are expected because of a limit.
func (e *evidence) share() float64 {
	attempts, failures := float64(prior*e.weight), float64(priorFailures*e.weight)
	for i := range e.at {
		if v := &e.at[i]; v.known {
			attempts += v.attempts
			failures += v.failures
		}
	}
	return failures / attempts
}

// below returns the failure rate below a level.
func (e *evidence) below(at int) float64 { return credible(e.shareBelow(at, pooled, e.share())) }

// becameCommon reports whether failures below a level are twice as common as was
// estimated when it was closed.
func (e *evidence) becameCommon(at int, believed float64) bool {
	return e.shareBelow(at, prior, believed) >= float64(2*believed)
}

// shareBelow returns the failure rate below a level, as if more attempts had shown
// the rate share.
func (e *evidence) shareBelow(at, more int, share float64) float64 {
	attempts := float64(float64(more) * e.weight)
	failures := float64(attempts * share)
	for i := range e.at[:at-1] {
		attempts += e.at[i].attempts
		failures += e.at[i].failures
	}
	return failures / attempts
}

func credible(share float64) float64 { return min(max(share, mostRare), commonest) }

// against returns how many times likelier a failure is at a level that is too high,
// if a fraction share of attempts fails anyway.
func (f effect) against(share float64) float64 {
	return (f.lost - 1 + share) / float64(f.lost*share)
}

// price returns the number of failures that it takes to close a level again.
func price(share float64) int {
	odds := effects[0].against(share)
	n := 1
	for doubt := float64(wary * odds); doubt < proof; n++ {
		doubt = float64(doubt * odds)
	}
	return n
}

// weigh computes the odds of a failure at each level from the current failure rate
// below it. Where failures are common the second effect is ignored: it would take
// thousands of attempts to detect.
func (e *evidence) weigh() {
	attempts := float64(pooled * e.weight)
	failures := float64(attempts * e.share())
	for i := 1; i < len(e.at); i++ {
		attempts += e.at[i-1].attempts
		failures += e.at[i-1].failures
		share := credible(failures / attempts)
		e.at[i].odds = [2]float64{effects[0].against(share), 1}
		if share < common {
			e.at[i].odds[1] = effects[1].against(share)
		}
	}
}

// suspect raises the doubt about every level up to that of a failed attempt, except
// the first, which cannot be closed. It returns the highest level up to size for
// which there is proof, 0 if there is none.
//
// If the attempt was presumed good, that has lowered the doubt before. It is raised
// again by half of that, since there may have been no doubt to lower; and not at
// all where failures are common, so that clusters of them are no proof.
func (e *evidence) suspect(at, size int, presumed bool) (closed int) {
	e.uneasy = true
	few := effects[0].against(common)
	for i := 1; i < at; i++ {
		v := &e.at[i]
		for n, f := range effects {
			v.doubt[n] = float64(v.doubt[n] * v.odds[n])
			if presumed && v.odds[0] > few {
				v.doubt[n] = float64(v.doubt[n] * f.undone)
			}
			if v.doubt[n] >= proof && i < size {
				closed = i + 1
			}
		}
	}
	return closed
}

// trust lowers the doubt about every level up to that of a good attempt.
func (e *evidence) trust(at int) {
	if !e.uneasy {
		return
	}
	e.uneasy = false
	for i := range e.at {
		v := &e.at[i]
		for n, f := range effects {
			if i < at {
				v.doubt[n] = max(v.doubt[n]/f.lost, 1)
			}
			e.uneasy = e.uneasy || v.doubt[n] > 1
		}
		v.known = v.known || i < at && v.doubt[0] == 1
	}
}

// doubted reports whether there is any doubt about a level.
func (e *evidence) doubted(at int) bool { return e.at[at-1].doubt[0] > 1 }

// warn raises the doubt about a level that is tried, so that its first attempts
// decide.
func (e *evidence) warn(at int) {
	e.at[at-1].doubt[0] = max(e.at[at-1].doubt[0], wary)
	e.uneasy = true
}

// settle resets the doubts after a level was closed. Some doubt remains, also about
// levels below; but not where failures are common and may all have been chance.
func (e *evidence) settle(closed int, share float64) {
	for i := 1; i < len(e.at); i++ {
		v := &e.at[i]
		switch {
		case i >= closed-1:
			v.doubt[0] = wary
		case share > common:
			v.doubt[0] = 1
		default:
			v.doubt[0] = min(v.doubt[0], wary)
		}
		v.doubt[1] = 1
	}
	e.uneasy = true
}
