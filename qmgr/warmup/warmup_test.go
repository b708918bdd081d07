package warmup

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/internal/prng"
	"github.com/posthaste-mta/posthaste/mail"
)

var epochDay = DayOn(2026, 3, 2)

// Days are those of the calendar that package time knows, in all years that instants reach.
func TestDays(t *testing.T) {
	for _, at := range []time.Time{time.Unix(0, 0), time.Date(2000, 2, 29, 23, 59, 59, 0, time.UTC), time.Date(2100, 3, 1, 0, 0, 0, 0, time.UTC)} {
		if d := DayOf(mail.Instant(at.UnixNano())); d.String() != at.UTC().Format("2006-01-02") {
			t.Errorf("%v: %v", at, d)
		}
	}
	for d := Day(0); uint64(d) < dayMax; d += 13 {
		at := time.Unix(int64(d)*86400, 0).UTC()
		if y, m, day := d.Date(); d.String() != at.Format("2006-01-02") || DayOn(y, m, day) != d {
			t.Fatalf("day %d: %v, want %v", int(d), d, at)
		}
	}
	d := DayOn(2026, 11, 23)
	if d.End() != (d+1).Start() || DayOf(d.End()) != d+1 || DayOf(d.End()-1) != d || DayOf(-5) != 0 {
		t.Errorf("%v begins at %v and ends at %v", d, d.Start(), d.End())
	}
}

// The shipped plans begin and end where docs/warmup.md says, and what a receiver sees never
// more than doubles from one day that counts to the next.
func TestShippedPlans(t *testing.T) {
	for _, c := range []struct {
		plan        Plan
		days        int
		first, last int
		jump        float64
	}{
		{Conservative(), 30, 50, 98_564, 1.76}, {Fast(), 14, 200, 89_984, 2},
	} {
		p := c.plan
		if err := p.Validate(); err != nil {
			t.Errorf("plan %s: %v", p.Name, err)
		}
		if n := len(p.Allowances); n != c.days || p.Allowances[0] != c.first || p.Allowances[n-1] != c.last {
			t.Errorf("plan %s: %d days, from %d to %d", p.Name, n, p.Allowances[0], p.Allowances[n-1])
		}
		for i, a := range p.Allowances[1:] {
			if jump := float64(a) / (float64(p.Allowances[i]) * float64(p.UsedPercent) / 100); jump > c.jump {
				t.Errorf("plan %s: day %d may have %.2f times what the day before needs", p.Name, i+2, jump)
			}
		}
	}
}

// Every mistake of a plan and of a configuration is reported.
func TestMistakes(t *testing.T) {
	many := make([]int, 367)
	for i := range many {
		many[i] = 1
	}
	for _, c := range []struct {
		plan Plan
		want []string
	}{
		{Plan{}, []string{"0 allowances"}},
		{Plan{Allowances: many}, []string{"367 allowances"}},
		{Plan{Allowances: []int{0, 5, 4, 2_000_000_000}}, []string{"of day 1", "of day 3", "of day 4"}},
		{Plan{Allowances: []int{1}, Limits: Limits{UsedPercent: 101, DeferralPercent: -1, BouncePercent: 200, Failures: -3, BadDays: 101, IdleDays: 1000}},
			[]string{"used percent", "deferral percent", "bounce percent", "failures", "bad days", "idle days"}},
	} {
		err := c.plan.Validate()
		if got := strings.Count(fmt.Sprint(err), "\n") + 1; err == nil || got != len(c.want) {
			t.Errorf("%d mistakes, want %q: %v", got, c.want, err)
		}
		for _, want := range c.want {
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("no word of %q: %v", want, err)
			}
		}
	}
	plan := Conservative()
	cfg := Config{SiteLimit: -1, Sources: []Source{{Plan: plan}, {Name: "a", Start: -1, Plan: Plan{}}, {Name: "a"}}}
	for _, want := range []string{"site limit -1", "source \"\"", "source a: there are two", "before 1970", "0 allowances"} {
		if err := cfg.Validate(); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("no word of %q: %v", want, err)
		}
	}
	if err := (Config{Sources: []Source{{Name: "a", Plan: plan}}}).Validate(); err != nil {
		t.Errorf("a valid configuration: %v", err)
	}
}

