package spool

import (
	"strconv"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// The way of an attempt is kept with its outcome: in the state of a message with few recipients and in the
// chunks of one with many, over a restart, and in a message that is split off. Recipients with the same reply
// may have different ways.
func TestVia(t *testing.T) {
	via := func(i uint32) mail.Via {
		return mail.Via{Transport: "smtp", Nexthop: "{mx" + strconv.Itoa(int(i%3)) + ".example}", Source: "s" + strconv.Itoa(int(i%2))}
	}
	for _, n := range []int{3, 300} {
		cfg := small(vfs.NewMem())
		s := mustOpen(t, cfg)
		a := accept(t, s, mail.Envelope{Sender: "bob@example.com"}, addresses(n), text(10))
		var list []mail.Outcome
		for i := range uint32(n) {
			o := busy(i, 1)
			o.Via = via(i)
			list = append(list, o)
		}
		apply(t, s, mail.Change{Op: mail.ChangeDefer, ID: a.Envelope.ID, Place: a.Place, Due: 5, At: 1, Outcomes: list})
		into, err := s.Reserve(10)
		if err != nil {
			t.Fatal(err)
		}
		apply(t, s, mail.Change{Op: mail.ChangeRecord, ID: a.Envelope.ID, At: 2, Splits: []mail.Split{{Into: into, Recipients: []uint32{1}, Reason: "a test"}}})
		mustClose(t, s)
		s = open(t, cfg)
		got, _, err := s.Outcomes(ctxTest, a.Envelope.ID, 0, n)
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range got {
			if i != 1 && o.Outcome.Via != via(uint32(i)) {
				t.Fatalf("recipient %d of %d has the way %+v", i, n, o.Outcome.Via)
			}
		}
		if part, _, err := s.Outcomes(ctxTest, into, 0, n); err != nil || len(part) != 1 || part[0].Outcome.Via != via(1) {
			t.Errorf("the part of a message of %d recipients: %+v, %v", n, part, err)
		}
	}
}

// Earlier versions cannot read values with a way, and must leave such a message alone instead of
// taking it for damaged: these values have a version of their own, and no others have it.
func TestViaVersion(t *testing.T) {
	o := busy(0, 1)
	if v := (&state{outcomes: outcomes{o}}).version(); v != valueVersion {
		t.Errorf("without a way, version %d", v)
	}
	o.Via.Source = "s1"
	if v := (&state{late: true, outcomes: outcomes{busy(1, 1), o}}).version(); v != valueVia {
		t.Errorf("with a way, version %d", v)
	}
}
