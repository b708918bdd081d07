package qmgrtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// Save saves what the core knows of warm-ups and measures, and what has changed of hosts since
// it was saved first. Restart brings it back.
func (w *World) Save() {
	if w.feed == nil {
		w.feed = w.Core.NewHostFeed()
	}
	for records := w.changes(); len(records) > 0; records = w.changes() {
		w.keep(records)
	}
}

func (w *World) keep(records []mail.HostRecord) {
	for _, r := range records {
		if len(r.Value) == 0 {
			delete(w.saved, string(r.Key))
		} else {
			w.saved[string(r.Key)] = r.Value
		}
	}
}

func (w *World) changes() []mail.HostRecord { return w.feed.Orders(w.feed.Changes(nil, 100)) }

// SaveOrders saves what has changed of suspensions, as a host does before it answers.
func (w *World) SaveOrders() {
	if w.feed == nil {
		w.feed = w.Core.NewHostFeed()
	}
	w.keep(w.feed.Orders(nil))
}

// learn gives a core that has been started what was saved.
func (w *World) learn() {
	if w.Rules != nil {
		w.Step(qmgr.Rules{Names: w.Rules})
	}
	var hosts []mail.HostRecord
	for _, key := range slices.Sorted(maps.Keys(w.saved)) {
		hosts = append(hosts, mail.HostRecord{Key: []byte(key), Value: w.saved[key]})
	}
	if len(hosts) > 0 {
		w.Step(qmgr.Learned{Hosts: hosts})
	}
}

// measureOf reads what a rule demands because of the refusals of a command; nil if none does.
func measureOf(tb testing.TB, l *golden.Line) *mail.Measure {
	tb.Helper()
	name, given := l.Option("rule")
	if !given {
		return nil
	}
	m := &mail.Measure{Rule: name, Times: l.Int(tb, "times", 0), Within: l.Duration(tb, "within", 0),
		Rest: l.Duration(tb, "rest", 0), Suspend: l.Duration(tb, "suspend", 0), Concurrency: l.Int(tb, "concurrency", 0), For: l.Duration(tb, "for", 0)}
	m.InARow, m.Senders, m.Tenants, m.Recipients = l.Int(tb, "in-a-row", 0) > 0, l.Int(tb, "senders", 0), l.Int(tb, "tenants", 0), l.Int(tb, "recipients", 0)
	m.Domains, m.SuspendFirst = l.Int(tb, "domains", 0), l.Duration(tb, "first", 0)
	m.Refused = mail.Refused{Sender: l.Str("sender", ""), Tenant: l.Str("tenant", ""), Recipient: l.Str("recipient", ""), Domain: l.Str("domain", "")}
	m.Reply = mail.Reply{Code: 421, Status: mail.Status{Class: 4, Subject: 7, Detail: 28}, Text: l.Str("said", "too fast"), By: "mx.test[192.0.2.1]"}
	if m.Suspend < 0 { // of a rule that suspends until an operator resumes
		m.Suspend = mail.Indefinitely
	}
	if text, given := l.Option("rate"); given {
		limits, err := rate.Parse(text)
		if err != nil || len(limits.All()) != 1 {
			tb.Fatalf("%s: rate=%s is not one limit", l.Pos, text)
		}
		m.RateCount, m.RatePer = limits.All()[0].N, limits.All()[0].Per
	}
	return m
}

// rules says which rules there are: names, separated by commas; none.
func rules(text string) []string {
	if text == "none" {
		return []string{}
	}
	return strings.Split(text, ",")
}

// destinations prints a line for each destination and source: what rules demand of it, if
// they do.
func (s *script) destinations() {
	list := s.world.Core.Destinations(qmgr.DestinationQuery{Most: 100, EachSource: true})
	for i := range list.Destinations {
		d := &list.Destinations[i]
		v := &d.Queue
		line := fmt.Sprintf("%s:%s", d.Transport, v.Nexthop)
		if v.Source != "" {
			line += " from " + v.Source
		}
		line += fmt.Sprintf(" %v, %d waiting, %d busy", d.Condition, v.Todo, v.Busy)
		if v.State == window.Dead {
			line += fmt.Sprintf(", dead until %v: %v", v.Until.Sub(s.world.Format.Epoch), v.Reason)
		}
		if v.Rule != "" {
			line += ", rule " + v.Rule
		}
		if v.Lowered != "" {
			view, _ := s.world.Core.Destination(d.Transport, v.Nexthop, 1)
			line += fmt.Sprintf(", at most %d", view.Ceiling)
			for _, r := range view.Rate {
				line += fmt.Sprintf(" and %v", r.Limit)
			}
			line += fmt.Sprintf(" until %v by rule %s", v.LoweredUntil.Sub(s.world.Format.Epoch), v.Lowered)
		}
		s.print(line)
	}
}
