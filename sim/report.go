package sim

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// A Report is what a scenario came to. Encoded as JSON it is what "posthaste
// sim --json" prints; all numbers are rounded, so that it has one text on every
// machine.
type Report struct {
	Scenario string      `json:"scenario"`
	Seed     uint64      `json:"seed"`
	Seeds    int         `json:"seeds"` // how many, from Seed on
	Runs     []RunReport `json:"runs"`
}

// A RunReport is what one run came to; over several seeds, the means.
type RunReport struct {
	Name       string            `json:"name"`
	Parameters map[string]string `json:"parameters"`

	Deliveries   uint64  `json:"deliveries"`   // attempts that ended, all seeds
	Failures     uint64  `json:"failures"`     // of them, those that failed for the whole site
	Refused      uint64  `json:"refused"`      // connections that could not be made, whether or not mail was deferred for that
	Recipients   uint64  `json:"recipients"`   // accepted, all seeds
	Delivered    uint64  `json:"delivered"`    // of them, delivered
	Failed       uint64  `json:"failed"`       // of them, refused for good
	Expired      uint64  `json:"expired"`      // of them, given up because they were too old
	Left         uint64  `json:"left"`         // of them, none of these when the run was over
	DeferredPct  float64 `json:"deferred_pct"` // of the recipients, at their first attempt
	GoodputPerS  float64 `json:"goodput_per_s"`
	WindowMean   float64 `json:"window_mean"`
	WindowStddev float64 `json:"window_stddev"`

	ConnectionsPeak int                  `json:"connections_peak"`
	Classes         map[string]Share     `json:"connections_by_class,omitempty"` // of the core, those that carried something of a class
	LookupsPeak     map[string]int       `json:"lookups_peak,omitempty"`         // by class, if there were any
	Hosts           []HostReport         `json:"hosts,omitempty"`                // if there are not too many
	Unknown         uint64               `json:"unknown,omitempty"`              // recipients of whom it was not known whether a receiver had the message
	Duplicates      uint64               `json:"duplicates,omitempty"`           // of these, those who got it twice
	DurationS       float64              `json:"duration_s"`                     // of virtual time, one seed
	DelayMS         map[string]Quantiles `json:"delay_ms"`                       // "all", and by class of arrival
	Checks          map[string]string    `json:"checks"`                         // by rule: "ok", or the violation
	Fingerprint     string               `json:"fingerprint"`

	Deviation  *Deviation        `json:"deviation,omitempty"`  // of several seeds
	References []ReportReference `json:"references,omitempty"` // what others have found
	Sequence   string            `json:"sequence,omitempty"`   // of a short run: which message each delivery was for

	Pictures Pictures `json:"-"`

	violated bool // some rule of safety is
	stuck    bool // the rule of progress is
}

// A HostReport is what happened at one host.
type HostReport struct {
	Name            string  `json:"name"`
	ConnectionsPeak int     `json:"connections_peak"`
	ConnectionsMean float64 `json:"connections_mean"` // over time; mean of the seeds
	Deliveries      uint64  `json:"deliveries"`       // that ended there, all seeds
	Failures        uint64  `json:"failures"`         // connections that could not be made, or broke, all seeds
}

// hostsReported is up to how many hosts are listed one by one.
const hostsReported = 64

// A Share is how many connections something had.
type Share struct {
	Peak int     `json:"peak"`
	Mean float64 `json:"mean"` // over the time in which it had any; of several seeds, the largest
}

// Quantiles are of delays from arrival to delivery, in milliseconds.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`

	none bool // nothing was delivered
}

// Deviation is the standard deviation between seeds.
type Deviation struct {
	DeferredPct float64 `json:"deferred_pct"`
	GoodputPerS float64 `json:"goodput_per_s"`
	WindowMean  float64 `json:"window_mean"`
}

// A ReportReference is a Reference beside a run; what is not known is nil.
type ReportReference struct {
	Source       string   `json:"source"`
	DeferredPct  *float64 `json:"deferred_pct,omitempty"`
	WindowMean   *float64 `json:"window_mean,omitempty"`
	WindowStddev *float64 `json:"window_stddev,omitempty"`
	Sequence     string   `json:"sequence,omitempty"`
}

// Pictures is what charts are drawn from, of the first seed; the delays are of
// all.
type Pictures struct {
	Series  Series
	Slots   []Slot
	Cut     bool     // there were more slots
	Hosts   []string // those that the points of Series follow; none if these do not
	Classes []string
	Sources []string    // those of the configuration
	Delays  []Histogram // by class
}

// Verdict is the worst of what the checkers found.
type Verdict uint8

const (
	VerdictOK               Verdict = iota
	VerdictUnsafe                   // a rule of safety is violated
	VerdictStuck                    // the rule of progress is
	VerdictNondeterministic         // two runs of a seed differ
)

