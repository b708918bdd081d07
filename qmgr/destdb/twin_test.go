package destdb

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
)

// A twin is the database by its definition: every host has a log of events, and
// each answer is computed from the log's beginning. It does not collect.
type twin struct {
	cfg   Config
	logs  map[Key][]happening
	order []Key // hosts that are known, least recently used first
}

type happening struct {
	what    string
	at      mail.Instant
	started mail.Instant
	retryAt mail.Instant // of a failure: as the database drew it
	from    mail.Level
	life    Life
}

// A story is the result of a log.
type story struct {
	open        int
	used        mail.Instant
	failures    int
	stamp       mail.Instant // of the last attempt; each is later than the one before
	failed      mail.Instant // the stamp of the last failure
	retryAt     mail.Instant
	closed      Closing
	until       [3]mail.Instant
	held        [3]bool
	strikes     int
	cleanMails  int
	cleanConns  int
	drops       []uint32
	limit       uint32
	limitAt     mail.Instant
	everLearned bool
}

func (w *twin) tell(k Key) (s story) {
	for _, e := range w.logs[k] {
		if s.open == 0 && w.over(&s, e.at) {
			s = story{}
		}
		s.used = e.at
		switch e.what {
		case "open":
			s.open++
		case "fail":
			switch {
			case s.failures > 0 && e.started < s.failed:
				continue
			case s.failures > 0 && e.at.Sub(s.failed) >= w.cfg.FailureTTL:
				s.failures = 0
			}
			s.stamp = max(e.at, s.stamp+1)
			s.failures, s.failed, s.retryAt = s.failures+1, s.stamp, e.retryAt
		case "ready":
			s.stamp = max(e.at, s.stamp+1)
			s.failures = 0
		case "stepdown":
			w.stepDown(&s, e)
		case "shut":
			s.open--
			if e.life.MadeAt != 0 {
				w.shut(&s, e)
			}
		}
	}
	return s
}

func (w *twin) level(s *story) mail.Level {
	for l, held := range s.held {
		if held {
			return mail.Level(l)
		}
	}
	return mail.LevelStream
}

func (w *twin) stepDown(s *story, e happening) {
	if e.from == 0 || w.level(s) < e.from {
		return
	}
	ttl := w.cfg.StepDownTTL << min(s.strikes, 20)
	s.until[e.from-1] = e.at.Add(min(ttl, w.cfg.StepDownMax))
	s.held[e.from-1] = true
	s.strikes++
	s.cleanMails, s.cleanConns = 0, 0
	s.everLearned = true
}

func (w *twin) shut(s *story, e happening) {
	carried := e.life.Messages
	if s.limit != 0 && carried > s.limit {
		s.limit, s.limitAt = 0, e.at
	}
	if dropped := e.life.Why == mail.CloseBusy || e.life.Why == mail.CloseLost; dropped && (carried == 0 || e.life.Outlived) {
		s.drops = nil
	} else if dropped {
		s.drops = append(s.drops, carried)
	} else if n := len(s.drops); n > 0 && carried > s.drops[n-1] {
		s.drops = nil
	}
	if n := len(s.drops); n >= 3 && s.drops[n-1] == s.drops[n-2] && s.drops[n-2] == s.drops[n-3] {
		s.limit, s.limitAt, s.drops = s.drops[n-1], e.at, nil
		s.everLearned = true
	}
	l := w.level(s)
	if l < mail.LevelStream && e.life.Clean > 0 && e.life.Level >= l && e.life.MadeAt >= s.until[l] {
		s.cleanMails += int(e.life.Clean)
		s.cleanConns++
		if s.cleanMails >= w.cfg.StepUpMessages && s.cleanConns >= w.cfg.StepUpConns {
			s.held[l] = false
			s.cleanMails, s.cleanConns = 0, 0
		}
	}
	if s.open == 0 {
		s.closed = Closing{MadeAt: max(s.closed.MadeAt, e.life.MadeAt), At: e.at}
	}
}

// over reports whether the story has expired.
func (w *twin) over(s *story, now mail.Instant) bool {
	alive := s.failures > 0 && (now < s.retryAt.Add(w.cfg.RetryGrace) || now < s.failed.Add(w.cfg.FailureTTL)) ||
		s.closed.At != 0 && now < s.closed.At.Add(w.cfg.ClosedTTL) ||
		s.everLearned && now < s.used.Add(w.cfg.FactsTTL) ||
		now < s.used
	for l, held := range s.held {
		alive = alive || held && now < s.until[l]
	}
	return !alive
}

func (w *twin) state(k Key, now mail.Instant) (State, mail.Instant) {
	s := w.tell(k)
	switch {
	case s.open > 0:
		return InUse, 0
	case s.failures > 0 && now < s.retryAt:
		return RetryLater, s.retryAt
	case s.failures > 0 && now.Sub(s.retryAt) < w.cfg.RetryGrace:
		return RetryDue, s.retryAt
	case s.closed.At != 0 && now.Sub(s.closed.At) < w.cfg.ClosedTTL:
		return Closed, s.closed.MadeAt
	}
	return Unused, 0
}

// add logs an event of a host and drops the least recently used host if there are
// too many.
func (w *twin) add(k Key, e happening) {
	w.logs[k] = append(w.logs[k], e)
	w.order = append(slices.DeleteFunc(w.order, func(o Key) bool { return o == k }), k)
	idle := slices.DeleteFunc(slices.Clone(w.order), func(o Key) bool { return w.tell(o).open > 0 })
	if n := len(idle) - w.cfg.HostLimit; n > 0 {
		for _, gone := range idle[:n] {
			delete(w.logs, gone)
			w.order = slices.DeleteFunc(w.order, func(o Key) bool { return o == gone })
		}
	}
}

