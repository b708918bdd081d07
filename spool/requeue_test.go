package spool

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// requeue returns the change that requeues recipients of a message, and the ID of the new one.
func requeue(t *testing.T, s *Spool, id mail.QueueID, r mail.Requeue, recipients ...uint32) (mail.Change, mail.QueueID) {
	t.Helper()
	into, err := s.Reserve(0)
	if err != nil {
		t.Fatal(err)
	}
	return mail.Change{Op: mail.ChangeRecord, ID: id, At: 90, Splits: []mail.Split{{Into: into, Recipients: recipients, Requeue: &r}}}, into
}

// shown are the recipients of a message with what is known of them, without indexes.
func shown(t *testing.T, s *Spool, id mail.QueueID) (list []mail.RecipientOutcome) {
	t.Helper()
	list, _, err := s.Outcomes(ctxTest, id, 0, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if one := &list[i]; one.Recipient.Index != uint32(i) || one.Outcome.Index != uint32(i) {
			t.Fatalf("recipient %d has the indexes %d and %d", i, one.Recipient.Index, one.Outcome.Index)
		}
		list[i].Recipient.Index, list[i].Outcome.Index = 0, 0
	}
	return list
}

// A message is deferred three times, and then requeued: the new one has its arrival, its reports and its content, the
// addresses of today, no attempts, and is due at once. The original is gone in the same step. The
// step may be repeated, which is answered as before.
func TestRequeue(t *testing.T) {
	for _, size := range []int{100, 60_000} {
		cfg := small(vfs.NewMem())
		s := mustOpen(t, cfg)
		given := addresses(4)
		given[1].Notify, given[1].ORcpt = mail.NotifyFailure, "rfc822;old"
		env := mail.Envelope{Sender: "a@example.com", EnvID: "e", Ret: mail.RetHeaders, Arrived: 5, Flow: testFlow(1), Client: mail.Client{Helo: "h", Proto: "ESMTP"}}
		id := accept(t, s, env, given, text(size)).Envelope.ID
		apply(t, s, mail.Change{Op: mail.ChangeDefer, ID: id, At: 10, Due: 1000, Outcomes: []mail.Outcome{sent(3, 9), busy(0, 9), busy(1, 9)}},
			mail.Change{Op: mail.ChangeWarn, ID: id, At: 20}, mail.Change{Op: mail.ChangeReported, ID: id, Outcomes: []mail.Outcome{{Index: 0}, {Index: 2}}})
		r := mail.Requeue{Sender: "b@example.com", Flow: testFlow(3), To: []mail.Replacement{
			{Of: 1, Address: "x@example.net", ORcpt: "rfc822;new", Notify: mail.NotifyNever}, {Of: 1, Address: "user2@EXAMPLE.org", Notify: mail.NotifyFailure},
			{Of: 3, Address: "never@example.net"}}}
		change, into := requeue(t, s, id, r, 0, 1, 2, 3)
		wantPlace := mail.Place{Area: mail.AreaDeferred, Due: 90, File: size > 10_000, Touched: true, Bucket: r.Flow.Bucket()}
		want := mail.Changed{ID: id, Requeued: []mail.Requeued{{ID: into, Place: wantPlace}}}
		for range 2 {
			if got := apply(t, s, change)[0]; !reflect.DeepEqual(got, want) {
				t.Fatalf("of %d octets: %+v, want %+v", size, got, want)
			}
			if _, err := s.Lookup(ctxTest, id); !errors.Is(err, ErrGone) {
				t.Errorf("the original is there: %v", err)
			}
		}
		mustClose(t, s)
		s = open(t, cfg)
		m, err := s.Lookup(ctxTest, into)
		env.ID, env.Sender, env.Flow, env.Requeued, env.Recipients, env.Size, env.Warned = into, r.Sender, r.Flow, id, 3, int64(size), true
		if err != nil || m.Envelope != env || m.Place != wantPlace || m.Settled != 0 || m.Reason != "" {
			t.Errorf("%+v at %+v, %v\nwant %+v", m.Envelope, m.Place, err, env)
		}
		wantList := []mail.RecipientOutcome{{Recipient: mail.Recipient{Address: "user0@example.org"}},
			{Recipient: mail.Recipient{Address: "x@example.net", ORcpt: "rfc822;new", Notify: mail.NotifyNever}},
			{Recipient: mail.Recipient{Address: "user2@EXAMPLE.org", Notify: mail.NotifyFailure}}}
		if got := shown(t, s, into); !reflect.DeepEqual(got, wantList) {
			t.Errorf("%+v, want %+v", got, wantList)
		}
		if due := inArea(t, s, mail.AreaDeferred); !slices.Equal(due, []mail.QueueID{into}) {
			t.Errorf("%v are deferred", due)
		}
		s.deleteFile(id) // which happens in the background
		if body, err := contentOf(s, into); err != nil || !bytes.Equal(body, text(size)) {
			t.Errorf("%d octets of content, %v", len(body), err)
		}
		apply(t, s, mail.Change{Op: mail.ChangeRemove, ID: into})
		s.deleteFile(into)
		checkNoRemains(t, s)
	}
}

