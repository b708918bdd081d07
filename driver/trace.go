package driver

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A Tracer receives everything that passes between the core and the driver, so that
// it can be replayed later. Begin is called once, by New; after that all calls come
// from the goroutine that owns the core, which waits for them.
type Tracer interface {
	// Begin receives the arguments that the core is created with. If it returns an
	// error, New fails.
	Begin(now mail.Instant, seed uint64, cfg qmgr.Config) error
	// Event receives the next event of the core. Slices in it may not be used after
	// Event returns.
	Event(now mail.Instant, ev qmgr.Event)
	// Actions receives the actions that resulted from the last event, under the
	// same rule.
	Actions(now mail.Instant, actions []qmgr.Action)
	// End is the last call. clean is false if the core panicked on the last event:
	// the process is about to end, and the trace is the only evidence.
	End(clean bool)
}

// noTracer discards everything.
type noTracer struct{}

func (noTracer) Begin(mail.Instant, uint64, qmgr.Config) error { return nil }
func (noTracer) Event(mail.Instant, qmgr.Event)                {}
func (noTracer) Actions(mail.Instant, []qmgr.Action)           {}
func (noTracer) End(bool)                                      {}
