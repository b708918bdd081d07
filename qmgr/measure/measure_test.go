package measure

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// at is an instant so long after the beginning of a test.
func at(d time.Duration) mail.Instant { return mail.Instant(1e18).Add(d) }

func to(nexthop string) Key {
	return Key{Scope: Queue, Transport: "smtp", Name: nexthop, Nexthop: nexthop}
}

func rest(since, until time.Duration) Record {
	return Record{Rest: Rest{Rule: "slow", Since: at(since), Until: at(until),
		Reason: mail.Reply{Code: 421, Status: mail.Status{Class: 4, Subject: 7, Detail: 28}, Text: "too fast\nwait", By: "mx.test[192.0.2.1]"}}}
}

func lower(since, until time.Duration) Record {
	return Record{Lower: Lowering{Rule: "low", Since: at(since), Until: at(until), Concurrency: 2, Count: 30, Per: time.Minute}}
}

func order(since, until time.Duration) Record {
	return Record{Order: Order{By: "jo", Reason: "the receiver \"asked\"", Since: at(since), Until: at(until)}}
}

// What a rule has demanded is read as it was saved, whatever it was.
func TestSavedAndRead(t *testing.T) {
	both := rest(0, time.Hour)
	both.Lower = lower(time.Second, time.Minute).Lower
	forever := rest(0, time.Hour)
	forever.Rest.Until = mail.Never
	ruled := order(0, time.Hour)
	ruled.Order.By, ruled.Order.Rule = "", "slow"
	for _, r := range []Record{ruled, order(0, time.Hour), {Order: Order{Since: 1, Until: mail.Never}}, rest(0, 6*time.Hour), lower(0, time.Hour), both, forever, {Lower: Lowering{Rule: "r", Since: 1, Until: 2, Concurrency: 1}}} {
		b, ok := AppendRecord(nil, r)
		if !ok {
			t.Fatalf("%+v cannot be saved", r)
		}
		if again, err := ParseRecord(b); err != nil || again != r {
			t.Errorf("%s is read as %+v, %v", b, again, err)
		}
	}
	for _, k := range []Key{to("a.test"), {Queue, "pipe", "jo@a.test", "a.test", "", "", ""}, {Queue, "smtp", "{mx1,mx2;mx3}", "{mx1,mx2;mx3}", "mta7", "verify", ""}, {Queue, "t", "", "", "", "", ""}, OrderKey(Tenant, "jo"), OrderKey(Class, "bulk"), {Scope: Resumed}, OrderKey(Destination, "smtp:{mx1,mx2;mx3}"), OrderKey(Destination, "smtp:a.test from mta7"), OrderKey(Domain, "a.test"), OrderKey(Destination, "smtp:{mx1} to a.test"), OrderKey(Destination, "smtp:{mx1} to a.test from mta7")} {
		b, ok := AppendKey([]byte("before"), k)
		if !ok {
			t.Fatalf("%+v cannot be saved", k)
		}
		if again, err := ParseKey(b[len("before"):]); err != nil || again != k {
			t.Errorf("%q is read as %+v, %v", b, again, err)
		}
	}
}

// What was saved can be read by the next versions only if it stays what it is.
func TestForm(t *testing.T) {
	r := rest(0, 6*time.Hour)
	r.Lower = lower(0, time.Hour).Lower
	b, _ := AppendRecord(nil, r)
	want := `1 rest 1000000000000000000 1000021600000000000 421 4 7 28 "slow" "too fast\nwait" "mx.test[192.0.2.1]"` +
		` lower 1000000000000000000 1000003600000000000 2 30 60000000000 "low"`
	if string(b) != want {
		t.Errorf("a record is saved as\n%s, want\n%s", b, want)
	}
	k, _ := AppendKey(nil, Key{Queue, "smtp", "a.test", "a.test", "mta7", "verify", ""})
	if want := "\x00\x00\x01smtp\x00a.test\x00\x00mta7\x00verify\x00"; string(k) != want {
		t.Errorf("a key is saved as %q, want %q", k, want)
	}
}