// Without other addresses, addresses are not compared: a recipient who was named twice stays so.
func TestRequeueUnchanged(t *testing.T) {
	s := open(t, small(vfs.NewMem()))
	given := addresses(2)
	given[1].Address = given[0].Address
	id := accept(t, s, mail.Envelope{Sender: "a@example.com"}, given, text(9)).Envelope.ID
	change, into := requeue(t, s, id, mail.Requeue{Sender: "a@example.com"}, 0, 1)
	apply(t, s, change)
	if got := shown(t, s, into); len(got) != 2 {
		t.Errorf("%+v", got)
	}
}

// Some recipients of a message are requeued, or all that wait while a report is owed: then it stays, for the others or
// for the report.
func TestRequeueLeaves(t *testing.T) {
	for _, c := range []struct {
		outcomes []mail.Outcome
		some     []uint32
		stays    bool
	}{
		{nil, []uint32{0}, true},
		{[]mail.Outcome{{Index: 1, Result: mail.Failed, Report: mail.ReportFailed, Reply: mail.Reply{Code: 550}, At: 1}}, []uint32{0, 1}, true},
		{[]mail.Outcome{{Index: 1, Result: mail.Failed, Reply: mail.Reply{Code: 550}, At: 1}}, []uint32{0, 1}, false},
		{[]mail.Outcome{sent(0, 1), sent(1, 1)}, []uint32{0, 1}, false},
	} {
		s := open(t, small(vfs.NewMem()))
		id := accept(t, s, mail.Envelope{Sender: "a@example.com"}, addresses(2), text(9)).Envelope.ID
		change, into := requeue(t, s, id, mail.Requeue{Sender: "a@example.com"}, c.some...)
		change.Outcomes = c.outcomes
		got := apply(t, s, change)[0]
		if stays := got.Place.Area == mail.AreaIncoming; stays != c.stays {
			t.Errorf("%+v: %+v", c, got)
		}
		_, err := s.Lookup(ctxTest, into)
		if made := err == nil; made != (len(got.Requeued) == 1) || made != (len(c.outcomes) < 2) {
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
	}
}

// A held message stays held, for the same reason and as long. One that is in the corrupt area stays as it is.
func TestRequeueHeld(t *testing.T) {
	s := open(t, small(vfs.NewMem()))
	kept := accept(t, s, mail.Envelope{Sender: "a@example.com", Arrived: 5, Release: 700}, addresses(1), text(9)).Envelope.ID
	held := accept(t, s, mail.Envelope{Sender: "a@example.com"}, addresses(1), text(9)).Envelope.ID
	damaged := accept(t, s, mail.Envelope{Sender: "a@example.com"}, addresses(1), text(9)).Envelope.ID
	apply(t, s, mail.Change{Op: mail.ChangeHold, ID: held, Due: 800, Reason: "look at it"}, mail.Change{Op: mail.ChangeCorrupt, ID: damaged, Reason: "by hand"})
	for _, c := range []struct {
		id     mail.QueueID
		due    mail.Instant
		reason string
	}{{kept, 700, KeptReason}, {held, 800, "look at it"}} {
		change, into := requeue(t, s, c.id, mail.Requeue{Sender: "b@example.com"}, 0)
		apply(t, s, change)
		m, err := s.Lookup(ctxTest, into)
		if err != nil || m.Place.Area != mail.AreaHold || m.Place.Due != c.due || m.Reason != c.reason || m.Envelope.Sender != "b@example.com" {
			t.Errorf("%+v: %+v %v", c, m, err)
		}
		if c.id == kept { // what its sender has it kept for comes
			if got := apply(t, s, mail.Change{Op: mail.ChangeLapse, ID: into, At: 701})[0]; got.Place.Area != mail.AreaDeferred {
				t.Errorf("it has lapsed to %+v", got)
			}
		}
	}
	change, into := requeue(t, s, damaged, mail.Requeue{Sender: "b@example.com"}, 0)
	if got := apply(t, s, change)[0]; got.Place.Area != mail.AreaCorrupt || got.Requeued != nil {
		t.Errorf("%+v", got)
	}
	if _, err := s.Lookup(ctxTest, into); !errors.Is(err, ErrGone) {
		t.Errorf("a damaged message was requeued: %v", err)
	}
}

// What an operator has ordered for a recipient goes along only if that is wanted, and which hosts may have
// the message only with the same address. A delay report that is owed is made of the new message.
func TestRequeueKnown(t *testing.T) {
	for _, keep := range []bool{false, true} {
		s := open(t, small(vfs.NewMem()))
		id := accept(t, s, mail.Envelope{Sender: "a@example.com"}, addresses(2), text(9)).Envelope.ID
		doubtful := func(i uint32) mail.Outcome {
			o := busy(i, 9)
			o.Doubts, o.Via = doubtsOf("192.0.2.1:25"), mail.Via{Transport: "smtp", Nexthop: "x"}
			return o
		}
		apply(t, s, mail.Change{Op: mail.ChangeDefer, ID: id, At: 10, Due: 99, Outcomes: []mail.Outcome{doubtful(0), doubtful(1)},
			Reroutes: []mail.Reroute{{Recipients: []uint32{0, 1}, To: &relay}}}, mail.Change{Op: mail.ChangeWarn, ID: id, At: 10})
		change, into := requeue(t, s, id, mail.Requeue{Sender: "a@example.com", KeepRoute: keep, To: []mail.Replacement{{Of: 1, Address: "x@example.net"}}}, 0, 1)
		if got := apply(t, s, change)[0]; !got.Requeued[0].Place.Owes {
			t.Errorf("no report is owed: %+v", got)
		}
		list := shown(t, s, into)
		for i, one := range list {
			o := one.Outcome
			if routed := o.Ordered != nil && *o.Ordered == relay; routed != keep {
				t.Errorf("keep %v: recipient %d has the route %v", keep, i, o.Ordered)
			}
			if doubts := len(o.Doubts.All()) > 0; doubts != (i == 0) {
				t.Errorf("recipient %d has the doubts %v", i, o.Doubts)
			}
			if o.Via != (mail.Via{}) || o.Report != mail.ReportDelayed || o.Reply != busy(0, 9).Reply || o.At != 9 {
				t.Errorf("recipient %d: %+v", i, o)
			}
		}
		if debts, _, err := s.Debts(ctxTest, into, 0, 9); err != nil || len(debts) != 2 {
			t.Errorf("%+v %v", debts, err)
		}
	}
}

// When the disk is full, or content cannot be read, the message is as it was before.
func TestRequeueFails(t *testing.T) {
	for _, size := range []int{100, 60_000} {
		failing := false
		s := open(t, small(errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if failing && (op.Kind == errorfs.OpLink || op.Kind == errorfs.OpCreate) {
				return syscall.ENOSPC
			}
			return nil
		}))))
		id := accept(t, s, mail.Envelope{Sender: "a@example.com"}, addresses(2), text(size)).Envelope.ID
		change, into := requeue(t, s, id, mail.Requeue{Sender: "b@example.com"}, 0, 1)
		k := messageKey(keyBody, id)
		_, closer, err := s.db.Get(k.bytes())
		switch {
		case size > 10_000:
			failing = true
		case err != nil:
			t.Fatal(err)
		default:
			if err := errors.Join(closer.Close(), s.db.Set(k.bytes(), []byte("x"), nil)); err != nil {
				t.Fatal(err)
			}
		}
		got, err := s.Apply(ctxTest, []mail.Change{change})
		if size > 10_000 && err == nil {
			t.Errorf("it was requeued: %+v", got)
		}
		if size < 10_000 && (err != nil || got[0].Place.Area != mail.AreaCorrupt || got[0].Requeued != nil) {
			t.Errorf("%+v %v", got, err)
		}
		if m, err := s.Lookup(ctxTest, id); err != nil || m.Settled != 0 || m.Envelope.Sender != "a@example.com" {
			t.Errorf("the original: %+v %v", m, err)
		}
		if _, err := s.Lookup(ctxTest, into); !errors.Is(err, ErrGone) {
			t.Errorf("the new message: %v", err)
		}
		if failing {
			failing = false
			if got := apply(t, s, change); got[0].Place.Area != mail.AreaNone || len(got[0].Requeued) != 1 {
				t.Errorf("tried again: %+v", got)
			}
		}
	}
}

