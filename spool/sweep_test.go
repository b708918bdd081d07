package spool

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// A sweep sees of every message what looking it up one by one shows, in whatever area it is, with and without
// outcomes, and from any ID on; of a long recipient list it says that it has to be read.
func TestSweep(t *testing.T) {
	s := open(t, small(vfs.NewMem()))
	var ids []mail.QueueID
	for i := range 3 * sweepChunk {
		n := 1 + i%3
		if i%100 == 50 {
			n = 300
		}
		a := accept(t, s, mail.Envelope{Sender: mail.Address(fmt.Sprintf("s%d@example.com", i)), Flow: mail.Flow{Class: "normal", Tenant: "t", Flow: fmt.Sprint(i)}}, addresses(n), text(10))
		id := a.Envelope.ID
		ids = append(ids, id)
		switch i % 5 {
		case 1:
			apply(t, s, mail.Change{Op: mail.ChangeDefer, ID: id, Place: a.Place, Due: 9, At: 1, Outcomes: []mail.Outcome{busy(0, 1)}})
		case 2:
			apply(t, s, mail.Change{Op: mail.ChangeHold, ID: id, Place: a.Place, Reason: "a test", Outcomes: []mail.Outcome{sent(uint32(n-1), 1)}})
		case 3:
			apply(t, s, mail.Change{Op: mail.ChangeRemove, ID: id, Place: a.Place})
			ids = ids[:len(ids)-1]
		case 4:
			apply(t, s, mail.Change{Op: mail.ChangeCorrupt, ID: id, Place: a.Place, Reason: "a test"})
		}
	}
	for _, first := range []int{0, 1, sweepChunk, len(ids) - 1} {
		at := first
		err := s.Sweep(ctxTest, ids[first], Interest{}, func(m *Sight) bool {
			want, err := s.Lookup(ctxTest, ids[at])
			if err != nil || !reflect.DeepEqual(m.Summary, want) {
				t.Fatalf("%+v, %v, want %+v", m.Summary, err, want)
			}
			list, _, err := s.Outcomes(ctxTest, ids[at], 0, 1000)
			if err != nil || m.Long != (len(list) == 300) || !m.Long && !reflect.DeepEqual(m.Recipients, list) {
				t.Fatalf("%s: long %t, %+v, %v, want %+v", ids[at], m.Long, m.Recipients, err, list)
			}
			at++
			return true
		})
		if err != nil || at != len(ids) {
			t.Errorf("from %d to %d of %d: %v", first, at, len(ids), err)
		}
	}
	n := 0
	if err := s.Sweep(ctxTest, 0, Interest{}, func(*Sight) bool { n++; return n < 5 }); err != nil || n != 5 {
		t.Errorf("it ended after %d, %v", n, err)
	}
	ctx, cancel := context.WithCancel(ctxTest)
	n = 0
	if err := s.Sweep(ctx, 0, Interest{}, func(*Sight) bool { n++; cancel(); return true }); !errors.Is(err, context.Canceled) || n > sweepChunk {
		t.Errorf("after its end was requested it saw %d, %v", n, err)
	}
}

