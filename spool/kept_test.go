package spool

import (
	"bytes"
	"errors"
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
	for a, want := range map[mail.QueueID]mail.Instant{kept.Envelope.ID: release, let.Envelope.ID: early, held.Envelope.ID: release} {
		if m, err := s.Lookup(ctxTest, a); err != nil || m.Envelope.Since() != want {
			t.Errorf("the age counts from %v, want %v (%v)", m.Envelope.Since(), want, err)
		}
	}
}

// An operator holds a message that its sender has kept. Released before the date it waits for that, as before; released
// after it, it is due at once. It is as old as if it had not been held. Each state is found again after a crash.
func TestKeptAndHeld(t *testing.T) {
	const release = mail.Instant(1_900_000_000 * time.Second)
	const early = release - mail.Instant(time.Hour)
	mem := vfs.NewCrashableMem()
	s := mustOpen(t, small(mem))
	a := accept(t, s, mail.Envelope{Sender: "s@example.com", Arrived: 1, Release: release}, addresses(300), text(10)).Envelope.ID
	step := func(op mail.ChangeOp, at mail.Instant, area mail.Area, due mail.Instant, reason string) {
		t.Helper()
		c := mail.Change{Op: op, ID: a, At: at}
		switch op {
		case mail.ChangeHold:
			c.Reason = "an operator"
		case mail.ChangeRelease:
			c.Due = at
		}
		got := apply(t, s, c)[0].Place
		crashed := mem.CrashClone(vfs.CrashCloneCfg{})
		mustClose(t, s)
		mem = crashed
		s = mustOpen(t, small(mem))
		m, err := s.Lookup(ctxTest, a)
		if err != nil || got.Area != area || got.Due != due || m.Place.Area != area || m.Place.Due != due || m.Reason != reason {
			t.Fatalf("after %v at %v: %+v, %+v %q, %v", op, at, got, m.Place, m.Reason, err)
		}
		found, err := s.Fetch(ctxTest, area, mail.Cursor{Due: 1}, mail.Never, 10)
		if err != nil || (len(found.Cursors) == 1) != (due > 0) {
			t.Fatalf("after %v at %v: %+v, %v", op, at, found, err)
		}
	}
	step(mail.ChangeHold, early, mail.AreaHold, 0, "an operator")
	step(mail.ChangeRelease, early+1, mail.AreaHold, release, KeptReason)
	step(mail.ChangeLapse, release-1, mail.AreaHold, release, KeptReason)
	step(mail.ChangeHold, early+2, mail.AreaHold, 0, "an operator")
	step(mail.ChangeHold, early+3, mail.AreaHold, 0, "an operator") // once more
	step(mail.ChangeLapse, release+1, mail.AreaHold, 0, "an operator")
	step(mail.ChangeRelease, release, mail.AreaDeferred, release, "")
	if m, err := s.Lookup(ctxTest, a); err != nil || m.Envelope.Since() != release {
		t.Errorf("the age counts from %v, want %v (%v)", m.Envelope.Since(), release, err)
	}
	step(mail.ChangeHold, release+1, mail.AreaHold, 0, "an operator")
	step(mail.ChangeRelease, release+2, mail.AreaDeferred, release+2, "")
	mustClose(t, s)
}

// A milter has a message held whose sender has it kept: an operator who releases it does not send it before its
// date.
func TestKeptAndQuarantined(t *testing.T) {
	const release = mail.Instant(1_900_000_000 * time.Second)
	s := open(t, small(vfs.NewMem()))
	d := draft(t, s, addresses(1), text(10))
	d.Hold("a milter")
	if err := d.Commit(ctxTest, mail.Envelope{Sender: "s@example.com", Arrived: 1, Release: release}); err != nil {
		t.Fatal(err)
	}
	id := d.ID()
	if p := d.Arrival().Place; p.Area != mail.AreaHold || p.Due != 0 {
		t.Fatalf("it is at %+v", p)
	}
	if got := apply(t, s, mail.Change{Op: mail.ChangeLapse, ID: id, At: release})[0].Place; got.Area != mail.AreaHold || got.Due != 0 {
		t.Errorf("at its date it is at %+v", got)
	}
	if got := apply(t, s, mail.Change{Op: mail.ChangeRelease, ID: id, At: 5, Due: 5})[0].Place; got.Area != mail.AreaHold || got.Due != release {
		t.Errorf("released it is at %+v", got)
	}
}

