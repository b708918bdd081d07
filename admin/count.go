package admin

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

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
	c, found, next, release, err := s.search(ctx, &in.Filter, in.Cursor, s.cfg.ScanMessages)
	if err != nil {
		return nil, err
	}
	defer release()
	y := grouping{by: in.By, classify: s.cfg.ReplyClass, groups: make(map[string]*Group)}
	for i := range found {
		err := s.countOne(ctx, &c.sel, &found[i], &y)
		switch {
		case ctx.Err() != nil:
			return nil, s.problem(ctx, err)
		case err != nil && !errors.Is(err, ErrGone):
			c.unread = append(c.unread, unreadOf(found[i].Envelope.ID, err))
		}
	}
	s.logUnread("count", c.unread)
	count := y.count()
	count.Scanned, count.Next, count.Unread = c.scanned, next.String(), c.unread
	return &countOutput{count}, nil
}

// countOne counts a message. Its recipients are read only if they matter one by one.
func (s *Server) countOne(ctx context.Context, sel *selector, m *Message, y *grouping) error {
	if !sel.aboutRecipients() && !aboutRecipient(y.by) {
		y.add(y.valueOf(m), 1, int(m.Envelope.Recipients-min(m.Settled, m.Envelope.Recipients)))
		return nil
	}
	whole := y.valueOf(m)
	seen := make(map[string]bool) // groups that the message has been counted in
	err := s.eachWaiting(ctx, m.Envelope.ID, func(r *mail.RecipientOutcome) bool {
		if !sel.match(m, r) {
			return true
		}
		value := whole
		if aboutRecipient(y.by) {
			value = y.valueOfRecipient(r)
		}
		messages := 0
		if !seen[value] && len(seen) < GroupsMax {
			seen[value], messages = true, 1
		}
		y.add(value, messages, 1)
		return true
	})
	if len(seen) > 0 {
		y.messages += 1 - len(seen) // it is one message, in however many groups
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
		return strings.ToLower(e.Sender.Domain())
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
		return strings.ToLower(r.Recipient.Address.Domain())
	case "reply-class":
		return y.classify(r.Outcome.Reply)
	case "host":
		return r.Outcome.Reply.By
	case "site":
		return r.Outcome.Via.Nexthop
	case "source":
		return r.Outcome.Via.Source
	}
	return r.Outcome.Reply.String()
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
