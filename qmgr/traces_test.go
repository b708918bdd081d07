package qmgr_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/trace"
	"github.com/posthaste-mta/posthaste/trace/replay"
)

// What daemons and simulations have done once is done again, action by action.
// Each file has its story in its first lines; docs/testing.md says how to make
// one. If a change of the scheduler is meant to change what is recorded, UPDATE=1
// records it anew.
func TestTraces(t *testing.T) {
	paths, err := filepath.Glob("testdata/traces/*.trace")
	if err != nil || len(paths) == 0 {
		t.Fatal("no traces: ", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if os.Getenv("UPDATE") != "" {
				text = recordAnew(t, text)
				if err := os.WriteFile(path, text, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			r, err := trace.NewReader(bytes.NewReader(text), path)
			if err != nil {
				t.Fatal(err)
			}
			result, err := replay.Run(r)
			if err != nil {
				t.Fatal(err)
			}
			if d := result.Difference; d != nil {
				t.Errorf("%s:%d: after %s\nrecorded: %s\nnow:      %s%s\nFor more: posthaste trace replay qmgr/%s", path, d.Line, d.Event, d.Recorded, d.Got, d.Panic, path)
			}
		})
	}
}

// recordAnew gives the recorded events to the core as it is now.
func recordAnew(t *testing.T, text []byte) []byte {
	t.Helper()
	var story []string
	for line := range strings.Lines(string(text)) {
		comment, ok := strings.CutPrefix(line, "# ")
		if !ok {
			break
		}
		story = append(story, strings.TrimSuffix(comment, "\n"))
	}
	var out bytes.Buffer
	_, err := replay.Cut(func() (*trace.Reader, error) { return trace.NewReader(bytes.NewReader(text), "the trace") }, replay.Selection{}, &out, story...)
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