// All recipients of a message that is held, and kept, were given up, so that it only has to go: a release does not have it
// wait for its date.
func TestKeptAndHeldSettled(t *testing.T) {
	const release = mail.Instant(1_900_000_000 * time.Second)
	s := open(t, small(vfs.NewMem()))
	a := accept(t, s, mail.Envelope{Sender: "s@example.com", Arrived: 1, Release: release}, addresses(2), text(10)).Envelope.ID
	given := []mail.Outcome{{Result: mail.Failed, At: 6, Report: mail.ReportFailed}, {Index: 1, Result: mail.Failed, At: 6, Report: mail.ReportFailed}}
	apply(t, s, mail.Change{Op: mail.ChangeHold, ID: a, At: 5}, mail.Change{Op: mail.ChangeRecord, ID: a, At: 6, Outcomes: given[:1]})
	if got := apply(t, s, mail.Change{Op: mail.ChangeRelease, ID: a, At: 7, Due: 7})[0].Place; got.Due != release {
		t.Errorf("with a recipient who waits it is at %+v", got)
	}
	apply(t, s, mail.Change{Op: mail.ChangeHold, ID: a, At: 8}, mail.Change{Op: mail.ChangeRecord, ID: a, At: 9, Outcomes: given})
	if got := apply(t, s, mail.Change{Op: mail.ChangeRelease, ID: a, At: 10, Due: 10})[0].Place; got.Area != mail.AreaDeferred || got.Due != 10 {
		t.Errorf("it is at %+v", got)
	}
}

// Of a message whose state was lost it is not known that its sender has it kept, but the envelope has the date.
func TestKeptWithLostState(t *testing.T) {
	const release = mail.Instant(1_900_000_000 * time.Second)
	s := open(t, small(vfs.NewMem()))
	a := accept(t, s, mail.Envelope{Arrived: 1, Release: release}, addresses(1), text(10)).Envelope.ID
	flip(t, s, messageKey(keyState, a))
	if got := apply(t, s, mail.Change{Op: mail.ChangeHold, ID: a, At: 5})[0].Place; got.Area != mail.AreaCorrupt {
		t.Fatalf("damaged it is at %+v", got)
	}
	if got := apply(t, s, mail.Change{Op: mail.ChangeRelease, ID: a, At: 6, Due: 6})[0].Place; got.Area != mail.AreaHold || got.Due != release {
		t.Errorf("it is at %+v", got)
	}
	if got := apply(t, s, mail.Change{Op: mail.ChangeRelease, ID: a, At: 7, Due: 7})[0].Place; got.Area != mail.AreaDeferred || got.Due != 7 {
		t.Errorf("after a second release it is at %+v", got)
	}
}

// What was held by a version to which a hold made the date void is released as that version would have done.
func TestHeldByAVersionWithoutDates(t *testing.T) {
	const release = mail.Instant(1_900_000_000 * time.Second)
	s := open(t, small(vfs.NewMem()))
	a := accept(t, s, mail.Envelope{Arrived: 1, Release: release}, addresses(1), text(10)).Envelope.ID
	apply(t, s, mail.Change{Op: mail.ChangeHold, ID: a, At: 5, Reason: "why"})
	st, err := s.readState(a)
	if err != nil {
		t.Fatal(err)
	}
	st.kept, st.released = false, 5
	b := s.db.NewBatch()
	if err := errors.Join(putState(b, a, st, appendState(nil, st)), b.Commit(nil), b.Close()); err != nil {
		t.Fatal(err)
	}
	if got := apply(t, s, mail.Change{Op: mail.ChangeRelease, ID: a, At: 7, Due: 7})[0].Place; got.Area != mail.AreaDeferred || got.Due != 7 {
		t.Errorf("it is at %+v", got)
	}
	if m, err := s.Lookup(ctxTest, a); err != nil || m.Envelope.Since() != 5 {
		t.Errorf("the age counts from %v, want 5 (%v)", m.Envelope.Since(), err)
	}
}

