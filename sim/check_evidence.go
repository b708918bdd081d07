package sim

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// evidenceHosts is the number of hosts of a destination the checker looks at.
const evidenceHosts = 16

// evidence: a connection that fails, or breaks, speaks of the address it was made from and of
// no other. The Step that learns of it shrinks no window of another source, closes no
// destination to it, and holds no failure against a host that another source connects to.
type evidence struct {
	safety
	sources []string
	to      *destination // that a connection from the source guilty failed to; nil if none did
	guilty  string
	windows map[string]int               // of the other sources, before the Step
	hosts   map[conns.Way]map[string]int // failures of the hosts by their names, likewise
}

// newEvidence returns nil if no mail has several sources.
func newEvidence(w *world) *evidence {
	c := &evidence{windows: make(map[string]int), hosts: make(map[conns.Way]map[string]int)}
	for i := range w.run.Core.Sources.Sources {
		c.sources = append(c.sources, w.run.Core.Sources.Sources[i].Name)
	}
	if len(c.sources) < 2 {
		return nil
	}
	return c
}

func (*evidence) name() string { return "evidence" }

func (c *evidence) dialling(*world, *session) {}

func (c *evidence) dialled(w *world, s *session, o *mail.OpenedConnection) {
	if !o.Reply.IsZero() {
		c.failed(w, s)
	}
}

func (c *evidence) sending(*world, *session, *letter) {}
func (c *evidence) hangingUp(*world, *session)        {}
func (c *evidence) astray(*world, conns.ID)           {}

func (c *evidence) closed(w *world, s *session) { c.failed(w, s) }

// failed notes how the other sources stand before the core learns of a failure.
func (c *evidence) failed(w *world, s *session) {
	clear(c.windows)
	clear(c.hosts)
	c.to, c.guilty = s.serves, s.opening.Source
	for _, source := range c.sources {
		if q, ok := w.core.Peek(c.to.transport, c.to.name, source, s.opening.Security); ok && source != c.guilty && q.State == window.Ready {
			c.windows[source] = q.Window
		}
	}
	c.eachHost(w, func(h *conns.HostView) {
		if c.hosts[h.Way] == nil {
			c.hosts[h.Way] = make(map[string]int)
		}
		c.hosts[h.Way][h.Host.Name] = h.Known.Failures
	})
}

// eachHost calls f for the hosts of the destination as the other sources see them.
func (c *evidence) eachHost(w *world, f func(*conns.HostView)) {
	v, _ := w.core.Destination(c.to.transport, c.to.name, evidenceHosts)
	for i := range v.Hosts {
		if v.Hosts[i].Source != c.guilty {
			f(&v.Hosts[i])
		}
	}
}

func (c *evidence) stepped(w *world) {
	if c.to == nil {
		return
	}
	for _, source := range c.sources {
		before, known := c.windows[source]
		if !known {
			continue
		}
		q, ok := w.core.Peek(c.to.transport, c.to.name, source, "")
		switch {
		case !ok: // its mail is gone
		case q.State == window.Dead:
			c.found(w.now, "%s is closed to source %s after a failure of source %s", c.to.name, source, c.guilty)
		case q.State == window.Ready && q.Window < before:
			c.found(w.now, "the window of %s from source %s falls from %d to %d after a failure of source %s", c.to.name, source, before, q.Window, c.guilty)
		}
	}
	c.eachHost(w, func(h *conns.HostView) {
		if before, known := c.hosts[h.Way][h.Host.Name]; known && h.Known.Failures > before {
			c.found(w.now, "host %s has failed %d times for source %s, and %d before source %s failed", h.Host.Name, h.Known.Failures, h.Source, before, c.guilty)
		}
	})
	c.to = nil
}
