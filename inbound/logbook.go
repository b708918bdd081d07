package inbound

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// A logbook logs refusals without letting clients determine the volume: 9,300
// refusals a second were 9,300 lines, which cost more than the refusals. The first
// occurrences are written in full; repetitions for the same client and reason are
// counted, and written as one line with a count at the end of the interval.
type logbook struct {
	log *slog.Logger

	mu   sync.Mutex
	seen map[occurrence]*occurred
}

// An occurrence identifies events that are counted together.
type occurrence struct{ event, client, reason string }

type occurred struct {
	level slog.Level
	times int
}

const (
	logInterval = time.Minute
	// logInFull is the number of times the same occurrence is written in full in an
	// interval.
	logInFull = 5
	// occurrencesMax bounds the memory and the lines that many clients can use.
	// Further occurrences are counted together.
	occurrencesMax = 500
)

// others stands for clients, and for reasons, that are counted together.
const others = "others"

func newLogbook(log *slog.Logger) *logbook {
	return &logbook{log: log, seen: make(map[occurrence]*occurred)}
}

// note writes or counts an occurrence. The attributes are for the full line.
func (b *logbook) note(level slog.Level, event, client, reason string, attributes ...any) {
	if b.log.Enabled(context.Background(), level) && b.first(level, occurrence{event, client, reason}) {
		b.log.Log(context.Background(), level, event, append([]any{"client", client}, attributes...)...)
	}
}

// first counts an occurrence and reports whether it must be written in full.
func (b *logbook) first(level slog.Level, o occurrence) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen[o] == nil && len(b.seen) >= occurrencesMax {
		if o.client = others; b.seen[o] == nil && len(b.seen) >= 2*occurrencesMax {
			o.reason = others
		}
	}
	n := b.seen[o]
	if n == nil {
		n = &occurred{level: level}
		b.seen[o] = n
	}
	n.times++
	return n.times <= logInFull
}

// run writes counts at the end of every interval until ctx ends.
func (b *logbook) run(ctx context.Context) {
	tick := time.NewTicker(logInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			b.close(logInterval)
		case <-ctx.Done():
			return
		}
	}
}

// close ends an interval: it writes the counts, the largest first, and clears them.
func (b *logbook) close(interval time.Duration) {
	b.mu.Lock()
	seen := b.seen
	b.seen = make(map[occurrence]*occurred)
	b.mu.Unlock()
	var again []occurrence
	for o, n := range seen {
		if n.times > logInFull {
			again = append(again, o)
		}
	}
	slices.SortFunc(again, func(x, y occurrence) int {
		return cmp.Or(seen[y].times-seen[x].times, strings.Compare(x.event, y.event), strings.Compare(x.client, y.client), strings.Compare(x.reason, y.reason))
	})
	for _, o := range again {
		n := seen[o]
		b.log.Log(context.Background(), n.level, o.event, "client", o.client, "reason", o.reason, "again", n.times-logInFull, "within", interval)
	}
}
