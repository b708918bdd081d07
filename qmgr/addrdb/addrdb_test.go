package addrdb

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/prng"
	"github.com/posthaste-mta/posthaste/mail"
)

const epoch = mail.Instant(1_000_000 * time.Second)

var (
	good   = Verdict{Status: Good, Reply: mail.Reply{Code: 250, By: "mx"}}
	bad    = Verdict{Status: Bad, Reply: mail.Reply{Code: 550, By: "mx"}}
	ours   = Verdict{Status: Bad, Reply: mail.Reply{Code: 550}}
	unsure = Verdict{Status: Unsure, Reply: mail.Reply{Code: 450}}
	mute   = Verdict{Status: Mute, Reply: mail.Reply{Code: 550, By: "mx"}}
)

// Each kind of answer is valid for its time, and refreshed after a part of it.
func TestLifetimes(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		learned      Verdict
		again, until time.Duration
	}{
		{good, 7 * day, 31 * day}, {bad, 3 * time.Hour, 3 * day}, {mute, 3 * time.Hour, 3 * day}, {unsure, 5 * time.Minute, 5 * time.Minute},
		{ours, 5 * time.Minute, 5 * time.Minute},
	} {
		db := New(Config{}.WithDefaults())
		db.Learn("a@b.test", c.learned, epoch)
		for _, at := range []struct {
			after time.Duration
			want  Status
			again bool
		}{
			{0, c.learned.Status, false}, {c.again - 1, c.learned.Status, false},
			{c.until - 1, c.learned.Status, c.again < c.until}, {c.until, Unknown, true},
		} {
			if v, again := db.Find("a@b.test", epoch.Add(at.after)); v.Status != at.want || again != at.again {
				t.Errorf("%v after %v: %v, asked again %t", c.learned.Status, at.after, v.Status, again)
			}
		}
		if db.Len() != 0 {
			t.Errorf("%v is kept although it has expired", c.learned.Status)
		}
	}
}

// An inconclusive answer never replaces a valid one, and delays the next call-out;
// any other answer replaces the previous one.
func TestAnswersReplaceEachOther(t *testing.T) {
	for _, c := range []struct{ before, after, want Verdict }{
		{good, unsure, good}, {bad, unsure, bad}, {mute, unsure, mute}, {unsure, unsure, unsure},
		{good, bad, bad}, {bad, good, good}, {unsure, good, good}, {unsure, bad, bad}, {good, mute, mute},
	} {
		db := New(Config{}.WithDefaults())
		db.Learn("a@b.test", c.before, epoch)
		now := epoch.Add(Patience - time.Second)
		if v := db.Learn("a@b.test", c.after, now); v != c.want {
			t.Errorf("%v, then %v: %v is learned", c.before.Status, c.after.Status, v.Status)
		}
		if v, _ := db.Find("a@b.test", now); v != c.want {
			t.Errorf("%v, then %v: %v", c.before.Status, c.after.Status, v.Status)
		}
	}
	db := New(Config{PositiveRefresh: time.Hour}.WithDefaults())
	db.Learn("a@b.test", good, epoch)
	now := epoch.Add(time.Hour)
	db.Learn("a@b.test", unsure, now)
	if v, again := db.Find("a@b.test", now.Add(Patience-1)); v.Status != Good || again {
		t.Errorf("%v, asked again %t, soon after an inconclusive answer", v.Status, again)
	}
	if v, again := db.Find("a@b.test", now.Add(Patience)); v.Status != Good || !again {
		t.Errorf("%v, asked again %t, long after it", v.Status, again)
	}
}

// An old address is asked for once, however many callers want to know while the
// answer is pending: each call-out waits in core, and would take the place of
// another. If there was no answer it is asked for once more, but not at once.
func TestOneAsksAgain(t *testing.T) {
	db := New(Config{PositiveRefresh: time.Hour}.WithDefaults())
	db.Learn("a@b.test", good, epoch)
	old := epoch.Add(time.Hour)
	for _, c := range []struct {
		after time.Duration
		again bool
	}{{0, true}, {0, false}, {Patience - 1, false}, {Patience, true}, {Patience, false}} {
		if v, again := db.Find("a@b.test", old.Add(c.after)); v.Status != Good || again != c.again {
			t.Errorf("%v, asked again %t, %v after it had become old", v.Status, again, c.after)
		}
	}
}

// RFC 5321 2.4: only the case of domains does not matter.
func TestCase(t *testing.T) {
	db := New(Config{}.WithDefaults())
	db.Learn("Joe@B.Test", bad, epoch)
	for a, want := range map[mail.Address]Status{"Joe@b.test": Bad, "Joe@B.TEST": Bad, "joe@b.test": Unknown} {
		if v, _ := db.Find(a, epoch); v.Status != want {
			t.Errorf("%s is %v", a, v.Status)
		}
	}
}

