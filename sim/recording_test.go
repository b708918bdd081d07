package sim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/trace"
	"github.com/posthaste-mta/posthaste/trace/replay"
)

// A tape is a file in memory.
type tape struct {
	bytes.Buffer
	broken error
}

func (t *tape) Write(p []byte) (int, error) {
	if t.broken != nil {
		return 0, t.broken
	}
	return t.Buffer.Write(p)
}

func (t *tape) Close() error { return nil }

// The trace of a run holds all of it: a core that is given its events does the
// same again, and the fingerprint over both is that of the run.
func TestTraceGivesTheSameFingerprint(t *testing.T) {
	seed := rand.Uint64()
	for n := range uint64(5) {
		s := swarm(rand.New(rand.NewPCG(seed, n)))
		for i := range s.Arrivals { // a run may be long, and its trace is read three times
			s.Arrivals[i].Messages, s.Arrivals[i].Max = min(s.Arrivals[i].Messages, 30), min(s.Arrivals[i].Max, 20)
		}
		var file tape
		r, err := Simulate(s, Options{Trace: func(run string, _ uint64) (io.WriteCloser, error) {
			if run != "run" {
				t.Errorf("the run is called %q", run)
			}
			return &file, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		all := newFingerprint() // a report's is over the runs of all seeds
		all.mix(uint64(fingerprintOf(t, file.String())))
		if got := fmt.Sprintf("%016x", uint64(all)); got != r.Runs[0].Fingerprint {
			t.Errorf("seed %d, scenario %d: the run has fingerprint %s, its trace %s", seed, n, r.Runs[0].Fingerprint, got)
		}
		in, err := trace.NewReader(bytes.NewReader(file.Bytes()), "tape")
		if err != nil {
			t.Fatal(err)
		}
		if result, err := replay.Run(in); err != nil || result.Difference != nil || !in.Complete() || result.Events == 0 {
			t.Errorf("seed %d, scenario %d: %+v, %+v, %v", seed, n, result, result.Difference, err)
		}
		plain, err := Simulate(s, Options{})
		if err != nil || plain.Runs[0].Fingerprint != r.Runs[0].Fingerprint {
			t.Errorf("seed %d, scenario %d: without a trace the run is another one: %v", seed, n, err)
		}
	}
}

// fingerprintOf gives the events of a trace to a core, and takes the fingerprint
// of them and of what it does.
func fingerprintOf(t *testing.T, text string) fingerprint {
	t.Helper()
	r, err := trace.NewReader(strings.NewReader(text), "tape")
	if err != nil {
		t.Fatal(err)
	}
	core, err := qmgr.New(r.Head().Config, r.Head().Seed)
	if err != nil {
		t.Fatal(err)
	}
	print := newFingerprint()
	for {
		l, err := r.Next()
		if errors.Is(err, io.EOF) {
			return print
		}
		if err != nil {
			t.Fatal(err)
		}
		if l.Event == nil {
			continue
		}
		takeEvent(&print, l.Now, l.Event)
		for _, a := range core.Step(l.Now, l.Event) {
			print.action(a)
		}
	}
}

// A trace that cannot be written is an error, not a run without one.
func TestTraceThatCannotBeWritten(t *testing.T) {
	full := errors.New("no space left")
	s := oneSite(Behaviour{}, Arrivals{Messages: 3, Max: 1})
	for _, open := range []func(string, uint64) (io.WriteCloser, error){
		func(string, uint64) (io.WriteCloser, error) { return nil, full },
		func(string, uint64) (io.WriteCloser, error) { return &tape{broken: full}, nil },
	} {
		if _, err := Simulate(s, Options{Trace: open, Twice: true}); !errors.Is(err, full) {
			t.Errorf("%v", err)
		}
	}
}
