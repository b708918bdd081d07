package window

import (
	"math"

	"github.com/posthaste-mta/posthaste/internal/assert"
)

// levels is what a window with the style "level" has learned since its first
// failure; the package comment explains the reasons for its decisions.
type levels struct {
	evidence

	// retreat is the number of levels by which the next retreat lowers the window,
	// and lowered is the last attempt that had begun before the previous retreat.
	retreat int
	lowered uint64

	// ceiling is the lowest closed level, 0 if there is none. It is tried again
	// after some successes at the level below.
	ceiling  int
	patience int     // number of successes required
	waited   int     // number of successes so far
	believed float64 // the failure rate below it when it was closed
	trial    trialState
	probe    uint64  // the attempt that decides the trial
	stake    float64 // the doubt about the ceiling from probes alone
}

// A trialState is the progress of a trial of the ceiling.
type trialState uint8

const (
	noTrial     trialState = iota
	trialOpen              // the window is at the ceiling, but no attempt has begun there
	trialBegun             // an attempt has begun there and not ended
	trialWell              // it succeeded
	trialStates = iota
)

// trialTransitions[from][to] reports which changes there are. A retreat ends any trial, and a
// trial whose window was lowered by a reload may be opened again.
var trialTransitions = [trialStates][trialStates]bool{
	noTrial:    {noTrial: true, trialOpen: true},
	trialOpen:  {noTrial: true, trialOpen: true, trialBegun: true},
	trialBegun: {noTrial: true, trialOpen: true, trialWell: true},
	trialWell:  {noTrial: true, trialOpen: true},
}

// enter takes the trial of the ceiling to its next state.
func (l *levels) enter(t trialState) {
	assert.That(trialTransitions[l.trial][t], "a trial in state %d cannot come to state %d", l.trial, t)
	l.trial = t
}

const (
	// A closed level is tried after this many successes, or cohorts if these are
	// more. Testing a limit costs one delivery in as many; no style that detects a
	// raised limit within n deliveries can cost less than one in n.
	trialAttempts = 160
	trialCohorts  = 12
	// Where failures are common, a level may have been closed by chance. So it is
	// first tried after an eighth of that, and then each time after twice as long.
	hasty = 8
	// eager is the feedback of a success where failures are rare: the window
	// grows by half in each cohort. Where there are more, it is one over the
	// square root of the window: failures of attempts at new levels come before
	// their successes, and must not look like a cluster.
	eager = 0.5
)

// levelSuccess handles a success with the style "level".
func (w *Window) levelSuccess(cfg *Config, a Attempt, busy int) {
	l := w.levels
	if l == nil {
		w.untroubled = min(w.untroubled+1, memory)
		w.proven = max(w.proven, min(a.level, w.size))
		w.widen(cfg, busy, eager)
		return
	}
	l.succeed(a)
	l.ended(a, trialWell)
	if a.level > w.size {
		return // it began before the window was lowered
	}
	switch {
	case l.trial != noTrial && w.size >= l.ceiling:
		if l.trial == trialWell && !l.doubted(l.ceiling) {
			l.ceiling = 0
			l.enter(noTrial)
		}
	case l.ceiling == 0, w.size < l.ceiling-1:
		g := eager
		if l.share() > rare {
			g = 1 / math.Sqrt(float64(w.size))
		}
		w.widen(cfg, busy, g)
	default:
		w.awaitTrial(cfg, busy)
	}
}

// levelFailure handles a failure with the style "level".
func (w *Window) levelFailure(a Attempt) {
	if w.levels == nil {
		w.levels = &levels{evidence: newEvidence(w.untroubled, w.proven, w.size, w.begun), retreat: 1}
	}
	l := w.levels
	if a.level == 0 {
		a.level = w.size
	}
	probed := l.ended(a, trialOpen) // the next attempt decides, if there is no proof
	closed := l.fail(a, w.size)
	if probed && closed == 0 {
		l.stake = float64(l.stake * effects[0].against(l.believed))
		if l.stake >= proof {
			closed = l.ceiling
		}
	}
	switch {
	case closed > 0:
		w.retreatBelow(closed)
	case l.ceiling > 0 && l.trial == noTrial && l.becameCommon(l.ceiling, l.believed):
		l.ceiling = 0
	}
}

// retreatBelow closes a level and those above. If nothing that began since the last
// retreat has succeeded it goes further down, twice as far each time but not below
// half: the limit may have fallen far, and each level would cost failures. Levels
// that were skipped are soon regained.
func (w *Window) retreatBelow(closed int) {
	l := w.levels
	if l.well > l.lowered {
		l.retreat = 1
	}
	w.size = max(min(closed-1, w.size-min(l.retreat, w.size/2)), 1)
	w.success = 0
	l.retreat = min(2*l.retreat, 1<<20)
	again := closed == l.ceiling
	if !again && l.below(closed) <= common {
		l.forget() // either the limit or the failure rate has changed
	}
	l.believed = l.below(closed)
	l.ceiling, l.patience = closed, w.patience(again)
	l.waited, l.lowered = 0, w.begun
	l.enter(noTrial)
	l.settle(closed, l.believed)
}

// patience returns the number of successes before the ceiling is tried. A trial
// that costs more failures is made proportionally less often.
func (w *Window) patience(again bool) int {
	l := w.levels
	usual := max(trialCohorts*w.size, trialAttempts)
	switch {
	case again:
		return min(2*l.patience, usual*price(l.believed))
	case l.believed > common:
		return usual / hasty
	}
	return usual
}

// awaitTrial counts a success at the level below the ceiling, and opens the
// ceiling when it is time to try it. Only successes count for which the window
// was too small: otherwise nothing would be gained.
func (w *Window) awaitTrial(cfg *Config, busy int) {
	l := w.levels
	if busy < w.size || cfg.Limit > 0 && w.size >= cfg.Limit {
		return
	}
	l.waited++
	if l.waited < l.patience {
		return
	}
	w.size = l.ceiling
	w.success = 0
	l.stake = wary
	l.enter(trialOpen)
	l.warn(l.ceiling)
}

// begin records an attempt. The first one at a ceiling that is being tried is the
// probe. Until it ends, the window grows no further: it may be an attempt that
// waits for a long time before it is refused.
func (l *levels) begin(a Attempt) {
	if l.trial == trialOpen && a.level >= l.ceiling {
		l.probe = a.serial
		l.enter(trialBegun)
	}
	l.evidence.begin(a)
}

// ended records the end of an attempt, and reports whether it was the probe.
func (l *levels) ended(a Attempt, now trialState) bool {
	if l.trial != trialBegun || a.serial != l.probe {
		return false
	}
	l.enter(now)
	return true
}
