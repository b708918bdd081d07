package main

import (
	"log/slog"
	"math"
	"os"
	"runtime/debug"

	"github.com/posthaste-mta/posthaste/config"
)

// A machine is what the system allows this process. A zero value stands for no
// limit that counts.
type machine struct {
	descriptors int    // RLIMIT_NOFILE
	memory      int64  // GOMEMLIMIT, in bytes
	lastWords   func() // writes the log out before the program ends against its will; nil: nothing
}

// thisMachine raises the limit of file descriptors as far as it may be raised, and
// returns what the process has.
func thisMachine() machine {
	m := machine{descriptors: descriptorLimit()}
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		m.memory = limit
	}
	return m
}

// end ends the program at once, but for its log.
func (m machine) end(code int) {
	if m.lastWords != nil {
		m.lastWords()
	}
	os.Exit(code)
}

// atPanic is to be deferred by goroutines whose panic is the end of the program:
// what is in the log is written out first.
func (m machine) atPanic() {
	if bug := recover(); bug != nil {
		if m.lastWords != nil {
			m.lastWords()
		}
		panic(bug)
	}
}

// A fitted is a configuration that a machine has room for.
type fitted struct {
	*config.Config
	tableFiles       int // open at once; 0 is the store's default
	adminConnections int // 0 is the default
	slowLookups      int // DNS questions that take long; 0 is the default
}

// fit returns the configuration, made smaller where the machine is too small for it;
// the log says what was made smaller. The configuration itself is not changed. At a reload,
// started is what the daemon began with: what it takes a restart to change is as it was
// then, and nobody gets a part of that.
func (m machine) fit(cfg *config.Config, started *fitted, listeners int, log *slog.Logger) (fitted, error) {
	smaller := *cfg
	f := fitted{Config: &smaller}
	if started != nil {
		f.Spooling, f.SMTPD.ConnectionLimit = started.Spooling, started.SMTPD.ConnectionLimit
	}
	if m.memory > 0 {
		f.fitMemory(m.memory, started != nil, log)
	}
	if m.descriptors > 0 {
		if err := f.fitDescriptors(m.descriptors, started, listeners, log); err != nil {
			return fitted{}, err
		}
	}
	return f, nil
}
