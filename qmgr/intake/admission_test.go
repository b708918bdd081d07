package intake

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
)

// Everything that rests in the incoming area, or in the deferred area and is due, comes
// into core sooner or later, and held mail that is due is found, whatever happens while
// answers are under way: mail arrives and is announced late, is deferred, held, released
// and removed; operators name messages and have everything tried. It is of one bucket, of a few,
// or of more than one survey names. Nothing is taken by a hint that was overtaken. The invariant of doc.go holds after every step.
func TestEverythingAtRestIsTaken(t *testing.T) {
	worlds := 10 * uint64(golden.Runs(3))
	seen := make(map[string]int)
	for seed := range worlds {
		w := newSpoolWorld(t, seed)
		for range 150 {
			w.step()
		}
		w.settle()
		for id, p := range w.spool {
			if p.Area != mail.AreaHold || p.Due > 0 {
				t.Fatalf("seed %d: message %d still rests in %v, due %d, at %d", seed, id, p.Area, p.Due, w.now)
			}
		}
		if !w.a.Idle() || w.a.Wake(true) != mail.Never {
			t.Fatalf("seed %d: nothing is left, and admission is idle %t, to wake at %d", seed, w.a.Idle(), w.a.Wake(true))
		}
		for what, n := range w.seen {
			seen[what] += n
		}
	}
	for _, what := range []string{"announced", "overtaken", "named", "missed", "found gone", "unwanted", "from incoming", "from deferred", "from flush", "from retry", "lapsed", "rescue", "survey"} {
		if seen[what] < int(worlds)/5 {
			t.Errorf("%q was seen %d times only", what, seen[what])
		}
	}
	if seen["from warmup"] == 0 { // few messages are due at one instant; TestWarmupFindsWhatIsDueThen has more
		t.Error("nothing was found that waited until a day ends")
	}
}

// What an operator has tried are all messages that rest in the deferred area at that
// moment, due or not. Those that a wrong clock has put off are found from a due time on, once in each bucket; others keep
// their time.
func TestFlushFindsAllThatIsDeferred(t *testing.T) {
	rescues := 0
	for seed := range 5 * uint64(golden.Runs(2)) {
		w := newSpoolWorld(t, seed)
		for range 100 {
			w.step()
		}
		w.finish = func(id mail.QueueID) { delete(w.spool, id) }
		w.drain()
		for i := range mail.QueueID(10) {
			id, due := 1000+i, w.now.Add(time.Duration(1+w.rng.IntN(50)))
			w.spool[id], w.tried[id] = mail.Place{Area: mail.AreaDeferred, Due: due, Bucket: w.bucket(id)}, w.now.Add(time.Duration(w.rng.IntN(2)))
			w.a.Appeared(id, w.spool[id])
		}
		w.drain()
		from := mail.Instant(0)
		rescued := make(map[mail.Bucket]bool)
		if seed%2 == 0 {
			from = w.now.Add(25)
			for b := range w.number {
				if w.a.MayRescue(mail.Bucket(b)) {
					w.a.Rescue(mail.Bucket(b), from)
					rescued[mail.Bucket(b)] = true
				}
			}
		} else {
			w.a.FlushAll(Flush{Asked: w.now.Add(1)})
		}
		w.drain()
		for id, p := range w.spool {
			if p.Area == mail.AreaDeferred && p.Due >= from && (seed%2 == 1 || rescued[p.Bucket] && w.tried[id] > w.now) {
				t.Fatalf("seed %d: message %d due %d still rests after a scan from %d", seed, id, p.Due, from)
			}
		}
		for i := range mail.QueueID(10) {
			if _, rests := w.spool[1000+i]; !rests && seed%2 == 0 && w.tried[1000+i] <= w.now {
				t.Fatalf("seed %d: message %d, which the right clock has put off, does not keep its time", seed, 1000+i)
			}
		}
		for b := range rescued {
			if rescues++; w.a.MayRescue(b) {
				t.Fatalf("seed %d: bucket %d may be searched for what a wrong clock has put off again and again", seed, b)
			}
		}
	}
	if rescues == 0 {
		t.Error("nothing was searched for what a wrong clock had put off")
	}
}

