package window

import "math"

// levels is what a window with the style "level" has learned since its first
// failure; the package comment explains why it decides as it does.
type levels struct {
	evidence

	// retreat is by how many levels the next retreat lowers the window, and
	// lowered the last attempt that had begun before the one before.
	retreat int
	lowered uint64

	// ceiling is the lowest closed level, 0 if there is none. It is tried again
	// after some cohorts, which have to pass at the level below.
	ceiling  int
	cohorts  int     // how many
	waited   int     // successes since then
	believed float64 // the share of failures below it when it was closed
	trial    trialState
	probe    uint64  // the attempt that decides about the trial
	stake    float64 // the doubt about the ceiling that follows from probes alone
}

// A trialState is how far the trial of the ceiling has come.
type trialState uint8

const (
	noTrial    trialState = iota
	trialOpen             // the window is at the ceiling, but nothing began there yet
	trialBegun            // an attempt began there, and has not come back
	trialWell             // it came back well
)

const (
	// A closed level is tried after so many cohorts, then after twice as many,
	// and so on: until one attempt in trialAttempts is what a trial costs. At
	// five deliveries a second that is a minute.
	firstCohorts  = 18
	trialAttempts = 360
)

// levelSuccess takes a success, with the style "level".
func (w *Window) levelSuccess(cfg *Config, a Attempt, busy int) {
	l := w.levels
	if l == nil {
		w.untroubled = min(w.untroubled+1, memory)
		w.widen(cfg, busy, 1/math.Sqrt(float64(w.size)))
		return
	}
	l.presume(a.serial)
	l.returned(a, trialWell)
	if a.level > w.size {
		return // it began before the window was lowered
	}
	switch {
	case l.trial != noTrial && w.size >= l.ceiling:
		if l.trial == trialWell && !l.doubted(l.ceiling) {
			l.ceiling, l.trial = 0, noTrial
		}
	case l.ceiling == 0: // into the unknown, where there may be much to gain
		w.widen(cfg, busy, 1/math.Sqrt(float64(w.size)))
	case w.size < l.ceiling-1: // to where it has been before
		w.widen(cfg, busy, 1/float64(w.size))
	default:
		w.awaitTrial(cfg, busy)
	}
}

// levelFailure takes a failure, with the style "level".
func (w *Window) levelFailure(a Attempt) {
	if w.levels == nil {
		w.levels = &levels{evidence: newEvidence(w.untroubled, w.begun), retreat: 1}
	}
	l := w.levels
	if a.level == 0 {
		a.level = w.size
	}
	probed := l.returned(a, trialOpen) // the next attempt decides, if there is no proof
	closed := l.fail(a, w.size)
	if probed && closed == 0 {
		l.stake = float64(l.stake * against(l.believed))
		if l.stake >= proof {
			closed = l.ceiling
		}
	}
	switch {
	case closed > 0:
		w.retreatBelow(closed)
	case l.ceiling > 0 && l.trial == noTrial && l.below(l.ceiling) >= float64(2*l.believed):
		l.ceiling = 0 // failures have become common below it, too
	}
}

// retreatBelow closes a level and those above. If nothing that began since the
// last retreat is well it goes further down, twice as far each time but not
// below half: the limit may have fallen a long way, and each level would cost
// failures. What was skipped is soon won back.
func (w *Window) retreatBelow(closed int) {
	l := w.levels
	if l.well > l.lowered {
		l.retreat = 1
	}
	w.size = max(min(closed-1, w.size-min(l.retreat, w.size/2)), 1)
	w.success = 0
	l.retreat = min(2*l.retreat, 1<<20)
	if closed == l.ceiling {
		l.cohorts = min(2*l.cohorts, trialAttempts)
	} else {
		l.ceiling, l.cohorts = closed, firstCohorts
	}
	l.believed = l.below(closed)
	l.waited, l.trial, l.lowered = 0, noTrial, l.last
	l.settle(closed)
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
	if l.waited < min(l.cohorts*w.size, max(firstCohorts*w.size, trialAttempts*price(l.believed))) {
		return
	}
	w.size = l.ceiling
	w.success = 0
	l.trial, l.stake = trialOpen, wary
}

// begin notes an attempt. The first one at a ceiling that is being tried is the
// trial. Until it comes back, the window grows no further: it may be one of
// those that wait for a long time to be refused.
func (l *levels) begin(a Attempt) {
	if l.trial == trialOpen && a.level >= l.ceiling {
		l.trial, l.probe = trialBegun, a.serial
	}
	l.record(a)
}

// returned notes the end of an attempt, and tells whether it was the probe.
func (l *levels) returned(a Attempt, now trialState) bool {
	if l.trial != trialBegun || a.serial != l.probe {
		return false
	}
	l.trial = now
	return true
}
