package receiver

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/posthaste-mta/posthaste/internal/human"
	"github.com/posthaste-mta/posthaste/internal/sink"
)

// A sinkTally counts the configured faults that have happened. Its zero value is ready; any
// number of goroutines may use it.
type sinkTally struct {
	mu     sync.Mutex
	counts map[sink.Fault]int // by stage and kind; the share is 0
}

func (t *sinkTally) refused(r sink.Refusal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = make(map[sink.Fault]int)
	}
	t.counts[sink.Fault{Stage: r.Stage, Kind: r.Kind}]++
}

func (t *sinkTally) count(f sink.Fault) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[sink.Fault{Stage: f.Stage, Kind: f.Kind}]
}

// sinkLine returns the counts on one line.
func sinkLine(s sink.Stats) string {
	return fmt.Sprintf("%d open, %s, %d turned away; %s; %s",
		s.Open, human.Count(s.Connections, "connection"), s.TurnedAway, human.Count(s.Messages, "message"), human.Count(s.Faults, "fault"))
}

// writeSinkSummary writes all counts, with one line for each configured fault.
func writeSinkSummary(out io.Writer, s sink.Stats, shares []*sinkShare, tally *sinkTally) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, at most %d at once", human.Count(s.Connections, "connection"), s.Peak)
	if s.TurnedAway > 0 {
		fmt.Fprintf(&b, "; %d more turned away with 421", s.TurnedAway)
	}
	fmt.Fprintf(&b, "\n%s taken, for %s, with %s\n", human.Count(s.Messages, "message"), human.Count(s.Recipients, "recipient"), human.Count(s.Octets, "byte"))
	for _, one := range shares {
		if one.fault.Share > 0 {
			fmt.Fprintf(&b, "%s: %d\n", one.told, tally.count(one.fault))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}
