package spool

import (
	"bytes"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// owing returns the indexes of the recipients of a message about whom a report of a kind is owed.
func owing(t *testing.T, s *Spool, id mail.QueueID, kind mail.ReportKind) (list []uint32) {
	t.Helper()
	all, _, err := s.Outcomes(ctxTest, id, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, ro := range all {
		if ro.Outcome.Report == kind {
			list = append(list, ro.Recipient.Index)
		}
	}
	return list
}

// When a deadline passes, those are given up to whom no delivery is under way. These are recorded later,
// as whatever becomes of them; what was recorded stands.
func TestExpireExcept(t *testing.T) {
	for _, n := range []int{4, 700} { // in one list, and in chunks
		s := open(t, small(vfs.NewMem()))
		id := accept(t, s, mail.Envelope{Sender: "s@example.com", By: mail.DeliverBy{At: 5, Mode: mail.ByReturn}}, addresses(n), text(10)).Envelope.ID
		last := uint32(n - 1)
		delivered := func(i uint32) mail.Outcome { return mail.Outcome{Index: i, Result: mail.Delivered, At: 4} }
		c := mail.Change{Op: mail.ChangeExpire, ID: id, At: 5, Outcomes: []mail.Outcome{delivered(0)}, Except: []uint32{1, last}}
		for range 2 { // a change may be repeated
			if got := apply(t, s, c)[0]; !got.Reports || got.Place.Area != mail.AreaIncoming {
				t.Fatalf("%+v", got)
			}
		}
		failed := owing(t, s, id, mail.ReportFailed)
		if len(failed) != n-3 || slices.Contains(failed, 0) || slices.Contains(failed, 1) || slices.Contains(failed, last) {
			t.Errorf("given up are %v of %d", failed, n)
		}
		apply(t, s, mail.Change{Op: mail.ChangeRecord, ID: id, At: 6, Outcomes: []mail.Outcome{delivered(1), delivered(2), {Index: last, Result: mail.Deferred, At: 6, Reply: mail.Reply{Code: 450, Text: "not now"}}}})
		apply(t, s, mail.Change{Op: mail.ChangeExpire, ID: id, At: 7})
		all, _, err := s.Outcomes(ctxTest, id, 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range map[uint32]mail.Result{0: mail.Delivered, 1: mail.Delivered, 2: mail.Failed, last: mail.Failed} {
			if o := all[i].Outcome; o.Result != want || o.Expired != (want == mail.Failed) {
				t.Errorf("recipient %d of %d: %+v, want %v", i, n, o, want)
			}
		}
		if o := all[last].Outcome; o.Reply.Text != "not now" || o.At != 6 {
			t.Errorf("the last words are %+v", o)
		}
	}
}

// That a deadline has passed is reported once, whatever else is reported of a delay, and is not forgotten in a crash,
// nor where recipients are split off.
func TestLate(t *testing.T) {
	mem := vfs.NewCrashableMem()
	s := mustOpen(t, small(mem))
	by := mail.DeliverBy{At: 5, Mode: mail.ByNotify}
	id := accept(t, s, mail.Envelope{Sender: "s@example.com", Arrived: 1, By: by}, []mail.Recipient{{Address: "a@example.com"}, {Address: "b@example.com", Notify: mail.NotifyFailure},
		{Address: "c@example.com", Notify: mail.NotifyDelay}, {Address: "d@example.com", Notify: mail.NotifyNever}, {Address: "e@example.com"}}, text(10)).Envelope.ID
	reported := mail.Change{Op: mail.ChangeReported, ID: id, Outcomes: []mail.Outcome{{Index: 0}, {Index: 2}}}
	late := mail.Change{Op: mail.ChangeLate, ID: id, At: 5, Outcomes: []mail.Outcome{{Index: 4, Result: mail.Delivered}}}
	for i, c := range []mail.Change{{Op: mail.ChangeWarn, ID: id, At: 4}, late} {
		apply(t, s, c)
		want := [][]uint32{{0, 2, 4}, {0, 2}}[i]
		if got := owing(t, s, id, mail.ReportDelayed); !slices.Equal(got, want) {
			t.Errorf("%v owes %v, want %v", c.Op, got, want)
		}
		apply(t, s, reported)
	}
	into, err := s.Reserve(0)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, s, mail.Change{Op: mail.ChangeRecord, ID: id, At: 6, Splits: []mail.Split{{Into: into, Recipients: []uint32{2}, Reason: "why"}}})
	crashed := mem.CrashClone(vfs.CrashCloneCfg{})
	mustClose(t, s)
	s = open(t, small(crashed))
	for _, id := range []mail.QueueID{id, into} {
		apply(t, s, mail.Change{Op: mail.ChangeLate, ID: id, At: 7})
		if got := owing(t, s, id, mail.ReportDelayed); len(got) > 0 {
			t.Errorf("%v owes it again to %v", id, got)
		}
		m, err := s.Lookup(ctxTest, id)
		if err != nil || !m.Envelope.Late || m.Envelope.By != by {
			t.Errorf("%+v, %v", m.Envelope, err)
		}
	}
}

// To earlier versions of the program, which would report it again, the state is a value of a later version.
func TestLateIsOfALaterVersion(t *testing.T) {
	s := open(t, small(vfs.NewMem()))
	for op, want := range map[mail.ChangeOp]byte{mail.ChangeWarn: valueVersion, mail.ChangeLate: valueLate} {
		id := accept(t, s, mail.Envelope{Sender: "s@example.com"}, addresses(1), text(10)).Envelope.ID
		apply(t, s, mail.Change{Op: op, ID: id, At: 5})
		k := messageKey(keyState, id)
		value, closer, err := s.db.Get(k.bytes())
		if err != nil {
			t.Fatal(err)
		}
		if value[0] != want {
			t.Errorf("after %v the state has version %d, want %d", op, value[0], want)
		}
		closer.Close()
	}
	st := state{area: mail.AreaDeferred, bucket: 7, due: 3, late: true, released: 9, recipients: 1}
	got, err := decodeState(string(appendState(nil, &st)))
	if err != nil || !got.late || got.warned || got.released != 9 || !bytes.Equal(appendState(nil, got), appendState(nil, &st)) {
		t.Errorf("%+v, %v", got, err)
	}
}
