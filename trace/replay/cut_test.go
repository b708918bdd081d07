package replay

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/qmgrtest"
	"github.com/posthaste-mta/posthaste/trace"
)

// cut cuts a trace, and checks that what comes out replays to the letter.
func cut(t *testing.T, text string, want Selection) (string, CutResult) {
	t.Helper()
	var out strings.Builder
	result, err := Cut(func() (*trace.Reader, error) { return trace.NewReader(strings.NewReader(text), "x.trace") }, want, &out)
	if err != nil {
		t.Fatal(err)
	}
	if again := replayed(t, out.String()); again.Difference != nil {
		t.Fatalf("%+v does not replay: %+v\n%s", want, again.Difference, out.String())
	}
	return out.String(), result
}

// A cut that leaves nothing out is the trace itself, answers and wakes at their
// places.
func TestCutNothing(t *testing.T) {
	seed := rand.Uint64()
	for n := range uint64(20) {
		text := busy(t, seed+n, 300)
		got, result := cut(t, text, Selection{})
		if got != text {
			d, err := Diff(open(t, text), open(t, got))
			t.Fatalf("seed %d: %+v: %+v %+v, %v", seed+n, result, d.A, d.B, err)
		}
	}
}

// Up to a line means: the event of that line, with all that comes of it.
func TestCutToLine(t *testing.T) {
	text := busy(t, 3, 200)
	at := line(text, "change defer") + 1
	got, result := cut(t, text, Selection{ToLine: at})
	lines := strings.SplitAfter(text, "\n")
	end := at
	for strings.Fields(lines[end])[1] != ">" {
		end++
	}
	if want := strings.Join(lines[:end], "") + "end\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if result.Events == 0 || result.Given != result.Events || result.Answers > 0 || result.Crash != "" {
		t.Errorf("%+v", result)
	}
}

// daily is a world in which three messages have different fates: one is put off
// twice, one goes through, one is to a destination that is dead.
func daily(t *testing.T) (text string, ids []mail.QueueID) {
	t.Helper()
	r := record(t, qmgr.Config{}, 5)
	how := func(d qmgr.Deliver) qmgrtest.Ending {
		switch {
		case d.Delivery.Nexthop == "dead.test":
			return qmgrtest.SiteDown
		case d.Delivery.Nexthop == "grey.test" && r.Now < 2000e9:
			return qmgrtest.Later
		}
		return qmgrtest.Accepted
	}
	for _, to := range []mail.Address{"u@dead.test", "u@grey.test", "u@a.test"} {
		r.arrive(to, "v"+to)
	}
	r.answerAll(how)
	for range 40 {
		r.arrive("w@a.test")
		r.answerAll(how)
		r.pass(100*time.Second, how)
	}
	return r.end(), r.ids
}

// One message's story, cut out of a day: all that happened to it, its retries at
// their instants, and nothing about others.
func TestCutMessage(t *testing.T) {
	text, ids := daily(t)
	grey := ids[1]
	got, result := cut(t, text, Selection{Messages: []mail.QueueID{grey}})
	for _, id := range ids {
		if id != grey && names(got, id) {
			t.Errorf("another message, %v, is in\n%s", id, got)
		}
	}
	if want, n := strings.Count(text, " "+grey.String()+" smtp grey.test"), strings.Count(got, " "+grey.String()+" smtp grey.test"); n != want || n < 3 {
		t.Errorf("%d of %d deliveries in\n%s", n, want, got)
	}
	if !strings.Contains(got, "change remove "+grey.String()) || result.Messages != 1 || result.Given > result.Events/4 {
		t.Errorf("%+v:\n%s", result, got)
	}
}

// names reports whether a trace has a message in it: more than as a place in an
// index, from which to look on.
func names(text string, id mail.QueueID) bool {
	return strings.Contains(text, " "+id.String()) || strings.Contains(text, " id="+id.String())
}

// Everything about a destination is the messages that go there.
func TestCutDestination(t *testing.T) {
	text, ids := daily(t)
	got, result := cut(t, text, Selection{Destinations: []Destination{{Nexthop: "dead.test"}, {"smtp", "grey.test"}, {"relay", "a.test"}}})
	for i, id := range ids {
		if (i < 2) != names(got, id) {
			t.Errorf("message %d, %v, in\n%s", i, id, got)
		}
	}
	if result.Messages != 2 || strings.Count(got, "smtp dead.test") != strings.Count(text, "smtp dead.test") {
		t.Errorf("%+v:\n%s", result, got)
	}
}

// Whatever is cut out of whatever, the result is a trace that replays, and every
// answer in it is to a question that was asked.
func TestCutAnything(t *testing.T) {
	seed := rand.Uint64()
	for n := range uint64(30) {
		text := busy(t, seed+n, 300)
		r := open(t, text)
		var want Selection
		for {
			s, err := r.Step()
			if errors.Is(err, io.EOF) {
				break
			}
			if a, ok := s.Event.Event.(qmgr.Arrived); ok && rand.IntN(3) == 0 {
				want.Messages = append(want.Messages, a.Arrival.Envelope.ID)
			}
		}
		got, _ := cut(t, text, want)
		contract(t, got)
	}
}

