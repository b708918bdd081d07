package admin

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/posthaste-mta/posthaste/mail"
)

// A rerouting is where a reroute has recipients go: to where an operator says or, if that is nil, where the configuration
// says.
type rerouting struct{ to *mail.OrderedRoute }

// changes reports whether a recipient goes elsewhere now. The earlier operator and reason do not count, so that an order can
// be repeated for what it has not reached.
func (r *rerouting) changes(now *mail.OrderedRoute) bool {
	if r.to == nil || now == nil {
		return r.to != now
	}
	return r.to.Target != now.Target
}

// harmful reports whether mail that goes there is lost to its recipients, which cannot be taken back; r may be nil.
func (r *rerouting) harmful() bool {
	return r != nil && r.to != nil && r.to.Loses()
}

// affects reports whether an order applies to a recipient that waits.
func (s *selector) affects(m *Message, r *mail.RecipientOutcome) bool {
	return s.match(m, r) && (s.elsewhere == nil || s.elsewhere.changes(r.Outcome.Ordered))
}

type rerouteInput struct{ Body RerouteOrder }

// errNoRoutes means that the program that runs the API does not reroute mail.
var errNoRoutes = huma.Error501NotImplemented("mail cannot be rerouted here")

// reroute handles one page of a reroute.
func (s *Server) reroute(ctx context.Context, in *rerouteInput) (*orderOutput, error) {
	o := &in.Body
	if s.cfg.ParseRoute == nil {
		return nil, errNoRoutes
	}
	switch {
	case o.Clear && o.To != "":
		return nil, unprocessable("body.clear", true, "clear cannot be combined with to")
	case o.Clear:
		return s.obey(ctx, verbReroute, &o.Order, means{elsewhere: &rerouting{}})
	case o.To == "":
		return nil, unprocessable("body.to", nil, "say where the mail goes, or set clear")
	}
	target, err := s.cfg.ParseRoute(o.To)
	if err != nil {
		return nil, unprocessable("body.to", clip(o.To), err.Error())
	}
	return s.obey(ctx, verbReroute, &o.Order, means{elsewhere: &rerouting{&mail.OrderedRoute{Target: target, By: orderedBy(ctx), Reason: o.Reason}}})
}

// rerouteMax is the maximum number of recipients rerouted by one step of the core.
const rerouteMax = 1000

// setRoutes has the recipients of a message go elsewhere that meet the conditions.
func (s *Server) setRoutes(ctx context.Context, sel *selector, m *Message) error {
	var some []uint32
	give := func() {
		s.control.SetRoute(m.Envelope.ID, mail.Reroute{Recipients: some, To: sel.elsewhere.to})
		some = nil // the core owns the slice now
	}
	err := s.eachWaiting(ctx, m.Envelope.ID, func(r *mail.RecipientOutcome) bool {
		if !sel.affects(m, r) {
			return true
		}
		if some = append(some, r.Recipient.Index); len(some) == rerouteMax {
			give()
		}
		return true
	})
	if len(some) > 0 {
		give()
	}
	return err
}

// logReroute logs an order with the recipients that it applies to.
func (s *Server) logReroute(ctx context.Context, o *Order, r *rerouting, m *Message, c *concern) {
	attrs := []any{"verb", verbReroute.String(), "id", m.Envelope.ID.String(), "from", string(m.Envelope.Sender), "to", c.addresses()}
	if r.to != nil {
		attrs = append(attrs, "route", r.to.Target)
	}
	s.log.Info("order", append(attrs, "reason", o.Reason, "by", orderedBy(ctx))...)
}
