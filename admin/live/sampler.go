package live

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

const (
	// interval is the distance of samples.
	interval = time.Second
	// patience is the time that the core has to answer, which takes it milliseconds.
	patience = 5 * time.Second
	// costShare bounds what views of destinations and flows cost: they are asked for again
	// after at least so many times what the last ones took.
	costShare = 100

	// SitesMax and FlowsMax are how many destinations and flows are looked at.
	SitesMax = 256
	FlowsMax = 100

	totalsNear, totalsFar = 600, 2160 // 10 minutes, 6 hours

	// smooth is the time after which a rate has mostly become that of now.
	smooth = 5 * time.Second
)

// Facts are what a Sampler cannot ask the core for.
type Facts struct {
	Unready  string       // why the daemon is not ready; "" if it is
	Spool    *SpoolTotals // nil until it is known
	Free     int64        // bytes of free disk space
	Headroom int64        // of these, bytes above the limit below which mail is refused
	Sessions int64        // of clients, that are open
}

// Config is what a Sampler asks. Its functions return an error if the core does not answer until the
// context ends.
type Config struct {
	View         func(ctx context.Context, queues int) (qmgr.View, error)
	Destinations func(ctx context.Context, query qmgr.DestinationQuery) (qmgr.DestinationList, error)
	Flows        func(ctx context.Context, query qmgr.FlowQuery) (qmgr.FlowList, error)
	Facts        func() Facts
}

// A Sampler takes samples and remembers some. Its methods may be called from any goroutine.
type Sampler struct {
	cfg Config

	mu     sync.Mutex
	latest Sample        // nothing in it is changed any more
	fresh  chan struct{} // closed when there is a new one, or when Run has ended
	ended  bool
	totals series[totalsPoint]
	sites  map[string]*site

	// Only Run uses these.
	rates    totalsRates
	flows    map[mail.Flow]*counter
	trans    map[string]*outcomes
	looks    uint64 // at destinations
	nextFull time.Time
}

// New returns a Sampler.
func New(cfg Config) *Sampler {
	return &Sampler{cfg: cfg, fresh: make(chan struct{}), totals: newSeries[totalsPoint](totalsNear, totalsFar),
		sites: make(map[string]*site), flows: make(map[mail.Flow]*counter), trans: make(map[string]*outcomes)}
}

