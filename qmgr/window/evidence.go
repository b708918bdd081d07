package window

// evidence is what attempts have shown about each level.
//
// It is about attempts in the order in which they began, not in the order in
// which they came back: a refusal takes milliseconds and a delivery seconds, so
// that of the attempts at a new level all that fail come back before any that
// does not. An attempt is well if it succeeded. It is presumed to be when it has
// had time to fail: when it has lasted for longer than two that failed since, one
// after the other. If it fails after all, that is held against its level then.
type evidence struct {
	at     []level // at[i] is about level i+1
	weight float64 // of the next attempt; it grows, so that older ones count less
	uneasy bool    // there is some doubt

	// The levels of the attempts after judged are in trail, attempt n at
	// n % len(trail); 0 is one that must not be presumed to be well. Those up to
	// judged are part of the doubts.
	trail        []int32
	judged, last uint64
	well         uint64 // the last attempt that has succeeded

	// When one that began after round fails, all up to before have had the time
	// of two rounds, each from the beginning of an attempt to its failure.
	before, round uint64
}

// A level is what is known of one concurrency.
type level struct {
	// doubt is how many times likelier the latest outcomes at this level and
	// above are if it is too high than if it is not, at least 1; for each of
	// the effects.
	doubt [2]float64
	// odds is what a failure multiplies doubt by: see weigh.
	odds [2]float64
	// attempts and failures at this level, weighted.
	attempts, failures float64
	// known says that attempts at this level or above have been well often
	// enough to leave no doubt, once: its failures tell of the receiver.
	known bool
}

// An effect is what a level that is too high may do.
type effect struct {
	lost   float64 // of the attempts that would have succeeded, one in so many still does
	undone float64 // what a failure multiplies doubt by if it was presumed to be well
}

// effects are the two that are looked for: refusals by a limit, of which nearly
// all beyond it are; and those of a receiver that serves all but a few of those
// that it lets wait. The second takes a hundred attempts to be proven.
var effects = [2]effect{{4, 2}, {1.03, 1.015}}

// What is believed, and when.
const (
	// proof is the doubt that closes a level. Two failures in a row are proof
	// where hardly anything else fails, seven where every fourth attempt does.
	// Without a reason that happens once in so many attempts, at most.
	proof = 2000
	// wary is the doubt that is left once something was closed, and with which
	// a level begins that is reached for the first time: its square is about
	// proof. One failure is enough then where hardly anything fails, four where
	// every fourth attempt does.
	wary = 45

	// memory is how many successes the share of failures is learned from: each
	// counts 1+1/memory times what the one before it does.
	memory = 128
	// Before anything is known, the share of failures is taken to be
	// priorFailures of prior attempts.
	prior         = 20
	priorFailures = 0.2
	// pooled is how many attempts the share of failures at all levels is worth
	// beside that of those below. It decides where a window has long been as
	// wide as it is, and nothing recent is known from below.
	pooled = 20
	// mostRare keeps one failure from being proof, and commonest keeps a window
	// from taking it for granted that nearly everything fails.
	mostRare  = 0.002
	commonest = 0.5
	// Up to rare, failures that are new come from what is new: higher levels.
	// From common on that is as likely to be chance, which comes in clusters.
	rare   = 0.0172
	common = 0.12

	shortestTrail = 64
)

// newEvidence returns what is known when the first attempt fails, in a window of
// a size: all levels that were proven are good, and any of the latest attempts
// may have begun at the highest.
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

// reach makes sure that a level is there.
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

// begin notes an attempt that begins.
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

// begunAt is the level of an attempt on the trail.
func (e *evidence) begunAt(serial uint64) *int32 { return &e.trail[serial%uint64(len(e.trail))] }

// presume judges attempts up to a serial number: they are well, as they have
// not failed.
func (e *evidence) presume(serial uint64) {
	for e.judged < serial {
		e.judged++
		if at := int(*e.begunAt(e.judged)); at > 0 {
			e.count(at, false)
			e.trust(at)
		}
	}
}

// void notes that an attempt says nothing.
func (e *evidence) void(a Attempt) {
	if a.serial > e.judged {
		*e.begunAt(a.serial) = 0
	}
}

// succeed takes a success. All that began before it have lasted for as long.
func (e *evidence) succeed(a Attempt) {
	e.presume(a.serial)
	e.well = max(e.well, a.serial)
}

// fail takes a failure, in a window of a size, and returns from which level on
// there is proof that it is too high, 0 if there is none.
func (e *evidence) fail(a Attempt, size int) (closed int) {
	at := e.met(a)
	presumed := a.serial <= e.judged
	e.void(a)
	if a.serial > e.round {
		e.presume(min(e.before, a.serial))
		e.before, e.round = e.round, e.last
	}
	if at > size {
		return 0 // what it says has been acted upon
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

// met returns the level that a failed attempt is held against: the highest
// that was reached while it ran, unless one that began later has succeeded. Of
// two that begin together, either may be the one that is refused.
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

// forget makes what is known of the share of failures worth no more than
// that of prior attempts.
func (e *evidence) forget() {
	attempts := 0.0
	for i := range e.at {
		attempts += e.at[i].attempts
	}
	e.weight = max(e.weight, attempts/prior)
}

// rescale makes the weights small again, which changes no ratio of them.
func (e *evidence) rescale() {
	e.weight /= 1 << 60
	for i := range e.at {
		e.at[i].attempts /= 1 << 60
		e.at[i].failures /= 1 << 60
	}
}

// share returns the share of failures at all levels that are known to be good.
// At others they are no more than what is to be expected of a limit.
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

// below returns the share of failures below a level.
func (e *evidence) below(at int) float64 { return credible(e.shareBelow(at, pooled, e.share())) }

// becameCommon tells whether failures below a level are twice as common as it
// was believed when it was closed.
func (e *evidence) becameCommon(at int, believed float64) bool {
	return e.shareBelow(at, prior, believed) >= float64(2*believed)
}

// shareBelow returns the share of failures below a level, if so many attempts
// more had shown the share given.
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

// against is how many times likelier a failure is at a level that is too high,
// if a share of attempts fails anyway.
func (f effect) against(share float64) float64 {
	return (f.lost - 1 + share) / float64(f.lost*share)
}

// price returns how many failures it takes to close a level again.
func price(share float64) int {
	odds := effects[0].against(share)
	n := 1
	for doubt := float64(wary * odds); doubt < proof; n++ {
		doubt = float64(doubt * odds)
	}
	return n
}

// weigh works out what a failure means at each level, by the share of failures
// below it as it is known now. Where they are common, a few more are not looked
// for: it would take thousands of attempts to tell.
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

// suspect raises the doubt about every level up to that of a failed attempt,
// but the first, which cannot be closed. It returns the highest one up to size
// against which there is proof, 0 if there is none.
//
// If the attempt was presumed to be well, that has lowered the doubt before. It
// is raised again by half of that, since it may have been nothing that was
// lowered; and not at all where failures are common, and clusters of them no
// proof.
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

// trust lowers the doubt about every level up to that of an attempt that is
// well.
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

// doubted tells whether there is any doubt about a level.
func (e *evidence) doubted(at int) bool { return e.at[at-1].doubt[0] > 1 }

// warn makes a level that is tried stand or fall with its first attempts.
func (e *evidence) warn(at int) {
	e.at[at-1].doubt[0] = max(e.at[at-1].doubt[0], wary)
	e.uneasy = true
}

// settle makes an end of what has led to the closing of a level. Some doubt is
// left, also of levels below; but not where failures are common, and may all
// have been chance.
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