// A scan for what waits until a day ends finds all of that, in all buckets, and nothing that
// is due at another instant. One that is ended takes nothing more.
func TestWarmupFindsWhatIsDueThen(t *testing.T) {
	for seed := range uint64(golden.Runs(8)) {
		w := newSpoolWorld(t, seed)
		for range 100 {
			w.step()
		}
		w.finish = func(id mail.QueueID) { delete(w.spool, id) }
		w.a.EndWarmup()
		w.drain()
		for i := range mail.QueueID(20) {
			id, due := 1000+i, w.now.Add(time.Duration(100+w.rng.IntN(3)))
			w.spool[id], w.tried[id] = mail.Place{Area: mail.AreaDeferred, Due: due, Bucket: w.bucket(id)}, 1
			w.a.Appeared(id, w.spool[id])
		}
		w.drain()
		before := maps.Clone(w.spool)
		due := w.now.Add(101)
		w.only = due
		if !w.a.MayBeginWarmup() {
			t.Fatalf("seed %d: nothing is under way, and the scan may not begin", seed)
		}
		w.a.BeginWarmup(due)
		if w.a.MayBeginWarmup() {
			t.Fatalf("seed %d: a scan may begin while another one is under way", seed)
		}
		if seed%4 == 0 {
			w.a.EndWarmup()
		}
		w.drain()
		for id, p := range before {
			if _, rests := w.spool[id]; rests == (seed%4 != 0 && p.Area == mail.AreaDeferred && p.Due == due) {
				t.Fatalf("seed %d: message %d in %v, due %d, rests: %t, after a scan for %d", seed, id, p.Area, p.Due, rests, due)
			}
		}
	}
}

// A scan for what suspensions have kept finds all mail with the mark in its due time, in all
// buckets, and takes no other into core.
func TestResumeFindsWhatIsMarked(t *testing.T) {
	for seed := range uint64(golden.Runs(8)) {
		w := newSpoolWorld(t, seed)
		for range 100 {
			w.step()
		}
		w.finish = func(id mail.QueueID) { delete(w.spool, id) }
		w.drain()
		w.now = w.now.Add(time.Hour) // what is left rests until an hour after it
		for i := range mail.QueueID(40) {
			id, due := 1000+i, MarkFrom(w.now.Add(time.Duration(1+i)*time.Minute))
			if i%2 == 1 {
				due++
			}
			w.spool[id], w.tried[id] = mail.Place{Area: mail.AreaDeferred, Due: due, Bucket: w.bucket(id)}, 1
			w.a.Appeared(id, w.spool[id])
		}
		w.drain()
		if !w.a.MayBeginResume() {
			t.Fatalf("seed %d: nothing is under way, and the scan may not begin", seed)
		}
		before := maps.Clone(w.spool)
		w.a.BeginResume(w.now)
		if seed%3 == 0 { // it begins anew
			for range w.rng.IntN(100) {
				w.admit()
				if len(w.flight) > 0 {
					w.progress()
				}
			}
			w.a.BeginResume(w.now)
		}
		w.drain()
		for id, p := range before {
			if _, rests := w.spool[id]; id >= 1000 && rests != (p.Due%1e6 != 1) {
				t.Fatalf("seed %d: message %d due %d rests: %t, after a scan for what is marked", seed, id, p.Due, rests)
			}
		}
	}
}

// The marks next to instants: each is one nanosecond after a whole millisecond.
func TestMarks(t *testing.T) {
	for _, c := range []struct{ at, until, from mail.Instant }{{5_000_000, 4_000_001, 5_000_001}, {5_000_001, 5_000_001, 5_000_001}, {5_000_002, 5_000_001, 6_000_001}} {
		if until, from := MarkUntil(c.at), MarkFrom(c.at); until != c.until || from != c.from || !Marked(until) || !Marked(from) {
			t.Errorf("the marks around %d are %d and %d, want %d and %d", c.at, until, from, c.until, c.from)
		}
		if Marked(c.at) != (c.until == c.from) {
			t.Errorf("%d is marked: %t", c.at, Marked(c.at))
		}
	}
}

