package sim

import (
	"errors"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/trace"
)

// A recording writes the trace of a run, if anybody wants one.
type recording struct {
	seed   uint64        // of the core
	writer *trace.Writer // nil: not recorded
}

func (r *recording) actions(now mail.Instant, actions []qmgr.Action) {
	if r.writer != nil {
		r.writer.Actions(now, actions)
	}
}

// record plays the world, and writes its trace if that is asked for. If the core
// panics, the trace shows over what.
func (w *world) record(opt *Options, seed uint64) (err error) {
	if opt.Trace == nil {
		w.play()
		return nil
	}
	file, err := opt.Trace(w.run.Name, seed)
	if err != nil {
		return err
	}
	w.trace.writer = trace.NewWriter(file, trace.Head{By: "posthaste sim " + w.scenario.Name, Seed: w.trace.seed, Epoch: w.start,
		Config: w.run.Core.WithDefaults()})
	ends := w.trace.writer.Flush
	defer func() { err = errors.Join(ends(), file.Close()) }()
	w.play()
	ends = w.trace.writer.End
	return nil
}
