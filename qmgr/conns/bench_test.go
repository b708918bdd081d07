package conns

import (
	"fmt"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
)

// busyPool returns a pool with so many sites of so many hosts each, of which the
// first have one ready connection each, until the limit is reached.
func busyPool(b *testing.B, limit, sites, hosts int) (*Pool, []*Site) {
	b.Helper()
	db := destdb.New(destdb.Config{}, 1)
	p := New(Config{Limit: limit, MessageLimit: 1 << 30}, db, 1)
	g := NewGroup("smtp", GroupConfig{Limit: limit, HostLimit: -1, Initial: 1 << 20, Level: mail.LevelOverlap})
	limits := func(mail.Host) HostLimits {
		return HostLimits{Level: g.cfg.Level, ActiveTime: g.cfg.ActiveTime}
	}
	var list []*Site
	for i := range sites {
		s := NewSite(g, fmt.Sprint("s", i), Way{})
		var tier []mail.Host
		for range hosts {
			h := mail.Host{Addr: addr6(i*hosts + len(tier))}
			db.ObserveRTT(keyOf(g, Way{}, h), time.Millisecond, epoch) // it took mail before
			tier = append(tier, h)
		}
		p.SetHosts(s, mail.HostSet{Tiers: [][]mail.Host{tier}}, limits)
		list = append(list, s)
	}
	for i := range min(limit, sites) {
		d := p.Open(list[i], Ask{Message: 1, Window: 1 << 30}, epoch)
		p.Dialed(d.Conn.ID, mail.OpenedConnection{Level: mail.LevelOverlap, RTT: 10 * time.Millisecond}, epoch)
	}
	for p.Woken() != nil {
	}
	return p, list
}

// One message in the life of a connection that others wait for: Find, Assign,
// Finished.
func BenchmarkMessage(b *testing.B) {
	for _, sites := range []int{1, 2000} {
		b.Run(fmt.Sprintf("connections=%d", sites), func(b *testing.B) {
			p, list := busyPool(b, sites, sites, 1)
			now := epoch
			entry := uint64(0)
			for _, s := range list { // one is under way on each
				entry++
				p.Assign(s, Load{Entry: entry, Message: 1, Cost: 1000})
			}
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				s := list[n%sites]
				now += 1000
				c := s.conns.Front()
				p.finished(c, c.loads[0].Entry, time.Millisecond, endJudged, now)
				entry++
				p.Assign(s, Load{Entry: entry, Message: 1, Cost: 1000})
				p.Woken()
			}
		})
	}
}

// A connection is wanted, opened, and found to be of no use: Open, Dialed, Closed.
func BenchmarkOpen(b *testing.B) {
	for _, hosts := range []int{1, 5, 100} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			p, list := busyPool(b, 1<<20, 1, hosts)
			now := epoch
			b.ReportAllocs()
			for b.Loop() {
				now += 1000
				d := p.Open(list[0], Ask{Message: 1, Window: 1 << 30}, now)
				p.Dialed(d.Conn.ID, mail.OpenedConnection{Level: mail.LevelOverlap}, now)
				p.drain(d.Conn)
				p.Closed(d.Conn.ID, mail.Closing{}, now)
				p.Woken()
			}
		})
	}
}

// All connections are busy and many sites wait: one ends, the next in line gets its
// slot.
func BenchmarkWaiting(b *testing.B) {
	const limit, sites = 2000, 22000
	p, list := busyPool(b, limit, sites, 2)
	now := epoch
	entry := uint64(0)
	for _, s := range list[:limit] {
		entry++
		p.Assign(s, Load{Entry: entry, Message: 1, Cost: 1000})
	}
	ask := Ask{Message: 1, Window: 1}
	for _, s := range list[limit:] {
		if d := p.Open(s, ask, now); d.Kind != Waiting {
			b.Fatal(d)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		now += 1000
		c := p.all.Front()
		p.finished(c, c.loads[0].Entry, time.Millisecond, endJudged, now)
		next := p.Woken()
		d := p.Open(next, ask, now) // the idle one makes room
		p.Closed(c.ID, mail.Closing{}, now)
		p.PassOn(next)
		p.Dialed(d.Conn.ID, mail.OpenedConnection{Level: mail.LevelOverlap}, now)
		entry++
		p.Assign(next, Load{Entry: entry, Message: 1, Cost: 1000})
		if d := p.Open(c.site, ask, now); d.Kind != Waiting { // it has mail again
			b.Fatal(d)
		}
	}
}
