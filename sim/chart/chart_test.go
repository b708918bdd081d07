package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/sim"
)

// report simulates two runs whose names need escaping, with failures in them.
func report(t *testing.T, seeds int) *sim.Report {
	t.Helper()
	s := &sim.Scenario{Name: `a <b> & "c"`, Seed: 1,
		Sites: []sim.Site{{Name: "site", Behaviour: sim.Behaviour{Recipient: sim.Exponential(time.Second), ConnectionLimit: 3, DropPercent: 5}}},
		Arrivals: []sim.Arrivals{{Class: "few", Min: 3, Max: 3, Messages: 2, To: []string{"site"}},
			{Class: "none", Messages: 1, From: time.Hour, To: []string{"site"}}},
		Runs: []sim.Run{{Name: "x < y", Core: qmgr.Config{DefaultTransport: qmgr.TransportConfig{RecipientLimit: 1}}}, {Name: "z & more"}},
	}
	r, err := sim.Simulate(s, sim.Options{Seeds: seeds})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func draw(t *testing.T, r *sim.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := Draw(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The picture of delays is the end of the whole picture, moved up, and nothing else.
func TestDrawDelays(t *testing.T) {
	r := report(t, 1)
	var b bytes.Buffer
	if err := DrawDelays(&b, r); err != nil {
		t.Fatal(err)
	}
	elements := func(svg string) []string {
		return regexp.MustCompile(`<(rect|line|text|poly)[^<]*`).FindAllString(svg, -1)
	}
	position := regexp.MustCompile(`(y\d?|points)="[^"]*"`)
	part, whole := elements(b.String()), elements(draw(t, r))
	if len(part) < 20 || len(part) >= len(whole) {
		t.Fatalf("%d elements of %d", len(part), len(whole))
	}
	for i := range part[1:] { // the first one is the background
		got, want := part[len(part)-1-i], whole[len(whole)-1-i]
		if position.ReplaceAllString(got, "") != position.ReplaceAllString(want, "") {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
	if err := DrawDelays(failing{}, r); err == nil {
		t.Error("a file that cannot be written is no error")
	}
}

// failing is a file on a full disk.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// A browser must be able to read the picture, whatever names are in it, and
// every delivery must have its cell.
func TestDraw(t *testing.T) {
	r := report(t, 2)
	svg := draw(t, r)
	cells, texts := 0, ""
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not XML: %v", err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			for _, a := range e.Attr {
				if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
					t.Errorf("<%s %s=%q>", e.Name.Local, a.Name.Local, a.Value)
				}
				if e.Name.Local == "text" && a.Name.Local == "class" && a.Value == "cell" {
					cells++
				}
			}
		case xml.CharData:
			texts += string(e) + "\n"
		}
	}
	want := 0
	for i := range r.Runs {
		want += len(r.Runs[i].Pictures.Slots)
	}
	if cells != want || want == 0 {
		t.Errorf("%d cells for %d deliveries", cells, want)
	}
	for _, part := range []string{`a <b> & "c"`, "x < y", "z & more", "few", "none"} {
		if !strings.Contains(texts, part) {
			t.Errorf("%q is not in the picture", part)
		}
	}
	if svg != draw(t, r) {
		t.Error("the same report gives two pictures")
	}
}

// Where the core decides on connections, each host and each class of mail has a strip
// of its own, with its name beside it.
func TestDrawHosts(t *testing.T) {
	s := &sim.Scenario{Name: "hosts", Seed: 1,
		Sites: []sim.Site{{Name: "site", Behaviour: sim.Behaviour{Transaction: sim.Fixed(time.Second)}, Hosts: []sim.Host{
			{Name: "left", Behaviour: sim.Behaviour{Transaction: sim.Fixed(time.Second)}}, {Name: "right", Copies: 2, Behaviour: sim.Behaviour{Transaction: sim.Fixed(time.Second)}}}}},
		Arrivals: []sim.Arrivals{{Class: "few", Messages: 20, To: []string{"site"}}, {Class: "late", Messages: 1, From: time.Minute, To: []string{"site"}}},
		Runs:     []sim.Run{{Name: "run", Core: qmgr.Config{DefaultTransport: qmgr.TransportConfig{Agents: qmgr.AgentsConnections}}}},
	}
	r, err := sim.Simulate(s, sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	svg := draw(t, r)
	for _, label := range []string{"left.site.test", "right-1.site.test", "right-2.site.test", "few", "late"} {
		if !strings.Contains(svg, `class="label">`+label+`<`) {
			t.Errorf("no strip is labelled %s", label)
		}
	}
	if strips := strings.Count(svg, "<polygon") - 1; strips != 5 { // one is the band of windows
		t.Errorf("%d strips, want 5", strips)
	}
}

// If some mail belongs to a flow, each class has a strip with the deliveries that begin.
func TestDrawFlows(t *testing.T) {
	s := &sim.Scenario{Name: "flows", Seed: 1, Sites: []sim.Site{{Name: "site", Behaviour: sim.Behaviour{Transaction: sim.Fixed(time.Second)}}},
		Arrivals: []sim.Arrivals{{Class: "one", Messages: 20, To: []string{"site"}, Flow: mail.Flow{Flow: "one"}}, {Class: "nobody", Messages: 7, To: []string{"site"}}},
		Runs:     []sim.Run{{Name: "run"}},
	}
	r, err := sim.Simulate(s, sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var sum [2]int
	for _, p := range r.Runs[0].Pictures.Series.Points {
		sum[0], sum[1] = sum[0]+p.Starts[0], sum[1]+p.Starts[1]
	}
	if sum != [2]int{20, 7} {
		t.Errorf("%v deliveries in the points of the series", sum)
	}
	svg := draw(t, r)
	for _, label := range []string{"one", "nobody"} {
		if !strings.Contains(svg, `class="label">`+label+`<`) {
			t.Errorf("no strip is labelled %s", label)
		}
	}
}

// A report without a delivery is drawn too: it is then that one wants to see why.
func TestDrawNothing(t *testing.T) {
	r := report(t, 1)
	for i := range r.Runs {
		r.Runs[i].Pictures = sim.Pictures{Classes: []string{"few"}, Delays: make([]sim.Histogram, 1)}
	}
	if svg := draw(t, r); !strings.Contains(svg, "nothing was delivered") {
		t.Error("the picture does not say that nothing was delivered")
	}
	draw(t, &sim.Report{})
}

// Axes have round numbers, neither too many nor too few, and all within.
func TestTicks(t *testing.T) {
	for _, high := range []float64{1, 3, 20, 47, 1000, 86400, 5 * 86400} {
		s := scale{low: 0, high: high, from: 100, to: 1100}
		for name, ticks := range map[string][]float64{"even": s.ticks(4), "time": s.timeTicks(12)} {
			if len(ticks) < 2 || len(ticks) > 14 {
				t.Errorf("%s scale to %v has ticks %v", name, high, ticks)
			}
			for _, v := range ticks {
				if v < 0 || v > high*(1+1e-9) {
					t.Errorf("%s scale to %v has a tick at %v", name, high, v)
				}
			}
		}
		l := scale{low: high / 1e4, high: high, from: 100, to: 600, log: true}
		last := math.Inf(-1)
		for _, v := range l.logTicks() {
			if l.at(v)-last < 40 {
				t.Errorf("logarithmic scale to %v: labels at %v are too close", high, v)
			}
			last = l.at(v)
		}
	}
	if got := (scale{low: 1, high: 100, from: 0, to: 10, log: true}).at(10); math.Abs(got-5) > 1e-9 {
		t.Errorf("10 is at %v between 1 and 100", got)
	}
	if got := (scale{low: 5, high: 5, from: 3, to: 10}).at(5); got != 3 {
		t.Errorf("a scale of no length puts its value at %v", got)
	}
	for v, want := range map[float64]string{0: "0", 0.00005: "50µs", 0.25: "250ms", 90: "90s", 600: "10m", 7200: "2h", 86400 * 5: "5d"} {
		if got := seconds(v); got != want {
			t.Errorf("%v seconds are written %s, want %s", v, got, want)
		}
	}
	if got := lighter("#004080", 0.5); got != "#80a0c0" {
		t.Errorf("half of #004080 is %s", got)
	}
}
