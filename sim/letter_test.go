package sim

import (
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A server that has enough after each few messages closes the connection at the
// instant at which the client reads the reply to the last of them. What the client was
// to write at that instant it has not written yet, so there is no doubt about it.
func TestWhatWasNotWrittenIsNotInDoubt(t *testing.T) {
	for _, level := range []mail.Level{mail.LevelLockStep, mail.LevelGroup, mail.LevelOverlap, mail.LevelStream} {
		s := oneSite(Behaviour{RTT: Fixed(20 * time.Millisecond), Transaction: Fixed(5 * time.Millisecond), Pipelining: level, MailsPerConnection: 3},
			Arrivals{Messages: 1000, Min: 1, Max: 1})
		core := &s.Runs[0].Core.DefaultTransport
		core.Agents = qmgr.AgentsConnections
		core.Connections.Level, core.Connections.Initial = level, 2
		if r := play(t, s); r.Unknown != 0 || r.Deliveries != 1000 {
			t.Errorf("%v: %d deliveries, the outcome of %d unknown", level, r.Deliveries, r.Unknown)
		}
	}
}