// Released before its date on purpose, it does not come to wait for that again when an operator holds it later.
func TestKeptReleasedThenHeld(t *testing.T) {
	const release = mail.Instant(1_900_000_000 * time.Second)
	s := open(t, small(vfs.NewMem()))
	a := accept(t, s, mail.Envelope{Sender: "s@example.com", Arrived: 1, Release: release}, addresses(1), text(10)).Envelope.ID
	apply(t, s, mail.Change{Op: mail.ChangeRelease, ID: a, At: 5, Due: 5}, mail.Change{Op: mail.ChangeHold, ID: a, At: 6})
	if got := apply(t, s, mail.Change{Op: mail.ChangeRelease, ID: a, At: 7, Due: 7})[0].Place; got.Area != mail.AreaDeferred || got.Due != 7 {
		t.Errorf("it is at %+v", got)
	}
	if m, err := s.Lookup(ctxTest, a); err != nil || m.Envelope.Since() != 5 {
		t.Errorf("the age counts from %v, want 5 (%v)", m.Envelope.Since(), err)
	}
}

// Recipients whom an operator holds without the others wait for him, and after a release for the date, as
// the others do.
func TestSplitOffKept(t *testing.T) {
	const release = mail.Instant(1_900_000_000 * time.Second)
	s := open(t, small(vfs.NewMem()))
	kept := accept(t, s, mail.Envelope{Sender: "s@example.com", Arrived: 1, Release: release}, addresses(2), text(10)).Envelope.ID
	into, err := s.Reserve(0)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, s, mail.Change{Op: mail.ChangeRecord, ID: kept, At: 5, Splits: []mail.Split{{Into: into, Recipients: []uint32{1}, Reason: "why"}}})
	if got := apply(t, s, mail.Change{Op: mail.ChangeLapse, ID: into, At: release})[0].Place; got.Area != mail.AreaHold || got.Due != 0 {
		t.Errorf("while an operator holds them they are at %+v", got)
	}
	if got := apply(t, s, mail.Change{Op: mail.ChangeRelease, ID: into, At: 7, Due: 7})[0].Place; got.Area != mail.AreaHold || got.Due != release {
		t.Errorf("released they are at %+v", got)
	}
	for _, id := range []mail.QueueID{kept, into} {
		if m, err := s.Lookup(ctxTest, id); err != nil || m.Envelope.Since() != release {
			t.Errorf("the age of %v counts from %v, want %v (%v)", id, m.Envelope.Since(), release, err)
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

// What an operator had held is held again after it was damaged for a while, and then waits for its date.
func TestKeptAndHeldAfterDamage(t *testing.T) {
	const release = mail.Instant(1_900_000_000 * time.Second)
	mem := vfs.NewMem()
	s := mustOpen(t, small(mem))
	a := accept(t, s, mail.Envelope{Arrived: 1, Release: release}, addresses(1), text(10))
	apply(t, s, mail.Change{Op: mail.ChangeHold, ID: a.Envelope.ID, At: 2, Reason: "an operator"})
	repair := damage(t, s, messageKey(keyBody, a.Envelope.ID))
	c, err := s.Content(ctxTest, a.Envelope.ID)
	if err == nil {
		c.Close()
	}
	if m, err := s.Lookup(ctxTest, a.Envelope.ID); err != nil || m.Place.Area != mail.AreaCorrupt {
		t.Fatalf("it is at %+v, %v", m.Place, err)
	}
	repair()
	mustClose(t, s)
	s = open(t, small(mem))
	if m, err := s.Lookup(ctxTest, a.Envelope.ID); err != nil || m.Place.Area != mail.AreaHold || m.Place.Due != 0 {
		t.Errorf("after the damage it is at %+v, %v", m.Place, err)
	}
	if got := apply(t, s, mail.Change{Op: mail.ChangeRelease, ID: a.Envelope.ID, At: 5, Due: 5})[0].Place; got.Area != mail.AreaHold || got.Due != release {
		t.Errorf("released it is at %+v", got)
	}
}

// What the encoding of a state has, decoding finds.
func TestKeptState(t *testing.T) {
	st := state{area: mail.AreaHold, bucket: 7, due: 3, kept: true, released: 9, recipients: 1}
	got, err := decodeState(string(appendState(nil, &st)))
	if err != nil || !got.kept || got.released != 9 || got.due != 3 || !bytes.Equal(appendState(nil, got), appendState(nil, &st)) {
		t.Errorf("%+v, %v", got, err)
	}
}