// contract checks that each answer in a trace has its question, and each end of a
// connection its beginning.
func contract(t *testing.T, text string) {
	t.Helper()
	r := open(t, text)
	asked := make(map[name]int)
	ready, hung := make(map[qmgr.ConnID]bool), make(map[qmgr.ConnID]bool)
	for {
		s, err := r.Step()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if list := handles(s.Event.Event); len(list) > 0 {
			i := slices.IndexFunc(list, func(h name) bool { return asked[h] > 0 })
			if i < 0 {
				t.Fatalf("line %d: %s answers no question in\n%s", s.Event.Number, s.Event.Text, text)
			}
			asked[list[i]]--
		}
		switch ev := s.Event.Event.(type) {
		case qmgr.Dialed:
			ready[ev.Conn] = ev.Opened.Reply.IsZero()
		case qmgr.Closed:
			if !ready[ev.Conn] || ev.Closing.Why == mail.CloseAsked && !hung[ev.Conn] {
				t.Fatalf("line %d: %s ends what has not begun, or unasked, in\n%s", s.Event.Number, s.Event.Text, text)
			}
			delete(ready, ev.Conn)
		}
		for _, a := range s.Actions {
			if q, asks := ask(a.Action); asks {
				asked[q.handle]++
			}
			if h, ok := a.Action.(qmgr.Hangup); ok {
				hung[h.Conn] = true
			}
		}
	}
}

// shrink shrinks a trace to a goal.
func shrink(t *testing.T, text string, goal Goal) (string, ShrinkResult) {
	t.Helper()
	var out strings.Builder
	result, err := Shrink(context.Background(), open(t, text), goal, &out, nil)
	if err != nil {
		t.Fatal(err)
	}
	contract(t, out.String())
	return out.String(), result
}

// A panic at the end of a long trace shrinks to the one message over which the
// core panics: five events, of which none can be spared.
func TestShrinkToPanic(t *testing.T) {
	text := crashing(t)
	goal, err := FailureOf(open(t, text))
	if err != nil {
		t.Fatal(err)
	}
	got, result := shrink(t, text, goal)
	if d := replayed(t, got).Difference; d == nil || !strings.Contains(d.Panic, "outcome of recipient") {
		t.Errorf("it does not panic any more: %+v\n%s", d, got)
	}
	// Mail that arrives before the core has scanned the spool would wait.
	var events []string
	for l := range strings.Lines(got) {
		if words := strings.Fields(l); len(words) > 2 && words[1] == ">" {
			events = append(events, words[2])
		}
	}
	if want := []string{"wake", "arrived", "routed", "delivered"}; !slices.Equal(events, want) || result.After != len(want) || result.Before < 300 {
		t.Errorf("%+v: %q, want %q:\n%s", result, events, want, got)
	}
}

// What a daemon did once is found again in as few events as lead to it.
func TestShrinkUntil(t *testing.T) {
	text, ids := daily(t)
	r := open(t, text)
	goal := Until("a defer", r.Head().Format(), func(line []byte) bool { return strings.Contains(string(line), "note expired") })
	if _, err := Shrink(context.Background(), open(t, text), goal, io.Discard, nil); !errors.Is(err, ErrNotReached) {
		t.Errorf("what never happened: %v", err)
	}
	goal = Until("a defer", r.Head().Format(), func(line []byte) bool { return strings.Contains(string(line), "change defer "+ids[1].String()) })
	got, result := shrink(t, text, goal)
	if again := replayed(t, got); again.Difference != nil || result.After > 6 || !strings.Contains(got, "change defer "+ids[1].String()) {
		t.Errorf("%+v, %+v:\n%s", result, again.Difference, got)
	}
}

// A difference between what was recorded and what is done shrinks to the messages
// that it is about.
func TestShrinkToDifference(t *testing.T) {
	text, ids := daily(t)
	grey := ids[1].String()
	other := strings.Replace(text, " "+grey+" smtp grey.test", " "+grey+" smtp gray.test", 1)
	goal, err := FailureOf(open(t, other))
	if err != nil || !strings.Contains(goal.What, "instead of") {
		t.Fatal(goal.What, err)
	}
	got, result := shrink(t, other, goal)
	if result.After > 8 || !strings.Contains(got, " "+grey+" smtp grey.test") {
		t.Errorf("%+v:\n%s", result, got)
	}
	if _, err := FailureOf(open(t, text)); !errors.Is(err, ErrNoFailure) {
		t.Errorf("a trace without a failure: %v", err)
	}
}

// The judgment of another program is taken as it is.
func TestShrinkJudged(t *testing.T) {
	text, ids := daily(t)
	tries := 0
	got, result := shrink(t, text, Judged("two messages", func(candidate []byte) (bool, error) {
		tries++
		return strings.Contains(string(candidate), "arrived "+ids[0].String()) && strings.Contains(string(candidate), "arrived "+ids[2].String()), nil
	}))
	if result.After != 2 || result.Tries != tries || strings.Count(got, " > ") != 2 {
		t.Errorf("%+v after %d tries:\n%s", result, tries, got)
	}
	broken := errors.New("no such program")
	if _, err := Shrink(context.Background(), open(t, text), Judged("", func([]byte) (bool, error) { return false, broken }), io.Discard, nil); !errors.Is(err, broken) {
		t.Errorf("a judge that cannot: %v", err)
	}
}

// An interrupted search returns the best that was found.
func TestShrinkInterrupted(t *testing.T) {
	text := crashing(t)
	goal, err := FailureOf(open(t, text))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var out strings.Builder
	result, err := Shrink(ctx, open(t, text), goal, &out, func(_, tries int) {
		if tries == 4 {
			stop()
		}
	})
	if err != nil || !result.Interrupted || result.Tries != 4 || result.After >= result.Before || result.After < 6 {
		t.Errorf("%+v, %v", result, err)
	}
	if d := replayed(t, out.String()).Difference; d == nil || d.Panic == "" {
		t.Errorf("it does not panic any more: %+v", d)
	}
}