// prune shortens a log whose beginning no longer matters, so that the test does not
// take quadratic time.
func (w *twin) prune(k Key, now mail.Instant) {
	if s := w.tell(k); s.open == 0 && w.over(&s, now) {
		w.logs[k] = []happening{{what: "used", at: s.used}}
	}
}

// A database with random calls must answer as its twin does, whenever it collects,
// and keep as many hosts as the limit allows.
func TestTwin(t *testing.T) {
	runs := golden.Runs(1)
	for _, c := range []struct {
		name    string
		limit   int
		hosts   int
		collect bool
	}{{"collecting", 100, 5, true}, {"crowded", 3, 6, false}} {
		t.Run(c.name, func(t *testing.T) {
			for range runs {
				compareTwin(t, rand.Uint64(), c.limit, c.hosts, c.collect)
			}
		})
	}
}

func compareTwin(t *testing.T, seed uint64, limit, hosts int, collect bool) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	cfg := Config{
		RetryMin: 10, RetryMax: 40, RetryGrace: 30, FailureTTL: 90, ClosedTTL: 50, FactsTTL: 400, HostLimit: limit,
		StepDownTTL: 60, StepDownMax: 200, StepUpMessages: 5, StepUpConns: 2,
	}.WithDefaults()
	db := New(cfg, seed)
	w := &twin{cfg: cfg, logs: map[Key][]happening{}}
	now := mail.Instant(1000)
	made := map[Key][]mail.Instant{} // of open connections; 0 if not ready
	var all []Key
	for j := range hosts {
		all = append(all, key(string(rune('a'+j))))
	}
	for i := range 600 {
		if rng.IntN(3) > 0 {
			now += mail.Instant(rng.IntN(1 << rng.IntN(8)))
		}
		k := all[rng.IntN(hosts)]
		w.prune(k, now)
		op := happen(db, rng, k, now, made)
		if op.what != "" {
			w.add(k, op)
		}
		db.check()
		if collect && rng.IntN(4) == 0 {
			db.Collect(now, rng.IntN(4))
		}
		if !collect && db.Len() != len(w.order) {
			t.Fatalf("seed %d, step %d: %d hosts, the twin has %d", seed, i, db.Len(), len(w.order))
		}
		compared := []Key{k}
		if i%8 == 0 { // all of them, periodically
			compared = all
		}
		for _, k := range compared {
			if diff := differ(db, w, k, now); diff != "" {
				t.Fatalf("seed %d, step %d (%s %v): %v: %s", seed, i, op.what, now, k, diff)
			}
		}
	}
}

// happen makes a random possible event and returns it.
func happen(db *DB, rng *rand.Rand, k Key, now mail.Instant, made map[Key][]mail.Instant) happening {
	e := happening{at: now, started: now - mail.Instant(rng.IntN(8))}
	conns := made[k]
	switch op := rng.IntN(8); {
	case op < 2 && len(conns) < 3:
		e.what = "open"
		db.Open(k, now)
		made[k] = append(conns, 0)
	case op == 2:
		e.what = "fail"
		e.retryAt = db.Failed(k, e.started, now, mail.Reply{Code: 421})
	case op == 3 && len(conns) > 0:
		e.what = "ready"
		conns[rng.IntN(len(conns))] = now
		db.Succeeded(k, now)
	case op == 4 && rng.IntN(4) == 0:
		e.what, e.from = "stepdown", mail.Level(rng.IntN(4))
		db.StepDown(k, e.from, now)
	case op > 4 && len(conns) > 0:
		i := rng.IntN(len(conns))
		e.what = "shut"
		e.life = Life{
			MadeAt: conns[i], Messages: uint32(rng.IntN(3)), Clean: uint32(rng.IntN(5)),
			Level: mail.Level(rng.IntN(4)), Why: mail.CloseReason(rng.IntN(6)),
		}
		made[k] = slices.Delete(conns, i, i+1)
		db.Shut(k, e.life, now)
	}
	return e
}

func differ(db *DB, w *twin, k Key, now mail.Instant) string {
	state, at := db.State(k, now)
	if wantState, wantAt := w.state(k, now); state != wantState || at != wantAt {
		return fmt.Sprintf("%v %v, the twin says %v %v", state, at, wantState, wantAt)
	}
	s := w.tell(k)
	if s.open == 0 && w.over(&s, now) {
		s = story{}
	}
	if s.limit != 0 && now.Sub(s.limitAt) >= limitTTL {
		s.limit = 0
	}
	v := db.View(k, now)
	if v.Open != s.open || v.Failures != s.failures || v.Level != w.level(&s) || v.MessagesMax != int(s.limit) {
		return fmt.Sprintf("view %+v, the twin says %+v", v, s)
	}
	return ""
}

// Every wait is the wait for that many failures, plus or minus a fifth, and the
// whole range occurs: otherwise hosts would be probed together.
func TestJitter(t *testing.T) {
	db := New(Config{}, 7)
	low, high := 2.0, 0.0
	for i := range 2000 {
		k := key("a")
		k.Source = fmt.Sprint(i)
		wait := db.Failed(k, epoch, epoch, mail.Reply{Code: 421}).Sub(epoch)
		part := float64(wait) / float64(time.Minute)
		low, high = min(low, part), max(high, part)
	}
	if low < 0.8 || low > 0.81 || high > 1.2 || high < 1.19 {
		t.Errorf("waits from %.3f to %.3f of a minute", low, high)
	}
}
