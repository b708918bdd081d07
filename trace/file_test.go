package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

const (
	testHead = "posthaste-trace 1 by=\"posthaste v1\" seed=18446744073709551615 epoch=1000s\nconfig active-limit=5\n"
	testBody = "0s > wake\n0s fetch incoming max=256\n0.500000000s > found incoming next=0000000000001\n-not shown here"
)

// A file says what a core needs, and comes back as it was written: head, steps,
// instants that count from the epoch, also those before it.
func TestFile(t *testing.T) {
	head := Head{By: "posthaste v1", Seed: 1<<64 - 1, Epoch: 1000e9, Config: qmgr.Config{ActiveLimit: 5}}
	var b bytes.Buffer
	w := NewWriter(&b, head, "what this is", "")
	arrival := mail.Arrival{Envelope: mail.Envelope{ID: 7, Sender: "s@x.test", Arrived: 999_500_000_000}}
	actions := []qmgr.Action{qmgr.Fetch{Max: 256}, qmgr.Open{ID: 7, Max: 100}}
	w.Event(1000e9, qmgr.Arrived{Arrival: arrival})
	w.Actions(1000e9, actions)
	w.Event(1001e9, qmgr.Halt{})
	w.Actions(1001e9, nil)
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	const want = `# what this is
# 
posthaste-trace 1 by="posthaste v1" seed=18446744073709551615 epoch=1000s
config active-limit=5
0s > arrived 0000000000007 from=s@x.test arrived=-1.500000000s
0s fetch incoming max=256
0s open 0000000000007 max=100
1s > halt
end
`
	if b.String() != want {
		t.Fatalf("wrote\n%s\nwant\n%s", b.String(), want)
	}
	r, err := NewReader(iotest.OneByteReader(&b), "x")
	if err != nil {
		t.Fatal(err)
	}
	if h := r.Head(); h.Seed != head.Seed || h.Epoch != head.Epoch || h.By != head.By || h.Config.ActiveLimit != 5 {
		t.Errorf("head %+v", h)
	}
	first, err := r.Step()
	if err != nil || first.Event.Number != 5 || fmt.Sprint(first.Event.Event) != fmt.Sprint(qmgr.Arrived{Arrival: arrival}) || len(first.Actions) != 2 || first.Actions[1].Action != actions[1] {
		t.Errorf("first step %+v, %v", first, err)
	}
	second, err := r.Step()
	if err != nil || second.Event.Event != (qmgr.Halt{}) || len(second.Actions) != 0 || r.Complete() && r.Torn() {
		t.Errorf("second step %+v, %v", second, err)
	}
	if _, err := r.Step(); err != io.EOF || !r.Complete() || r.Torn() {
		t.Errorf("at the end: %v, complete %v, torn %v", err, r.Complete(), r.Torn())
	}
}

// A program that was killed leaves a file that ends anywhere. Whatever is whole
// is read, and the reader knows that something is missing.
func TestTornFile(t *testing.T) {
	body, _, _ := strings.Cut(testBody, "-")
	whole := testHead + body + "end\n"
	for n := len(testHead); n < len(whole); n++ {
		r, err := NewReader(strings.NewReader(whole[:n]), "x")
		if err != nil {
			t.Fatal(err)
		}
		lines := 0
		for {
			if _, err = r.Next(); err != nil {
				break
			}
			lines++
		}
		if err != io.EOF || r.Complete() || r.Torn() != (whole[n-1] != '\n') || lines != strings.Count(whole[len(testHead):n], "\n") {
			t.Errorf("of %q: %d lines, %v, complete %v, torn %v", whole[len(testHead):n], lines, err, r.Complete(), r.Torn())
		}
	}
}