// A client that guesses addresses fills no more than half with refusals. The kept
// part of a reply is bounded and valid text.
func TestGuesses(t *testing.T) {
	db := New(Config{Limit: 100}.WithDefaults())
	for i := range 100 {
		db.Learn(mail.Address(fmt.Sprintf("good%d@b.test", i)), good, epoch)
	}
	long := bad
	long.Reply.Text = "x" + strings.Repeat("é", 500)
	for i := range 1000 {
		if v := db.Learn(mail.Address(fmt.Sprintf("guess%d@b.test", i)), long, epoch); len(v.Reply.Text) > 200 {
			t.Fatalf("%q is learned", v.Reply.Text)
		}
		db.Check()
	}
	if db.good.Len() != 50 || db.refused.Len() != 50 {
		t.Errorf("%d good addresses and %d others", db.good.Len(), db.refused.Len())
	}
	if v, _ := db.Find("guess999@b.test", epoch); v.Reply.Text != "x"+strings.Repeat("é", 96)+mail.CutMark {
		t.Errorf("%q is kept", v.Reply.Text)
	}
	if v, _ := db.Find("good99@b.test", epoch); v.Status != Good {
		t.Error("what was learned last is gone")
	}
	db.Configure(Config{Limit: 10}.WithDefaults())
	if db.Check(); db.Len() != 10 {
		t.Errorf("%d addresses are left of 10", db.Len())
	}
}

// naive is the same as a list that is searched linearly, most recently asked for
// last.
type naive struct {
	cfg  Config
	list []naiveAddress
}

type naiveAddress struct {
	key          string
	v            Verdict
	until, again mail.Instant
}

func (n *naive) at(key string) int {
	return slices.IndexFunc(n.list, func(a naiveAddress) bool { return a.key == key })
}

func (n *naive) find(key string, now mail.Instant) (Verdict, bool) {
	i := n.at(key)
	if i < 0 {
		return Verdict{}, true
	}
	a := n.list[i]
	n.list = slices.Delete(n.list, i, i+1)
	if now >= a.until {
		return Verdict{}, true
	}
	again := now >= a.again
	if again {
		a.again = now.Add(Patience)
	}
	n.list = append(n.list, a)
	return a.v, again
}

func (n *naive) learn(key string, v Verdict, now mail.Instant) {
	if i := n.at(key); i >= 0 {
		if a := &n.list[i]; v.Status == Unsure && a.v.Status != Unsure && now < a.until {
			a.again = now.Add(Patience)
			return
		}
		n.list = slices.Delete(n.list, i, i+1)
	}
	a := naiveAddress{key, v, now.Add(Patience), mail.Never}
	switch v.Status {
	case Good:
		a.until, a.again = now.Add(n.cfg.PositiveTime), now.Add(n.cfg.PositiveRefresh)
	case Bad, Mute:
		if v.Reply.By == "" {
			break
		}
		a.until, a.again = now.Add(n.cfg.NegativeTime), now.Add(n.cfg.NegativeRefresh)
	}
	n.list = append(n.list, a)
	n.shrink()
}

func (n *naive) shrink() {
	isGood := func(a naiveAddress) bool { return a.v.Status == Good || a.v.Status == Mute }
	isBad := func(a naiveAddress) bool { return !isGood(a) }
	for len(n.list) > n.cfg.Limit {
		refused := 0
		for _, a := range n.list {
			if isBad(a) {
				refused++
			}
		}
		which := isGood
		if refused == len(n.list) || refused > n.cfg.Limit/2 {
			which = isBad
		}
		i := slices.IndexFunc(n.list, which)
		n.list = slices.Delete(n.list, i, i+1)
	}
}

// The DB is the list, only faster.
func TestTwin(t *testing.T) {
	for seed := uint64(1); seed <= 50; seed++ {
		r := prng.New(seed)
		cfg := Config{Limit: 1 + r.IntN(20), PositiveTime: time.Hour, PositiveRefresh: 20 * time.Minute, NegativeTime: 30 * time.Minute, NegativeRefresh: 10 * time.Minute}
		db, twin, now := New(cfg), &naive{cfg: cfg}, epoch
		for step := range 1000 {
			key := fmt.Sprintf("u%d@d.test", r.IntN(30))
			switch n := r.IntN(100); {
			case n < 40:
				v, again := db.Find(mail.Address(key), now)
				if want, wanted := twin.find(key, now); v != want || again != wanted {
					t.Fatalf("seed %d step %d: %s is %v, asked again %t; want %v, %t", seed, step, key, v.Status, again, want.Status, wanted)
				}
			case n < 90:
				v := []Verdict{good, bad, unsure, mute, ours}[r.IntN(5)]
				db.Learn(mail.Address(key), v, now)
				twin.learn(key, v, now)
			case n < 92:
				cfg.Limit = 1 + r.IntN(20)
				db.Configure(cfg)
				twin.cfg = cfg
				twin.shrink()
			default:
				now = now.Add(r.Between(0, 10*time.Minute))
			}
			if db.Check(); db.Len() != len(twin.list) {
				t.Fatalf("seed %d step %d: %d addresses are known, want %d", seed, step, db.Len(), len(twin.list))
			}
		}
	}
}

// All errors are returned, and the defaults are valid.
func TestConfig(t *testing.T) {
	if err := (Config{}).WithDefaults().Validate(); err != nil {
		t.Error(err)
	}
	for _, c := range []Config{{Limit: -1}, {PositiveTime: -1}, {PositiveRefresh: -1}, {NegativeTime: -1}, {NegativeRefresh: -1}} {
		if c.WithDefaults().Validate() == nil {
			t.Errorf("%+v is taken for right", c)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	db := New(Config{}.WithDefaults())
	for i := range 50_000 {
		db.Learn(mail.Address(fmt.Sprintf("user%d@example.com", i)), good, epoch)
	}
	b.ReportAllocs()
	for b.Loop() {
		db.Find("user777@example.com", epoch)
	}
}