// A spoolWorld is a spool, and what the core would do between it and an Admission.
type spoolWorld struct {
	t      *testing.T
	seed   uint64
	rng    *rand.Rand
	now    mail.Instant
	last   mail.QueueID
	a      *Admission
	counts map[mail.QueueID]*Account
	number int // of buckets
	spool  map[mail.QueueID]mail.Place
	tried  map[mail.QueueID]mail.Instant
	core   map[mail.QueueID]Origin
	moving map[mail.QueueID]bool // changes of messages at rest are under way
	flight []*flight
	finish func(mail.QueueID) // what becomes of a message whose round ends
	only   mail.Instant       // what ScanWarmup was begun for last
	seen   map[string]int
}

// A flight is something under way between core and host. It is carried out in the spool
// once, and some time later the core hears of it.
type flight struct {
	done  bool
	do    func() // in the spool
	heard func() // in core
}

func newSpoolWorld(t *testing.T, seed uint64) *spoolWorld {
	w := &spoolWorld{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 3)), now: 1000, a: NewAdmission(), spool: make(map[mail.QueueID]mail.Place),
		tried: make(map[mail.QueueID]mail.Instant), counts: make(map[mail.QueueID]*Account), core: make(map[mail.QueueID]Origin), moving: make(map[mail.QueueID]bool), seen: make(map[string]int)}
	w.finish = w.rest
	w.a.LookHeld()
	earlier := 3
	switch seed % 4 {
	case 0:
		w.number = 1
	case 3:
		w.number, earlier = 1000, 3*mail.BucketsFound
	default:
		w.number = int(seed%4) * 3
	}
	for range earlier { // from before the start
		w.last += 2
		w.rest(w.last)
	}
	return w
}

// bucket returns the bucket of a message.
func (w *spoolWorld) bucket(id mail.QueueID) mail.Bucket {
	return mail.Bucket(uint64(id/2) * 7919 % uint64(w.number))
}

// rest puts a message anywhere.
func (w *spoolWorld) rest(id mail.QueueID) {
	later := w.now.Add(time.Duration(w.rng.IntN(60) - 10))
	w.tried[id] = w.now
	switch w.rng.IntN(8) {
	case 0, 1:
		delete(w.spool, id)
	case 2:
		w.spool[id] = mail.Place{Area: mail.AreaHold, Bucket: w.bucket(id)}
	case 3:
		w.spool[id] = mail.Place{Area: mail.AreaHold, Due: later, Bucket: w.bucket(id)}
	case 4:
		w.spool[id] = mail.Place{Area: mail.AreaIncoming, Bucket: w.bucket(id)}
	default:
		w.spool[id] = mail.Place{Area: mail.AreaDeferred, Due: later, Bucket: w.bucket(id)}
	}
}

func (w *spoolWorld) send(do, heard func()) {
	w.flight = append(w.flight, &flight{do: do, heard: heard})
}

// progress has something that is under way go on.
func (w *spoolWorld) progress() {
	i := w.rng.IntN(len(w.flight))
	if f := w.flight[i]; !f.done {
		f.done = true
		f.do()
	} else {
		w.flight = slices.Delete(w.flight, i, i+1)
		f.heard()
	}
}

func (w *spoolWorld) step() {
	switch n := w.rng.IntN(20); {
	case n < 3: // an ID may be given before another's message is durable, and be durable after that
		w.last += 2
		id := w.last
		w.send(func() { w.spool[id], w.tried[id] = mail.Place{Area: mail.AreaIncoming, Bucket: w.bucket(id)}, 0 }, func() { w.announced(id) })
	case n < 9 && len(w.flight) > 0:
		w.progress()
	case n < 11:
		w.now = w.now.Add(time.Duration(w.rng.IntN(20)))
	case n < 12:
		w.order(mail.QueueID(1 + w.rng.IntN(int(w.last)+2)))
	case n == 12 && w.rng.IntN(3) == 0:
		w.a.FlushAll(Flush{Asked: w.now, Since: mail.Instant(w.rng.IntN(2) * 1000)})
	case n == 12 && w.a.MayRescue(w.bucket(w.last)):
		w.a.Rescue(w.bucket(w.last), w.now.Add(time.Duration(w.rng.IntN(30))))
		w.seen["rescue"]++
	case n == 13 && w.rng.IntN(20) == 0:
		w.a.EndWarmup()
	case n < 15 && w.a.MayBeginWarmup():
		w.beginWarmup()
	case n == 15 && w.a.MayBeginResume() && w.rng.IntN(4) == 0:
		w.a.BeginResume(w.now)
	case n < 16:
		w.leave()
	default:
		w.admit()
	}
	w.check()
}

