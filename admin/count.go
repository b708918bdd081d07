package admin

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/idn"
	"github.com/posthaste-mta/posthaste/mail"
)

// GroupsMax is the maximum number of groups in one answer; what is in no group is counted
// in Other.
const GroupsMax = 10_000

// A Count is how many messages and recipients meet the conditions, in groups.
type Count struct {
	Messages   int      `json:"messages"`
	Recipients int      `json:"recipients" doc:"Recipients that wait, and meet the conditions on recipients."`
	Groups     []Group  `json:"groups,omitempty" doc:"The largest first."`
	Other      *Group   `json:"other,omitempty" doc:"All groups beyond the first 10,000 together."`
	Unread     []Unread `json:"unread,omitempty" doc:"Messages that could not be read completely, and why. They may or may not match the filter."`
	Scanned    int      `json:"scanned" doc:"Messages looked at."`
	Next       string   `json:"next,omitempty" doc:"Position of the next page, to be passed as cursor; its counts have to be added. Absent at the end."`
}

// A Group is the messages or recipients that have a property in common.
type Group struct {
	Value      string `json:"value" doc:"The property; empty for what has none, such as the null sender, or a recipient without a reply."`
	Messages   int    `json:"messages" doc:"Messages with a recipient in the group."`
	Recipients int    `json:"recipients"`
}

// Add adds another group's numbers.
func (g *Group) Add(other Group) {
	g.Messages += other.Messages
	g.Recipients += other.Recipients
}

// CompareGroups orders groups by size, the largest first.
func CompareGroups(a, b Group) int {
	return cmp.Or(cmp.Compare(b.Recipients, a.Recipients), cmp.Compare(b.Messages, a.Messages), cmp.Compare(a.Value, b.Value))
}

type countInput struct {
	Filter
	By     string `query:"by" enum:"area,sender,sender-domain,class,tenant,flow,domain,reply-class,error,host,site,source" doc:"The property by which to group: of the message, or of its recipients (domain, reply-class, error: the last reply, host: who sent it, site and source: of the last attempt). Without it there are no groups."`
	Cursor string `query:"cursor" maxLength:"128" doc:"Where to go on: next of the answer before."`
}

type countOutput struct{ Body Count }

// count counts a page of messages.
func (s *Server) count(ctx context.Context, in *countInput) (*countOutput, error) {
	c, from, release, err := s.begin(ctx, &in.Filter, in.Cursor)
	if err != nil {
		return nil, err
	}
	defer release()
	y := grouping{by: in.By, classify: s.cfg.ReplyClass, groups: make(map[string]*Group), seen: make(map[string]bool), classes: make(map[mail.Reply]string)}
	next, err := s.countPage(ctx, c, from, &y)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	s.logUnread("count", c.unread)
	count := y.count()
	count.Scanned, count.Next, count.Unread = c.scanned, next.String(), c.unread
	return &countOutput{count}, nil
}

// countPage counts as many messages as one request may look at.
func (s *Server) countPage(ctx context.Context, c *scan, from position, y *grouping) (next position, err error) {
	c.reads = aboutRecipient(y.by)
	if !from.set {
		from = c.sweptStart()
	}
	var found []Message
	if !from.swept {
		if found, next, err = c.run(ctx, from, s.cfg.ScanMessages); err != nil {
			return next, err
		}
		for i := range found {
			if err := s.countOne(ctx, c, &swept{Message: found[i], long: true}, y); err != nil {
				return next, err
			}
		}
		return next, nil
	}
	var failed error
	id, err := c.sweep(ctx, from.at.ID, c.swept, true, c.reads, func(m *swept) { failed = cmp.Or(failed, s.countOne(ctx, c, m, y)) })
	if err = cmp.Or(failed, err); err != nil || id == 0 {
		return position{}, err
	}
	return sweptFrom(id), nil
}

// countOne counts a message. Its recipients are read only if they matter one by one. An error is about the request.
func (s *Server) countOne(ctx context.Context, c *scan, m *swept, y *grouping) error {
	if !c.sel.aboutRecipients() && !aboutRecipient(y.by) {
		y.add(y.valueOf(&m.Message), 1, int(m.waiting()))
		return nil
	}
	err := s.countRecipients(ctx, &c.sel, m, y)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && !errors.Is(err, ErrGone):
		c.unread = append(c.unread, unreadOf(m.Envelope.ID, err))
	}
	return nil
}

