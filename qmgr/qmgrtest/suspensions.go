package qmgrtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
)

// A Suspended is what an operator has suspended, in the model.
type Suspended struct {
	Scope measure.Scope
	Value string
}

// Suspend gives an operator's order and saves it, as a host does before it answers.
func (w *World) Suspend(ev qmgr.Suspend) {
	until := mail.Never
	if ev.For > 0 {
		until = w.Now.Add(ev.For)
	}
	w.Suspended[Suspended{ev.Scope, ev.Value}] = until
	w.Step(ev)
	w.SaveOrders()
}

// Resume ends a suspension.
func (w *World) Resume(s Suspended) {
	delete(w.Suspended, s)
	w.Step(qmgr.Resume{Scope: s.Scope, Value: s.Value})
	w.SaveOrders()
}

// ResumeAll ends all suspensions.
func (w *World) ResumeAll() { w.ResumeSome(func() bool { return true }) }

// ResumeSome ends those that are picked.
func (w *World) ResumeSome(pick func() bool) {
	for _, s := range slices.SortedFunc(maps.Keys(w.Suspended), func(a, b Suspended) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }) {
		if pick() {
			w.Resume(s)
		}
	}
}

// ordered takes what a note says of the suspension of a destination, which a rule on replies may have
// caused or ended; false if it says nothing of that.
func (w *World) ordered(n qmgr.Note) bool {
	if n.Kind != qmgr.NoteSuspended && n.Kind != qmgr.NoteResumed || n.Transport == "" || strings.HasSuffix(n.Text, "cannot be suspended") {
		return false
	}
	k := measure.Key{Scope: measure.Destination, Transport: n.Transport, Name: n.Nexthop, Nexthop: n.Nexthop, Source: n.Source, Domain: n.Domain}
	s := Suspended{measure.Destination, k.Value()}
	switch {
	case n.Kind == qmgr.NoteResumed:
		delete(w.Suspended, s)
	case n.At == 0:
		w.Suspended[s] = mail.Never
	default:
		w.Suspended[s] = n.At
	}
	return true
}

// checkSuspended finds out whether a delivery starts for something that is suspended.
func (w *World) checkSuspended(d *mail.Delivery) {
	if d.Transport == qmgr.TransportRetry || d.Transport == qmgr.TransportError {
		return
	}
	for s, until := range w.Suspended {
		if until <= w.Now {
			continue
		}
		concerns := false
		switch s.Scope {
		case measure.Site:
			concerns = d.Nexthop == s.Value
		case measure.Domain:
			concerns = slices.ContainsFunc(d.Recipients, func(r mail.Recipient) bool { return r.Address.Domain() == s.Value })
		case measure.Destination:
			k := measure.OrderKey(s.Scope, s.Value)
			concerns = k.Transport == d.Transport && k.Name == d.Nexthop && (k.Source == "" || k.Source == d.Source) &&
				(k.Domain == "" || slices.ContainsFunc(d.Recipients, func(r mail.Recipient) bool { return r.Address.Domain() == k.Domain }))
		case measure.Transport:
			concerns = d.Transport == s.Value
		case measure.Source:
			concerns = d.Source == s.Value
		case measure.Tenant:
			concerns = d.Envelope.Flow.Tenant == s.Value
		case measure.Class:
			concerns = d.Envelope.Flow.Class == s.Value
		}
		if concerns {
			w.violate("delivery of %v by %s to %s from %q, and %v %s is suspended", d.Envelope.ID, d.Transport, d.Nexthop, d.Source, s.Scope, s.Value)
		}
	}
}

// CheckResumed is for a moment some time after ResumeAll: nothing waits for the end of a suspension any
// more.
func (w *World) CheckResumed() {
	for id, m := range w.Messages {
		if due := m.Place.Due; m.Place.Area == mail.AreaDeferred && intake.Marked(due) && due > w.Now.Add(10*time.Minute) {
			w.violate("%v waits until %v, and nothing is suspended", id, due)
		}
	}
}

// suspension carries out the commands about suspensions.
func (s *script) suspension(tb testing.TB, l *golden.Line) {
	tb.Helper()
	if l.Name == "suspensions" {
		for _, v := range s.world.Core.Suspensions() {
			until := "it is resumed"
			if v.Until != mail.Never {
				until = v.Until.Sub(s.world.Format.Epoch).String()
			}
			by := v.By
			if v.Rule != "" {
				by = "rule " + v.Rule
			}
			s.print(fmt.Sprintf("%v %s by %s until %s: %s", v.Scope, v.Value, by, until, strings.ReplaceAll(v.Reason, "\n", " / ")))
		}
		return
	}
	scope, ok := measure.ParseScope(l.Word(tb, 0))
	if !ok {
		tb.Fatalf("%s: %s cannot be suspended", l.Pos, l.Words[0])
	}
	if l.Name == "resume" {
		s.world.Resume(Suspended{scope, l.Word(tb, 1)})
		return
	}
	s.world.Suspend(qmgr.Suspend{Scope: scope, Value: l.Word(tb, 1), For: l.Duration(tb, "for", 0), By: l.Str("by", ""), Reason: l.Str("reason", "")})
}
