package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
)

// A core is what a Sampler asks, as a test sets it.
type core struct {
	view   qmgr.View
	list   qmgr.DestinationList
	flows  qmgr.FlowList
	facts  Facts
	silent bool
	slow   time.Duration // of each look at destinations
	looks  int
}

func (c *core) sampler() *Sampler {
	return New(Config{
		View: func(_ context.Context, queues int) (qmgr.View, error) {
			if c.silent {
				return qmgr.View{}, errors.New("no answer")
			}
			return c.view, nil
		},
		Destinations: func(context.Context, qmgr.DestinationQuery) (qmgr.DestinationList, error) {
			c.looks++
			time.Sleep(c.slow)
			return c.list, nil
		},
		Flows: func(context.Context, qmgr.FlowQuery) (qmgr.FlowList, error) { return c.flows, nil },
		Facts: func() Facts { return c.facts },
	})
}

// sampling runs a test with a core and its sampler, which has taken its first sample, and a function that
// lets seconds pass, with a sample in each, as Run does.
func sampling(t *testing.T, test func(c *core, s *Sampler, pass func(seconds int))) {
	synctest.Test(t, func(t *testing.T) {
		c := &core{}
		s := c.sampler()
		s.sample(t.Context())
		test(c, s, func(seconds int) {
			for range seconds {
				time.Sleep(time.Second)
				s.sample(t.Context())
			}
		})
	})
}

func destination(name string, window int, sent uint64) qmgr.DestinationSummary {
	d := qmgr.DestinationSummary{Transport: "smtp", Queue: qmgr.QueueView{Nexthop: name, Window: window}}
	d.Queue.Outcomes[mail.Delivered] = sent
	return d
}

// A rate is that of now after some seconds, and 0 after a while without anything. A counter that
// begins again is no rate of billions.
func TestRates(t *testing.T) {
	sampling(t, func(c *core, s *Sampler, pass func(int)) {
		grow := func(seconds int, by uint64) float64 {
			for range seconds {
				c.view.Counts.Arrived += by
				pass(1)
			}
			latest, _, _ := s.Latest(9, 9, false)
			return latest.Totals.ArrivedRate
		}
		if got := grow(30, 100); got < 99 || got > 100 {
			t.Errorf("100 each second are %v/s", got)
		}
		c.view.Counts.Arrived = 0
		if got := grow(30, 10); got < 10 || got > 11 {
			t.Errorf("10 each second are %v/s after a restart of the counter", got)
		}
		if got := grow(60, 0); got != 0 {
			t.Errorf("nothing for a minute is %v/s", got)
		}
		h := s.History(1)
		if n := len(h.At); n < 120 || h.Arrived[20] != 100 || h.Arrived[n-1] != 0 {
			t.Errorf("%d values, %v", len(h.At), h.Arrived)
		}
	})
}

// The history has the last ten minutes second by second, and six hours in steps of ten
// seconds, and no more.
func TestHistoryIsBounded(t *testing.T) {
	sampling(t, func(c *core, s *Sampler, pass func(int)) {
		c.list.Destinations = []qmgr.DestinationSummary{destination("a.test", 5, 0)}
		pass(8 * 3600)
		near, far := s.History(1), s.History(10)
		if len(near.At) != 600 || near.At[599]-near.At[0] != 599 {
			t.Errorf("%d values in %d s", len(near.At), near.At[len(near.At)-1]-near.At[0])
		}
		if len(far.At) != 2160 || far.At[2159]-far.At[0] != 21590 {
			t.Errorf("%d values in %d s", len(far.At), far.At[len(far.At)-1]-far.At[0])
		}
		site, ok := s.Site("smtp:a.test", 10)
		if !ok || len(site.At) != 720 || site.At[719]-site.At[0] != 7190 || site.Window[719] != 5 {
			t.Errorf("%v: %d values", ok, len(site.At))
		}
	})
}