// countRecipients counts the recipients of a message that match.
func (s *Server) countRecipients(ctx context.Context, sel *selector, m *swept, y *grouping) error {
	whole, about := y.valueOf(&m.Message), aboutRecipient(y.by)
	clear(y.seen)
	visit := func(r *mail.RecipientOutcome) bool {
		if !sel.match(&m.Message, r) {
			return true
		}
		value := whole
		if about {
			value = y.valueOfRecipient(r)
		}
		messages := 0
		if !y.seen[value] && len(y.seen) < GroupsMax {
			y.seen[value], messages = true, 1
		}
		y.add(value, messages, 1)
		return true
	}
	var err error
	if m.long {
		err = s.eachWaiting(ctx, m.Envelope.ID, visit)
	} else {
		for i := range m.recipients {
			if r := &m.recipients[i]; !r.Outcome.Result.Settled() {
				visit(r)
			}
		}
	}
	if len(y.seen) > 0 {
		y.messages += 1 - len(y.seen) // it is one message, in however many groups
	}
	return err
}

// aboutRecipient reports whether a property is one of recipients.
func aboutRecipient(by string) bool {
	switch by {
	case "domain", "reply-class", "error", "host", "site", "source":
		return true
	}
	return false
}

// A grouping is the counts of a page.
type grouping struct {
	by         string
	classify   func(mail.Reply) string
	groups     map[string]*Group
	other      Group
	messages   int
	recipients int
	classes    map[mail.Reply]string // of some replies: most messages have one of a few
	seen       map[string]bool       // groups that the message has been counted in that is being counted
}

// valueMax is the maximum length of a group's value, in bytes.
const valueMax = 512

func (y *grouping) add(value string, messages, recipients int) {
	y.messages += messages
	y.recipients += recipients
	if y.by == "" {
		return
	}
	if len(value) > valueMax {
		value = value[:valueMax]
	}
	g := y.groups[value]
	if g == nil {
		if g = &y.other; len(y.groups) < GroupsMax {
			value = strings.Clone(value) // a sweep's texts keep others alive
			g = &Group{Value: value}
			y.groups[value] = g
		}
	}
	g.Add(Group{Messages: messages, Recipients: recipients})
}

// valueOf returns a message's property.
func (y *grouping) valueOf(m *Message) string {
	e := &m.Envelope
	switch y.by {
	case "area":
		return m.Place.Area.String()
	case "sender":
		return string(e.Sender)
	case "sender-domain":
		return idn.Key(e.Sender.Domain())
	case "class":
		return e.Flow.Class
	case "tenant":
		return e.Flow.Tenant
	case "flow":
		return e.Flow.Flow
	}
	return ""
}

// valueOfRecipient returns a recipient's property.
func (y *grouping) valueOfRecipient(r *mail.RecipientOutcome) string {
	switch y.by {
	case "domain":
		return idn.Key(r.Recipient.Address.Domain())
	case "reply-class":
		return y.classOf(&r.Outcome.Reply)
	case "host":
		return r.Outcome.Reply.By
	case "site":
		return r.Outcome.Via.Nexthop
	case "source":
		return r.Outcome.Via.Source
	}
	return r.Outcome.Reply.String()
}

// classesMax bounds classes.
const classesMax = 1000

// classOf returns the class of a reply.
func (y *grouping) classOf(r *mail.Reply) string {
	class, known := y.classes[*r]
	if !known {
		if class = y.classify(*r); len(y.classes) < classesMax {
			own := *r // without a sweep's texts, which keep others alive
			own.Text, own.By = strings.Clone(r.Text), strings.Clone(r.By)
			y.classes[own] = class
		}
	}
	return class
}

func (y *grouping) count() Count {
	c := Count{Messages: y.messages, Recipients: y.recipients}
	for _, g := range y.groups {
		c.Groups = append(c.Groups, *g)
	}
	slices.SortFunc(c.Groups, CompareGroups)
	if y.other != (Group{}) {
		c.Other = &y.other
	}
	return c
}
