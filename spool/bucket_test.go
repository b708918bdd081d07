package spool

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// A fetch in one bucket steps over none of the messages of another one, and finds the
// buckets that have something without reading what is in them.
func TestFetchInABucket(t *testing.T) {
	s := open(t, small(vfs.NewMem()))
	bulk, single := testFlow(1), testFlow(2)
	const many = 3000
	var last []mail.Change
	for i := range many {
		a := accept(t, s, mail.Envelope{Flow: bulk}, addresses(1), nil)
		if i%2 == 0 {
			last = append(last, mail.Change{Op: mail.ChangeDefer, ID: a.Envelope.ID, Place: a.Place, Due: 100, At: 1})
		}
	}
	apply(t, s, last...)
	one := accept(t, s, mail.Envelope{Flow: single}, addresses(1), nil)
	apply(t, s, mail.Change{Op: mail.ChangeDefer, ID: accept(t, s, mail.Envelope{Flow: single}, addresses(1), nil).Envelope.ID, Due: 500, At: 1})
	for _, area := range []mail.Area{mail.AreaIncoming, mail.AreaDeferred} {
		before := s.Health().Steps
		f, err := s.Fetch(ctxTest, area, mail.Cursor{}, 100, 256)
		if err != nil || len(f.Cursors) != 0 || f.More {
			t.Fatalf("%v: %+v %v", area, f, err)
		}
		want := []mail.Bucket{bulk.Bucket(), single.Bucket()}
		slices.Sort(want)
		var got []mail.Bucket
		for _, c := range f.Buckets {
			got = append(got, c.Bucket)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v: buckets %v, want %v", area, got, want)
		}
		f, err = s.Fetch(ctxTest, area, mail.Cursor{Bucket: single.Bucket()}, 100, 256)
		if err != nil || f.More || area == mail.AreaIncoming && (len(f.Cursors) != 1 || f.Cursors[0] != one.Place.Cursor(one.Envelope.ID)) {
			t.Errorf("%v: %+v %v", area, f, err)
		}
		if area == mail.AreaDeferred && (len(f.Cursors) != 0 || f.NextDue != 500) {
			t.Errorf("%v: %+v", area, f)
		}
		if steps := s.Health().Steps - before; steps > 20 {
			t.Errorf("%v: %d steps", area, steps)
		}
	}
}

// Where there are more buckets than one answer names, the next one is asked from the last
// that was named.
func TestFollowersAreBounded(t *testing.T) {
	s := open(t, small(vfs.NewMem()))
	want := make(map[mail.Bucket]bool)
	for i := range 400 {
		e := mail.Envelope{Flow: mail.Flow{Class: "normal", Flow: strconv.Itoa(i)}}
		want[e.Flow.Bucket()] = true
		accept(t, s, e, addresses(1), nil)
	}
	got := 0
	for from, more := (mail.Cursor{}), true; more; {
		f, err := s.Fetch(ctxTest, mail.AreaIncoming, from, mail.Never, 0)
		if err != nil || len(f.Cursors) > 0 || len(f.Buckets) > mail.BucketsFound {
			t.Fatalf("%+v %v", f, err)
		}
		for _, c := range f.Buckets {
			if !want[c.Bucket] {
				t.Errorf("bucket %v has nothing, or was named before", c.Bucket)
			}
			delete(want, c.Bucket)
		}
		if more = len(f.Buckets) == mail.BucketsFound; more {
			from = mail.Cursor{Bucket: f.Buckets[len(f.Buckets)-1].Bucket}
		}
		got += len(f.Buckets)
	}
	if len(want) > 0 || got < 2*mail.BucketsFound {
		t.Errorf("%d buckets were named, not %v", got, want)
	}
}

