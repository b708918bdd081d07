package sim

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

// arrivalTimes runs a scenario and returns when its messages came.
func arrivalTimes(t *testing.T, a Arrivals) []time.Duration {
	t.Helper()
	s := oneSite(Behaviour{}, a)
	w, err := newWorld(s, &s.Runs[0], 1)
	if err != nil {
		t.Fatal(err)
	}
	list := &arrivalList{}
	w.watch.accepts = append(w.watch.accepts, list)
	w.play()
	return list.at
}

type arrivalList struct{ at []time.Duration }

func (l *arrivalList) accepted(m *message) { l.at = append(l.at, m.arrived.Sub(epoch)) }

// Each pattern gives the messages that it says, when it says.
func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		name string
		a    Arrivals
		want []time.Duration
	}{
		{"once", Arrivals{Messages: 3, From: minute}, []time.Duration{minute, minute, minute}},
		{"regular", Arrivals{Pattern: PatternRegular, Rate: 2, Messages: 3, From: second}, []time.Duration{second, 1500 * time.Millisecond, 2 * second}},
		{"regular, until", Arrivals{Pattern: PatternRegular, Rate: 1, Until: 3 * second}, []time.Duration{0, second, 2 * second}},
		{"bursts", Arrivals{Pattern: PatternBursts, Burst: 2, Every: minute, Messages: 5}, []time.Duration{0, 0, minute, minute, 2 * minute}},
		{"recorded", Arrivals{Pattern: PatternRecorded, Records: []Record{{At: second, Recipients: 1}, {At: second, Recipients: 2}, {At: minute, Recipients: 1, To: "site"}}},
			[]time.Duration{second, second, minute}},
	} {
		if got := arrivalTimes(t, c.a); !slices.Equal(got, c.want) {
			t.Errorf("%s: messages came at %v, want %v", c.name, got, c.want)
		}
	}
	times := arrivalTimes(t, Arrivals{Pattern: PatternPoisson, Rate: 5, Until: 2000 * second})
	if n := float64(len(times)); math.Abs(n-10000) > 400 {
		t.Errorf("%.0f messages came in 2000 s at 5 a second", n)
	}
}

// A day has its hours: mail follows a curve, whether it comes at random or not, and
// the second day is like the first.
func TestCurve(t *testing.T) {
	curve := make([]float64, 24)
	for hour := range curve {
		curve[hour] = []float64{0, 1, 3, 0.5}[hour%4]
	}
	for _, pattern := range []Pattern{PatternRegular, PatternPoisson} {
		counts := make([]float64, 49)
		for _, at := range arrivalTimes(t, Arrivals{Pattern: pattern, Rate: 200.0 / 3600, Curve: curve, Until: 48 * time.Hour}) {
			counts[at/time.Hour]++
		}
		for hour, n := range counts[:48] {
			want, off := 200*curve[hour%24], 1.0 // one comes at the end of an hour, or the next begins with it
			if pattern == PatternPoisson {
				off = 4.5 * math.Sqrt(want)
			}
			if math.Abs(n-want) > off {
				t.Errorf("pattern %d: %.0f messages in hour %d, want %.0f", pattern, n, hour, want)
			}
		}
	}
	for _, a := range []Arrivals{
		{Pattern: PatternRegular, Rate: 1, Curve: []float64{0, 0}},
		{Pattern: PatternRegular, Rate: 1, Curve: []float64{1, -1}},
		{Pattern: PatternBursts, Burst: 1, Every: second, Curve: []float64{1}},
		{Pattern: PatternRegular, Rate: 1, Curve: make([]float64, 1441)},
	} {
		if oneSite(Behaviour{}, a).Validate() == nil {
			t.Errorf("a scenario with %+v is valid", a)
		}
	}
}

// Two runs get the same mail, to the address: only then can they be compared.
// It must not depend on what a run does with it.
func TestRunsGetTheSameMail(t *testing.T) {
	s := oneSite(Behaviour{Recipient: Exponential(second), SoftPercent: 20}, Arrivals{Pattern: PatternPoisson, Rate: 5, Messages: 300, Min: 1, Max: 20, Random: true})
	s.Sites[0].Copies = 7
	slow := s.Runs[0]
	slow.Core.DefaultTransport.ProcessLimit = 2
	var lists []string
	for _, run := range []Run{s.Runs[0], slow} {
		w, err := newWorld(s, &run, 3)
		if err != nil {
			t.Fatal(err)
		}
		mail := &mailList{}
		w.watch.accepts = append(w.watch.accepts, mail)
		w.play()
		lists = append(lists, fmt.Sprint(mail.lines))
	}
	if lists[0] != lists[1] {
		t.Error("the mail of two runs differs")
	}
}

type mailList struct{ lines []string }

func (l *mailList) accepted(m *message) {
	line := fmt.Sprint(m.arrived)
	for i := range m.states {
		line += " " + string(m.recipient(i).address)
	}
	l.lines = append(l.lines, line)
}

// Recipients go to receivers in turn, one message after the other, and to a site
// that is named twice, twice as often.
func TestRecipientsTakeTurns(t *testing.T) {
	s := oneSite(Behaviour{}, Arrivals{Messages: 4, Min: 3, Max: 3})
	s.Sites = append(s.Sites, Site{Name: "other", Copies: 2})
	s.Arrivals[0].To = []string{"site", "other", "site"}
	w, err := newWorld(s, &s.Runs[0], 1)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	list := &domainCounter{counts}
	w.watch.accepts = append(w.watch.accepts, list)
	w.play()
	if counts["site.test"] != 6 || counts["other-1.test"] != 3 || counts["other-2.test"] != 3 {
		t.Errorf("recipients by domain: %v", counts)
	}
}

type domainCounter struct{ counts map[string]int }

func (d *domainCounter) accepted(m *message) {
	for i := range m.states {
		d.counts[m.recipient(i).address.Domain()]++
	}
}