// A plan that grows by nothing, or by less than one message, grows by one, and the greatest
// allowance stays.
func TestGrow(t *testing.T) {
	for _, c := range []struct {
		list []int
		want string
	}{
		{Grow(1, 0, 4), "[1 2 3 4]"}, {Grow(2, 30, 5), "[2 3 4 5 6]"}, {Grow(50, 30, 4), "[50 65 84 109]"},
		{Grow(900_000_000, 100, 3), "[900000000 1000000000 1000000000]"},
	} {
		if got := fmt.Sprint(c.list); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// Counts stay at their maximum, where the next would be 0 and give a whole allowance again.
func TestCountsDoNotWrap(t *testing.T) {
	if got := plus(math.MaxUint32-1, 5); got != math.MaxUint32 {
		t.Errorf("%d", got)
	}
}

// A source without a warm-up has no limit, is not remembered, and takes no orders.
func TestOtherSources(t *testing.T) {
	plan := Conservative()
	table := New(Config{Sources: []Source{{Name: "new", Plan: plan}}}, epochDay.Start())
	k := Key{"old", "a.test"}
	for range 1000 {
		if a := table.Allowance(k, epochDay.Start()); a.Room != Unlimited || a.Left() != math.MaxInt {
			t.Fatalf("%v", a)
		}
		on := table.Take(k, epochDay.Start())
		table.Ended(k, Result{Accepted: 1}, epochDay.Start())
		table.Give(k, on, epochDay.Start())
		if on != 0 {
			t.Fatal("a message of an old source counts")
		}
	}
	if c := table.Changed(nil, 10); len(c) != 0 {
		t.Errorf("saved: %v", c)
	}
	if err := table.Obey(Order{Key: k, Kind: Pause}, epochDay.Start()); err == nil {
		t.Error("an order for a source without a warm-up is obeyed")
	}
	if _, ok := table.View("old", 5, epochDay.Start()); ok {
		t.Error("there is a view of a source without a warm-up")
	}
}

// A mistake in the configuration takes a source's warm-up away until the next reload. Its
// progress and today's counts are still there then.
func TestSourceComesBack(t *testing.T) {
	plan := &Plan{Allowances: []int{5, 10, 20}}
	with, k := Config{Sources: []Source{{Name: "new", Plan: *plan}}}, Key{"new", "a.test"}
	now := epochDay.Start()
	table := New(with, now)
	for range 5 {
		table.Take(k, now)
		table.Ended(k, Result{Accepted: 1}, now)
	}
	now = now.Add(dayLength)
	table.Take(k, now)
	table.Configure(Config{}, now)
	if a := table.Allowance(k, now); a.Room != Unlimited {
		t.Errorf("without the warm-up: %v", a)
	}
	table.Check()
	table.Configure(with, now)
	if a := table.Allowance(k, now); a.Of != 10 || a.Taken != 1 {
		t.Errorf("with it again: %v", a)
	}
}

// The clock of the machine was a year ahead, and is right again. Days that were saved
// meanwhile become today, so that the plan does not stand still for a year.
func TestClockWasAhead(t *testing.T) {
	plan := &Plan{Allowances: []int{5, 10}}
	cfg, k := Config{Sources: []Source{{Name: "new", Plan: *plan}}}, Key{"new", "a.test"}
	table := New(cfg, epochDay.Start())
	table.Load([]Known{{k, Record{Allowed: 5, Used: epochDay + 365, Day: epochDay + 365, Counts: Counts{Taken: 5, Delivered: 5, Accepted: 5}}}}, epochDay.Start())
	if a := table.Allowance(k, epochDay.Start()); a.Room != Spent {
		t.Errorf("today's allowance is given again: %v", a)
	}
	if a := table.Allowance(k, epochDay.End()); a.Room != Open || a.Of != 10 {
		t.Errorf("tomorrow: %v", a)
	}
}

// Whatever receivers answer, whenever the program is killed: no more messages are started
// for a site on a day than the allowance, and what was started after the last save again for
// each crash. Allowances change only between days, to the next day of the plan, the one
// before, or the first. The messages are counted here, and not by the table.
func TestNeverAboveTheAllowance(t *testing.T) {
	for seed := range uint64(20 * golden.Runs(2)) {
		r := prng.New(seed)
		plan := &Plan{Allowances: Grow(1+r.IntN(20), r.IntN(150), 1+r.IntN(8)), Limits: Limits{IdleDays: 3 + r.IntN(5)}}
		cfg := Config{SiteLimit: 1 + r.IntN(4), Sources: []Source{{Name: "new", Plan: *plan}}}
		now := epochDay.Start()
		table, saved := New(cfg, now), map[Key]Record{}
		type count struct{ started, unsaved, excess, allowed int }
		counts := map[Key]*count{}
		for range 2000 {
			k := Key{"new", fmt.Sprintf("%d.test", r.IntN(6))}
			switch r.IntN(40) {
			case 0:
				was := DayOf(now)
				now = now.Add(time.Duration(r.Uint64() % uint64(dayLength)))
				if DayOf(now) == was {
					break
				}
				for _, c := range counts {
					*c = count{allowed: c.allowed}
				}
			case 1, 2:
				for _, c := range table.Changed(nil, 1000) {
					if delete(saved, c.Key); !c.Gone {
						saved[c.Key] = c.Record
					}
				}
				for _, c := range counts {
					c.unsaved = 0
				}
			case 3:
				table = New(cfg, now)
				for k, rec := range saved {
					table.Load([]Known{{k, rec}}, now)
				}
				for _, c := range counts {
					c.excess += c.unsaved
					c.unsaved = 0
				}
			case 4, 5, 6, 7, 8, 9, 10, 11, 12:
				table.Ended(k, Result{Accepted: 2, Deferred: r.IntN(6) / 5, Bounced: r.IntN(12) / 11}, now)
			default:
				a := table.Allowance(k, now)
				if !a.Room.Free() || a.Room == Unlimited {
					break
				}
				table.Take(k, now)
				c := counts[k]
				if c == nil {
					c = &count{}
					counts[k] = c
				}
				c.started++
				c.unsaved++
				c.allowed = max(c.allowed, a.Of)
				if c.started > c.allowed+c.excess {
					t.Fatalf("seed %d: %d messages are started to %v on %v: %d are allowed, and %d more after crashes", seed, c.started, k, DayOf(now), c.allowed, c.excess)
				}
			}
			table.Check()
		}
	}
}

// The views add up, name the sites with the most mail, and say what comes next.
func TestView(t *testing.T) {
	plan := &Plan{Name: "p", Allowances: []int{10, 20}}
	table := New(Config{Sources: []Source{{Name: "new", Plan: *plan}}}, epochDay.Start())
	for i := range 300 {
		k := Key{"new", fmt.Sprintf("%d.test", i)}
		for range 1 + i%10 {
			table.Take(k, epochDay.Start())
			table.Ended(k, Result{Accepted: 9, Bounced: i % 10 / 9}, epochDay.Start())
		}
	}
	if err := table.Obey(Order{Key: Key{"new", "7.test"}, Kind: SetDay, Day: 3}, epochDay.Start()); err != nil {
		t.Fatal(err)
	}
	v, _ := table.View("new", 3, epochDay.Start())
	got := fmt.Sprint(v.Sites, v.Warm, v.Spent, v.Taken, v.First, v.Paused)
	for _, s := range v.Top {
		got += fmt.Sprintf("; %s %v %d of %d, %d%% bounced, %v, then %d", s.Site, s.State, s.Taken, s.Of, s.BouncedPercent(), s.Next, s.Tomorrow)
	}
	want := "300 1 30 1650 1 false; 109.test warming 10 of 10, 10% bounced, stayed: too many bounces, then 10; " +
		"119.test warming 10 of 10, 10% bounced, stayed: too many bounces, then 10; 129.test warming 10 of 10, 10% bounced, stayed: too many bounces, then 10"
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if s, _ := table.SiteView(Key{"new", "7.test"}, epochDay.Start()); s.State != Warm || s.Day != 0 || s.Tomorrow != 0 {
		t.Errorf("a warm site: %+v", s)
	}
}

// A nexthop may have any length. Names are cut, and two that begin alike share an allowance.
func TestLongNames(t *testing.T) {
	plan := &Plan{Allowances: []int{3}}
	table := New(Config{Sources: []Source{{Name: "new", Plan: *plan}}}, epochDay.Start())
	long := strings.Repeat("a", siteMax)
	for i := range 3 {
		table.Take(Key{"new", fmt.Sprint(long, i)}, epochDay.Start())
	}
	if a := table.Allowance(Key{"new", long + "x"}, epochDay.Start()); a.Room != Spent {
		t.Errorf("%v", a)
	}
	c := table.Changed(nil, 10)
	if len(c) != 1 || len(AppendKey(nil, c[0].Key)) > KeyMax {
		t.Errorf("%d records are saved", len(c))
	}
}

// FuzzSaved reads arbitrary keys and records. What is read has one form, and a table can go
// on with it.
func FuzzSaved(f *testing.F) {
	f.Add(AppendKey(nil, Key{"new", "a.test"}), AppendRecord(nil, Record{Allowed: 50, Used: 20_000, Day: 20_001, Counts: Counts{Taken: 3}}))
	f.Add(AppendKey(nil, Key{"new", ""}), AppendRecord(nil, Record{State: Warm, Paused: true}))
	f.Add([]byte("\x00a\x00"), []byte("1 0 365 1000000000 100 1 6 106751 106751 4294967295 4294967295 4294967295 4294967295 4294967295"))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		k, err := ParseKey(key)
		if err == nil && string(AppendKey(nil, k)) != string(key) {
			t.Errorf("key %q has another form: %q", key, AppendKey(nil, k))
		}
		r, err2 := ParseRecord(value)
		if err != nil || err2 != nil {
			return
		}
		if string(AppendRecord(nil, r)) != string(value) {
			t.Errorf("record %q has another form: %q", value, AppendRecord(nil, r))
		}
		plan := &Plan{Allowances: []int{5, 50, 500}}
		now := epochDay.Start()
		table := New(Config{Sources: []Source{{Name: "new", Plan: *plan}}}, now)
		table.Load([]Known{{k, r}}, now)
		table.Check()
		for range 3 {
			if table.Allowance(k, now).Room.Free() {
				table.Give(k, table.Take(k, now), now)
				table.Ended(k, Result{Accepted: 1}, now)
			}
			table.Check()
			now = now.Add(dayLength)
		}
		table.View("new", 5, now)
		table.Changed(nil, 10)
	})
}