// beginWarmup looks for what is due with some message.
func (w *spoolWorld) beginWarmup() {
	for _, id := range slices.Sorted(maps.Keys(w.spool)) {
		if p := w.spool[id]; p.Area == mail.AreaDeferred && p.Due > w.now && w.rng.IntN(2) == 0 {
			w.only = p.Due
			w.a.BeginWarmup(w.only)
			return
		}
	}
}

// announced hears that a message has become durable, which may have been found since then.
func (w *spoolWorld) announced(id mail.QueueID) {
	if _, in := w.core[id]; in {
		return
	}
	if !w.a.Announced(id, w.bucket(id), w.rng.IntN(4)) {
		w.seen["overtaken"]++
		return
	}
	w.seen["announced"]++
	if p, there := w.spool[id]; !there || p.Area != mail.AreaIncoming || w.moving[id] {
		w.t.Fatalf("seed %d: message %d comes into core by its hint, and is in %v, moving %t", w.seed, id, p.Area, w.moving[id])
	}
	w.core[id] = FromIncoming
	w.enter(id)
}

// enter counts a message in its bucket.
func (w *spoolWorld) enter(id mail.QueueID) {
	w.counts[id] = w.a.Account(w.bucket(id))
	w.a.Enter(w.counts[id])
}

// out takes a message out of core.
func (w *spoolWorld) out(id mail.QueueID) {
	delete(w.core, id)
	w.a.Leave(w.counts[id])
	delete(w.counts, id)
}

// order has an operator name a message that is not in core, which may not exist.
func (w *spoolWorld) order(id mail.QueueID) {
	if !w.free(id) {
		return
	}
	w.a.Name(id)
	w.seen["named"]++
	if w.rng.IntN(2) == 0 {
		w.a.Retry(id, w.now)
		return
	}
	w.moving[id] = true
	w.send(func() {
		if _, there := w.spool[id]; there {
			w.rest(id)
		}
	}, func() {
		delete(w.moving, id)
		w.appeared(id)
	})
}

func (w *spoolWorld) appeared(id mail.QueueID) {
	if p, there := w.spool[id]; there {
		w.a.Appeared(id, p)
	}
}

func (w *spoolWorld) free(id mail.QueueID) bool {
	_, in := w.core[id]
	return !in && !w.moving[id]
}

// leave ends the round of some message.
func (w *spoolWorld) leave() {
	for _, id := range slices.Sorted(maps.Keys(w.core)) {
		if w.core[id] != opening && w.rng.IntN(2) == 0 {
			w.end(id)
			return
		}
	}
}

func (w *spoolWorld) end(id mail.QueueID) {
	w.core[id] = opening // nothing else happens to it
	w.send(func() { w.finish(id) }, func() {
		w.out(id)
		w.appeared(id)
	})
}

// opening is the origin of messages in core that wait for an answer.
const opening Origin = 200

