package sim

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	pools "github.com/posthaste-mta/posthaste/qmgr/source"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// An evidenceProbe shows the checker of evidence, in a running world, what a Step would look
// like in which a failure of one source moved something of another.
type evidenceProbe struct {
	t     *testing.T
	found map[string]bool // by case
}

func (p *evidenceProbe) stepped(w *world) {
	if len(p.found) == 3 {
		return
	}
	to := w.nexthops["site.test"]
	views := map[string]qmgr.QueueView{}
	for _, source := range []string{"listed", "clean"} {
		if q, ok := w.core.Peek(to.transport, to.name, source, ""); ok {
			views[source] = q
		}
	}
	listed, clean := views["listed"], views["clean"]
	if listed.State != window.Dead || clean.State != window.Ready {
		return
	}
	p.try("nothing has moved", "", w, func(*evidence) {}, "listed")
	p.try("a window has shrunk", "falls from", w, func(c *evidence) { c.windows["clean"] = clean.Window + 1 }, "listed")
	p.try("a destination was closed", "is closed to source listed", w, func(c *evidence) { c.windows["listed"] = 5 }, "clean")
	p.try("a host has failed", "has failed", w, func(c *evidence) {
		for way := range c.hosts {
			for host := range c.hosts[way] {
				c.hosts[way][host]--
			}
		}
	}, "clean")
}

func (p *evidenceProbe) try(name, want string, w *world, change func(*evidence), guilty string) {
	c := newEvidence(w)
	c.closed(w, &session{serves: w.nexthops["site.test"], opening: mail.Opening{Source: guilty}, call: call{}})
	change(c)
	c.stepped(w)
	if got := c.violation(); (got == "") != (want == "") || !strings.Contains(got, want) {
		p.t.Errorf("%s: the checker says %q, want %q", name, got, want)
	}
	if want != "" {
		p.found[name] = true
	}
}

// The checker of evidence complains of what it is there for.
func TestEvidence(t *testing.T) {
	s := oneSite(Behaviour{Transaction: Fixed(50 * time.Millisecond), RefusedSource: "listed", Pipelining: mail.LevelOverlap}, Arrivals{Pattern: PatternRegular, Rate: 20, Until: minute})
	core := &s.Runs[0].Core
	core.DefaultTransport.Agents = qmgr.AgentsConnections
	core.Sources = pools.Config{
		Sources: []pools.Source{{Name: "listed", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}, {Name: "clean", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.2")}}},
		Pools:   []pools.Pool{{Name: "main", Members: []pools.Member{{Source: "listed", Weight: 1}, {Source: "clean", Weight: 1}}}},
	}
	w, err := newWorld(s, &s.Runs[0], 1)
	if err != nil {
		t.Fatal(err)
	}
	p := &evidenceProbe{t: t, found: map[string]bool{}}
	w.watch.stepping = append(w.watch.stepping, p)
	w.play()
	for _, c := range w.watch.checkers {
		if c.violation() != "" {
			t.Errorf("%s: %s", c.name(), c.violation())
		}
	}
	if len(p.found) != 3 {
		t.Errorf("the world came to no state in which the checker could be tried: %v", p.found)
	}
}