// Earlier versions leave the new envelope alone, since they do not know all of its fields.
func TestRequeuedVersion(t *testing.T) {
	s := open(t, small(vfs.NewMem()))
	id := accept(t, s, mail.Envelope{Sender: "a@example.com"}, addresses(1), text(9)).Envelope.ID
	change, into := requeue(t, s, id, mail.Requeue{Sender: "a@example.com"}, 0)
	apply(t, s, change)
	k := messageKey(keyEnvelope, into)
	value, closer, err := s.db.Get(k.bytes())
	if err != nil || value[0] != valueMore {
		t.Errorf("%v, version %d", err, value[0])
	}
	if err := closer.Close(); err != nil {
		t.Error(err)
	}
}

// Counts by flow follow a message to its new flow, and are right after a repetition.
func TestRequeueCounts(t *testing.T) {
	s := open(t, counting(vfs.NewMem()))
	counted(t, s)
	id := accept(t, s, mail.Envelope{Sender: "a@example.com", Flow: testFlow(1)}, addresses(2), text(50)).Envelope.ID
	change, _ := requeue(t, s, id, mail.Requeue{Sender: "a@example.com", Flow: testFlow(2)}, 0, 1)
	for range 2 {
		apply(t, s, change)
		checkCounts(t, s)
		if was, is := s.Waiting(testFlow(1)), s.Waiting(testFlow(2)); was.Flow.Messages != 0 || is.Flow.Messages != 1 || is.Flow.Octets != 50 {
			t.Errorf("%+v, %+v", was, is)
		}
	}
}