// admit opens a message, and fetches.
func (w *spoolWorld) admit() {
	for _, s := range []Scan{ScanDeferred, ScanHeld} {
		if w.a.Due(s, w.now) {
			w.a.Look(s, w.now)
		}
	}
	if s := w.a.Turn(); w.rng.IntN(4) > 0 {
		free := 1 + w.rng.IntN(10)
		c, ok := w.a.Take(s, free)
		for ; ok; c, ok = w.a.Take(s, free) {
			if c.Account != nil && !w.a.hasRoom(c.Account, free) {
				w.t.Fatalf("seed %d: bucket %v has %d messages in core, and one more where there is room for %d", w.seed, c.Account.bucket, c.Account.inCore, free)
			}
			if w.free(c.ID) {
				w.open(c.ID, c.Origin)
				break
			}
		}
		if !ok {
			w.nothingWaits(s, free)
		}
	}
	for w.a.Has(ScanHeld) {
		c, _ := w.a.Take(ScanHeld, 0)
		id := c.ID
		if p := w.spool[id]; w.free(id) {
			w.seen["lapsed"]++
			w.moving[id] = true
			w.send(func() {
				if w.spool[id] == p && p.Area == mail.AreaHold {
					delete(w.spool, id)
				}
			}, func() {
				delete(w.moving, id)
				w.appeared(id)
			})
		}
	}
	for s := range scans {
		from, most, ok := w.a.Fetch(s)
		if !ok {
			continue
		}
		var f mail.Found
		w.send(func() { f = w.search(s, from, 1+w.rng.IntN(min(most, 4))) }, func() {
			if w.a.scans[s].searches[from.Bucket].missed {
				w.seen["missed"]++
			}
			if len(f.Buckets) == mail.BucketsFound {
				w.seen["survey"]++
			}
			if !w.a.Found(s, f) {
				w.t.Fatalf("seed %d: what was fetched of the scan %v is not expected", w.seed, s)
			}
		})
	}
}

// nothingWaits finds out whether a bucket waits that has room.
func (w *spoolWorld) nothingWaits(s Scan, free int) {
	for b, search := range w.a.scans[s].searches {
		if len(search.found) == 0 {
			continue
		}
		w.seen["blocked"]++
		if acc := search.account; !w.a.Shared() || acc.inCore < 16*free {
			w.t.Fatalf("seed %d: nothing is taken, and bucket %v has %d messages in core and others waiting, where there is room for %d", w.seed, b, acc.inCore, free)
		}
	}
}

// open has a message come into core, if it is still what its scan looked for.
func (w *spoolWorld) open(id mail.QueueID, from Origin) {
	w.core[id] = opening
	w.enter(id)
	var p mail.Place
	there := false
	w.send(func() { p, there = w.spool[id] }, func() {
		wanted := there
		switch from {
		case FromIncoming:
			wanted = wanted && p.Area == mail.AreaIncoming
		case FromDeferred:
			wanted = wanted && p.Area == mail.AreaDeferred && p.Due <= w.now
		case FromFlush:
			f := w.a.Flush()
			wanted = wanted && p.Area == mail.AreaDeferred && f.Wants(w.tried[id], w.now)
		case FromWarmup:
			wanted = wanted && p.Area == mail.AreaDeferred && (p.Due == w.only || p.Due <= w.now)
		case FromResume:
			wanted = wanted && p.Area == mail.AreaDeferred && (Marked(p.Due) || p.Due <= w.now)
		case FromRetry:
			wanted = wanted && p.Area != mail.AreaHold
		}
		if wanted {
			w.seen["from "+[...]string{"incoming", "deferred", "flush", "warmup", "resume", "retry"}[from]]++
			w.core[id] = from
			return
		}
		w.seen[map[bool]string{true: "unwanted", false: "found gone"}[there]]++
		w.out(id)
		w.appeared(id)
	})
}

// search answers a fetch.
func (w *spoolWorld) search(s Scan, from mail.Cursor, most int) mail.Found {
	var all []mail.Cursor
	for id, p := range w.spool {
		if p.Area == s.Area() {
			all = append(all, p.Cursor(id))
		}
	}
	slices.SortFunc(all, func(a, b mail.Cursor) int {
		if a.Before(b) {
			return -1
		}
		return 1
	})
	f := mail.Found{Next: from, NextDue: mail.Never}
	last := from.Bucket
	for _, c := range all {
		switch {
		case c.Bucket > last && from == mail.Cursor{Bucket: from.Bucket} && len(f.Buckets) < mail.BucketsFound:
			f.Buckets, last = append(f.Buckets, c), c.Bucket
		case c.Before(from), c.Bucket > from.Bucket, f.More, f.NextDue != mail.Never:
		case s.Timed() && c.Due > w.now:
			f.NextDue = c.Due
		case len(f.Cursors) == most:
			f.More = true
		default:
			f.Cursors, f.Next = append(f.Cursors, c), c
			f.Next.ID++
		}
	}
	return f
}

