package conns

import (
	"iter"
	"slices"

	"github.com/posthaste-mta/posthaste/mail"
)

// A DrainReason is why we end a connection that works.
type DrainReason uint8

const (
	notDrained      DrainReason = iota // we did not: the server ended it, it broke, or it had served its turn there
	DrainIdle                          // it had nothing to carry for IdleTime
	DrainAge                           // it was older than ActiveTime
	DrainCount                         // it had carried as many transactions as it may
	DrainSlot                          // another one needed its slot
	DrainBetterHost                    // a host of a better tier is back
	DrainLimit                         // the limit of connections to its destination was lowered
	DrainHostGone                      // its host does not serve the site any more
	DrainStop                          // Halt: nothing more is started
	DrainProbe                         // it had carried what comes before the probe at its end
	DrainOutdated                      // its host has been proven to handle LevelStream since it was opened
)

// String returns the word that views show.
func (r DrainReason) String() string {
	return [...]string{"", "idle-time", "age", "count", "room", "better-host", "limit", "host-gone", "stop", "probe", "outdated"}[r]
}

// An Ending is how a connection ended that was ready once.
type Ending struct {
	Conn      ID
	transport string
	nexthop   string // of the site that it served last
	Way              // how it was made
	Host      mail.Host
	Level     mail.Level // at which it was spoken to
	Carried   int        // transactions
	Made, At  mail.Instant
	Drained   DrainReason
	Closing   mail.Closing // its texts cut
}

// fell reports whether the host is spoken to more simply since this ending.
func (e *Ending) fell() bool {
	switch e.Closing.Why {
	case mail.CloseStep, mail.CloseLost:
		return e.Closing.Level > mail.LevelLockStep
	}
	return e.Closing.Why == mail.CloseMixed
}

// How many endings are remembered, of all sites together. Those by which we ended
// connections in good order are kept apart, so that the many do not push the few out
// that are signs of trouble.
const (
	endingsGood = 256
	endingsBad  = 1024
	endingBy    = 256 // octets; 1024 texts of mail.ReplyTextMax come to 4 MB
)

// endings are what is remembered of connections that have ended.
type endings struct {
	good, bad ring
	counts    [mail.CloseWrong + 1]uint64
	mixed     Ending // the last that was CloseMixed
}

// A ring keeps the newest Endings.
type ring struct {
	list []Ending
	next int // once the list is full: the oldest
}

func (r *ring) add(e Ending, most int) {
	if len(r.list) < most {
		r.list = append(r.list, e)
		return
	}
	r.list[r.next] = e
	r.next = (r.next + 1) % most
}

// newest yields the endings, the last one first.
func (r *ring) newest() iter.Seq[*Ending] {
	return func(yield func(*Ending) bool) {
		n := len(r.list)
		for i := range n {
			if !yield(&r.list[(r.next+2*n-1-i)%n]) {
				return
			}
		}
	}
}

// ended remembers how a connection ended.
func (p *Pool) ended(c *Conn, cl mail.Closing, now mail.Instant) {
	cl.Reply.Text, cl.Reply.By = mail.CutText(cl.Reply.Text, mail.ReplyTextMax), mail.CutText(cl.Reply.By, endingBy)
	e := Ending{Conn: c.ID, transport: c.site.group.name, nexthop: c.site.name, Way: c.site.way, Host: c.host.Host, Level: c.level,
		Carried: c.finished, Made: c.made, At: now, Drained: c.drained, Closing: cl}
	p.endings.counts[cl.Why]++
	if cl.Why == mail.CloseMixed {
		p.endings.mixed = e
	}
	if cl.Why == mail.CloseAsked {
		p.endings.good.add(e, endingsGood)
	} else {
		p.endings.bad.add(e, endingsBad)
	}
}

// Endings returns how the last connections of a site ended, the last one first, at
// most most. It remembers some hundreds of all sites together.
func (p *Pool) Endings(s *Site, most int) []Ending {
	var found []Ending
	for _, r := range []*ring{&p.endings.good, &p.endings.bad} {
		n := 0
		for e := range r.newest() {
			if n == most {
				break
			}
			if e.nexthop == s.name && e.transport == s.group.name && e.Way == s.way {
				found = append(found, *e)
				n++
			}
		}
	}
	slices.SortStableFunc(found, func(a, b Ending) int { return int(min(max(b.At-a.At, -1), 1)) })
	return found[:min(len(found), most)]
}

// Closings returns how many connections that were ready have ended, by
// mail.CloseReason.
func (p *Pool) Closings() [mail.CloseWrong + 1]uint64 { return p.endings.counts }

// Mixed returns the last ending for which a server had put what was sent under
// another envelope; false if there was none.
func (p *Pool) Mixed() (Ending, bool) { return p.endings.mixed, p.endings.mixed.Conn != 0 }

// fell returns the last ending that made a host be spoken to more simply; of Conn 0
// if none is remembered.
func (p *Pool) fell(sh *siteHost) Ending {
	for e := range p.endings.bad.newest() {
		if e.Host.Addr == sh.host.Addr && e.transport == sh.site.group.name && e.fell() {
			return *e
		}
	}
	return Ending{}
}
