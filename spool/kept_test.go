package spool

import (
	"bytes"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// A message whose sender has it kept is in the hold area from the moment on at which it is durable,
// after a crash too, and only the end of its time, or an operator, moves it.
func TestKept(t *testing.T) {
	const release = mail.Instant(1_900_000_000 * time.Second)
	mem := vfs.NewCrashableMem()
	s := mustOpen(t, small(mem))
	kept := accept(t, s, mail.Envelope{Sender: "s@example.com", Arrived: 1, Release: release}, addresses(300), text(10))
	let := accept(t, s, mail.Envelope{Arrived: 1, Release: release}, addresses(1), text(10))
	held := accept(t, s, mail.Envelope{Arrived: 1, Release: release}, addresses(1), text(20_000))
	if p := kept.Place; p.Area != mail.AreaHold || p.Due != release || !p.Touched {
		t.Fatalf("the core gets the place %+v", p)
	}
	crashed := mem.CrashClone(vfs.CrashCloneCfg{})
	mustClose(t, s)
	s = open(t, small(crashed))

	if got := inArea(t, s, mail.AreaIncoming); len(got) > 0 {
		t.Errorf("%v are new mail", got)
	}
	found, err := s.Fetch(ctxTest, mail.AreaHold, mail.Cursor{Due: 1}, mail.Never, 10)
	if err != nil || len(found.Cursors) != 3 || found.Cursors[0].Due != release {
		t.Fatalf("found %+v, %v", found, err)
	}
	m, err := s.Lookup(ctxTest, kept.Envelope.ID)
	if err != nil || m.Envelope.Release != release || m.Reason != KeptReason {
		t.Errorf("it is %+v, %v", m, err)
	}
	change := func(a mail.Arrival, op mail.ChangeOp, at mail.Instant) mail.Changed {
		t.Helper()
		done, err := s.Apply(ctxTest, []mail.Change{{Op: op, ID: a.Envelope.ID, At: at, Due: map[mail.ChangeOp]mail.Instant{mail.ChangeRelease: at}[op]}})
		if err != nil {
			t.Fatal(err)
		}
		return done[0]
	}
	if got := change(kept, mail.ChangeLapse, release-1); got.Place.Area != mail.AreaHold {
		t.Errorf("before its time it goes to %+v", got.Place)
	}
	if got := change(kept, mail.ChangeLapse, release); got.Place.Area != mail.AreaDeferred || got.Place.Due != release {
		t.Errorf("at its time it goes to %+v", got.Place)
	}
	const early = release - mail.Instant(time.Hour)
	if got := change(let, mail.ChangeRelease, early); got.Place.Area != mail.AreaDeferred || got.Place.Due != early {
		t.Errorf("released it goes to %+v", got.Place)
	}
	if got := change(held, mail.ChangeHold, early); got.Place.Area != mail.AreaHold || got.Place.Due != 0 {
		t.Errorf("held it goes to %+v", got.Place)
	}
	if got := change(held, mail.ChangeLapse, release+1); got.Place.Area != mail.AreaHold {
		t.Errorf("what an operator holds goes to %+v", got.Place)
	}
	for a, want := range map[mail.QueueID]mail.Instant{kept.Envelope.ID: release, let.Envelope.ID: early, held.Envelope.ID: early} {
		if m, err := s.Lookup(ctxTest, a); err != nil || m.Envelope.Since() != want {
			t.Errorf("the age counts from %v, want %v (%v)", m.Envelope.Since(), want, err)
		}
	}
}

// Recipients whom an operator holds without the others wait for him, whatever date the sender has named: sent after a
// release, they are as old as if the date had been then.
func TestSplitOffKept(t *testing.T) {
	const release = mail.Instant(1_900_000_000 * time.Second)
	s := open(t, small(vfs.NewMem()))
	kept := accept(t, s, mail.Envelope{Sender: "s@example.com", Arrived: 1, Release: release}, addresses(2), text(10)).Envelope.ID
	into, err := s.Reserve(0)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, s, mail.Change{Op: mail.ChangeRecord, ID: kept, At: 5, Splits: []mail.Split{{Into: into, Recipients: []uint32{1}, Reason: "why"}}})
	apply(t, s, mail.Change{Op: mail.ChangeRelease, ID: into, At: 7, Due: 7})
	for id, want := range map[mail.QueueID]mail.Instant{kept: release, into: 5} {
		if m, err := s.Lookup(ctxTest, id); err != nil || m.Envelope.Since() != want {
			t.Errorf("the age of %v counts from %v, want %v (%v)", id, m.Envelope.Since(), want, err)
		}
	}
}

// Earlier versions of the program remove held mail whose time is up: to them the state is a value
// of a later version, which they leave alone.
func TestKeptIsOfALaterVersion(t *testing.T) {
	s := open(t, small(vfs.NewMem()))
	a := accept(t, s, mail.Envelope{Arrived: 1, Release: 2}, addresses(1), text(10))
	for _, kind := range []byte{keyState, keyEnvelope} {
		k := messageKey(kind, a.Envelope.ID)
		value, closer, err := s.db.Get(k.bytes())
		if err != nil {
			t.Fatal(err)
		}
		if value[0] <= valueHead {
			t.Errorf("the value of %q has version %d", k.bytes(), value[0])
		}
		closer.Close()
	}
}

// A message that was damaged for a while goes on being kept.
func TestKeptAfterDamage(t *testing.T) {
	const release = mail.Instant(1_900_000_000 * time.Second)
	mem := vfs.NewMem()
	s := mustOpen(t, small(mem))
	a := accept(t, s, mail.Envelope{Arrived: 1, Release: release}, addresses(1), text(10))
	k := messageKey(keyBody, a.Envelope.ID)
	repair := damage(t, s, k)
	if _, err := s.Apply(ctxTest, []mail.Change{{Op: mail.ChangeCorrupt, ID: a.Envelope.ID, Reason: "test"}}); err != nil {
		t.Fatal(err)
	}
	repair()
	done, err := s.Apply(ctxTest, []mail.Change{{Op: mail.ChangeRelease, ID: a.Envelope.ID, At: 5, Due: 5}})
	if err != nil || done[0].Place.Area != mail.AreaHold || done[0].Place.Due != release {
		t.Errorf("it is at %+v, %v", done, err)
	}
	mustClose(t, s)
}

// What the encoding of a state has, decoding finds.
func TestKeptState(t *testing.T) {
	st := state{area: mail.AreaHold, bucket: 7, due: 3, kept: true, released: 9, recipients: 1}
	got, err := decodeState(string(appendState(nil, &st)))
	if err != nil || !got.kept || got.released != 9 || got.due != 3 || !bytes.Equal(appendState(nil, got), appendState(nil, &st)) {
		t.Errorf("%+v, %v", got, err)
	}
}