// drain has all that is under way end, and all that is found come into core and leave
// again, without any time passing.
func (w *spoolWorld) drain() {
	underWay := func() bool {
		for s := range scans {
			if w.a.UnderWay(s) || w.a.Due(s, w.now) || len(w.a.scans[s].named) > 0 {
				return true
			}
		}
		return len(w.flight)+len(w.core) > 0
	}
	for n := 0; underWay(); n++ {
		if n > 10_000 {
			w.t.Fatalf("seed %d: admission does not come to an end: %+v", w.seed, w.a)
		}
		for len(w.flight) > 0 {
			w.progress()
			w.check()
		}
		for _, id := range slices.Sorted(maps.Keys(w.core)) {
			if w.core[id] != opening {
				w.end(id)
			}
		}
		w.admit()
		w.check()
	}
}

// settle lets time pass until nothing is due any more, with nothing new.
func (w *spoolWorld) settle() {
	w.finish = func(id mail.QueueID) { delete(w.spool, id) }
	for w.drain(); w.a.Wake(true) != mail.Never; w.drain() {
		at := w.a.Wake(true)
		if at <= w.now {
			w.t.Fatalf("seed %d: admission wants to be woken at %d, and it is %d", w.seed, at, w.now)
		}
		if without := w.a.Wake(false); without < at || without != w.a.scans[ScanHeld].nextDue() {
			w.t.Fatalf("seed %d: admission without room wants to be woken at %d, with room at %d", w.seed, without, at)
		}
		w.now = at
	}
}

// check is the invariant: what rests and is not in core is found and not taken, or behind
// the cursor of a search, or will be announced, or in a bucket that the survey has not come
// to; and what is behind a cursor is looked for.
func (w *spoolWorld) check() {
	w.t.Helper()
	w.a.Check()
	onItsWay := slices.ContainsFunc(w.flight, func(f *flight) bool { return f.done }) // a hint may be
	for id, p := range w.spool {
		if !w.free(id) || p.Area == mail.AreaHold && p.Due == 0 {
			continue
		}
		of, c := ScanDeferred, p.Cursor(id)
		switch p.Area {
		case mail.AreaIncoming:
			of = ScanIncoming
		case mail.AreaHold:
			of = ScanHeld
		}
		sc := &w.a.scans[of]
		s := sc.searches[c.Bucket]
		if s == nil && (c.Bucket > sc.surveyed || of == ScanIncoming && onItsWay) {
			continue
		}
		if s == nil {
			w.t.Fatalf("seed %d: message %d rests in %v, bucket %v, which the survey has passed", w.seed, id, p.Area, c.Bucket)
		}
		looks := s.more || s.fetching || s.nextDue <= p.Due
		behind := !c.Before(s.from) || s.missed && !c.Before(s.low)
		if !slices.Contains(s.found, c) && !(behind && looks) && !(of == ScanIncoming && onItsWay) {
			w.t.Fatalf("seed %d: message %d rests in %v, due %d, and no scan comes to it: %+v", w.seed, id, p.Area, p.Due, *s)
		}
	}
	for s := range ScanHeld { // the survey goes on
		sc := &w.a.scans[s]
		if at := sc.searches[sc.surveyed]; sc.surveyed < mail.BucketEnd && sc.survey == nil && (at == nil || at.from != mail.Cursor{Bucket: sc.surveyed} && !at.missed || !at.more && !at.missed) && s != ScanFlush {
			w.t.Fatalf("seed %d: the survey of %v mail has come to an end at bucket %v", w.seed, s, sc.surveyed)
		}
	}
}

// The scans take turns; the removal of held mail has none.
func TestTurnsOfScans(t *testing.T) {
	a := NewAdmission()
	for i, want := range []Scan{ScanIncoming, ScanDeferred, ScanFlush, ScanWarmup, ScanResume, ScanIncoming, ScanDeferred} {
		if got := a.Turn(); got != want {
			t.Errorf("turn %d is %v's, want %v's", i, got, want)
		}
	}
}