// checkDeterminism is the name under which a difference between two runs of the
// same seed is reported.
const checkDeterminism = "determinism"

// ok is what is said of a rule that was kept.
const ok = "ok"

// Verdict reports whether all is well: safety counts before progress, and both
// before determinism.
func (r *Report) Verdict() Verdict {
	v := VerdictOK
	for i := range r.Runs {
		run := &r.Runs[i]
		switch {
		case run.violated:
			return VerdictUnsafe
		case run.stuck:
			v = VerdictStuck
		case v == VerdictOK && run.Checks[checkDeterminism] != "" && run.Checks[checkDeterminism] != ok:
			v = VerdictNondeterministic
		}
	}
	return v
}

// An outcome is one run with one seed.
type outcome struct {
	measure     measure
	checks      []check
	fingerprint fingerprint
	elapsed     time.Duration
}

type check struct {
	name, violation string
	progress        bool
}

func newOutcome(w *world) *outcome {
	w.measure.end(w.now)
	o := &outcome{measure: w.measure, fingerprint: w.watch.print, elapsed: w.now.Sub(w.start)}
	for _, c := range w.watch.checkers {
		o.checks = append(o.checks, check{c.name(), c.violation(), c.progress()})
	}
	return o
}

// figures are the numbers of one outcome that are averaged over seeds.
type figures struct{ deferred, goodput, window, deviation float64 }

func (o *outcome) figures() figures {
	m := &o.measure
	var f figures
	var tried, deferred, delivered uint64
	for i := range m.tallies {
		tried += m.tallies[i].tried
		deferred += m.tallies[i].deferredFirst
		delivered += m.tallies[i].delivered
	}
	if tried > 0 {
		f.deferred = 100 * float64(deferred) / float64(tried)
	}
	if m.lastSuccess > epoch {
		f.goodput = float64(delivered) / m.lastSuccess.Sub(epoch).Seconds()
	}
	if n := float64(m.windows); n > 0 {
		f.window = float64(m.windowSum) / n
		f.deviation = math.Sqrt(max(0, float64(m.windowSquares)/n-float64(f.window*f.window)))
	}
	return f
}

// summarize makes a report of a run of its outcomes, one for each seed.
func summarize(run *Run, outcomes []*outcome) RunReport {
	r := RunReport{Name: run.Name, Parameters: make(map[string]string), DelayMS: make(map[string]Quantiles), Checks: make(map[string]string)}
	for _, p := range run.Parameters {
		r.Parameters[p.Name] = p.Value
	}
	first := &outcomes[0].measure
	for i := range first.tallies {
		r.Pictures.Classes = append(r.Pictures.Classes, first.tallies[i].class)
	}
	for i := range first.series.hosts {
		r.Pictures.Hosts = append(r.Pictures.Hosts, first.hosts[i].name)
	}
	for i := range first.series.from {
		r.Pictures.Sources = append(r.Pictures.Sources, run.Core.Sources.Sources[i].Name)
	}
	r.Pictures.Series, r.Pictures.Slots, r.Pictures.Cut = first.series, first.slots, first.slotsNotRecorded
	r.Pictures.Delays = make([]Histogram, len(first.tallies))
	var all []figures
	prints := newFingerprint()
	for _, o := range outcomes {
		r.add(o)
		all = append(all, o.figures())
		prints.mix(uint64(o.fingerprint))
		r.DurationS += o.elapsed.Seconds() / float64(len(outcomes))
	}
	r.DurationS = round(r.DurationS, 3)
	for i := range r.Hosts {
		r.Hosts[i].ConnectionsMean = round(r.Hosts[i].ConnectionsMean/float64(len(outcomes)), 4)
	}
	r.Fingerprint = fmt.Sprintf("%016x", uint64(prints))
	r.average(all)
	r.delays()
	r.refer(run.References)
	r.Sequence = sequence(&r.Pictures)
	return r
}

func (r *RunReport) add(o *outcome) {
	m := &o.measure
	r.addHosts(o)
	r.Unknown += m.unknown
	r.Duplicates += m.duplicates
	r.Deliveries += m.attempts
	r.Failures += m.failures
	r.Refused += m.refused
	r.ConnectionsPeak = max(r.ConnectionsPeak, m.peak)
	for i := range m.tallies {
		t := &m.tallies[i]
		r.Recipients += t.accepted
		r.Delivered += t.delivered
		r.Failed += t.failed
		r.Expired += t.expired
		r.Left += t.accepted - t.delivered - t.failed - t.expired
		r.Pictures.Delays[i].Merge(&t.delays)
		r.LookupsPeak = peak(r.LookupsPeak, t.class, t.lookupsPeak)
		r.addShare(t)
	}
	for _, c := range o.checks {
		switch {
		case c.violation == "" && r.Checks[c.name] == "":
			r.Checks[c.name] = ok
		case c.violation != "":
			if was := r.Checks[c.name]; was == "" || was == ok {
				r.Checks[c.name] = c.violation
			}
			r.stuck = r.stuck || c.progress
			r.violated = r.violated || !c.progress
		}
	}
}

