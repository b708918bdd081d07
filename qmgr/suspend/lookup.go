package suspend

import (
	"slices"

	"github.com/posthaste-mta/posthaste/idn"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
)

// A Way is where mail goes: the transport, and of the queue there its name and what it reaches, which may be a site. Both
// are "" if the queue is not known yet.
type Way struct{ Transport, Name, Reach string }

// Mail is one recipient's.
type Mail struct {
	Way
	Nexthop string // of the route, in lower case
	To      mail.Address
	Flow    *mail.Flow
}

// Of returns what keeps mail from being delivered, the suspension that lasts longest if there are several; false if
// nothing does. What keeps it from one source only is no such thing (OfSource).
func (b *Book) Of(m *Mail) (s Suspension, is bool) {
	if !b.Any() || slices.Contains(b.exempt, m.Transport) {
		return s, false
	}
	b.consider(&s, measure.Transport, m.Transport)
	if b.of[measure.Destination]+b.of[measure.Domain] > 0 {
		domain := idn.Key(m.To.Domain())
		b.considerWay(&s, &m.Way, domain, "")
		b.consider(&s, measure.Domain, domain)
	}
	b.consider(&s, measure.Site, m.Reach)
	b.consider(&s, measure.Site, m.Nexthop)
	b.consider(&s, measure.Class, m.Flow.Class)
	b.consider(&s, measure.Tenant, m.Flow.Tenant)
	return s, s.Until != 0
}

// OfSource returns the suspension of a source, altogether or for a destination's mail to a domain; the zero
// Suspension if there is none.
func (b *Book) OfSource(source string, to Way, domain string) (s Suspension) {
	if b.Any() {
		b.consider(&s, measure.Source, source)
		b.considerWay(&s, &to, domain, source)
	}
	return s
}

// OfDestination returns the suspension of a destination's mail to a domain, from a source or from all; the zero
// Suspension if there is none. Without a domain, it is that of all its mail.
func (b *Book) OfDestination(to Way, domain, source string) (s Suspension) {
	b.considerWay(&s, &to, domain, "")
	if source != "" {
		b.considerWay(&s, &to, domain, source)
	}
	return s
}

// OfQueue returns what keeps all mail of a destination from a source waiting: the suspension of its transport, its site, its source, or
// itself; the zero Suspension if nothing does. domain is that of all its mail, or "".
func (b *Book) OfQueue(to Way, domain, source string) (s Suspension) {
	if !b.Any() || slices.Contains(b.exempt, to.Transport) {
		return s
	}
	s = b.OfDestination(to, domain, source)
	b.consider(&s, measure.Transport, to.Transport)
	b.consider(&s, measure.Site, to.Reach)
	b.consider(&s, measure.Site, to.Name)
	b.consider(&s, measure.Domain, domain)
	b.consider(&s, measure.Source, source)
	return s
}

// consider makes s the suspension of a value if that lasts longer.
func (b *Book) consider(s *Suspension, scope measure.Scope, value string) {
	if b.of[scope] > 0 && value != "" {
		b.considerKey(s, measure.OrderKey(scope, value))
	}
}

// considerWay makes s the suspension of a destination from a source, or of its mail to a domain, if that lasts longer; without
// a source, that from all of them.
func (b *Book) considerWay(s *Suspension, to *Way, domain, source string) {
	if b.of[measure.Destination] == 0 {
		return
	}
	b.considerName(s, to, to.Name, domain, source)
	if to.Reach != to.Name {
		b.considerName(s, to, to.Reach, domain, source)
	}
}

func (b *Book) considerName(s *Suspension, to *Way, name, domain, source string) {
	k := destination(to, name, source)
	b.considerKey(s, k)
	if domain != "" {
		k.Domain = domain
		b.considerKey(s, k)
	}
}

// destination returns the key of a destination under one of its names.
func destination(to *Way, name, source string) measure.Key {
	return measure.Key{Scope: measure.Destination, Transport: to.Transport, Name: name, Nexthop: name, Source: source}
}

func (b *Book) considerKey(s *Suspension, k measure.Key) {
	if o := b.orders.Get(k).Order; o.Until > s.Until {
		*s = Suspension{key: k, Until: o.Until}
		if s.ruled = o.Rule != ""; s.ruled {
			s.said = o.Rule + ": " + codes(o.Reason)
		}
	}
}
