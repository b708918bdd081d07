package destdb

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
)

// anyRecord returns a record with few distinct values, so that two of them agree in
// many fields and differ in others.
func anyRecord(rng *rand.Rand) Record {
	at := func() mail.Instant { return mail.Instant(rng.IntN(4)) }
	d := func() time.Duration { return time.Duration(rng.IntN(3)) }
	r := Record{Used: at(), Health: Health{At: at()}}
	if rng.IntN(2) == 0 {
		r.Health.Failures = uint32(1 + rng.IntN(2))
		r.Health.RetryAt = at()
		r.Health.Reason = mail.Reply{Code: uint16(420 + rng.IntN(2)), Text: []string{"a", "b"}[rng.IntN(2)]}
		r.Health.Reason.Status.Detail = uint16(rng.IntN(2))
	}
	r.Closed = Closing{MadeAt: at(), At: at()}
	for l := range r.Levels.Holds {
		r.Levels.Holds[l] = Hold{Until: []mail.Instant{0, 1, 2, mail.Never}[rng.IntN(4)], Lifted: at()}
	}
	r.Levels.Strikes = uint8(rng.IntN(3))
	r.Limit = Limit{Messages: uint32(rng.IntN(3)), At: at()}
	r.Proof = Proof{At: at(), Result: mail.Proof(rng.IntN(4)), Executes: rng.IntN(4) == 0}
	r.Pace = Pace{At: at(), RTT: d(), RTTMin: d(), Service: d(), ServiceFloor: d()}
	r.Caps = Caps{At: at(), Extensions: mail.Extensions(rng.IntN(2)), SizeMax: int64(rng.IntN(2))}
	return r
}

// A record may come twice, late, or by way of a third node. So that all nodes get
// the same result, neither the order of merges nor their number may matter.
func TestMergeLaws(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 1000 * golden.Runs(1) {
		a, b, c := anyRecord(rng), anyRecord(rng), anyRecord(rng)
		switch {
		case Merge(a, b) != Merge(b, a):
			t.Fatalf("seed %d: not commutative:\n%+v\n%+v", seed, a, b)
		case Merge(Merge(a, b), c) != Merge(a, Merge(b, c)):
			t.Fatalf("seed %d: not associative:\n%+v\n%+v\n%+v", seed, a, b, c)
		case Merge(a, a) != a:
			t.Fatalf("seed %d: not idempotent:\n%+v", seed, a)
		case Merge(a, Record{}) != a:
			t.Fatalf("seed %d: knowing nothing changes\n%+v", seed, a)
		}
	}
}

