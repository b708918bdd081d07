package spool

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/posthaste-mta/posthaste/mail"
)

func doubtsOf(hosts ...string) (d *mail.Doubts) {
	for _, h := range hosts {
		d = d.With(netip.MustParseAddrPort(h))
	}
	return d
}

// How often it was unknown whether a host has a message is kept with the outcome: over restarts, later outcomes that are
// known, and a split, for messages with few recipients and with many, until the recipient is settled. It comes back with the recipients
// that are read for an attempt, since the core forgets them in between.
func TestDoubts(t *testing.T) {
	few, more := doubtsOf("192.0.2.1:25", "[2001:db8::1]:25", "192.0.2.1:25"), doubtsOf("192.0.2.1:25", "192.0.2.1:25", "192.0.2.1:25")
	for _, n := range []int{3, 300} {
		cfg := small(vfs.NewMem())
		s := mustOpen(t, cfg)
		a := accept(t, s, mail.Envelope{Sender: "bob@example.com"}, addresses(n), text(10))
		var list []mail.Outcome
		for i := range uint32(n) {
			o := busy(i, 1)
			if i > 0 {
				o.Doubts = few
			}
			list = append(list, o)
		}
		apply(t, s, mail.Change{Op: mail.ChangeRecord, ID: a.Envelope.ID, Place: a.Place, At: 1, Outcomes: list})
		into, err := s.Reserve(10)
		if err != nil {
			t.Fatal(err)
		}
		apply(t, s, mail.Change{Op: mail.ChangeRecord, ID: a.Envelope.ID, At: 2, Splits: []mail.Split{{Into: into, Recipients: []uint32{1}, Reason: "a test"}}})
		known, sent := busy(2, 3), busy(uint32(n-1), 3)
		sent.Result = mail.Delivered
		if n > 3 {
			again := busy(3, 3)
			again.Doubts = more
			apply(t, s, mail.Change{Op: mail.ChangeRecord, ID: a.Envelope.ID, At: 3, Outcomes: []mail.Outcome{known, again, sent}})
		} else {
			apply(t, s, mail.Change{Op: mail.ChangeRecord, ID: a.Envelope.ID, At: 3, Outcomes: []mail.Outcome{known}})
		}
		mustClose(t, s)
		s = open(t, cfg)
		got, _, err := s.Outcomes(ctxTest, a.Envelope.ID, 0, n)
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range got {
			want := few
			switch {
			case i < 2, n > 3 && i == n-1:
				want = nil
			case n > 3 && i == 3:
				want = more
			}
			if i != 1 && (!slices.Equal(o.Outcome.Doubts.All(), want.All()) || !slices.Equal(o.Recipient.Doubts.All(), want.All())) {
				t.Fatalf("recipient %d of %d has the doubts %v, to be tried with %v, want %v", i, n, o.Outcome.Doubts.All(), o.Recipient.Doubts.All(), want.All())
			}
		}
		if part, _, err := s.Outcomes(ctxTest, into, 0, n); err != nil || len(part) != 1 || !slices.Equal(part[0].Outcome.Doubts.All(), few.All()) {
			t.Errorf("the part of a message of %d recipients: %+v, %v", n, part, err)
		}
	}
}

// Values with doubts have a version of their own, which earlier versions of the program leave alone; no others have it.
func TestDoubtsVersion(t *testing.T) {
	o := busy(0, 1)
	o.Via.Source, o.Ordered = "s1", &mail.OrderedRoute{Target: "smtp:x"}
	if v := (&state{outcomes: outcomes{o}}).version(); v != valueOrdered {
		t.Errorf("without doubts, version %d", v)
	}
	o.Doubts = new(mail.Doubts)
	if v := (&state{outcomes: outcomes{o}}).version(); v != valueOrdered {
		t.Errorf("with no doubts, version %d", v)
	}
	o.Doubts = doubtsOf("192.0.2.1:25")
	if v := (&state{outcomes: outcomes{o, busy(1, 1)}}).version(); v != valueDoubts {
		t.Errorf("with doubts, version %d", v)
	}
}

// Doubts that make no sense are damage.
func TestDamagedDoubts(t *testing.T) {
	o := busy(0, 1)
	o.Doubts = doubtsOf("192.0.2.1:25")
	good := string(appendOutcomes(nil, outcomes{o}, 0))
	if back, err := decodeOutcomes(good, 0); err != nil || !slices.Equal(back[0].Doubts.All(), o.Doubts.All()) {
		t.Fatalf("%+v, %v", back, err)
	}
	for i := range mail.DoubtsMost + 2 {
		bad := appendDoubts(nil, make([]mail.Doubt, i))
		d := decoder{rest: string(bad)}
		if d.doubts(); !d.bad {
			t.Errorf("%d doubts without a host are taken", i)
		}
	}
}
