package conns

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
)

// A SiteView is a site's part in one sentence.
type SiteView struct {
	Connecting, Ready int
	Waits             Wait // why it gets no further connection
}

// View returns how the site stands. A site that is nil has no connections.
func (s *Site) View() SiteView {
	if s == nil {
		return SiteView{}
	}
	return SiteView{Connecting: s.connecting, Ready: s.ready, Waits: s.waits}
}

// A HostView is what there is of one host of a site.
type HostView struct {
	Host        mail.Host
	Tier        int          // from 0, the best
	Connections int          // of all sites, those included that are about to end
	BusyUntil   mail.Instant // it has said that it takes no more connections until then; 0 if it has not
	Known       destdb.View
}

// A ConnView is one connection.
type ConnView struct {
	ID       ID
	Host     mail.Host
	State    State
	Level    mail.Level
	Made     mail.Instant // when dialling began
	Entries  int          // under way
	Room     int          // for so many more
	Carried  int          // transactions
	Limit    int          // of transactions; 0 for none
	RTT      time.Duration
	Service  time.Duration // of one transaction, smoothed
	IdleFrom mail.Instant  // 0 while it carries something
}

// Hosts returns the hosts of a site, the best first, at most most.
func (p *Pool) Hosts(s *Site, now mail.Instant, most int) (views []HostView) {
	for tier, spots := range s.tiers {
		for _, sp := range spots {
			if len(views) == most {
				return views
			}
			v := HostView{Host: sp.host, Tier: tier, Known: p.db.View(sp.key(), now)}
			if h := p.hosts[sp.key()]; h != nil {
				v.Connections = h.count
				if h.busy(now) {
					v.BusyUntil = h.full
				}
			}
			views = append(views, v)
		}
	}
	return views
}

// Connections returns the connections of a site, the oldest first, at most most.
func (p *Pool) Connections(s *Site, most int) (views []ConnView) {
	for c := range s.conns.All() {
		if len(views) == most {
			break
		}
		v := ConnView{ID: c.ID, Host: c.host.Host, State: c.state, Level: c.level, Made: c.made,
			Entries: len(c.loads), Room: c.room, Carried: c.finished, Limit: c.limit, RTT: c.rtt, Service: c.service}
		if c.state == Ready && len(c.loads) == 0 {
			v.IdleFrom = c.used
		}
		views = append(views, v)
	}
	return views
}