// What the laws leave open: which part wins.
func TestMergePrefers(t *testing.T) {
	failed := func(at mail.Instant) Record { return Record{Health: Health{At: at, Failures: 2, RetryAt: at + 9}} }
	worked := func(at mail.Instant) Record { return Record{Health: Health{At: at}} }
	executes := Record{Proof: Proof{At: 1, Result: mail.ProofExecutes, Executes: true}}
	passed := Record{Proof: Proof{At: 2, Result: mail.ProofPassed}}
	both := Record{Proof: Proof{At: 2, Result: mail.ProofPassed, Executes: true}}
	held := Record{Levels: Levels{Holds: [3]Hold{1: {Until: 5}}}}
	lifted := Record{Levels: Levels{Holds: [3]Hold{1: {Until: 5, Lifted: 6}}}}
	limit := func(at mail.Instant, n uint32) Record { return Record{Limit: Limit{Messages: n, At: at}} }
	for _, c := range []struct {
		name       string
		a, b, want Record
	}{
		{"a success after a failure", failed(1), worked(2), worked(2)},
		{"a failure after a success", worked(1), failed(2), failed(2)},
		{"both at once", worked(1), failed(1), failed(1)},
		{"a crime and a proof of innocence", executes, passed, both},
		{"a hold that one has lifted", held, lifted, lifted},
		{"a newer limit", limit(1, 1), limit(2, 9), limit(2, 9)},
		{"none is newer", limit(1, 1), limit(2, 0), limit(2, 0)},
		{"limits at once", limit(1, 2), limit(1, 3), limit(1, 2)},
		{"none and one at once", limit(1, 0), limit(1, 3), limit(1, 3)},
	} {
		if got := Merge(c.a, c.b); got != c.want {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// Three nodes observe different events and exchange records in any order, some of
// them twice. In the end all of them have the same records.
func TestNodesConverge(t *testing.T) {
	for range 20 * golden.Runs(1) {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		var nodes [3]*DB
		var feeds [3]*Feed
		for i := range nodes {
			nodes[i] = New(Config{}, seed+uint64(i))
			feeds[i] = nodes[i].NewFeed()
		}
		k, now := key("a"), epoch
		var told []Change
		tell := func(n *DB) {
			for _, c := range told {
				n.Learn(c.Key, c.Record, now)
			}
		}
		for range 50 {
			now += mail.Instant(rng.Int64N(int64(time.Minute)))
			i := rng.IntN(len(nodes))
			live(nodes[i], rng, k, now)
			told = feeds[i].Changed(told, 10)
			rng.Shuffle(len(told), func(i, j int) { told[i], told[j] = told[j], told[i] })
			tell(nodes[rng.IntN(len(nodes))])
		}
		for _, n := range nodes {
			tell(n)
		}
		first, _ := nodes[0].Record(k)
		for i, n := range nodes[1:] {
			r, _ := n.Record(k)
			// A use that was not a change has not been sent, so it is not expected.
			r.Used, first.Used = 0, 0
			if r != first {
				t.Fatalf("seed %d: node %d knows\n%+v\nnot\n%+v", seed, i+1, r, first)
			}
		}
	}
}

// live lets a node have one connection, or one failure.
func live(n *DB, rng *rand.Rand, k Key, now mail.Instant) {
	n.Open(k, now)
	if rng.IntN(3) == 0 {
		n.Failed(k, now, now, mail.Reply{Code: 421, Text: "not now"})
		n.Shut(k, Life{}, now)
		return
	}
	n.Succeeded(k, now)
	n.ObserveCaps(k, mail.ExtPipelining, 0, now)
	n.ObserveRTT(k, time.Duration(rng.IntN(1e9)), now)
	if rng.IntN(5) == 0 {
		n.StepDown(k, mail.Level(rng.IntN(4)), now)
	}
	life := Life{MadeAt: now, Messages: uint32(rng.IntN(2)), Clean: 60, Level: mail.LevelStream, Why: mail.CloseReason(rng.IntN(4))}
	n.Shut(k, life, now)
}

// A node whose clock is ahead, or that lies, must not make a host unreachable here,
// nor may its records override local observations forever.
func TestLearnClamps(t *testing.T) {
	db := New(Config{}, 1)
	far := epoch.Add(1000 * time.Hour)
	evil := Record{
		Used:   mail.Never,
		Health: Health{At: far, Failures: math.MaxUint32, RetryAt: mail.Never, Reason: mail.Reply{Code: 421}},
		Closed: Closing{MadeAt: far, At: mail.Never},
		Levels: Levels{Holds: [3]Hold{{Until: mail.Never - 1}, {Until: far, Lifted: mail.Never}}, Strikes: 255},
		Limit:  Limit{Messages: 1, At: far},
		Proof:  Proof{At: mail.Never, Result: 200},
		Pace:   Pace{At: mail.Never, RTT: math.MaxInt64, Service: math.MinInt64},
		Caps:   Caps{At: mail.Never, SizeMax: -1},
	}
	if !db.Learn(key("a"), evil, epoch) {
		t.Fatal("the record was not taken")
	}
	db.check()
	got, _ := db.Record(key("a"))
	longest := epoch.Add(72 * time.Minute)
	want := Record{
		Used:   epoch,
		Health: Health{At: epoch, Failures: failuresMax, RetryAt: longest, Reason: mail.Reply{Code: 421}},
		Closed: Closing{MadeAt: epoch, At: epoch},
		Levels: Levels{
			Holds:   [3]Hold{{Until: epoch.Add(14 * 24 * time.Hour)}, {Until: epoch.Add(14 * 24 * time.Hour), Lifted: epoch}},
			Strikes: strikesMax,
		},
		Limit: Limit{Messages: 1, At: epoch},
		Proof: Proof{At: epoch, Result: mail.ProofExecutes},
		Pace:  Pace{At: epoch, RTT: paceMax},
		Caps:  Caps{At: epoch},
	}
	if got != want {
		t.Errorf("learned\n%+v, want\n%+v", got, want)
	}
	db.Succeeded(key("a"), epoch)
	db.Learn(key("a"), evil, epoch)
	if state, _ := db.State(key("a"), epoch); state != Closed {
		t.Errorf("the host is %v, though it has just worked", state)
	}
}

// Records of other nodes are accepted while there is room, and are the first to be
// dropped.
func TestLearnMakesNoRoom(t *testing.T) {
	db := New(Config{HostLimit: 2}, 1)
	db.Succeeded(key("a"), epoch)
	db.ObserveRTT(key("a"), 1, epoch)
	r, _ := db.Record(key("a"))
	if !db.Learn(key("b"), r, epoch) || db.Learn(key("c"), r, epoch) {
		t.Error("not the first, or not only the first, was taken")
	}
	db.Succeeded(key("d"), epoch)
	db.check()
	if _, known := db.Record(key("b")); known || db.Len() != 2 {
		t.Error("what was learned from others outlived what was seen here")
	}
	if db.Learn(key("a"), Record{Used: 1}, epoch) {
		t.Error("an expired record was accepted")
	}
}

// After a restart the database returns the same as before, and keeps the most
// recently used hosts if there is less room.
func TestLoad(t *testing.T) {
	a := New(Config{}, 1)
	feed := a.NewFeed()
	now := epoch
	for _, name := range []string{"a", "b", "c", "d"} {
		now = now.Add(time.Minute)
		a.Open(key(name), now)
		if name == "b" {
			a.Failed(key(name), now, now, mail.Reply{Code: 421})
		} else {
			a.Succeeded(key(name), now)
		}
		a.ObserveRTT(key(name), time.Millisecond, now)
		a.Shut(key(name), Life{MadeAt: now}, now)
	}
	var saved []Known
	for _, c := range feed.Changed(nil, 10) {
		saved = append(saved, c.Known)
	}
	b := New(Config{}, 2)
	if stale := b.Load(saved, now); stale != nil {
		t.Errorf("%v are called stale", stale)
	}
	b.check()
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		if before, after := a.View(key(name), now), b.View(key(name), now); before != after {
			t.Errorf("%s: %+v, before: %+v", name, after, before)
		}
	}
	c := New(Config{HostLimit: 2}, 2)
	unsaved := c.NewFeed()
	if stale := c.Load(saved, now); len(stale) != 2 || stale[0] != key("b") || stale[1] != key("a") {
		t.Errorf("%v are called stale", stale)
	}
	if stale := New(Config{}, 2).Load(saved, now.Add(1000*time.Hour)); len(stale) != 4 {
		t.Errorf("of 4 records, 42 days old, %d are stale", len(stale))
	}
	if changes := unsaved.Changed(nil, 10); len(changes) != 0 {
		t.Errorf("%d records must be saved although they have just been loaded", len(changes))
	}
}

// What another node says counts like an own observation where it is later: a failure is not forgiven by the start of this node, a
// success ends an own failure, and old news changes nothing. What is new is a change for every feed, once.
func TestHear(t *testing.T) {
	key := Key{Addr: netip.MustParseAddrPort("192.0.2.1:25"), Transport: "smtp"}
	at := func(s int) mail.Instant { return mail.Instant(s) * mail.Instant(time.Second) }
	fails := func(s int) Record {
		return Record{Used: at(s), Health: Health{At: at(s), Failures: 1, RetryAt: at(s + 60), Reason: mail.Reply{Code: 451, Text: "no answer"}}}
	}
	works := func(s int) Record { return Record{Used: at(s), Health: Health{At: at(s)}} }
	db := New(Config{}, 1)
	feed := db.NewFeed()
	for i, c := range []struct {
		now     int
		heard   Record
		want    News
		changes int
		fails   bool
	}{
		{100, works(90), NewsNone, 0, false}, // of a host that is not known, not worth a record
		{100, fails(99), NewsFails, 1, true},
		{100, fails(99), NewsNone, 0, true},
		{101, works(98), NewsNone, 0, true}, // before it failed
		{102, works(101), NewsWorks, 1, false},
		{103, works(102), NewsNone, 1, false},
		{104, fails(103), NewsFails, 1, true},
	} {
		if got := db.Hear(key, c.heard, at(c.now)); got != c.want {
			t.Errorf("%d: %v, want %v", i, got, c.want)
		}
		if n := len(feed.Changed(nil, 10)); n != c.changes {
			t.Errorf("%d: %d changes, want %d", i, n, c.changes)
		}
		if state, _ := db.State(key, at(c.now)); (state == RetryLater) != c.fails {
			t.Errorf("%d: the host is %v", i, state)
		}
	}
	if db.ResetRetry(key, RetryResetStart, at(105)) {
		t.Error("what another node has found out is forgiven because this one has started")
	}
	if !db.ResetRetry(key, db.NewRetryReset(), at(105)) {
		t.Error("an operator's order does not forgive it")
	}
	// What was saved before the start is forgiven, as ever.
	db = New(Config{}, 1)
	db.Learn(key, fails(99), at(100))
	if !db.ResetRetry(key, RetryResetStart, at(101)) {
		t.Error("a failure from before the start is not forgiven")
	}
}
