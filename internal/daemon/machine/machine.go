// Package machine lowers the limits of a configuration to what the system allows the
// process: file descriptors and memory.
package machine

import (
	"log/slog"
	"math"
	"runtime/debug"

	"github.com/posthaste-mta/posthaste/config"
)

// A Limits holds the system's limits for this process. A zero value stands for no
// limit that counts.
type Limits struct {
	Descriptors int   // RLIMIT_NOFILE
	memory      int64 // GOMEMLIMIT, in bytes
}

// Own raises the limit of file descriptors as far as it may be raised, has garbage collected
// less often while the heap is small, and returns what the process has.
func Own() Limits {
	m := Limits{Descriptors: descriptorLimit()}
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		m.memory = limit
	}
	relaxCollector(m.memory > 0)
	return m
}

// A Fitted is a configuration that a machine has room for.
type Fitted struct {
	*config.Config
	TableFiles       int // open at once; 0 is the store's default
	AdminConnections int // 0 is the default
	SlowLookups      int // DNS questions that take long; 0 is the default
}

// Fit returns the configuration, made smaller where the machine is too small for it;
// the log says what was made smaller. The configuration itself is not changed. At a reload,
// started is what the daemon began with: what it takes a restart to change is as it was
// then, and no other part gets a share of it.
func (m Limits) Fit(cfg *config.Config, started *Fitted, listeners int, log *slog.Logger) (Fitted, error) {
	smaller := *cfg
	f := Fitted{Config: &smaller}
	if started != nil {
		f.Spooling, f.SMTPD.ConnectionLimit = started.Spooling, started.SMTPD.ConnectionLimit
	}
	if m.memory > 0 {
		f.fitMemory(m.memory, started != nil, log)
	}
	if m.Descriptors > 0 {
		if err := f.fitDescriptors(m.Descriptors, started, listeners, log); err != nil {
			return Fitted{}, err
		}
	}
	return f, nil
}