// Run takes samples until ctx ends.
func (s *Sampler) Run(ctx context.Context) {
	defer s.end()
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		s.sample(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

func (s *Sampler) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	close(s.fresh)
}

// sample takes one sample. It is left out if the core does not answer.
func (s *Sampler) sample(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	begin := time.Now()
	full := !begin.Before(s.nextFull)
	queues := 0
	if full {
		queues = 1 // or the sums of its destinations are left out
	}
	view, err := s.cfg.View(limited, queues)
	if err != nil {
		return
	}
	facts := s.cfg.Facts()
	var list qmgr.DestinationList
	var flows qmgr.FlowList
	if full {
		if list, err = s.cfg.Destinations(limited, qmgr.DestinationQuery{Most: SitesMax}); err != nil {
			return
		}
		if flows, err = s.cfg.Flows(limited, qmgr.FlowQuery{Most: FlowsMax}); err != nil {
			return
		}
		s.nextFull = time.Now().Add(max(interval/2, costShare*time.Since(begin)))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next := Sample{At: begin.UTC(), Number: s.latest.Number + 1, Unready: facts.Unready}
	if full {
		next.SitesAt = next.At
		next.Transports, next.Flows, next.FlowsKnown = s.transports(&view, begin), s.flowsOf(&flows, begin), flows.Matched
		next.Sites, next.SitesKnown, next.States = s.sitesOf(&list, begin), list.Matched, statesOf(&list)
	} else {
		last := &s.latest
		next.SitesAt, next.Transports, next.Flows, next.FlowsKnown = last.SitesAt, last.Transports, last.Flows, last.FlowsKnown
		next.Sites, next.SitesKnown, next.States = last.Sites, last.SitesKnown, last.States
	}
	next.Totals = s.totalsOf(&view, &facts, next.Transports, begin)
	s.latest = next
	close(s.fresh)
	s.fresh = make(chan struct{})
}

func statesOf(list *qmgr.DestinationList) map[string]int {
	states := make(map[string]int)
	for c, n := range list.ByCondition {
		if n > 0 {
			states[qmgr.Condition(c).String()] = n
		}
	}
	return states
}

// totalsOf derives the totals, and remembers them.
func (s *Sampler) totalsOf(v *qmgr.View, f *Facts, transports []TransportSample, now time.Time) Totals {
	c := &v.Counts
	t := Totals{
		Arrived: c.Arrived, Attempts: c.Started, Sent: c.Outcomes[mail.Delivered], Deferred: c.Outcomes[mail.Deferred], Bounced: c.Outcomes[mail.Failed],
		Expired: c.Expired, Preemptions: c.Preemptions,
		CoreMessages: v.Messages, CoreRecipients: v.Recipients, Busy: v.Busy, Lookups: v.Lookups.Busy + v.Lookups.Waiting, Behind: v.Behind,
		Spool: f.Spool, Free: f.Free, Headroom: f.Headroom, Sessions: f.Sessions, Offline: wall(v.Offline),
	}
	for i := range transports {
		t.Waiting += transports[i].Waiting
		t.Connections += transports[i].Connections
		t.Connecting += transports[i].Connecting
	}
	r := &s.rates
	t.ArrivedRate, t.AttemptsRate = r.arrived.update(t.Arrived, now), r.attempts.update(t.Attempts, now)
	t.Rates = r.outcomes.update(&c.Outcomes, now)
	p := totalsPoint{at: now.Unix(), arrived: r.arrived.step, outcomes: r.outcomes.steps(), busy: int32(v.Busy), core: int32(v.Messages), waiting: -1, free: f.Free}
	if f.Spool != nil {
		p.waiting = f.Spool.Incoming + f.Spool.Deferred
		if f.Spool.Oldest != nil {
			p.oldest = max(0, int64(now.Sub(*f.Spool.Oldest)/time.Second))
		}
	}
	s.totals.add(p.at, p)
	return t
}

// A totalsPoint is what is remembered of one sample: 72 bytes.
type totalsPoint struct {
	at       int64
	arrived  float32
	outcomes [3]float32 // as in Rates
	busy     int32
	core     int32
	waiting  int64 // -1: not known
	oldest   int64
	free     int64
}

type totalsRates struct {
	arrived, attempts counter
	outcomes          outcomes
}

// A counter derives a rate from a number that grows.
type counter struct {
	last uint64
	at   time.Time // of last; zero: never
	rate float64   // smoothed
	step float32   // between the last two samples
}

// update returns the smoothed rate. A number that is lower than the last has begun at 0 again.
func (c *counter) update(n uint64, now time.Time) float64 {
	if passed := now.Sub(c.at); !c.at.IsZero() && passed > 0 {
		if n < c.last {
			c.last = 0
		}
		step := float64(n-c.last) / passed.Seconds()
		c.rate += (step - c.rate) * (1 - math.Exp(-passed.Seconds()/smooth.Seconds()))
		if c.rate < 0.005 { // or it would fade for minutes
			c.rate = 0
		}
		c.step = float32(step)
	}
	c.last, c.at = n, now
	return math.Round(c.rate*100) / 100
}

// outcomes are the counters of outcomes.
type outcomes struct{ sent, deferred, bounced counter }

func (o *outcomes) update(of *[4]uint64, now time.Time) Rates {
	return Rates{o.sent.update(of[mail.Delivered], now), o.deferred.update(of[mail.Deferred], now), o.bounced.update(of[mail.Failed], now)}
}

func (o *outcomes) steps() [3]float32 {
	return [3]float32{o.sent.step, o.deferred.step, o.bounced.step}
}

// transports derives what is shown of transports. Those that are gone are forgotten.
func (s *Sampler) transports(v *qmgr.View, now time.Time) []TransportSample {
	all := make([]TransportSample, 0, len(v.Transports))
	known := make(map[string]*outcomes, len(v.Transports))
	for i := range v.Transports {
		t := &v.Transports[i]
		of := s.trans[t.Name]
		if of == nil {
			of = &outcomes{}
		}
		known[t.Name] = of
		sum := &t.All
		all = append(all, TransportSample{Name: t.Name, State: t.State.String(), Reason: t.Reason.String(), Until: wall(t.Until), Jobs: t.Jobs, Busy: t.Busy,
			Waiting: sum.Todo, Destinations: sum.Queues, Dead: sum.Dead, Window: sum.Window, Connections: sum.Ready, Connecting: sum.Connecting,
			Sent: t.Outcomes[mail.Delivered], Deferred: t.Outcomes[mail.Deferred], Bounced: t.Outcomes[mail.Failed], Rates: of.update(&t.Outcomes, now)})
	}
	s.trans = known
	return all
}

// flowsOf derives what is shown of flows.
func (s *Sampler) flowsOf(list *qmgr.FlowList, now time.Time) []FlowSample {
	all := make([]FlowSample, 0, len(list.Flows))
	known := make(map[mail.Flow]*counter, len(list.Flows))
	for i := range list.Flows {
		f := &list.Flows[i]
		c := cmp.Or(s.flows[f.Flow], &counter{})
		known[f.Flow] = c
		all = append(all, FlowSample{Class: f.Flow.Class, Tenant: f.Flow.Tenant, Flow: f.Flow.Flow, Messages: f.Messages, Waiting: f.Waiting, Busy: f.Busy,
			Started: f.Started, Rate: c.update(f.Started, now)})
	}
	s.flows = known
	return all
}

// Latest returns the last sample with at most so many sites and flows; trend adds SiteSample.Trend. The channel
// is closed when there is a newer one. There is none, and more is false, after Run has ended.
func (s *Sampler) Latest(sites, flows int, trend bool) (latest Sample, fresh <-chan struct{}, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	latest = s.latest
	latest.Transports = orEmpty(latest.Transports)
	latest.Flows = orEmpty(latest.Flows[:min(flows, len(latest.Flows))])
	latest.Sites = orEmpty(latest.Sites[:min(sites, len(latest.Sites))])
	if trend {
		latest.Sites = slices.Clone(latest.Sites)
		for i := range latest.Sites {
			if one := s.sites[latest.Sites[i].Name]; one != nil {
				latest.Sites[i].Trend = one.trend()
			}
		}
	}
	return latest, s.fresh, !s.ended
}

// orEmpty is a list that is not null in JSON.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// History returns the totals of the last ten minutes, second by second, or of the last six hours if step is 10.
func (s *Sampler) History(step int) History {
	s.mu.Lock()
	points := s.totals.of(step)
	s.mu.Unlock()
	n := len(points)
	h := History{Step: step, At: make([]int64, n), Arrived: make([]float64, n), Sent: make([]float64, n), Deferred: make([]float64, n), Bounced: make([]float64, n),
		Busy: make([]int, n), Core: make([]int, n), Waiting: make([]int64, n), Oldest: make([]int64, n), Free: make([]int64, n)}
	for i := range points {
		p := &points[i]
		h.At[i], h.Arrived[i], h.Busy[i], h.Core[i] = p.at, short(p.arrived), int(p.busy), int(p.core)
		h.Sent[i], h.Deferred[i], h.Bounced[i] = short(p.outcomes[0]), short(p.outcomes[1]), short(p.outcomes[2])
		h.Waiting[i], h.Oldest[i], h.Free[i] = p.waiting, p.oldest, p.free
	}
	return h
}

// short rounds a rate to what is worth sending.
func short(rate float32) float64 { return math.Round(float64(rate)*10) / 10 }

// wall returns an instant as time, nil if it is 0 or never comes.
func wall(i mail.Instant) *time.Time {
	if i == 0 || i == mail.Never {
		return nil
	}
	t := time.Unix(0, int64(i)).UTC()
	return &t
}
