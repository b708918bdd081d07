package window

import "github.com/posthaste-mta/posthaste/internal/assert"

// A Window is what has been learned about the concurrency of one destination. It is
// a value, owned by one queue; every method gets the Config of the queue's
// transport, which may change between calls. Use New: the zero Window is of size 0.
type Window struct {
	state State
	size  int // at least 1; keeps its last value while not Ready

	// success is the positive feedback accumulated towards the next step up; it is
	// below 1, and slightly below 0 after a step that was rounded. failure is what
	// remains until the next step down, in [0, 1]: at the first failure of a cycle
	// it is 0, so that the window steps at once ("reverse hysteresis"). A step in
	// one direction clears the other's sum.
	success, failure float64

	// failedCohorts counts failures since the last success, each as its fraction of
	// a whole cohort.
	failedCohorts float64

	// State of the style "level": the number of successes before the first failure,
	// and from then on levels. A destination that never fails costs no memory.
	untroubled int
	proven     int // the highest level of these
	levels     *levels

	begun uint64 // attempts
}

// An Attempt is what a window must know of a delivery when it ends: how many were
// running when it began. The zero Attempt is that of a delivery for which this is
// unknown.
type Attempt struct {
	level  int    // deliveries running, itself included
	serial uint64 // its number, from 1 on; 0 if the level is unknown
}

// New returns a window of the initial size, Ready.
func New(cfg *Config) Window { return Window{size: cfg.initial()} }

// Size returns how many deliveries may run at once: at least 1 if the window is
// Ready, otherwise 0.
func (w *Window) Size() int {
	if w.state != Ready {
		return 0
	}
	return w.size
}

// State returns the window's state.
func (w *Window) State() State { return w.state }

// Counters returns the accumulated sums of feedback, for dumps and traces.
func (w *Window) Counters() (success, failure, failedCohorts float64) {
	return w.success, w.failure, w.failedCohorts
}

// Begin records the beginning of a delivery, with busy deliveries running, that one
// included. The owner passes the result to Success or Failure.
func (w *Window) Begin(busy int) Attempt {
	assert.That(busy >= 1, "a delivery begins with %d running, itself included", busy)
	w.begun++
	a := Attempt{level: busy, serial: w.begun}
	if w.levels != nil {
		w.levels.begin(a)
	}
	return a
}

// Lost records that the result of a delivery will not be known: neither Success nor
// Failure will be called for it.
func (w *Window) Lost(a Attempt) {
	if w.levels != nil {
		w.levels.void(a)
		w.levels.ended(a, trialOpen)
	}
}

// Success records that a delivery reached the destination, with busy deliveries
// running, that one included. It revives a dead window. In a suspended one it only
// ends the run of failures; such a success comes from a delivery that began before
// there was a delay.
func (w *Window) Success(cfg *Config, a Attempt, busy int) {
	assert.That(busy >= 1, "success with %d deliveries running, the successful one included", busy)
	w.failedCohorts = 0
	switch w.state {
	case Dead:
		w.restart(cfg, busy)
	case Ready:
		if cfg.ByLevel() {
			w.levelSuccess(cfg, a, busy)
			return
		}
		w.widen(cfg, busy, cfg.Positive.at(w.size))
	case Suspended:
	}
}

// Failure records that the destination could not be reached. The window must be
// Ready. It reports whether the window is now Dead.
func (w *Window) Failure(cfg *Config, a Attempt) (died bool) {
	assert.That(w.state == Ready, "failure in a window that is %v", w.state)
	w.failedCohorts += float64(1 / float64(w.size))
	if cfg.deadly(w.failedCohorts) {
		w.enter(Dead)
		return true
	}
	if cfg.ByLevel() {
		w.levelFailure(a)
		return false
	}
	w.shrink(cfg)
	return false
}

// Revive makes a dead window Ready without a success: the back-off timer fired, or
// an operator wants the destination to be tried now. The window must be Dead; busy
// deliveries are still running.
func (w *Window) Revive(cfg *Config, busy int) {
	assert.That(w.state == Dead, "reviving a window that is %v", w.state)
	w.failedCohorts = 0
	w.restart(cfg, busy)
}

// Close makes a Ready window Dead for a reason other than failed cohorts: none of the
// destination's hosts may be tried or can be reached from its source, their lookup has
// failed, or a rule on replies has the destination rest.
func (w *Window) Close() { w.enter(Dead) }

// Suspend closes the window for the delay between two deliveries. It must be
// Ready: a dead one is revived first.
func (w *Window) Suspend() { w.enter(Suspended) }

// Resume opens a suspended window for one delivery at a time.
func (w *Window) Resume() {
	assert.That(w.state == Suspended, "resuming a window that is %v", w.state)
	w.enter(Ready)
	w.size = 1
}

// Reconfigure lowers the window to a new limit. Without it a window above its limit
// stays there until failures lower it.
func (w *Window) Reconfigure(cfg *Config) { w.size = cfg.clamp(w.size) }

// restart opens a dead window at the current concurrency, or as for a new
// destination.
func (w *Window) restart(cfg *Config, busy int) {
	w.enter(Ready)
	w.size = cfg.initial()
	if busy > 0 {
		w.size = cfg.clamp(busy)
	}
	w.success, w.failure = 0, 0
	w.untroubled, w.proven, w.levels = 0, 0, nil
}

// widen applies one success with feedback g, with busy deliveries running. The
// feedback is that of the size before, also if the window steps more than once.
//
// A wide window that is not used has proved nothing: without the margin it could
// grow while a backlog of slow deliveries drains, and negative feedback would come
// too late.
func (w *Window) widen(cfg *Config, busy int, g float64) {
	if w.size >= busy+cfg.initial() {
		return
	}
	if cfg.Rule == RuleSource && cfg.Limit > 0 && w.size >= cfg.Limit {
		return // at the limit nothing accumulates
	}
	slack := cfg.slack(g)
	for w.success += g; w.success+slack >= 1; w.success-- {
		w.size++
		w.failure = 0
	}
	w.size = cfg.clamp(w.size)
}

// shrink applies one failure, with the feedback of the size before.
func (w *Window) shrink(cfg *Config) {
	g := cfg.Negative.at(w.size)
	slack := cfg.slack(g)
	for w.failure -= g; w.failure-slack < 0; w.failure++ {
		w.size--
		w.success = 0
	}
	w.size = max(w.size, 1)
}

// slack returns how close to a whole step the sum must come: the source rounds to
// the nearest event, the text waits for the next event.
func (c *Config) slack(g float64) float64 {
	if c.Rule == RuleReadme {
		return 0
	}
	return float64(g / 2)
}

// deadly reports whether a window with so many failed cohorts is dead.
func (c *Config) deadly(cohorts float64) bool {
	limit := float64(c.FailedCohortLimit)
	switch {
	case c.FailedCohortLimit == 0:
		return false
	case c.Rule == RuleReadme:
		return cohorts > limit
	}
	return cohorts >= limit
}