// New mail comes into core at once while there is room and nothing older waits. A hint
// that is late, for the scan has passed it or an operator has named the message, is left
// to the scan: only the spool can say what has become of the message.
func TestHints(t *testing.T) {
	begun := func() *Admission {
		a := NewAdmission()
		a.Fetch(ScanIncoming)
		a.Found(ScanIncoming, mail.Found{Cursors: []mail.Cursor{{ID: 10}}, Next: mail.Cursor{ID: 11}})
		return a
	}
	read := func() *Admission {
		a := begun()
		a.Take(ScanIncoming, 9)
		return a
	}
	for _, c := range []struct {
		what string
		a    *Admission
		id   mail.QueueID
		free int
		want bool
	}{
		{"at the start, before the index was read", NewAdmission(), 12, 1, false},
		{"behind what was found and not taken", begun(), 12, 1, false},
		{"new", read(), 11, 1, true},
		{"without room", read(), 11, 0, false},
		{"passed by the scan", read(), 10, 1, false},
	} {
		if got := c.a.Announced(c.id, 0, c.free); got != c.want || c.a.Waiting() == c.want {
			t.Errorf("a message %s comes into core at once: %t; waits: %t", c.what, got, c.a.Waiting())
		}
	}
	for id, want := range map[mail.QueueID]bool{16: true, 15: false, 14: false} {
		a := read()
		a.Name(15)
		a.Name(13)
		if a.Announced(id, 0, 1) != want {
			t.Errorf("message %d comes into core at once: %t, and an operator has named 15", id, !want)
		}
	}
}

// What an operator names comes before all that is found.
func TestNamedMailIsFirst(t *testing.T) {
	a := NewAdmission()
	a.FlushAll(Flush{Asked: 5})
	a.Fetch(ScanFlush)
	a.Found(ScanFlush, mail.Found{Cursors: []mail.Cursor{{Due: 7, ID: 1}, {Due: 7, ID: 2}}, Next: mail.Cursor{Due: 7, ID: 3}})
	a.Retry(8, 1)
	a.Retry(9, 1)
	if a.Named() != 2 {
		t.Errorf("%d named messages wait", a.Named())
	}
	got := ""
	for c, ok := a.Take(ScanFlush, 9); ok; c, ok = a.Take(ScanFlush, 9) {
		got += fmt.Sprintf("%d from %d, ", c.ID, c.Origin)
	}
	if a.Named() != 0 {
		t.Errorf("%d named messages are left", a.Named())
	}
	if want := fmt.Sprintf("8 from %d, 9 from %[1]d, 1 from %d, 2 from %[2]d, ", FromRetry, FromFlush); got != want {
		t.Errorf("taken are %s want %s", got, want)
	}
}

// What a survey found that was begun before an operator has asked does not count: mail may
// have been deferred since then in a bucket that had none.
func TestFlushDuringASurvey(t *testing.T) {
	a := NewAdmission()
	a.FlushAll(Flush{Asked: 5})
	a.Fetch(ScanFlush)
	a.FlushAll(Flush{Asked: 7})
	a.Found(ScanFlush, mail.Found{NextDue: mail.Never})
	if from, _, ok := a.Fetch(ScanFlush); !ok || from != (mail.Cursor{}) {
		t.Fatalf("the next fetch is from %v, %t", from, ok)
	}
	a.Found(ScanFlush, mail.Found{NextDue: mail.Never, Buckets: []mail.Cursor{{Bucket: 5, Due: 9, ID: 3}}})
	if from, _, ok := a.Fetch(ScanFlush); !ok || from != (mail.Cursor{Bucket: 5, Due: 9, ID: 3}) {
		t.Errorf("bucket 5 is searched from %v, %t", from, ok)
	}
}

