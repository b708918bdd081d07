package event

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/internal/logline"
)

// held is a right event about message n.
func held(n int) []slog.Attr {
	return []slog.Attr{slog.String("id", fmt.Sprint(n)), slog.Group("", slog.String("tenant", "shop")), slog.Attr{}, slog.String("reason", "why")}
}

// names returns the messages of lines with what is missing before them, such as "held 3" or "lost 2".
func names(t *testing.T, lines []Line) (all []string) {
	t.Helper()
	for _, l := range lines {
		if l.Lost > 0 {
			all = append(all, fmt.Sprint("lost ", l.Lost))
		}
		if l.JSON == nil {
			continue
		}
		var v struct{ Msg, ID string }
		if err := json.Unmarshal(l.JSON, &v); err != nil || !bytes.HasSuffix(l.JSON, []byte("}\n")) {
			t.Fatalf("%v in %q", err, l.JSON)
		}
		all = append(all, v.Msg+" "+v.ID)
	}
	return all
}

// Each follower gets the events that it wants, in their order and from the moment on when it began; when all have gone, none is
// formatted any more.
func TestFollowersGetWhatTheyWant(t *testing.T) {
	h := new(Hub)
	offer := func(name string, n int) { h.Offer(time.Unix(1, 0), slog.LevelInfo, name, held(n)) }
	if h.Followed() {
		t.Error("a new hub is followed")
	}
	offer("held", 1)
	all, err := h.Follow(nil)
	some, err2 := h.Follow(func(e *Event) bool {
		tenant, has := e.Field("tenant")
		_, client := e.Field("client")
		id, _ := e.Field("id")
		return e.Name == "held" && tenant == "shop" && has && !client && id != "3"
	})
	if err != nil || err2 != nil || !h.Followed() {
		t.Fatal(err, err2, h.Followed())
	}
	for n := 2; n < 5; n++ {
		offer("held", n)
	}
	offer("dropped", 5)
	for f, want := range map[*Follower][]string{all: {"held 2", "held 3", "held 4", "dropped 5"}, some: {"held 2", "held 4"}} {
		lines, err := f.Next(t.Context())
		if got := names(t, lines); err != nil || !slices.Equal(got, want) {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	all.Close()
	if !h.Followed() {
		t.Error("not followed while one follower is left")
	}
	some.Close()
	offer("held", 6)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if lines, err := some.Next(ctx); h.Followed() || len(lines) > 0 || !errors.Is(err, context.Canceled) {
		t.Error(h.Followed(), lines, err)
	}
}

// Next waits until something comes.
func TestNextWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := new(Hub)
		f, _ := h.Follow(nil)
		defer f.Close()
		for range 2 {
			go func() {
				time.Sleep(time.Hour)
				h.Offer(time.Now(), slog.LevelInfo, "held", held(1))
			}()
			begin := time.Now()
			if lines, err := f.Next(t.Context()); err != nil || len(lines) != 1 || time.Since(begin) != time.Hour {
				t.Errorf("%d lines after %v, %v", len(lines), time.Since(begin), err)
			}
		}
	})
}

// A follower that does not read keeps a bounded number of events and octets, others do not wait for it, and it learns where how many are missing. Another
// that reads loses none.
func TestWhoDoesNotReadLosesEvents(t *testing.T) {
	for _, size := range []int{0, 64 << 10} {
		h := new(Hub)
		slow, _ := h.Follow(nil)
		quick, _ := h.Follow(nil)
		attrs := append(held(0), slog.String("reason", strings.Repeat("x", size)))
		kept := bufferLines
		if line := format(time.Unix(1, 0), slog.LevelInfo, "held", attrs); bufferOctets/len(line) < kept {
			kept = bufferOctets / len(line)
		}
		offer := func() { h.Offer(time.Unix(1, 0), slog.LevelInfo, "held", attrs) }
		for range kept + 3 {
			offer()
			if lines, _ := quick.Next(t.Context()); len(lines) != 1 || lines[0].Lost > 0 {
				t.Fatal("the quick one got", lines)
			}
		}
		lines, _ := slow.Next(t.Context())
		if n := len(lines); n != kept+1 || lines[n-1].Lost != 3 || lines[n-1].JSON != nil || lines[n-2].Lost != 0 {
			t.Fatalf("%d lines instead of %d, the last with %d lost", n, kept+1, lines[n-1].Lost)
		}
		for range kept + 2 {
			offer()
		}
		slow.mu.Lock()
		slow.lines, slow.octets = slow.lines[1:], slow.octets-len(slow.lines[0].JSON) // as if one had been read
		slow.mu.Unlock()
		offer()
		lines, _ = slow.Next(t.Context())
		if n := len(lines); n != kept || lines[n-1].Lost != 2 || lines[n-1].JSON == nil {
			t.Errorf("%d lines, the last with %d lost", n, lines[n-1].Lost)
		}
		if offer(); len(names(t, func() []Line { l, _ := slow.Next(t.Context()); return l }())) != 1 {
			t.Error("losses are counted twice")
		}
	}
}

