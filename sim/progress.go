package sim

import (
	"sync"
	"time"
)

// A Progress is how far a simulation is.
type Progress struct {
	Done, Of int // runs, one for each seed

	// The rest is of the run that has come further; zero when one is done.
	Run      string
	At       time.Duration // after the start
	Accepted uint64        // recipients
	Settled  uint64        // of them, those delivered, refused for good or expired
}

// A progress reports the progress of concurrent runs. A nil one reports nothing.
type progress struct {
	mu    sync.Mutex
	tell  func(Progress)
	state Progress // only Done and Of
}

func newProgress(opt *Options, of int) *progress {
	if opt.Progress == nil {
		return nil
	}
	return &progress{tell: opt.Progress, state: Progress{Of: of}}
}

// done counts a run.
func (p *progress) done() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Done++
	p.tell(p.state)
}

// follow reports on a world from now on.
func (p *progress) follow(w *world) {
	if p != nil {
		w.watch.resting = append(w.watch.resting, p)
	}
}

// rested implements restWatcher.
func (p *progress) rested(w *world) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.state
	now.Run, now.At = w.run.Name, w.now.Sub(w.start)
	for i := range w.measure.tallies {
		t := &w.measure.tallies[i]
		now.Accepted += t.accepted
		now.Settled += t.delivered + t.failed + t.expired
	}
	p.tell(now)
}