// Errors of a file have the line number.
func TestBadFile(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "x:1: the file is empty",
		"\x1f\x8b":                           "x:1: this is no trace",
		"hello\n":                            "x:1: this is no trace",
		"posthaste-trace 2 seed=1\nconfig\n": "x:1: this is version 2 of the format, and this program knows version 1 only",
		"posthaste-trace 1 seed=x\nconfig\n": `x:1: "x" is not a number`,
		"posthaste-trace 1 seed=1 color=red\nconfig\n":         "x:1: color=red is not expected there",
		"posthaste-trace 1 seed=1\n":                           "x:2: the file ends before the configuration",
		"posthaste-trace 1 seed=1\n0s > wake\n":                `x:2: want the configuration`,
		"posthaste-trace 1 seed=1\nconfig active-limit=many\n": "x:2: active-limit=many",
		testHead + "\n# a comment\n0s > fly\n":                 `x:5: unknown event "fly"`,
		testHead + "0s fetch incoming\n":                       "x:3: an action before the first event",
		testHead + "5s > wake\n4s > wake\n":                    "x:4: time goes back",
		testHead + "5s > wake\n6s fetch incoming\n":            "x:4: an action at another instant",
		testHead + "5s > wake\n5s unknown\n":                   `x:4: unknown action "unknown"`,
		testHead + "5s > wake\nend\n5s > wake\n":               "x:5: there is something behind the end",
	} {
		r, err := NewReader(strings.NewReader(text), "x")
		for err == nil {
			_, err = r.Step()
		}
		var wrong *SyntaxError
		if !errors.As(err, &wrong) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.80q: %.200v, want %q", text, err, want)
		}
	}
	r, err := NewReader(strings.NewReader(testHead+"5s > hold reason="+strings.Repeat("x", 1<<20)), "x")
	if err != nil {
		t.Fatal(err)
	}
	r.most = 200_000
	if _, err := r.Step(); err == nil || err.Error() != "x:3: the line has more than 200000 octets" {
		t.Errorf("a line that has no end: %.100v", err)
	}
	if _, err := NewReader(iotest.ErrReader(errors.New("disk trouble")), "x"); err == nil || err.Error() != "read x: disk trouble" {
		t.Errorf("a file that cannot be read: %v", err)
	}
}

