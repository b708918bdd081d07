package sim

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// Options say how a scenario is simulated. The zero Options is one seed, the
// scenario's own, one run after the other.
type Options struct {
	Seed  uint64 // the first; 0 means the scenario's
	Seeds int    // how many, each one more than the last; 0 means 1
	// Twice makes every run a second time and compares fingerprints.
	Twice bool
	// Parallel is the number of runs that are made at the same time; 0 means 1. Reports
	// do not depend on it.
	Parallel int
	// Trace, if not nil, opens the file for a run's trace. With Twice the first of
	// the two is recorded. Runs may be made at the same time.
	Trace func(run string, seed uint64) (io.WriteCloser, error)
	// Progress, if not nil, is called periodically with the progress of a run, and
	// when one is done. It is called by one goroutine at a time, some hundred times in
	// each second of processor time.
	Progress func(Progress)
}

// Simulate makes all runs of a scenario, with all seeds, and reports on them in
// the scenario's order. It fails only if the scenario makes no sense or a trace
// cannot be written: what checkers find is in the report.
func Simulate(s *Scenario, opt Options) (*Report, error) {
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("scenario %q: %w", s.Name, err)
	}
	if opt.Seed == 0 {
		opt.Seed = s.Seed
	}
	opt.Seeds, opt.Parallel = max(opt.Seeds, 1), max(opt.Parallel, 1)
	outcomes := make([][]*outcome, len(s.Runs))
	differ := make([][]error, len(s.Runs))
	for i := range s.Runs {
		outcomes[i], differ[i] = make([]*outcome, opt.Seeds), make([]error, opt.Seeds)
	}
	var (
		group sync.WaitGroup
		steps = newProgress(&opt, len(s.Runs)*opt.Seeds)
		turns = make(chan struct{}, opt.Parallel)
	)
	for i := range s.Runs {
		for n := range opt.Seeds {
			turns <- struct{}{}
			group.Go(func() {
				defer func() { <-turns }()
				outcomes[i][n], differ[i][n] = simulateOne(s, &s.Runs[i], opt.Seed+uint64(n), &opt, steps)
				steps.done()
			})
		}
	}
	group.Wait()
	r := &Report{Scenario: s.Name, Seed: opt.Seed, Seeds: opt.Seeds}
	for i := range s.Runs {
		for _, err := range differ[i] {
			if err != nil && !errors.Is(err, errDiffer) {
				return nil, err
			}
		}
		err := errors.Join(differ[i]...)
		run := summarize(&s.Runs[i], outcomes[i])
		if opt.Twice {
			run.Checks[checkDeterminism] = ok
			if err != nil {
				run.Checks[checkDeterminism] = err.Error()
			}
		}
		r.Runs = append(r.Runs, run)
	}
	return r, nil
}

// errDiffer means that two runs of the same seed differed.
var errDiffer = errors.New("two runs differ")

// simulateOne makes one run with one seed.
func simulateOne(s *Scenario, run *Run, seed uint64, opt *Options, steps *progress) (*outcome, error) {
	w, err := newWorld(s, run, seed)
	if err != nil {
		return nil, err
	}
	steps.follow(w)
	if err := w.record(opt, seed); err != nil {
		return nil, fmt.Errorf("trace of run %q: %w", run.Name, err)
	}
	o := newOutcome(w)
	if !opt.Twice {
		return o, nil
	}
	again, err := newWorld(s, run, seed)
	if err != nil {
		return nil, err
	}
	steps.follow(again)
	again.play()
	if again.watch.print != o.fingerprint {
		return o, fmt.Errorf("%w: seed %d gave fingerprint %016x, then %016x", errDiffer, seed, uint64(o.fingerprint), uint64(again.watch.print))
	}
	return o, nil
}