// An address stands for itself and an archive, which has got the mail long ago, while the server of the first is down. The archive does not
// get it again, nor does who waits for it in the original. Someone who now stands for nobody but those does: rather twice
// than not at all.
func TestRequeueServed(t *testing.T) {
	for _, n := range []int{5, 600} {
		s := open(t, small(vfs.NewMem()))
		id := accept(t, s, mail.Envelope{Sender: "a@example.com"}, addresses(n), text(9)).Envelope.ID
		failed := mail.Outcome{Index: 3, Result: mail.Failed, Reply: mail.Reply{Code: 550}, At: 1}
		last := uint32(n - 1)
		both := []mail.Replacement{{Of: 0, Address: "user0@example.org"}, {Of: 0, Address: "user1@EXAMPLE.org"}, {Of: 0, Address: "user2@example.org"}, {Of: 0, Address: "user3@example.org"},
			{Of: last, Address: "user1@example.org"}, {Of: last, Address: "user2@example.org"}}
		change, into := requeue(t, s, id, mail.Requeue{Sender: "a@example.com", To: both}, 0, last)
		change.Outcomes = []mail.Outcome{sent(1, 1), failed}
		apply(t, s, change)
		var got []mail.Address
		for _, one := range shown(t, s, into) {
			got = append(got, one.Recipient.Address)
		}
		if want := []mail.Address{"user0@example.org", "user3@example.org", "user1@example.org", "user2@example.org"}; !slices.Equal(got, want) {
			t.Errorf("of %d: %v, want %v", n, got, want)
		}
	}
}
