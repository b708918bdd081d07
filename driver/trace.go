package driver

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A Tracer is told of everything that passes between the core and the driver, so
// that another core can be given the same later. Begin is called once, by New;
// after that all calls come from the goroutine that owns the core, which waits
// for them.
type Tracer interface {
	// Begin tells with what the core is made. An error keeps the driver from
	// being made.
	Begin(now mail.Instant, seed uint64, cfg qmgr.Config) error
	// Event tells what the core is going to be given. Slices in it belong to the
	// driver again when Event returns.
	Event(now mail.Instant, ev qmgr.Event)
	// Actions tells what came of the last event, under the same rule.
	Actions(now mail.Instant, actions []qmgr.Action)
	// End tells that there is no more. Clean is false if the core has panicked
	// over the last event: the process is about to end, and what has been told is
	// the only witness.
	End(clean bool)
}

// noTracer is told everything in vain.
type noTracer struct{}

func (noTracer) Begin(mail.Instant, uint64, qmgr.Config) error { return nil }
func (noTracer) Event(mail.Instant, qmgr.Event)                {}
func (noTracer) Actions(mail.Instant, []qmgr.Action)           {}
func (noTracer) End(bool)                                      {}