func TestFollowersAreLimited(t *testing.T) {
	h := new(Hub)
	var last *Follower
	for range FollowersMax {
		f, err := h.Follow(nil)
		if err != nil {
			t.Fatal(err)
		}
		last = f
	}
	if _, err := h.Follow(nil); !errors.Is(err, ErrTooMany) {
		t.Error(err)
	}
	last.Close()
	if _, err := h.Follow(nil); err != nil {
		t.Error(err)
	}
}

// Events are offered, come and go while many goroutines log (for the race detector): each follower gets
// all of one goroutine in their order.
func TestManyAtOnce(t *testing.T) {
	h := new(Hub)
	log := slog.New(Tap(slog.DiscardHandler, h))
	const workers, each = 4, 200
	f, _ := h.Follow(nil)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for n := range each {
				logline.Log(log, slog.LevelInfo, "held", slog.String("id", fmt.Sprint(w)), slog.String("reason", fmt.Sprint(n)))
				if other, err := h.Follow(nil); err == nil {
					other.Close()
				}
			}
		})
	}
	next := make([]int, workers)
	for total := 0; total < workers*each; {
		lines, err := f.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lines {
			var v struct {
				ID     int `json:",string"`
				Reason int `json:",string"`
			}
			if err := json.Unmarshal(l.JSON, &v); err != nil || v.Reason != next[v.ID] {
				t.Fatalf("%s %v, want %d", l.JSON, err, next[v.ID])
			}
			next[v.ID]++
		}
		total += len(lines)
	}
	wg.Wait()
}

// The log is the same with a tap and without, and events reach those who follow whatever its level and form are;
// other lines do not.
func TestTap(t *testing.T) {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelError} {
		var plain, tapped strings.Builder
		options := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}
		h := new(Hub)
		bare, log := slog.New(slog.NewTextHandler(&plain, options)), slog.New(Tap(slog.NewTextHandler(&tapped, options), h))
		lines := func(l *slog.Logger) {
			logline.Log(l, slog.LevelInfo, "held", held(1)...)
			l.LogAttrs(t.Context(), slog.LevelDebug, "removed", slog.String("id", "2"))
			l.Info("order", "verb", "hold", "by", "me", "to", errors.New("an error"), "messages", 7)
			l.Info("not an event", "id", 3)
			logline.Log(l, slog.LevelWarn, "neither", slog.Int("id", 4))
			l.With("of", "another").Error("held", "id", "5")
			l.WithGroup("g").Error("held", "id", "6")
		}
		lines(bare)
		if lines(log); plain.String() != tapped.String() {
			t.Errorf("unfollowed, got\n%s, want\n%s", &tapped, &plain)
		}
		f, _ := h.Follow(nil)
		lines(bare)
		if lines(log); plain.String() != tapped.String() {
			t.Errorf("followed, got\n%s, want\n%s", &tapped, &plain)
		}
		got, err := f.Next(t.Context())
		if want := []string{"held 1", "removed 2", "order "}; err != nil || !slices.Equal(names(t, got), want) {
			t.Errorf("got %q %v, want %q", names(t, got), err, want)
		}
		if want := `"level":"INFO","msg":"order","verb":"hold","by":"me","to":"an error","messages":7}`; !strings.HasSuffix(string(got[2].JSON), want+"\n") {
			t.Errorf("got %s, want %s", got[2].JSON, want)
		}
	}
}