// A record survives its encoding.
func TestCodec(t *testing.T) {
	r := prng.New(1)
	for range 1000 {
		n := func(most uint64) uint32 { return uint32(r.Uint64N(most + 1)) }
		rec := Record{Step: uint16(n(365)), Allowed: n(allowanceMax), Bad: uint8(n(badDaysMax)), Paused: n(1) == 1, Last: Verdict(n(uint64(verdicts) - 1)),
			Used: Day(n(dayMax)), Day: Day(n(dayMax)), Counts: Counts{n(countMax), n(countMax), n(countMax), n(countMax), n(countMax)}}
		b := AppendRecord(nil, rec)
		if got, err := ParseRecord(b); err != nil || got != rec || len(b) > RecordMax {
			t.Fatalf("%s: %+v, %v, want %+v", b, got, err, rec)
		}
	}
	for _, bad := range []string{"", "1", "2 0 0 0 0 0 0 0 0 0 0 0 0 0", "1 1 1 0 0 0 0 0 0 0 0 0 0 0", "1 0 0 0 0 0 0 0 0 0 0 0 0 4294967296", "1 0 00 0 0 0 0 0 0 0 0 0 0 0"} {
		if _, err := ParseRecord([]byte(bad)); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
	for _, bad := range []string{"", "\x00", "\x00new", "\x00\x00a", "x\x00a", "\x00" + strings.Repeat("a", 256) + "\x00a"} {
		if _, err := ParseKey([]byte(bad)); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

// crowd returns a table of a source with the maximum number of sites, all of them used today.
func crowd() (*Table, []Key) {
	plan := Conservative()
	table := New(Config{Sources: []Source{{Name: "new", Plan: plan}}}, epochDay.Start())
	keys := make([]Key, 10_000)
	for i := range keys {
		keys[i] = Key{"new", fmt.Sprintf("%d.example.com", i)}
		table.Take(keys[i], epochDay.Start())
	}
	return table, keys
}

// The decision is made for every message: it costs less than 200 ns and no memory.
func BenchmarkDecision(b *testing.B) {
	table, keys := crowd()
	now := epochDay.Start()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if table.Allowance(keys[i], now).Left() < 0 {
			b.Fatal("less than nothing is left")
		}
		i = (i + 7919) % len(keys)
	}
}

// What a message costs in all: it is decided, started and ends.
func BenchmarkMessage(b *testing.B) {
	table, keys := crowd()
	now := epochDay.Start()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		table.Allowance(keys[i], now)
		table.Take(keys[i], now)
		table.Ended(keys[i], Result{Accepted: 1}, now)
		i = (i + 7919) % len(keys)
	}
}

// Neither a decision nor a message costs memory.
func TestAllocations(t *testing.T) {
	table, keys := crowd()
	now := epochDay.Start()
	if n := testing.AllocsPerRun(100, func() {
		if table.Allowance(keys[5], now).Room == Open {
			table.Give(keys[5], table.Take(keys[5], now), now)
		}
		table.Take(keys[5], now)
		table.Ended(keys[5], Result{Accepted: 1}, now)
	}); n != 0 {
		t.Errorf("%.0f allocations for a message", n)
	}
}

// A site takes about 250 bytes, and there are no more than the limit, however
// many sites mail is for.
func TestMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	table, keys := crowd()
	runtime.GC()
	runtime.ReadMemStats(&after)
	if each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / int64(len(keys)); each > 350 {
		t.Errorf("a site takes %d bytes", each)
	}
	for i := range 2 * len(keys) {
		k := Key{"new", fmt.Sprintf("%d.example.net", i)}
		if table.Allowance(k, epochDay.Start()).Room != Full {
			t.Fatal("a site is added on a day on which all others were used")
		}
		if table.Allowance(k, epochDay.End()).Room.Free() {
			table.Take(k, epochDay.End())
		}
	}
	if v, _ := table.View("new", 1, epochDay.End()); v.Sites != len(keys) {
		t.Errorf("%d sites are remembered", v.Sites)
	}
	if len(table.gone) > table.goneMax() {
		t.Errorf("%d forgotten sites", len(table.gone))
	}
}