// An order is saved as text, too; the number of each scope stays.
func TestFormOfOrders(t *testing.T) {
	b, _ := AppendRecord(nil, order(0, time.Hour))
	if want := `1 order 1000000000000000000 1000003600000000000 "jo" "the receiver \"asked\""`; string(b) != want {
		t.Errorf("an order is saved as\n%s, want\n%s", b, want)
	}
	for i, word := range []string{"site", "domain", "transport", "source", "tenant", "class"} {
		s, ok := ParseScope(word)
		k, _ := AppendKey(nil, OrderKey(s, "x"))
		if want := "\x00\x00" + string(rune(2+i)) + "\x00x\x00\x00\x00\x00"; !ok || string(k) != want || s.String() != word || !slices.Contains(Scopes(), s) {
			t.Errorf("%s is scope %v, and saved as %q, want %q", word, s, k, want)
		}
	}
	ruled := order(0, time.Hour)
	ruled.Order.By, ruled.Order.Rule = "", "slow"
	b, _ = AppendRecord(nil, ruled)
	if want := `1 ruled 1000000000000000000 1000003600000000000 "slow" "the receiver \"asked\""`; string(b) != want {
		t.Errorf("an order of a rule is saved as\n%s, want\n%s", b, want)
	}
	for value, want := range map[string]string{"smtp:a.test": "\x00\x00\tsmtp\x00a.test\x00\x00\x00\x00", "smtp:[::1]:25 from mta7": "\x00\x00\tsmtp\x00[::1]:25\x00\x00mta7\x00\x00"} {
		k, _ := AppendKey(nil, OrderKey(Destination, value))
		if again, err := ParseKey(k); string(k) != want || err != nil || again.Value() != value {
			t.Errorf("destination %s is saved as %q, want %q, and read as %q, %v", value, k, want, again.Value(), err)
		}
	}
	for _, word := range []string{"", "queue", "resumed"} {
		if s, ok := ParseScope(word); ok {
			t.Errorf("%q is the scope %v", word, s)
		}
	}
}

// What cannot be saved is not saved in part.
func TestTooLong(t *testing.T) {
	long := strings.Repeat("x", KeyMax)
	for _, k := range []Key{{Queue, "smtp", long, long, "", "", ""}, {Queue, "sm\x00tp", "a", "a", "", "", ""}, {Queue, "smtp", "name", "", "", "", ""}} {
		if b, ok := AppendKey([]byte("b"), k); ok || string(b) != "b" {
			t.Errorf("a key of %d bytes is saved as %.40q", len(k.Name), b)
		}
	}
	r := rest(0, time.Hour)
	r.Rest.Rule = strings.Repeat("x", RecordMax)
	if b, ok := AppendRecord([]byte("b"), r); ok || string(b) != "b" {
		t.Errorf("a long rule is saved as %.40q", b)
	}
}

// Receivers send up to 4 KB, all of which is kept and saved, whatever it takes to quote it. What
// would be more is cut, so that the memory for many records is bounded.
func TestReasonIsWhole(t *testing.T) {
	for _, text := range []string{strings.Repeat("é", mail.ReplyTextMax/2), strings.Repeat("\n", mail.ReplyTextMax), strings.Repeat("\U000e0001", mail.ReplyTextMax/4)} {
		table, orders := New(), NewOrders()
		r, o := rest(0, time.Hour), order(0, time.Hour)
		r.Rest.Reason.Text = text
		r.Rest.Reason.Code, r.Rest.Reason.Status = 599, mail.Status{Class: 5, Subject: 999, Detail: 999}
		o.Order.By, o.Order.Rule, o.Order.Reason = "", "slow", r.Rest.Reason.Lines()
		table.Put(to("a.test"), r)
		orders.Put(OrderKey(Site, "a.test"), o)
		for _, c := range []struct{ got, want Record }{{table.Get(to("a.test")), r}, {orders.Get(OrderKey(Site, "a.test")), o}} {
			b, ok := AppendRecord(nil, c.got)
			if again, err := ParseRecord(b); c.got != c.want || !ok || err != nil || again != c.want {
				t.Errorf("of %d bytes, %d are kept, and %d are saved (%t), and read: %v", len(text), max(len(c.got.Rest.Reason.Text), len(c.got.Order.Reason)), len(b), ok, err)
			}
		}
	}
	table := New()
	r := rest(0, time.Hour)
	r.Rest.Reason.Text, r.Rest.Reason.By = strings.Repeat("é", 3000), strings.Repeat("m", 2000)
	r.Order = order(0, time.Hour).Order
	r.Order.Reason = r.Rest.Reason.Text
	table.Put(to("a.test"), r)
	got := table.Get(to("a.test"))
	if len(got.Rest.Reason.Text) > reasonMax || len(got.Rest.Reason.By) > byMax || len(got.Order.Reason) > ReasonMax {
		t.Errorf("%d and %d bytes of the text and %d of the host are kept", len(got.Rest.Reason.Text), len(got.Order.Reason), len(got.Rest.Reason.By))
	}
}

