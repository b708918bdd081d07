package qmgr_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/qmgrtest"
)

// newHeld returns a life whose message is in the hold area.
func newHeld(t *testing.T) *life {
	l := newLife(t, qmgr.Config{})
	l.Step(qmgr.Hold{IDs: []mail.QueueID{l.m.Envelope.ID}, Reason: "test"})
	l.end(t)
	l.calm = false
	if l.m.Place.Area != mail.AreaHold {
		t.Fatalf("place %v", l.m.Place)
	}
	return l
}

// A held message that an operator wants tried stays held, whether or not it can be read.
//
// Seen failing: before ChangeDefer left held messages alone, it was delivered.
func TestHeldStaysHeldUnreadable(t *testing.T) {
	l := newHeld(t)
	id := l.m.Envelope.ID
	l.Step(qmgr.Retry{IDs: []mail.QueueID{id}})
	if o, is := l.Take(0).(qmgr.Open); !is || o.ID != id {
		t.Fatalf("it is not opened, but %v", o)
	}
	l.Step(qmgr.Broken{ID: id, Why: qmgr.TroubleTemporary})
	l.end(t)
	if l.m.Place.Area != mail.AreaHold {
		t.Errorf("place %v gone %v", l.m.Place, l.Gone[id] != nil)
	}
}

// A release is not lost while a held message is in core, to be reported on or because an
// operator wanted it tried.
//
// Seen failing: before orderOne kept a release for later, the message stayed held.
func TestReleaseAtEveryMoment(t *testing.T) {
	for what, order := range map[string]func(*life){
		"report": func(l *life) { l.GiveUp(l.m, mail.ReportFailed, 0, 2) },
		"retry":  func(l *life) { l.Step(qmgr.Retry{IDs: []mail.QueueID{l.m.Envelope.ID}}) },
	} {
		for moment := range 8 {
			t.Run(fmt.Sprint(what, moment), func(t *testing.T) {
				l := newHeld(t)
				order(l)
				for range moment {
					l.step()
				}
				l.Step(qmgr.Release{IDs: []mail.QueueID{l.m.Envelope.ID}})
				l.end(t)
				if l.Gone[l.m.Envelope.ID] == nil {
					t.Errorf("the message is still in %v: %v", l.m.Place, l.m.Results)
				}
			})
		}
	}
}

// A release that arrives while a message is being opened that is not held does not undo
// that it is held later in the same round.
//
// Seen failing: without enter dropping the release, the message was released at once, and
// delivered once more.
func TestReleaseOfAMessageThatIsHeldLater(t *testing.T) {
	l := newLife(t, qmgr.Config{DefaultTransport: qmgr.TransportConfig{UnknownOutcome: qmgr.UnknownHold}})
	for l.m.Place.Area != mail.AreaDeferred {
		l.step()
	}
	ids := []mail.QueueID{l.m.Envelope.ID}
	l.Step(qmgr.Retry{IDs: ids})
	l.Step(qmgr.Release{IDs: ids})
	sent := 0
	for range 50 {
		if len(l.Outstanding) == 0 {
			break
		}
		switch a := l.Take(0).(type) {
		case qmgr.Deliver:
			sent++
			l.Deliver(a, qmgrtest.Unknown)
		default:
			l.Answer(a)
		}
	}
	if l.m.Place.Area != mail.AreaHold || sent != 2 {
		t.Errorf("place %v after %d deliveries, want one for each domain", l.m.Place, sent)
	}
}

// An operator gives up all recipients of a message that he had held, and that its sender has kept: its sender
// receives the report now, not at the date.
//
// Seen failing: where a release had also such a message wait for its date, nothing opened it before.
func TestGiveUpKeptAndHeld(t *testing.T) {
	l := newLife(t, qmgr.Config{})
	l.end(t)
	l.Keep = 24 * time.Hour
	m := l.Store("s@home.test", []mail.Recipient{{Address: "a@bad.test"}, {Address: "b@good.test"}})
	l.Announce(m)
	id, begun := m.Envelope.ID, l.Now
	l.Step(qmgr.Hold{IDs: []mail.QueueID{id}, Reason: "test"})
	l.GiveUp(m, mail.ReportFailed, 0, 1)
	for l.Gone[id] == nil && l.step() {
	}
	if l.Gone[id] == nil || l.Now != begun || m.Owed[0] != mail.ReportNone {
		t.Errorf("place %v owed %v after %v", m.Place, m.Owed, l.Now.Sub(begun))
	}
}
