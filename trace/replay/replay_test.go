package replay

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/qmgrtest"
	"github.com/posthaste-mta/posthaste/trace"
)

// The same configuration, seed and events give the same actions, byte for byte:
// that is what makes a trace from production worth having.
func TestReplaysToTheLetter(t *testing.T) {
	seed := rand.Uint64()
	for n := range uint64(20) {
		text := busy(t, seed+n, 400)
		r := open(t, text)
		result, err := Run(r)
		if err != nil || result.Difference != nil || !r.Complete() || result.Missing > 0 {
			t.Fatalf("seed %d: %+v, %v, difference %+v", seed+n, result, err, result.Difference)
		}
		if result.Events != strings.Count(text, " > ") || result.Actions != strings.Count(text, "\n")-result.Events-3 {
			t.Errorf("seed %d: %+v of %d lines", seed+n, result, strings.Count(text, "\n"))
		}
	}
}

// A daemon that is killed leaves a trace that ends anywhere. What exists replays,
// whatever is missing.
func TestReplayOfATornTrace(t *testing.T) {
	text := busy(t, 1, 60)
	head := len(text[:strings.Index(text, "\n0s")])
	for end := head + 1; end < len(text)-len("end\n"); end += 5 {
		result := replayed(t, text[:end])
		if result.Difference != nil {
			t.Fatalf("of %q: %+v", text[head:end], result.Difference)
		}
	}
}

// Whatever is another one than was recorded is found, where it is, and told
// with both sides and what was before.
func TestReplayFindsDifferences(t *testing.T) {
	r := record(t, qmgr.Config{}, 1)
	id := r.arrive("u@a.test")
	r.answerAll(accepted)
	text := r.end()
	deliver := line(text, "deliver 1")
	for name, c := range map[string]struct {
		text                   string
		line                   int
		recorded, got, context string
	}{
		"another action": {strings.Replace(text, "smtp a.test", "smtp b.test", 1), deliver,
			"0s deliver 1 " + id.String() + " smtp b.test to=u@a.test", "0s deliver 1 " + id.String() + " smtp a.test to=u@a.test", "> arrived"},
		"one more": {remove(text, deliver), deliver - 1, "", "0s deliver 1 " + id.String() + " smtp a.test to=u@a.test", "> arrived"},
		"one less": {strings.Replace(text, "\n0s fetch incoming", "\n0s report "+id.String()+"\n0s fetch incoming", 1), 4,
			"0s report " + id.String(), "0s fetch incoming max=256", ""},
		"none": {strings.Replace(text, "end\n", "0s selected\nend\n", 1), line(text, "\nend") + 1, "0s selected", "", "> delivered"},
	} {
		d := replayed(t, c.text).Difference
		if d == nil || d.Line != c.line || d.Recorded != c.recorded || d.Got != c.got || !strings.Contains(strings.Join(d.Before, "\n"), c.context) {
			t.Errorf("%s: %+v, want line %d, recorded %q, got %q, after %q", name, d, c.line, c.recorded, c.got, c.context)
		}
	}
	// Jitter makes the seed count.
	r = record(t, qmgr.Config{}, 1)
	r.arrive("u@a.test")
	r.answerAll(func(qmgr.Deliver) qmgrtest.Ending { return qmgrtest.Later })
	if d := replayed(t, strings.Replace(r.end(), "seed=1 ", "seed=2 ", 1)).Difference; d == nil || !strings.Contains(d.Got, "note deferred") {
		t.Errorf("another seed: %+v", d)
	}
}

// A core that panics in production leaves a trace whose last event is the one
// over which it did. Its replay ends there, and says so.
func TestReplayOfAPanic(t *testing.T) {
	text := crashing(t)
	d := replayed(t, text).Difference
	if d == nil || !strings.Contains(d.Panic, "outcome of recipient") || !strings.Contains(d.Event, "pending=") ||
		!strings.Contains(d.Stack, "qmgr.(*Qmgr).Step") || d.Line != strings.Count(text, "\n") {
		t.Errorf("%+v", d)
	}
}

