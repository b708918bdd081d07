package simulation

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/sim"
)

// A terminal shows the progress of a long simulation; a file or a pipe gets
// nothing, and the line is gone before the table comes.
func TestSimProgress(t *testing.T) {
	if p := newSimProgress(new(bytes.Buffer)); p != nil {
		t.Error("what is no terminal gets a line")
	} else {
		p.clear()
	}
	var b bytes.Buffer
	p := &simProgress{w: &b, width: 60}
	at := sim.Progress{Done: 1, Of: 4, Run: "relay", At: 90 * time.Minute, Accepted: 1000, Settled: 345}
	p.show(at)
	if got := b.String(); got != "\r1 of 4 runs done; relay: 345 of 1000 recipients settled, 1h" {
		t.Errorf("line %q", got)
	}
	at.Settled = 346
	p.show(at) // too soon
	p.clear()
	if got := b.String(); strings.Contains(got, "346") || !strings.HasSuffix(got, "\r"+strings.Repeat(" ", 59)+"\r") {
		t.Errorf("in the end %q", got)
	}
	at.Of = 1
	if got := simProgressText(at, 100); got != "346 of 1000 recipients settled, 1h30m0s of virtual time" {
		t.Errorf("line %q", got)
	}
}