// What a sweep with conditions sees is what one without them sees of the messages that meet them, be they few or many, and
// it says of how many it has passed over. Without recipients the rest is the same.
func TestSweepOfInterest(t *testing.T) {
	cfg := small(vfs.NewMem())
	cfg.halvesMin = 1
	s := open(t, cfg)
	const messages = 6 * sweepChunk
	changed := 0
	for i := range messages {
		n := 1 + i%3
		if i%500 == 50 {
			n = 300
		}
		list := addresses(n)
		if i%50 == 7 {
			list[n-1].Address = "rare@other.test"
		}
		a := accept(t, s, mail.Envelope{Sender: mail.Address(fmt.Sprintf("s%d@example.com", i%100)), Flow: mail.Flow{Class: "normal", Tenant: "t", Flow: fmt.Sprint(i)}}, list, text(10))
		if i%4 == 0 {
			continue
		}
		changed++
		o := busy(0, 1)
		if i%60 == 6 {
			o.Reply.Text = "a rare reply"
		}
		c := mail.Change{Op: mail.ChangeDefer, ID: a.Envelope.ID, Place: a.Place, Due: 9, At: 1, Outcomes: []mail.Outcome{o}}
		if i%80 == 9 {
			c.Op, c.Reason, c.Outcomes = mail.ChangeHold, "a rare reason", nil
		}
		apply(t, s, c)
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	now := s.db.NewSnapshot()
	for _, kind := range []byte{keyEnvelope, keyState} {
		if half, ok := (&sweep{ctx: ctxTest, db: s.db, from: now, halvesMin: 1}).half(kind); !ok {
			t.Errorf("the half of %q is %s", kind, half)
		}
	}
	if err := now.Close(); err != nil {
		t.Fatal(err)
	}
	rare := func(text string) bool { return strings.Contains(text, "rare") }
	for name, c := range map[string]struct {
		in   Interest
		want func(*Sight) bool
		of   int // messages that are read
	}{
		"few senders": {Interest{Envelope: func(e *mail.Envelope) bool { return e.Sender == "s13@example.com" }}, func(m *Sight) bool { return m.Envelope.Sender == "s13@example.com" }, messages},
		"nearly all":  {Interest{Envelope: func(e *mail.Envelope) bool { return e.Sender != "s13@example.com" }}, func(m *Sight) bool { return m.Envelope.Sender != "s13@example.com" }, messages},
		"nobody":      {Interest{Envelope: func(*mail.Envelope) bool { return false }}, func(*Sight) bool { return false }, messages},
		"a recipient": {Interest{Recipient: func(a mail.Address) bool { return rare(string(a)) }}, func(m *Sight) bool {
			return m.Long || someone(m, func(r *mail.RecipientOutcome) bool { return rare(string(r.Recipient.Address)) })
		}, messages},
		"both": {Interest{Envelope: func(e *mail.Envelope) bool { return e.Sender == "s7@example.com" }, Recipient: func(a mail.Address) bool { return rare(string(a)) }}, func(m *Sight) bool { return m.Envelope.Sender == "s7@example.com" }, messages},
		"an outcome": {Interest{Outcome: func(why string, o *mail.Outcome) bool { return rare(why) || rare(o.Reply.Text) }}, func(m *Sight) bool {
			return rare(m.Reason) || m.Long && m.Place.Touched || someone(m, func(r *mail.RecipientOutcome) bool { return rare(r.Outcome.Reply.Text) })
		}, changed},
		"each outcome": {Interest{Outcome: func(string, *mail.Outcome) bool { return true }}, func(m *Sight) bool { return m.Place.Touched }, changed},
	} {
		for _, brief := range []bool{false, true} {
			var want, got []Sight
			err := s.Sweep(ctxTest, 0, Interest{}, func(m *Sight) bool {
				if c.want(m) {
					want = append(want, copyOf(m, brief))
				}
				return true
			})
			passed, last := 0, mail.QueueID(0)
			in := c.in
			in.Brief, in.Whole = brief, brief
			in.Passed = func(n int, next mail.QueueID) bool {
				if next <= last {
					t.Errorf("%s: %d passed over before %s, after %s", name, n, next, last)
				}
				passed += n
				return true
			}
			err = errors.Join(err, s.Sweep(ctxTest, 0, in, func(m *Sight) bool {
				got, last = append(got, copyOf(m, brief)), m.Envelope.ID
				return true
			}))
			if err != nil || !reflect.DeepEqual(got, want) || passed+len(got) != c.of {
				t.Errorf("%s, brief %t: %d messages, want %d; %d passed over of %d; %v", name, brief, len(got), len(want), passed, c.of, err)
			}
		}
		// In pages that end wherever something was passed over, each is seen once.
		var whole, pages []mail.QueueID
		if err := s.Sweep(ctxTest, 0, c.in, func(m *Sight) bool { whole = append(whole, m.Envelope.ID); return true }); err != nil {
			t.Fatal(err)
		}
		for from, more := mail.QueueID(0), true; more; {
			more = false
			in := c.in
			in.Passed = func(_ int, next mail.QueueID) bool {
				if more {
					t.Errorf("%s: passed over after the end was requested", name)
				}
				from, more = next, true
				return false
			}
			if err := s.Sweep(ctxTest, from, in, func(m *Sight) bool { pages = append(pages, m.Envelope.ID); return true }); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(pages, whole) {
			t.Errorf("%s: %d messages in pages, want %d", name, len(pages), len(whole))
		}
	}
}

func someone(m *Sight, is func(*mail.RecipientOutcome) bool) bool {
	return slices.ContainsFunc(m.Recipients, func(r mail.RecipientOutcome) bool { return is(&r) })
}

func copyOf(m *Sight, brief bool) Sight {
	to := Sight{Summary: m.Summary, Recipients: slices.Clone(m.Recipients), Long: m.Long}
	if brief {
		to.Recipients, to.Long = nil, false
	}
	return to
}

// A message of which a part is damaged is seen with its error, and the others as they are.
func TestSweepOfDamaged(t *testing.T) {
	s := open(t, small(vfs.NewMem()))
	var ids []mail.QueueID
	for range 4 {
		a := accept(t, s, mail.Envelope{Sender: "bob@example.com"}, addresses(1), text(10))
		apply(t, s, mail.Change{Op: mail.ChangeDefer, ID: a.Envelope.ID, Place: a.Place, Due: 9, At: 1, Outcomes: []mail.Outcome{busy(0, 1)}})
		ids = append(ids, a.Envelope.ID)
	}
	damage(t, s, messageKey(keyEnvelope, ids[1]))
	damage(t, s, messageKey(keyState, ids[2]))
	at := 0
	err := s.Sweep(ctxTest, 0, Interest{}, func(m *Sight) bool {
		if m.Envelope.ID != ids[at] || m.Place.Area != mail.AreaDeferred || (m.Err != nil) != (at == 1 || at == 2) || m.Err != nil && (!m.Long || !errors.Is(m.Err, ErrCorrupt)) {
			t.Errorf("message %d: %+v", at, m)
		}
		at++
		return true
	})
	if err != nil || at != len(ids) {
		t.Errorf("%d of %d: %v", at, len(ids), err)
	}
	for of, in := range map[int]Interest{1: {Envelope: func(*mail.Envelope) bool { return false }}, 2: {Outcome: func(string, *mail.Outcome) bool { return false }}} {
		var got []mail.QueueID
		err := s.Sweep(ctxTest, 0, in, func(m *Sight) bool {
			if got = append(got, m.Envelope.ID); m.Err == nil {
				t.Errorf("%+v is not damaged", m)
			}
			return true
		})
		if err != nil || !slices.Equal(got, ids[of:of+1]) {
			t.Errorf("%v of %v meet a condition that only damaged mail meets: %v", got, ids, err)
		}
	}
}