// What is wrong with a trace is an error, and not a difference.
func TestReplayOfABadTrace(t *testing.T) {
	text := busy(t, 1, 60)
	var wrong *trace.SyntaxError
	if _, err := Run(open(t, text+"x\n")); !errors.As(err, &wrong) || wrong.Line != strings.Count(text, "\n")+1 {
		t.Errorf("something behind the end: %v", err)
	}
	if _, err := Run(open(t, strings.Replace(text, "active-limit=", "active-limit=-", 1))); err == nil || !strings.Contains(err.Error(), "x.trace: queue manager: qmgr_message_active_limit") {
		t.Errorf("a configuration that cannot be: %v", err)
	}
}

// Two traces part at their first different line; their heads are compared first.
func TestDiff(t *testing.T) {
	one, two := busy(t, 1, 60), busy(t, 2, 60)
	if d, err := Diff(open(t, one), open(t, one)); d != nil || err != nil {
		t.Errorf("a trace and itself: %+v, %v", d, err)
	}
	d, err := Diff(open(t, one), open(t, strings.Replace(one, "seed=1 ", "seed=2 ", 1)))
	if err != nil || d == nil || len(d.Heads) != 1 || d.Heads[0] != "seed: 1, and 2" || d.A != nil {
		t.Errorf("another seed: %+v, %v", d, err)
	}
	if d, err := Diff(open(t, one), open(t, two)); err != nil || d == nil || len(d.Heads) < 2 || d.A == nil {
		t.Errorf("another world: %+v, %v", d, err)
	}
	n := line(one, "note")
	d, err = Diff(open(t, one), open(t, remove(one, n)))
	if err != nil || d == nil || d.A.Line != n || d.B.Line != n || d.A.Text == d.B.Text || len(d.Before) != contextLines {
		t.Errorf("one line less: %+v, %v", d, err)
	}
	d, err = Diff(open(t, one), open(t, one[:strings.LastIndex(one, "\n0s")+1]))
	if err != nil || d == nil || d.B.Text != "" || d.A.Text == "" {
		t.Errorf("a shorter one: %+v, %v", d, err)
	}
	if _, err := Diff(open(t, one), open(t, one+"x\n")); err == nil {
		t.Error("a bad trace is like a good one")
	}
}

// Every event and action is known here: as a question, an answer, or neither.
func TestEveryTypeIsPlaced(t *testing.T) {
	events, actions := trace.Types()
	answers, questions := 0, 0
	for _, ev := range events {
		if len(handles(ev)) > 0 {
			answers++
		}
	}
	for _, a := range actions {
		if _, asks := ask(a); asks {
			questions++
		}
	}
	if answers < 10 || questions < 10 {
		t.Errorf("%d answers to %d questions", answers, questions)
	}
}

// line returns the number of the first line that has a text in it.
func line(text, part string) int {
	before, _, ok := strings.Cut(text, part)
	if !ok {
		panic("no " + part + " in " + text)
	}
	return strings.Count(before, "\n") + 1
}

// remove removes a line.
func remove(text string, n int) string {
	lines := strings.SplitAfter(text, "\n")
	return strings.Join(append(lines[:n-1:n-1], lines[n:]...), "")
}

// crashing returns the trace of a core that panics at its end, over what no host
// may show it. Much else happens before.
func crashing(t *testing.T) string {
	t.Helper()
	r := record(t, qmgr.Config{}, 7)
	for n := range 30 {
		r.arrive(mail.Address(fmt.Sprintf("u@d%d.test", n%7)), mail.Address(fmt.Sprintf("v@d%d.test", n%5)))
		r.answerAll(func(d qmgr.Deliver) qmgrtest.Ending { return qmgrtest.Ending(int(d.Entry) % qmgrtest.Endings) })
		r.pass(100*time.Second, accepted)
	}
	r.arrive("last@a.test")
	for len(r.Outstanding) > 0 {
		a := r.Take(0)
		if d, ok := a.(qmgr.Deliver); ok {
			pending := mail.DeliveryResult{Outcomes: []mail.Outcome{{Index: d.Delivery.Recipients[0].Index}}}
			r.w.Event(r.Now, qmgr.Delivered{Entry: d.Entry, Result: pending})
			break
		}
		r.Answer(a)
	}
	if err := r.w.Flush(); err != nil {
		t.Fatal(err)
	}
	return r.text.String()
}
