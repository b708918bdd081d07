package live

import (
	"fmt"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

const (
	sitesKept           = SitesMax // destinations whose history is kept
	siteNear, siteFar   = 300, 720 // 5 minutes, 2 hours
	movesKept           = 64
	moveText            = 160 // bytes
	grewWithin          = 10 * time.Second
	trendStep, trendMax = 5, 60
)

// A site is what is remembered of one destination.
type site struct {
	seen   time.Time
	look   uint64 // the last of Sampler.looks in which it was seen
	window int
	state  qmgr.Condition
	rates  outcomes
	sent   uint64
	// grewFrom is what sent was when the window began to grow.
	grewFrom uint64
	points   series[sitePoint]
	moves    ring[Move]
}

// A sitePoint is 16 bytes.
type sitePoint struct {
	at           uint32 // unix time
	window, busy uint16
	waiting      uint32
}

func newSite() *site {
	return &site{points: newSeries[sitePoint](siteNear, siteFar), moves: ring[Move]{most: movesKept}}
}

// sitesOf derives what is shown of destinations, and remembers it. The caller holds mu.
func (s *Sampler) sitesOf(list *qmgr.DestinationList, now time.Time) []SiteSample {
	s.looks++
	all := make([]SiteSample, 0, len(list.Destinations))
	for i := range list.Destinations {
		d := &list.Destinations[i]
		name := d.Transport + ":" + d.Queue.Nexthop
		one := s.sites[name]
		if one == nil {
			one = newSite()
			s.sites[name] = one
		}
		all = append(all, one.update(name, d, now, s.looks))
	}
	s.forget()
	return all
}

// forget forgets the destinations that were seen longest ago if there are too many. The caller holds mu.
func (s *Sampler) forget() {
	for len(s.sites) > sitesKept {
		oldest := ""
		for name, one := range s.sites {
			if oldest == "" || one.seen.Before(s.sites[oldest].seen) {
				oldest = name
			}
		}
		delete(s.sites, oldest)
	}
}

// update notes a destination's present state, and returns what is shown of it.
func (one *site) update(name string, d *qmgr.DestinationSummary, now time.Time, look uint64) SiteSample {
	q := &d.Queue
	one.move(d, now, look)
	rates := one.rates.update(&q.Outcomes, now)
	one.seen, one.look, one.window, one.state, one.sent = now, look, q.Window, d.Condition, q.Outcomes[mail.Delivered]
	one.points.add(now.Unix(), sitePoint{uint32(now.Unix()), uint16(min(q.Window, 1<<16-1)), uint16(min(q.Busy, 1<<16-1)), uint32(min(q.Todo, 1<<31-1))})
	return SiteSample{Name: name, Transport: d.Transport, Nexthop: q.Nexthop, State: d.Condition.String(), Reason: q.Reason.String(), Until: wall(q.Until),
		Window: q.Window, Busy: q.Busy, Waiting: q.Todo, Messages: d.Messages, Recipients: d.Recipients, Oldest: wall(d.Oldest),
		Connections: q.Connections.Ready, Connecting: q.Connections.Connecting,
		Sent: q.Outcomes[mail.Delivered], Deferred: q.Outcomes[mail.Deferred], Bounced: q.Outcomes[mail.Failed], Rates: rates, Moved: one.moved()}
}

// moved returns a copy of the last move: later ones may extend it.
func (one *site) moved() *Move {
	last := one.moves.last()
	if last == nil {
		return nil
	}
	m := *last
	return &m
}

// move notes a change of the window, with what is known of its cause. What happens between
// two samples is one change: its cause is the last event.
func (one *site) move(d *qmgr.DestinationSummary, now time.Time, look uint64) {
	q := &d.Queue
	m, goesOn := Move{At: now.UTC(), From: one.window, To: q.Window}, false
	switch dead, was := d.Condition == qmgr.ConditionDead && q.Window == 0, one.window == 0; {
	case one.seen.IsZero():
		m.Cause, m.Text = CauseNew, "initial window"
		if dead {
			m.Cause, m.Text = CauseDied, q.Reason.String()
		}
	case q.Window == one.window:
		return
	case look > one.look+1 && q.Outcomes[mail.Delivered] < one.sent:
		m.Cause, m.Text = CauseNew, "initial window; what it had learned was forgotten while it was idle"
	case dead && q.Rule != "":
		m.Cause, m.Text = CauseRule, "reply rule "+q.Rule
	case dead:
		m.Cause, m.Text = CauseDied, q.Reason.String()
	case was:
		m.Cause, m.Text = CauseRevived, "tried again"
	case q.Window > one.window:
		m.Cause, m.Text = CauseGrew, "deliveries succeeded"
		goesOn = one.growing(now)
		if !goesOn {
			one.grewFrom = one.sent
		}
		if n := q.Outcomes[mail.Delivered]; n > one.grewFrom {
			m.Text = fmt.Sprintf("%d recipients delivered", n-one.grewFrom)
		}
	case q.Lowered != "":
		m.Cause, m.Text = CauseRule, "reply rule "+q.Lowered
	default:
		m.Cause, m.Text = CauseShrank, shrankBecause(d, one.seen)
	}
	m.Text = mail.CutText(m.Text, moveText)
	if goesOn {
		last := one.moves.last()
		last.To, last.Text = m.To, m.Text
		return
	}
	one.moves.add(m)
}

// growing reports whether the last move is one upward to which more belongs.
func (one *site) growing(now time.Time) bool {
	last := one.moves.last()
	return last != nil && last.Cause == CauseGrew && now.Sub(last.At) < grewWithin
}

// shrankBecause returns the reply that has made a window smaller, if a connection has failed since the last
// sample.
func shrankBecause(d *qmgr.DestinationSummary, since time.Time) string {
	if h := &d.Hosts; h.FailedAt != 0 && !time.Unix(0, int64(h.FailedAt)).Before(since.Add(-interval)) {
		return h.Failure.String()
	}
	return "connections were refused or lost"
}

// trend is the window of the last five minutes.
func (one *site) trend() []int {
	points := one.points.near.all()
	var trend []int
	last := uint32(0)
	for i := range points {
		if p := &points[i]; i == 0 || p.at >= last+trendStep {
			trend, last = append(trend, int(p.window)), p.at
		}
	}
	if n := len(trend); n > trendMax {
		trend = trend[n-trendMax:]
	}
	return trend
}

// Site returns the history of a destination by its full name, as History does; false if none is kept.
func (s *Sampler) Site(name string, step int) (SiteHistory, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.sites[name]
	if one == nil {
		return SiteHistory{}, false
	}
	points := one.points.of(step)
	n := len(points)
	h := SiteHistory{Name: name, Step: step, At: make([]int64, n), Window: make([]int, n), Busy: make([]int, n), Waiting: make([]int, n), Moves: one.moves.all()}
	for i := range points {
		p := &points[i]
		h.At[i], h.Window[i], h.Busy[i], h.Waiting[i] = int64(p.at), int(p.window), int(p.busy), int(p.waiting)
	}
	return h, true
}