// A message that is damaged before it was ever changed is found in its bucket: it moves
// to the corrupt area and leaves nothing where it was. It is in the incoming area
// until the damage has been noticed, and in the rebuilt index as well.
func TestDamagedEnvelopeInABucket(t *testing.T) {
	for n := range 2 {
		s := open(t, small(vfs.NewMem()))
		id := accept(t, s, mail.Envelope{Flow: testFlow(n)}, addresses(1), nil).Envelope.ID
		other := accept(t, s, mail.Envelope{Flow: testFlow(n)}, addresses(1), nil)
		flip(t, s, messageKey(keyEnvelope, id))
		if m, err := s.Lookup(ctxTest, id); err != nil || m.Place.Area != mail.AreaIncoming || !errors.Is(m.Err, ErrCorrupt) {
			t.Errorf("%+v %v", m, err)
		}
		for _, area := range []mail.Area{mail.AreaDeferred, mail.AreaIncoming} {
			if err := s.heal(ctxTest, area, s.healed, ErrCorrupt); err != nil {
				t.Error(err)
			}
		}
		if in, due := inArea(t, s, mail.AreaIncoming), inArea(t, s, mail.AreaDeferred); len(in) != 2 || len(due) != 0 {
			t.Errorf("after the index was rebuilt: incoming %v, deferred %v", in, due)
		}
		if _, _, _, err := s.Open(ctxTest, id, 1); !errors.Is(err, ErrCorrupt) {
			t.Errorf("open: %v", err)
		}
		if in, bad := inArea(t, s, mail.AreaIncoming), inArea(t, s, mail.AreaCorrupt); len(in) != 1 || len(bad) != 1 {
			t.Errorf("incoming %v, corrupt %v", in, bad)
		}
		apply(t, s, mail.Change{Op: mail.ChangeRemove, ID: id}, mail.Change{Op: mail.ChangeRemove, ID: other.Envelope.ID, Place: other.Place})
		checkNoRemains(t, s)
		for area := mail.AreaIncoming; area <= mail.AreaCorrupt; area++ {
			if in := inArea(t, s, area); len(in) > 0 {
				t.Errorf("%v has %v", area, in)
			}
		}
	}
}

// A spool of format 1 becomes one of this format when it is opened, which an earlier
// version refuses, since it would not find mail that has a bucket.
func TestFormat1(t *testing.T) {
	cfg := small(unpack(t, "testdata/version-1.tar.gz"))
	for _, want := range []string{"2", "2"} {
		s := mustOpen(t, cfg)
		if got, ok, err := s.loadText(plainKey(keyFormat)); got != want || !ok || err != nil {
			t.Errorf("format %q %v, want %q", got, err, want)
		}
		f, err := s.Fetch(ctxTest, mail.AreaDeferred, mail.Cursor{}, mail.Never, 100)
		if err != nil || len(f.Cursors) != 4 {
			t.Errorf("bucket 0 of the deferred area: %+v %v", f, err)
		}
		mustClose(t, s)
	}
}

// Mail of a spool of format 1 and new mail are changed and removed side by side. A crash
// after any step leaves all of it where it was confirmed to be.
func TestCrashInAMixedSpool(t *testing.T) {
	fs := vfs.NewCrashableMem()
	if _, err := vfs.Clone(unpack(t, "testdata/version-1.tar.gz"), fs, "/spool", "/spool", vfs.CloneSync); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, small(fs))
	defer mustClose(t, s)
	ids := inArea(t, s, mail.AreaDeferred)
	survives := func(after string) {
		t.Helper()
		want := dump(t, s)
		for n := range 3 {
			crash := vfs.CrashCloneCfg{UnsyncedDataPercent: n * 50, RNG: rand.New(rand.NewPCG(uint64(n), 0))}
			crashed := mustOpen(t, small(fs.CrashClone(crash)))
			<-crashed.work.swept
			if got := dump(t, crashed); got != want {
				t.Errorf("crash after %s: recovered\n%s\nwant\n%s", after, got, want)
			}
			checkNoRemains(t, crashed)
			mustClose(t, crashed)
		}
	}
	survives("it was opened")
	for i := range 3 {
		ids = append(ids, accept(t, s, mail.Envelope{Flow: testFlow(i)}, addresses(1), text(9)).Envelope.ID)
	}
	survives("new mail")
	for i, id := range ids {
		apply(t, s, mail.Change{Op: mail.ChangeDefer, ID: id, Due: mail.Instant(50 - i), At: 9})
	}
	survives("all was deferred")
	apply(t, s, mail.Change{Op: mail.ChangeRemove, ID: ids[0]}, mail.Change{Op: mail.ChangeHold, ID: ids[1], Reason: "why"},
		mail.Change{Op: mail.ChangeRemove, ID: ids[5]}, mail.Change{Op: mail.ChangeHold, ID: ids[6], Reason: "why"})
	survives("some was removed and held")
	apply(t, s, mail.Change{Op: mail.ChangeRelease, ID: ids[1], Due: 3}, mail.Change{Op: mail.ChangeRelease, ID: ids[6], Due: 3})
	survives("it was released")
	if got := inArea(t, s, mail.AreaDeferred); len(got) != 5 {
		t.Errorf("%v are deferred", got)
	}
}