// Whether a scan is at its end, has found something, or has anything to do.
func TestStatesOfAScan(t *testing.T) {
	a := NewAdmission()
	state := func(s Scan) [4]bool { return [4]bool{a.UnderWay(s), a.Looking(s), a.Has(s), a.Idle()} }
	want := func(what string, s Scan, w [4]bool) {
		t.Helper()
		if got := state(s); got != w {
			t.Errorf("%s: under way, looking, has, idle are %v, want %v", what, got, w)
		}
	}
	for _, s := range []Scan{ScanIncoming, ScanDeferred} {
		want("at the start", s, [4]bool{true, true, false, false})
		a.Fetch(s)
		want("fetching", s, [4]bool{true, true, false, false})
		a.Found(s, mail.Found{NextDue: mail.Never})
	}
	want("nothing in the spool", ScanFlush, [4]bool{false, false, false, true})
	a.FlushAll(Flush{Asked: 3, Reset: 4})
	want("flush", ScanFlush, [4]bool{true, true, false, false})
	if _, _, ok := a.Fetch(ScanFlush); !ok || a.Flush() != (Flush{Asked: 3, Reset: 4}) {
		t.Errorf("nothing is fetched for %+v", a.Flush())
	}
	if _, _, ok := a.Fetch(ScanFlush); ok {
		t.Error("two fetches of a scan are under way")
	}
	mustPanic(t, "a scan takes the place of one that is fetching", func() { a.Rescue(0, 1) })
	a.Found(ScanFlush, mail.Found{Cursors: []mail.Cursor{{ID: 1}}, Next: mail.Cursor{ID: 2}, More: true})
	want("found, and more", ScanFlush, [4]bool{true, true, true, false})
	if _, _, ok := a.Fetch(ScanFlush); ok {
		t.Error("more is fetched, and what was found was not taken")
	}
	a.FlushAll(Flush{Asked: 6})
	want("begun anew", ScanFlush, [4]bool{true, true, false, false})
	a.Fetch(ScanFlush)
	a.Found(ScanFlush, mail.Found{Cursors: []mail.Cursor{{ID: 1}}})
	want("found all", ScanFlush, [4]bool{true, false, true, false})
	a.Take(ScanFlush, 9)
	want("taken", ScanFlush, [4]bool{false, false, false, true})
	a.Retry(9, 1)
	want("named", ScanFlush, [4]bool{false, false, false, false})
	a.Take(ScanFlush, 9)
	if a.Found(ScanFlush, mail.Found{}) {
		t.Error("what was not fetched is expected")
	}
	a.Appeared(7, mail.Place{Area: mail.AreaHold, Due: 9})
	want("held mail waits to be removed", ScanHeld, [4]bool{false, false, false, true})
	if a.Wake(false) != 9 || a.Due(ScanHeld, 8) || !a.Due(ScanHeld, 9) {
		t.Errorf("held mail is due at %v", a.Wake(false))
	}
	a.Appeared(8, mail.Place{Area: mail.AreaDeferred, Due: 5})
	want("deferred mail waits to be due", ScanDeferred, [4]bool{false, false, false, false})
	if a.Wake(true) != 5 || a.Wake(false) != 9 {
		t.Errorf("admission wants to be woken at %v with room, at %v without", a.Wake(true), a.Wake(false))
	}
	mustPanic(t, "new mail is not due", func() { a.Look(ScanIncoming, 0) })
}

// What was tried since an operator has asked is not tried again for that, nor what was
// tried before our network was down. A last attempt in the future shows that the clock
// was wrong.
func TestWants(t *testing.T) {
	f := Flush{Asked: 100, Since: 50}
	for last, want := range map[mail.Instant]bool{0: false, 49: false, 50: true, 99: true, 100: false, 120: false, 121: true} {
		if f.Wants(last, 120) != want {
			t.Errorf("what was tried last at %d is wanted: %t", last, !want)
		}
	}
}

func TestScans(t *testing.T) {
	for s, want := range map[Scan]string{ScanIncoming: "incoming incoming false", ScanDeferred: "deferred deferred true", ScanFlush: "flush deferred false", ScanWarmup: "warmup deferred false", ScanResume: "resume deferred false", ScanHeld: "held hold true"} {
		if got := fmt.Sprint(s, " ", s.Area(), " ", s.Timed()); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for o, want := range map[Origin]Line{FromIncoming: LineNew, FromDeferred: LineRetries, FromFlush: LineRetries, FromWarmup: LineRetries, FromResume: LineRetries, FromRetry: LineNew} {
		if o.Line() != want {
			t.Errorf("mail of origin %d is in line %d", o, o.Line())
		}
	}
}