// Each half of a record has its own end.
func TestEnd(t *testing.T) {
	table := New()
	r := rest(0, 2*time.Hour)
	r.Lower = lower(0, time.Hour).Lower
	table.Put(to("a.test"), r)
	table.Put(to("b.test"), rest(0, 90*time.Minute))
	forever := rest(0, time.Hour)
	forever.Rest.Until = mail.Never
	table.Put(to("c.test"), forever)
	if _, _, ok := table.End(at(time.Hour) - 1); ok || table.Next() != at(time.Hour) {
		t.Fatalf("something has ended; next %v", table.Next())
	}
	if k, was, ok := table.End(at(time.Hour)); !ok || k != to("a.test") || was != r || table.Get(k) != rest(0, 2*time.Hour) {
		t.Fatalf("ended %v: %+v, %v; left %+v", k, was, ok, table.Get(k))
	}
	var order []string
	for k, _, ok := table.End(at(100000 * time.Hour)); ok; k, _, ok = table.End(at(100000 * time.Hour)) {
		order = append(order, k.Name)
	}
	if want := []string{"b.test", "a.test"}; !slices.Equal(order, want) || table.Len() != 1 || table.Next() != mail.Never {
		t.Errorf("ended %v, want %v; %d are left", order, want, table.Len())
	}
	table.Check()
}

// An order ends at its time, or never by itself; and one that a clock which was ahead has made lasts for
// as long as it was meant to.
func TestEndOfOrders(t *testing.T) {
	table := NewOrders()
	table.Put(OrderKey(Domain, "a.test"), order(0, time.Hour))
	forever := order(0, time.Hour)
	forever.Order.Until = mail.Never
	table.Load([]Known{{OrderKey(Tenant, "jo"), forever}, {OrderKey(Site, "b.test"), order(100*time.Hour, 102*time.Hour)}, {OrderKey(Site, "c.test"), order(-2*time.Hour, -time.Hour)}}, at(0))
	var ended []string
	for k, was, ok := table.End(at(3 * time.Hour)); ok; k, was, ok = table.End(at(3 * time.Hour)) {
		ended = append(ended, fmt.Sprint(k.Scope, " ", k.Name, " ", was.Order.Until.Sub(at(0))))
	}
	if want := []string{"domain a.test 1h0m0s", "site b.test 2h0m0s"}; !slices.Equal(ended, want) || table.Len() != 1 {
		t.Errorf("ended are %q, want %q; %d are left", ended, want, table.Len())
	}
	table.Check()
}

// There is a limit. What has the least left is forgotten for what is new, and deleted where it was
// saved.
func TestLimit(t *testing.T) {
	table := newTable(3)
	for i, hours := range []time.Duration{5, 2, 9} {
		table.Put(to(fmt.Sprint(i)), rest(0, hours*time.Hour))
	}
	table.Changed(nil, 10)
	forgot, full := table.Put(to("new"), rest(0, time.Minute))
	if !full || forgot.Key != to("1") || forgot.Record != rest(0, 2*time.Hour) {
		t.Errorf("forgotten: %+v, %v", forgot, full)
	}
	table.Check()
	changes := table.Changed(nil, 10)
	if len(changes) != 2 || !changes[0].Gone || changes[0].Key != to("1") || changes[1].Key != to("new") {
		t.Errorf("saved: %+v", changes)
	}
	if _, full := table.Put(to("new"), rest(0, 2*time.Minute)); full {
		t.Error("a change of one forgets another")
	}
}