// A writer whose file fails says so once, and goes on doing nothing.
func TestWriterFails(t *testing.T) {
	full := errors.New("no space left")
	w := NewWriter(failing{full}, Head{})
	for range 10_000 {
		w.Event(0, qmgr.Wake{})
	}
	if err := w.End(); !errors.Is(err, full) {
		t.Errorf("the end: %v", err)
	}
	if cap(w.buffer) > 2*writeAt {
		t.Errorf("%d octets were gathered for a file that has failed", cap(w.buffer))
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// The summary is what an operator sees first.
func TestSummarize(t *testing.T) {
	body, _, _ := strings.Cut(testBody, "-")
	r, err := NewReader(strings.NewReader(testHead+body+"0.5s > wake\n"), "x")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Summarize(r)
	if err == nil || err.Error() != `x:6: "0.5s" is not an instant` {
		t.Errorf("a bad instant: %v", err)
	}
	r, err = NewReader(strings.NewReader(testHead+body+"7s > wake\n"), "x")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Summarize(r)
	kinds := []KindCount{{"fetch", false, 1}, {"found", true, 1}, {"wake", true, 2}}
	if err != nil || s.Events != 3 || s.Actions != 1 || s.Duration() != 7e9 || !slices.Equal(s.Kinds, kinds) {
		t.Errorf("%+v, %v", s, err)
	}
}

// Every event and action has a sentence, specific or generic.
func TestSentences(t *testing.T) {
	f := Format{Name: func(id mail.QueueID) string { return fmt.Sprintf("m%d", id) }, Epoch: 1000e9}
	for line, want := range map[string]string{
		`5s > arrived 1 from=s@x.test size=9 rcpts=5 area=incoming to=a@a.test to=b@a.test to=c@a.test to=d@a.test to=e@a.test next=5`: "m1 has arrived from <s@x.test>, 9 octets, to a@a.test b@a.test c@a.test and 2 more",
		`5s > opened 1 area=deferred to=a@a.test more`:                                              "m1 has been opened from <>, 0 octets, to a@a.test …, in deferred",
		`5s > found deferred at=1s id=1 at=2s id=2 more`:                                            "in deferred: m1 m2, and there is more",
		`5s > found deferred due=9s`:                                                                "in deferred: nothing, the next is due at 9s",
		`5s > broken 1 why=gone text="not there"`:                                                   "m1 could not be read (gone): not there",
		`5s > routed 1 via=smtp nexthop=a.test via=smtp nexthop=a.test via="" reply="550 5.1.2 no"`: "m1 goes to a.test by smtp, nowhere: 550 5.1.2 no",
		`5s > delivered 7 sent=0 deferred=1 reply="450 - later"`:                                    "attempt 7 has ended: 1 sent, 1 deferred, 450 later",
		`5s > delivered 7 site="421 4.3.2 busy" deferred=0`:                                         "attempt 7 has ended: 1 deferred, the site failed: 421 4.3.2 busy",
		`5s > changed 1`:                                                 "m1 is gone, durably",
		`5s > changed 1 area=deferred due=9s`:                            "m1 is in deferred, durably",
		`5s > hold reason=why 1 2`:                                       "hold reason=why m1 m2",
		`5s > wake`:                                                      "time has passed",
		`5s fetch incoming max=256`:                                      "scan incoming, at most 256 messages",
		`5s deliver 7 1 smtp a.test to=u@a.test`:                         "attempt 7: deliver m1 by smtp at a.test to u@a.test",
		`5s send c3 7 1 smtp a.test to=u@a.test`:                         "attempt 7: deliver m1 by smtp at a.test to u@a.test, over connection 3",
		`5s change defer 1 until=99s deferred=1`:                         "defer m1 until 99s, outcomes of 1",
		`5s note dead transport=smtp nexthop=a.test text="421 too many"`: "noted: a.test by smtp dead: 421 too many",
		`5s note deferred id=1 at=99s`:                                   "noted: m1 deferred until 99s",
		`5s preempted 1 by=2 transport=smtp level=1`:                     "preempted m1 by=m2 transport=smtp level=1",
		`5s lookup 3 for=1 smtp a.test`:                                  "lookup 3: where is a.test, by smtp?",
		`5s > looked-up 3 via=smtp nexthop=a.test site={mx}`:             "lookup 3 has ended: {mx}, for a.test by smtp",
		`5s resolve smtp a.test`:                                         "which hosts serve a.test, by smtp?",
		`5s > hosts smtp a.test tier=1 192.0.2.1:25 name=mx.a.test`:      "a.test is served, by smtp, by mx.a.test[192.0.2.1]:25",
		`5s > hosts smtp a.test reply="451 - no answer"`:                 "nothing serves a.test, by smtp: 451 no answer",
		`5s dial c3 smtp a.test 192.0.2.1:25 name=mx.a.test`:             "connection 3: dial mx.a.test[192.0.2.1]:25 for a.test, by smtp",
		`5s > dialed c3 level=overlap`:                                   "connection 3 is ready, overlap",
		`5s > dialed c3 reply="421 - busy"`:                              "there is no connection 3: 421 busy",
		`5s hangup c3`:                                                   "connection 3: hang up",
		`5s > closed c3 lost reply="421 - gone"`:                         "connection 3 has ended (lost) 421 gone",
	} {
		parse := f
		parse.ID = func(text string) (mail.QueueID, error) {
			n, err := parseInt(text)
			return mail.QueueID(n), err
		}
		l, err := parse.Parse(line)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := f.Sentence(l); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", line, got, want)
		}
	}
}

// No file makes a reader do anything but return lines or an error with a place.
func FuzzReader(f *testing.F) {
	body, _, _ := strings.Cut(testBody, "-")
	f.Add([]byte(testHead + body + "end\n"))
	f.Add([]byte("# c\n\n" + testHead + "5s > wake\n5s note dead id=0000000000001\n6s > halt"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := NewReader(bytes.NewReader(text), "x")
		for err == nil {
			_, err = r.Step()
		}
		var wrong *SyntaxError
		if err != io.EOF && !errors.As(err, &wrong) {
			t.Fatal(err)
		}
	})
}