// What AppendJSON cannot write is written by slog.
func TestFormatOfOtherKinds(t *testing.T) {
	got := format(time.Unix(1, 0).UTC(), slog.LevelInfo, "held", []slog.Attr{slog.Any("list", []int{1}), slog.Duration("d", time.Second)})
	if want := `{"time":"1970-01-01T00:00:01Z","level":"INFO","msg":"held","list":[1],"d":1}` + "\n"; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Each mistake in an event is found; lines that are not events are not looked at.
func TestCheck(t *testing.T) {
	delivery := func(change ...slog.Attr) []slog.Attr {
		attrs := []slog.Attr{slog.String("id", "1"), slog.String("from", ""), slog.String("to", "a@b.test"), slog.String("transport", "smtp"), slog.String("nexthop", "b.test"),
			slog.String("host", "none"), slog.String("status", "sent"), slog.Duration("delay", 1), slog.Any("delays", &logline.Delays{}), slog.Int("attempt", 1), slog.String("reply", "250")}
		return append(attrs, change...)
	}
	for _, c := range []struct {
		attrs []slog.Attr
		want  string
	}{
		{delivery(), ""},
		{delivery(slog.Bool("unknown", true), slog.Attr{}), ""},
		{delivery(slog.String("other", "x")), "other is not declared"},
		{delivery(slog.Group("", slog.String("other", "x"))), "other is not declared"},
		{delivery(slog.String("unknown", "true")), "unknown is declared as true or false"},
		{delivery(slog.String("to", "c@d.test")), "to is there twice"},
		{delivery()[1:], "id is missing"},
		{delivery()[:10], "reply is missing"},
	} {
		err := Check("delivery", c.attrs)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	if err := Check("delivered", delivery(slog.Int("a", 1))); err != nil {
		t.Error(err)
	}
	var complaints []string
	log := NewStrict(new(strings.Builder), nil, func(err error) { complaints = append(complaints, err.Error()) })
	logline.Log(log, slog.LevelInfo, "late")
	log.Info("late", "id", "1")
	if want := []string{"event late: id is missing"}; !slices.Equal(complaints, want) {
		t.Errorf("got %q, want %q", complaints, want)
	}
}

// types that a value of a field may have.
func TestTypes(t *testing.T) {
	values := map[Type][]slog.Value{
		Text: {slog.StringValue("a"), slog.AnyValue(errors.New("a"))}, Integer: {slog.IntValue(1), slog.Uint64Value(1)}, Number: {slog.Float64Value(1)},
		Seconds: {slog.DurationValue(1)}, Parts: {slog.AnyValue(&logline.Delays{})}, Flag: {slog.BoolValue(true)}, Time: {slog.TimeValue(time.Unix(1, 0))},
		0: {slog.AnyValue([]int{1}), slog.GroupValue(slog.Int("a", 1)), slog.AnyValue(nil)},
	}
	for of, list := range values {
		for _, v := range list {
			for is := Text; is <= Time; is++ {
				if is.has(v) != (is == of) {
					t.Errorf("%v is of type %v: %v", v, is, is.has(v))
				}
			}
		}
	}
}

// What a tap costs a line without followers, and with one.
func BenchmarkTap(b *testing.B) {
	h := new(Hub)
	log := slog.New(Tap(nothing{}, h))
	delays := logline.Delays{1, 2, 3}
	line := func() {
		logline.Log(log, slog.LevelInfo, "delivery", slog.String("id", "6C3XB0E774000"), slog.String("from", "sender@loadgen.test"), slog.String("to", "m6.r0@d1.test"),
			slog.String("transport", "smtp"), slog.String("nexthop", "[127.0.1.1]:2626"), slog.String("host", "[127.0.1.1]:2626"),
			slog.String("status", "sent"), slog.Duration("delay", 1e8), slog.Any("delays", &delays), slog.Int("attempt", 1), slog.String("reply", "250 2.0.0 taken"))
	}
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			line()
		}
	})
	b.Run("followed", func(b *testing.B) {
		f, _ := h.Follow(nil)
		defer f.Close()
		b.ReportAllocs()
		for b.Loop() {
			line()
			f.Next(b.Context())
		}
	})
}

// nothing is a Writer that writes nothing.
type nothing struct{ slog.Handler }

func (nothing) Enabled(context.Context, slog.Level) bool                   { return true }
func (nothing) WriteLine(time.Time, slog.Level, string, []slog.Attr) error { return nil }