// What is read at a start: what has ended meanwhile is deleted, and what was made by a clock that was
// ahead has no more to go than it had at first.
func TestLoad(t *testing.T) {
	table := New()
	table.Put(to("present"), rest(0, time.Minute))
	table.Changed(nil, 10)
	both := rest(-2*time.Hour, time.Hour)
	both.Lower = lower(-2*time.Hour, 0).Lower
	endless := rest(1000*time.Hour, 0)
	endless.Rest.Until = mail.Never
	taken := table.Load([]Known{
		{to("kept"), rest(-time.Hour, 5*time.Hour)},
		{to("over"), rest(-7*time.Hour, -time.Hour)},
		{to("half"), both},
		{to("ahead"), rest(1000*time.Hour, 1006*time.Hour)},
		{to("endless"), endless},
		{to("low"), lower(1000*time.Hour, 1001*time.Hour)},
		{to("present"), rest(0, time.Hour)},
	}, at(0))
	endless.Rest.Since = at(0)
	if want := []Key{to("ahead"), to("endless"), to("half"), to("kept"), to("low")}; !slices.Equal(taken, want) {
		t.Errorf("taken are %v, want %v", taken, want)
	}
	for k, want := range map[string]Record{"kept": rest(-time.Hour, 5*time.Hour), "over": {}, "half": rest(-2*time.Hour, time.Hour), "ahead": rest(0, 6*time.Hour), "endless": endless, "low": lower(0, time.Hour), "present": rest(0, time.Minute)} {
		if got := table.Get(to(k)); got != want {
			t.Errorf("%s: %+v, want %+v", k, got, want)
		}
	}
	table.Check()
	saved := map[string]bool{}
	for _, c := range table.Changed(nil, 10) {
		saved[c.Key.Name] = c.Gone
	}
	if want := map[string]bool{"over": true, "half": false, "ahead": false, "endless": false, "low": false}; !maps.Equal(saved, want) {
		t.Errorf("saved is %v, want %v", saved, want)
	}
}

// More than there may be are read, as by a version with a smaller limit: those with the least left go.
func TestLoadTooMany(t *testing.T) {
	var all []Known
	for i := range 10 {
		all = append(all, Known{to(fmt.Sprint(i)), rest(0, time.Duration(10-i)*time.Hour)})
	}
	table := newTable(4)
	taken := table.Load(all, at(0))
	if want := []Key{to("0"), to("1"), to("2"), to("9")}; !slices.Equal(taken, want) {
		t.Errorf("taken are %v, want %v", taken, want)
	}
	table.Check()
}

// Whatever is put, ended and saved in whatever order, who reads what was saved has what the table has.
func TestRandomChanges(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	table, saved := newTable(20), map[Key]Record{}
	now, compared := time.Duration(0), 0
	fetch := func(most int) {
		for _, c := range table.Changed(nil, most) {
			if saved[c.Key] = c.Record; c.Gone {
				delete(saved, c.Key)
			}
		}
	}
	for range 20_000 {
		k := to(fmt.Sprint(random.Intn(40)))
		r := table.Get(k)
		switch random.Intn(8) {
		case 0, 1:
			r.Rest = rest(now, now+time.Duration(1+random.Intn(100))*time.Minute).Rest
		case 2:
			r.Lower = lower(now, now+time.Duration(1+random.Intn(100))*time.Minute).Lower
		case 3:
			r.Rest = Rest{}
		case 4:
			r.Lower = Lowering{}
		case 5:
			now += time.Duration(random.Intn(20)) * time.Minute
			for _, _, ok := table.End(at(now)); ok; _, _, ok = table.End(at(now)) {
			}
			r = table.Get(k)
		case 6:
			fetch(random.Intn(5))
		case 7:
			fetch(1000)
			have := map[Key]Record{}
			for _, k := range table.All() {
				have[k.Key] = k.Record
			}
			if compared += len(have); !maps.Equal(have, saved) {
				t.Fatalf("saved are %v, and there are %v", saved, have)
			}
		}
		table.Put(k, r)
		table.Check()
	}
	if compared == 0 {
		t.Error("there was nothing to compare")
	}
}

