package demo

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// A demoTally counts what the receivers took, and learns of deferrals from the
// daemon's log: what an administrator would see is all that it has.
type demoTally struct {
	changed chan struct{} // has room for one: something was delivered

	mu       sync.Mutex
	begin    time.Time
	sites    []demoCount // by index of the site
	handed   map[string]demoHanded
	seen     map[demoDelivery]bool
	twice    int
	bulkFrom time.Time
	bulkTo   time.Time
	left     int // bulk recipients not delivered
	alarms   []string
}

// A demoCount is what happened at a site.
type demoCount struct {
	bulk, singles          int // expected
	bulkTaken, singleTaken int
	deferred               int // recipients whose first attempt was
	done                   time.Duration
	during                 []time.Duration // latencies of the singles submitted during the bulk
	before                 []time.Duration // and of those before it
}

// A demoHanded is a single message that was submitted.
type demoHanded struct {
	site   int
	at     time.Time
	during bool
}

type demoDelivery struct {
	key string
	to  mail.Address
}

func newDemoTally() *demoTally {
	return &demoTally{
		changed: make(chan struct{}, 1),
		begin:   time.Now(),
		sites:   make([]demoCount, len(demoSites())),
		handed:  make(map[string]demoHanded),
		seen:    make(map[demoDelivery]bool),
	}
}

func (t *demoTally) expectBulk(site, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sites[site].bulk = n
	t.left += n
}

// handingIn notes a single message just before it is submitted.
func (t *demoTally) handingIn(site int, key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sites[site].singles++
	t.handed[key] = demoHanded{site, time.Now(), !t.bulkFrom.IsZero() && t.left > 0}
}

func (t *demoTally) bulkAccepted() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.noteBulk(time.Now())
}

// noteBulk notes that the bulk was accepted, at the latest at an instant. On a busy
// machine sites have taken some of it, or all, before its sender has read the reply.
func (t *demoTally) noteBulk(at time.Time) {
	if t.bulkFrom.IsZero() || at.Before(t.bulkFrom) {
		t.bulkFrom = at
	}
}

func (t *demoTally) bulkDelivered() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.bulkFrom.IsZero() && t.left == 0
}

// complete reports whether each submitted message was delivered once.
func (t *demoTally) complete() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.sites {
		if s.bulkTaken != s.bulk || s.singleTaken != s.singles {
			return false
		}
	}
	return t.twice == 0
}

// taken notes a message that a site has accepted.
func (t *demoTally) taken(site int, d sink.Delivery) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.sites[site]
	for _, to := range d.Recipients {
		one := demoDelivery{d.Key, to}
		if t.seen[one] {
			t.twice++
			continue
		}
		t.seen[one] = true
		if d.Key == bulkKey {
			t.bulkRecipient(s, d.At)
			continue
		}
		s.singleTaken++
		h, known := t.handed[d.Key]
		if !known {
			continue // not ours: it has no beginning to count from
		}
		latency := d.At.Sub(h.at)
		if h.during {
			s.during = append(s.during, latency)
		} else {
			s.before = append(s.before, latency)
		}
	}
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

func (t *demoTally) bulkRecipient(s *demoCount, at time.Time) {
	t.noteBulk(at)
	s.bulkTaken++
	t.left--
	if s.bulkTaken == s.bulk {
		s.done = at.Sub(t.bulkFrom)
	}
	if t.left == 0 {
		t.bulkTo = at
	}
}

// A demoSnapshot is a copy of the tally.
type demoSnapshot struct {
	at        time.Duration // since the begin
	sites     []demoCount
	twice     int
	bulkFrom  time.Duration // since the begin; 0 if the bulk was not accepted yet
	bulkTotal time.Duration // 0 if it is not through
	alarms    []string
}

func (t *demoTally) snapshot() demoSnapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := demoSnapshot{at: time.Since(t.begin), sites: slices.Clone(t.sites), twice: t.twice, alarms: slices.Clone(t.alarms)}
	for i := range s.sites {
		s.sites[i].during = slices.Clone(s.sites[i].during)
		s.sites[i].before = slices.Clone(s.sites[i].before)
	}
	if !t.bulkFrom.IsZero() {
		s.bulkFrom = t.bulkFrom.Sub(t.begin)
	}
	if !t.bulkTo.IsZero() {
		s.bulkTotal = t.bulkTo.Sub(t.bulkFrom)
	}
	return s
}

// deferred notes that the first attempt for a recipient was deferred.
func (t *demoTally) deferred(to string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, site := range demoSites() {
		if strings.HasSuffix(to, "@"+site.domain()) {
			t.sites[i].deferred++
		}
	}
}

// alarmsMax bounds what is remembered of the daemon's errors.
const alarmsMax = 5

func (t *demoTally) alarm(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.alarms) < alarmsMax {
		t.alarms = append(t.alarms, text)
	}
}

// logHandler returns a handler for the daemon's log that counts instead of
// writing.
func (t *demoTally) logHandler() slog.Handler { return demoLog{t} }

type demoLog struct{ tally *demoTally }

func (demoLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (l demoLog) Handle(_ context.Context, r slog.Record) error {
	text, of := r.Message, map[string]slog.Value{}
	r.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		of[a.Key] = a.Value
		return true
	})
	if r.Level >= slog.LevelError {
		l.tally.alarm(text)
	}
	if attempt := of["attempt"]; attempt.Kind() == slog.KindInt64 && attempt.Int64() == 1 && of["status"].String() == mail.Deferred.String() {
		l.tally.deferred(of["to"].String())
	}
	return nil
}

func (l demoLog) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l demoLog) WithGroup(string) slog.Handler      { return l }