// A caller that does not ask for room exceeds the number of sites, rather than that one that
// was used today is forgotten and gets the day's allowance twice.
func TestNoSiteOfTodayIsForgotten(t *testing.T) {
	now := DayOn(2026, 3, 2).Start()
	table := New(Config{SiteLimit: 1, Sources: []Source{{Name: "new", Plan: Conservative()}}}, now)
	a, b := Key{"new", "a.test"}, Key{"new", "b.test"}
	table.Take(a, now)
	table.Take(b, now)
	table.Check()
	for _, k := range []Key{a, b} {
		if got := table.Allowance(k, now); got.Taken != 1 {
			t.Errorf("%s: %+v", k.Site, got)
		}
	}
}

// What the receiver said counts, and nothing else; a delivery that was not begun has no result.
func TestResultOf(t *testing.T) {
	by := mail.Reply{Code: 250, By: "mx"}
	r, tried := ResultOf([]mail.Outcome{{Result: mail.Delivered}, {Result: mail.Deferred}, {Result: mail.Deferred, Reply: by}, {Result: mail.Failed, Reply: by}, {Result: mail.Failed}, {Result: mail.Untried}})
	if want := (Result{1, 1, 1}); r != want || !tried {
		t.Errorf("%+v, tried: %t", r, tried)
	}
	if _, tried := ResultOf([]mail.Outcome{{Result: mail.Untried}, {Result: mail.Untried}}); tried {
		t.Error("no turn came")
	}
}
