package admin

import (
	"context"
	"strings"

	"github.com/posthaste-mta/posthaste/idn"
	"github.com/posthaste-mta/posthaste/mail"
)

// aboutWay reports whether there are conditions on the way of an attempt.
func (s *selector) aboutWay() bool { return len(s.site)+len(s.source) > 0 }

// way reports whether a recipient meets the conditions on the way of its last attempt. Without an
// attempt, that is the way on which it waits in core; it meets none while it has none there.
func (s *selector) way(m *Message, r *mail.RecipientOutcome) bool {
	if !s.aboutWay() {
		return true
	}
	via := r.Outcome.Via
	if via == (mail.Via{}) && r.Outcome.Result == mail.Pending && s.core != nil {
		via = s.core.via(m.Envelope.ID, r.Recipient.Index)
	}
	if via == (mail.Via{}) {
		return false
	}
	return (len(s.site) == 0 || s.site.matchSite(via.Nexthop)) && s.source.match(via.Source)
}

// prepare asks the core at once for the messages of a page that may not have been tried.
func (s *selector) prepare(area mail.Area, page []mail.Cursor) {
	if !s.aboutWay() || s.core == nil || area != mail.AreaIncoming {
		return
	}
	ids := make([]mail.QueueID, len(page))
	for i := range page {
		ids[i] = page[i].ID
	}
	s.core.prepare(ids)
}

// matchSite reports whether one of the patterns, which parseSite has read, matches a nexthop, with or without the braces or brackets around
// it, or one of the hosts of a site.
func (p patterns) matchSite(nexthop string) bool {
	if p.match(nexthop) || p.match(bareSite(nexthop)) {
		return true
	}
	inside, ok := strings.CutPrefix(nexthop, "{")
	if !ok {
		return false
	}
	for host := range strings.FieldsFuncSeq(strings.TrimSuffix(inside, "}"), func(r rune) bool { return r == ',' || r == ';' }) {
		if p.match(host) {
			return true
		}
	}
	return false
}

// matchHost reports whether one of the patterns matches a host as replies name it, name[address], its name,
// or its address.
func (p patterns) matchHost(by string) bool {
	if p.match(by) {
		return true
	}
	name, address, ok := strings.Cut(by, "[")
	address, _, closed := strings.Cut(address, "]")
	return ok && closed && (name != "" && p.match(name) || p.match(address))
}

// parseSite reads the pattern of a site.
func parseSite(text string) (pattern, error) { return newGlob(bareSite(idn.Nexthop(text))), nil }

// bareSite returns the name of a destination without the braces of a site or the brackets of a host.
func bareSite(name string) string {
	if len(name) > 2 && (name[0] == '{' && name[len(name)-1] == '}' || name[0] == '[' && name[len(name)-1] == ']') {
		return name[1 : len(name)-1]
	}
	return name
}

// A locator asks the core for the ways of recipients that were not tried yet. It belongs to one request.
type locator struct {
	ctx       context.Context //nolint:containedctx // that of the request
	control   Control
	scheduler Scheduler
	held      map[mail.QueueID]bool // of messages that it was asked about: whether they are in core
}

// locator returns a locator for a request.
func (s *Server) locator(ctx context.Context) *locator {
	return &locator{ctx: ctx, control: s.control, scheduler: s.scheduler}
}

// prepare asks about messages at once: most of a long queue are not in core.
func (l *locator) prepare(ids []mail.QueueID) {
	ctx, cancel := context.WithTimeout(l.ctx, coreTimeout)
	defer cancel()
	l.held = make(map[mail.QueueID]bool, len(ids))
	if held, err := l.control.InCore(ctx, ids); err == nil && len(held) == len(ids) {
		for i, id := range ids {
			l.held[id] = held[i]
		}
	}
}

// via returns the way of a recipient in core; zero if it has none.
func (l *locator) via(id mail.QueueID, index uint32) mail.Via {
	if _, known := l.held[id]; !known {
		l.prepare([]mail.QueueID{id})
	}
	if !l.held[id] {
		return mail.Via{}
	}
	ctx, cancel := context.WithTimeout(l.ctx, coreTimeout)
	defer cancel()
	v, err := l.scheduler.ExplainRecipient(ctx, id, index)
	if err != nil || v.Place == nil {
		return mail.Via{}
	}
	via := mail.Via{Transport: v.Place.Transport, Nexthop: v.Place.Nexthop, Source: v.Place.Source}
	if v.Place.Instead != (mail.Origin{}) {
		via.Transport, via.Nexthop = v.Place.Instead.Transport, v.Place.Instead.Nexthop
	}
	return via
}