// Each change of a window has the event that has moved it.
func TestMoves(t *testing.T) {
	sampling(t, func(c *core, s *Sampler, pass func(int)) {
		set := func(d qmgr.DestinationSummary, seconds int) {
			c.list.Destinations = []qmgr.DestinationSummary{d}
			pass(seconds)
		}
		refused := mail.Reply{Code: 421, Text: "too many connections"}
		set(destination("a.test", 5, 0), 20)
		set(destination("a.test", 6, 10), 1)
		set(destination("a.test", 8, 30), 20) // one move with the one before
		shrunk := destination("a.test", 7, 30)
		shrunk.Hosts = conns.Health{Failure: refused, FailedAt: mail.Instant(time.Now().UnixNano())}
		set(shrunk, 20)
		dead := destination("a.test", 0, 30)
		dead.Condition, dead.Queue.Reason = qmgr.ConditionDead, mail.Reply{Code: 451, Text: "connection refused"}
		set(dead, 20)
		set(destination("a.test", 5, 30), 20)
		lowered := destination("a.test", 2, 30)
		lowered.Queue.Lowered = "slow-down"
		set(lowered, 20)
		c.list.Destinations = nil
		pass(20)
		set(destination("a.test", 5, 3), 5)
		h, _ := s.Site("smtp:a.test", 1)
		var got []string
		for _, m := range h.Moves {
			got = append(got, fmt.Sprintf("%d→%d %s %s", m.From, m.To, m.Cause, m.Text))
		}
		want := []string{"0→5 new initial window", "5→8 grew 30 recipients delivered", "8→7 shrank 421 too many connections", "7→0 died 451 connection refused",
			"0→5 revived tried again", "5→2 rule reply rule slow-down", "2→5 new initial window; what it had learned was forgotten while it was idle"}
		if !slices.Equal(got, want) {
			t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		latest, _, _ := s.Latest(9, 9, true)
		if site := latest.Sites[0]; site.Moved == nil || site.Moved.To != 5 || !slices.Contains(site.Trend, 8) || !slices.Contains(site.Trend, 0) {
			t.Errorf("%+v", site)
		}
	})
}

// However many destinations come and go, and however long the replies are, what is remembered is bounded.
func TestSitesAreBounded(t *testing.T) {
	sampling(t, func(c *core, s *Sampler, pass func(int)) {
		for round := range 10 {
			c.list.Destinations = nil
			for i := range 100 {
				d := destination(fmt.Sprintf("d%d.test", round*100+i), 0, 0)
				d.Condition, d.Queue.Reason = qmgr.ConditionDead, mail.Reply{Code: 451, Text: strings.Repeat("x", 1000)}
				c.list.Destinations = append(c.list.Destinations, d)
			}
			pass(1)
		}
		if len(s.sites) != SitesMax {
			t.Errorf("%d destinations, want %d", len(s.sites), SitesMax)
		}
		if _, ok := s.Site("smtp:d0.test", 1); ok {
			t.Error("the one that was seen first is there")
		}
		if h, ok := s.Site("smtp:d999.test", 1); !ok || len(h.Moves) != 1 || len(h.Moves[0].Text) > moveText+8 {
			t.Errorf("%v %+v", ok, h)
		}
	})
}

// Views that take the core long are asked for less often, while totals go on.
func TestSlowViewsAreSpared(t *testing.T) {
	sampling(t, func(c *core, s *Sampler, pass func(int)) {
		before, _, _ := s.Latest(9, 9, false)
		c.slow = 100 * time.Millisecond
		looks := c.looks
		pass(100)
		if n := c.looks - looks; n < 8 || n > 12 {
			t.Errorf("%d looks in 100 s, want about one in 10 s", n)
		}
		if after, _, _ := s.Latest(9, 9, false); after.Number-before.Number < 98 {
			t.Errorf("%d samples in 100 s", after.Number-before.Number)
		}
	})
}

// A core that does not answer leaves a gap, and no wrong figures; the end of the sampler is the end of
// those who wait for a sample.
func TestSilentCore(t *testing.T) {
	sampling(t, func(c *core, s *Sampler, pass func(int)) {
		c.view.Counts.Arrived = 5
		pass(2)
		c.silent = true
		before, _, _ := s.Latest(9, 9, false)
		pass(10)
		after, fresh, more := s.Latest(9, 9, false)
		if after.Number != before.Number || !more || after.Totals.Arrived != 5 {
			t.Errorf("%+v", after)
		}
		c.silent = false
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { defer close(ended); s.Run(ctx) }()
		<-fresh // the first sample of Run
		_, fresh, _ = s.Latest(9, 9, false)
		stop()
		<-fresh
		if _, _, more := s.Latest(1, 1, false); more {
			t.Error("there is more after the end")
		}
		<-ended
	})
}

// A ring gives its last values in their order.
func TestRing(t *testing.T) {
	r := ring[int]{most: 3}
	if r.last() != nil || len(r.all()) != 0 {
		t.Error("an empty ring has something")
	}
	for i := range 8 {
		r.add(i)
		want := []int{0, 1, 2, 3, 4, 5, 6, 7}[max(0, i-2) : i+1]
		if !slices.Equal(r.all(), want) || *r.last() != i {
			t.Errorf("%v and %d, want %v", r.all(), *r.last(), want)
		}
	}
}