// peak notes the most of something of a class, in a map that is made if there is
// anything.
func peak(most map[string]int, class string, n int) map[string]int {
	if n == 0 {
		return most
	}
	if most == nil {
		most = make(map[string]int)
	}
	most[class] = max(most[class], n)
	return most
}

func (r *RunReport) addShare(t *tally) {
	if t.carried.peak == 0 {
		return
	}
	if r.Classes == nil {
		r.Classes = make(map[string]Share)
	}
	was := r.Classes[t.class]
	r.Classes[t.class] = Share{Peak: max(was.Peak, t.carried.peak), Mean: max(was.Mean, round(t.carried.mean(), 2))}
}

func (r *RunReport) addHosts(o *outcome) {
	hosts := o.measure.hosts
	if len(hosts) > hostsReported {
		return
	}
	if r.Hosts == nil {
		r.Hosts = make([]HostReport, len(hosts))
	}
	for i := range hosts {
		h, t := &r.Hosts[i], &hosts[i]
		h.Name = t.name
		h.ConnectionsPeak = max(h.ConnectionsPeak, t.open.peak)
		h.Deliveries += t.deliveries
		h.Failures += t.failures
		if s := o.elapsed.Seconds(); s > 0 {
			h.ConnectionsMean += t.open.area / s
		}
	}
}

// average fills in the means, and the deviations if there are several seeds.
func (r *RunReport) average(all []figures) {
	mean := func(of func(figures) float64) (float64, float64) {
		var sum, squares float64
		for _, f := range all {
			sum += of(f)
		}
		m := sum / float64(len(all))
		for _, f := range all {
			d := of(f) - m
			squares += float64(d * d)
		}
		if len(all) == 1 {
			return m, 0
		}
		return m, math.Sqrt(squares / float64(len(all)-1))
	}
	var d Deviation
	r.DeferredPct, d.DeferredPct = mean(func(f figures) float64 { return f.deferred })
	r.GoodputPerS, d.GoodputPerS = mean(func(f figures) float64 { return f.goodput })
	r.WindowMean, d.WindowMean = mean(func(f figures) float64 { return f.window })
	r.WindowStddev, _ = mean(func(f figures) float64 { return f.deviation })
	for _, p := range []*float64{&r.DeferredPct, &d.DeferredPct, &r.GoodputPerS, &d.GoodputPerS, &r.WindowMean, &d.WindowMean, &r.WindowStddev} {
		*p = round(*p, 4)
	}
	if len(all) > 1 {
		r.Deviation = &d
	}
}

func (r *RunReport) delays() {
	var all Histogram
	for i := range r.Pictures.Delays {
		h := &r.Pictures.Delays[i]
		all.Merge(h)
		r.DelayMS[r.Pictures.Classes[i]] = quantiles(h)
	}
	r.DelayMS["all"] = quantiles(&all)
}

func quantiles(h *Histogram) Quantiles {
	ms := func(d time.Duration) float64 { return round(float64(d)/float64(time.Millisecond), 3) }
	return Quantiles{ms(h.Quantile(0.5)), ms(h.Quantile(0.9)), ms(h.Quantile(0.99)), ms(h.Max()), h.Count() == 0}
}

func (r *RunReport) refer(references []Reference) {
	known := func(v float64) *float64 {
		if v < 0 {
			return nil
		}
		return &v
	}
	for _, f := range references {
		r.References = append(r.References, ReportReference{f.Source, known(f.DeferredPct), known(f.WindowMean), known(f.WindowStddev), f.Sequence})
	}
}

// round rounds to a number of decimal places.
func round(v float64, places int) float64 {
	scale := math.Pow10(places)
	return math.Round(v*scale) / scale
}

// sequenceMax is the number of deliveries that are written as letters, and for how many
// messages there are letters.
const (
	sequenceMax     = 120
	sequenceLetters = "123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// sequence writes deliveries as SCHEDULER_README does, as in 11221111331111: a
// digit or letter for the message that each is for. It is "" for long runs.
func sequence(p *Pictures) string {
	if p.Cut || len(p.Slots) > sequenceMax {
		return ""
	}
	var b strings.Builder
	for _, s := range p.Slots {
		if s.Job > len(sequenceLetters) {
			return ""
		}
		b.WriteByte(sequenceLetters[s.Job-1])
	}
	return b.String()
}
