package source

import (
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/glob"
	"github.com/posthaste-mta/posthaste/mail"
)

// A Table is the compiled pools of a Config. It does not change.
type Table struct{ pools []rule }

// A rule is a pool and its compiled conditions.
type rule struct {
	*Pool
	tenants []glob.Pattern
	senders glob.Senders
	routes  []route
}

// A route is patterns for a transport and a nexthop.
type route struct{ transport, nexthop glob.Pattern }

func newRoute(text string) route {
	transport, nexthop, _ := strings.Cut(text, ":")
	if nexthop == "" || nexthop[0] == '.' {
		nexthop = "*" + nexthop
	}
	return route{glob.New(transport), glob.New(nexthop)}
}

// NewTable compiles the pools of a valid configuration, with which it shares memory.
func NewTable(c *Config) *Table {
	t := new(Table)
	for i := range c.Pools {
		r := rule{Pool: &c.Pools[i], senders: glob.NewSenders(c.Pools[i].Match.Senders)}
		for _, text := range r.Match.Tenants {
			r.tenants = append(r.tenants, glob.New(text))
		}
		for _, text := range r.Match.Routes {
			r.routes = append(r.routes, newRoute(text))
		}
		t.pools = append(t.pools, r)
	}
	return t
}

// A Way is whose mail goes where.
type Way struct {
	Flow               *mail.Flow
	Sender             mail.Address
	Transport, Nexthop string
}

// Pool returns the first pool that mail may use, nil if there is none.
func (t *Table) Pool(w Way) *Pool {
	for i := range t.pools {
		if r := &t.pools[i]; r.wants(&w) {
			return r.Pool
		}
	}
	return nil
}

// wants reports whether mail meets one condition of each kind.
func (r *rule) wants(w *Way) bool {
	m := &r.Match
	return (m.Classes == nil || slices.Contains(m.Classes, w.Flow.Class)) &&
		(m.Tenants == nil || glob.Any(r.tenants, w.Flow.Tenant)) &&
		(m.Senders == nil || r.senders.Match(string(w.Sender))) &&
		(m.Routes == nil || r.leads(w))
}

func (r *rule) leads(w *Way) bool {
	return slices.ContainsFunc(r.routes, func(to route) bool {
		return glob.Matches(to.transport, w.Transport) && glob.Matches(to.nexthop, w.Nexthop)
	})
}

// Has reports whether a source is a member.
func (p *Pool) Has(name string) bool {
	return slices.ContainsFunc(p.Members, func(m Member) bool { return m.Source == name })
}