// What no version of this program has written is not read.
func TestMalformed(t *testing.T) {
	for _, text := range []string{"", "1", "2 rest 5 7 0 0 0 0 \"\" \"\" \"\"", `1 lower 0 7 1 0 0 "r"`, `1 lower 7 7 1 0 0 "r"`, `1 lower 8 7 1 0 0 "r"`, `1 lower -5 7 1 0 0 "r"`,
		`1 lower 5 7 0 0 0 "r"`, `1 lower 5 7 0 1 0 "r"`, `1 lower 5 7 1 0 9 "r"`, `1 lower 5 7 2147483648 0 0 "r"`, `1 lower 5 7 1 2147483648 9 "r"`, `1 lower 5 7 1 0 0 r`, `1 lower 5 7 1 0 0 "r" `,
		`1 lower 05 7 1 0 0 "r"`, `1 lower 5 9223372036854775808 1 0 0 "r"`, `1 rest 5 7 1000 0 0 0 "" "" ""`, `1 lower 5 7 1 0 0 "r" rest 5 7 0 0 0 0 "" "" ""`, `1 lower 5 7 1 0 0 "r" lower 5 7 1 0 0 "r"`} {
		if r, err := ParseRecord([]byte(text)); err == nil {
			t.Errorf("%s is read as %+v", text, r)
		}
	}
	if r, err := ParseRecord([]byte(`1 lower 5 7 2147483647 0 0 "r"`)); err != nil || r.Lower.Concurrency != 1<<31-1 {
		t.Errorf("the highest limit: %+v, %v", r, err)
	}
	for _, key := range []string{"", "\x00", "\x00\x00", "\x00\x00\x00t\x00n\x00\x00\x00\x00", "\x00\x00\x02t\x00n\x00\x00\x00\x00", "\x00\x00\x01t\x00n\x00n\x00\x00\x00", "\x00\x00\x01t\x00n\x00\x00\x00", "\x00\x00\x01t\x00n\x00\x00\x00\x00x"} {
		if k, err := ParseKey([]byte(key)); err == nil {
			t.Errorf("%q is read as %+v", key, k)
		}
	}
}

// If no caller fetches the records that are gone, the memory for them is bounded nevertheless.
func TestGoneIsBounded(t *testing.T) {
	table := newTable(10)
	for i := range 20_000 {
		table.Put(to(fmt.Sprint(i)), rest(0, time.Hour))
	}
	table.Check()
}

// FuzzSaved reads arbitrary keys and records. What is read has one form, and a table can go on with
// it.
func FuzzSaved(f *testing.F) {
	r := rest(0, time.Hour)
	r.Lower = lower(0, time.Hour).Lower
	key, _ := AppendKey(nil, Key{Queue, "smtp", "jo@a.test", "a.test", "mta7", "verify", ""})
	value, _ := AppendRecord(nil, r)
	f.Add(key, value)
	f.Add([]byte("\x00\x00\x01a\x00b\x00\x00\x00\x00"), []byte(`1 lower 5 7 1 0 0 "r"`))
	f.Add([]byte("\x00\x00\x06\x00jo\x00\x00\x00\x00"), []byte(`1 order 5 9223372036854775807 "" "because"`))
	f.Add([]byte("\x00\x00"), []byte(`1 rest 5 9223372036854775807 0 0 0 0 "" "" ""`))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		k, err := ParseKey(key)
		if err == nil {
			if again, ok := AppendKey(nil, k); !ok || string(again) != string(key) {
				t.Fatalf("%q is read as %+v and saved as %q", key, k, again)
			}
		} else {
			k = to("a.test")
		}
		r, err := ParseRecord(value)
		if err != nil {
			return
		}
		if again, ok := AppendRecord(nil, r); !ok || string(again) != string(value) {
			t.Fatalf("%q is read as %+v and saved as %q", value, r, again)
		}
		for _, now := range []mail.Instant{1, at(0), mail.Never - 1} {
			table := newTable(1)
			table.Load([]Known{{k, r}}, now)
			table.Check()
			if left := table.Get(k); left.Rest.Until != 0 && left.Rest.Until <= now || left.Lower.Until != 0 && left.Lower.Until <= now || left.Order.Until != 0 && left.Order.Until <= now {
				t.Fatalf("at %v %q is loaded as %+v", now, value, left)
			}
			for _, _, ok := table.End(now); ok; _, _, ok = table.End(now) {
			}
			table.Check()
		}
	})
}

// The cost of creating a queue while there are measures.
func BenchmarkGet(b *testing.B) {
	table := New()
	keys := make([]Key, 2*Limit)
	for i := range keys {
		name := fmt.Sprintf("{mx1.d%d.example.net,mx2.d%d.example.net}", i, i)
		keys[i] = Key{Scope: Queue, Transport: "smtp", Name: name, Nexthop: name, Source: "mta1"}
		if i%2 == 0 {
			table.Put(keys[i], rest(0, time.Hour))
		}
	}
	i := 0
	for b.Loop() {
		if table.Get(keys[i]).Rest.Until == 1 {
			b.Fatal()
		}
		i = (i + 1) % len(keys)
	}
}
