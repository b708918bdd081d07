package spool

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
)

// killed returns the disk as a killed process leaves it: all that was written is there,
// synced or not.
func killed(fs *vfs.MemFS) *vfs.MemFS {
	return fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
}

// pending returns the recipients of a message that still have to be tried.
func pending(t *testing.T, s *Spool, id mail.QueueID) (indexes []uint32) {
	t.Helper()
	_, _, batch, err := s.Open(ctxTest, id, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range batch.Recipients {
		indexes = append(indexes, r.Index)
	}
	return indexes
}

// A process that is killed after it has noted deliveries and before Apply: the next start
// records exactly these, with reply, instant and the report that is owed, whatever area
// the message is in, and however long its list of recipients is.
//
// Seen failing: all deliveries since the beginning of the last sync were repeated.
func TestNotedDeliveries(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := mustOpen(t, small(fs))
	fresh := accept(t, s, mail.Envelope{}, addresses(3), text(700)).Envelope.ID
	untouched := accept(t, s, mail.Envelope{}, addresses(2), text(700)).Envelope.ID
	held := accept(t, s, mail.Envelope{}, addresses(2), text(700)).Envelope.ID
	long := accept(t, s, mail.Envelope{}, addresses(2000), text(700)).Envelope.ID
	apply(t, s, mail.Change{Op: mail.ChangeHold, ID: held, Reason: "why"})
	relayed := sent(2, 77)
	relayed.Report = mail.ReportRelayed
	s.NoteDelivered(fresh, []mail.Outcome{sent(0, 0), busy(1, 5), relayed})
	s.NoteDelivered(untouched, []mail.Outcome{busy(0, 5), {Index: 1, Result: mail.Failed, Report: mail.ReportFailed}})
	s.NoteDelivered(held, []mail.Outcome{sent(1, 9)})
	var many []mail.Outcome
	for i := range uint32(1000) {
		many = append(many, sent(2*i, 9))
	}
	s.NoteDelivered(long, many)
	crashed := killed(fs)
	mustClose(t, s)

	s = open(t, small(crashed))
	if got := pending(t, s, fresh); !reflect.DeepEqual(got, []uint32{1}) {
		t.Errorf("recipients %v are pending, want 1", got)
	}
	if got := pending(t, s, untouched); len(got) != 2 {
		t.Errorf("recipients %v are pending after a deferral and a failure that were not recorded", got)
	}
	if got := pending(t, s, held); !reflect.DeepEqual(got, []uint32{0}) {
		t.Errorf("recipients %v of the held message are pending, want 0", got)
	}
	if m, err := s.Lookup(ctxTest, held); err != nil || m.Place.Area != mail.AreaHold {
		t.Errorf("held: %+v, %v", m.Place, err)
	}
	if got := pending(t, s, long); len(got) != 1000 || got[0] != 1 || got[999] != 1999 {
		t.Errorf("%d recipients of the long list are pending", len(got))
	}
	outs := outcomesOf(t, s, fresh)
	if outs[0].At == 0 || outs[0].Reply != sent(0, 0).Reply || outs[2] != relayed {
		t.Errorf("outcomes %+v", outs)
	}
	if debts, _, err := s.Debts(ctxTest, fresh, 0, 10); err != nil || len(debts) != 1 {
		t.Errorf("debts %+v, %v", debts, err)
	}
}

// A note changes nothing that is already recorded: a settled outcome, a report that has
// been made, a message that is gone. Notes of the last run but one are not read again.
func TestNotesThatAreOld(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := mustOpen(t, small(fs))
	gone := accept(t, s, mail.Envelope{}, addresses(1), text(700)).Envelope.ID
	told := accept(t, s, mail.Envelope{}, addresses(2), text(700)).Envelope.ID
	owing := sent(0, 77)
	owing.Report = mail.ReportRelayed
	s.NoteDelivered(gone, []mail.Outcome{sent(0, 9)})
	s.NoteDelivered(told, []mail.Outcome{owing})
	apply(t, s, mail.Change{Op: mail.ChangeRemove, ID: gone},
		mail.Change{Op: mail.ChangeDefer, ID: told, Due: 50, At: 10, Outcomes: []mail.Outcome{owing, busy(1, 9)}})
	apply(t, s, mail.Change{Op: mail.ChangeReported, ID: told, Outcomes: []mail.Outcome{{Index: 0}}})
	want := dump(t, s)
	for range 3 {
		crashed := killed(fs)
		mustClose(t, s)
		fs = crashed
		s = mustOpen(t, small(fs))
		if got := dump(t, s); got != want {
			t.Fatalf("after a kill\n%s\nwant\n%s", got, want)
		}
		if kept := notes(ringOf(t, fs)); len(kept) != 0 {
			t.Fatalf("%d notes are kept", len(kept))
		}
	}
	mustClose(t, s)
}

// ringOf returns the content of the file delivered.
func ringOf(t *testing.T, fs vfs.FS) []byte {
	t.Helper()
	f, err := fs.Open("/spool/delivered")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ring := make([]byte, noteSlots*noteSlot)
	if n, err := f.ReadAt(ring, 0); n != len(ring) {
		t.Fatalf("%d bytes, %v", n, err)
	}
	return ring
}

// After a power failure each noted delivery is either recorded or to be tried again, and
// no other recipient is settled.
func TestNotesAndPowerFailure(t *testing.T) {
	t.Parallel()
	longWithoutRaces(t)
	recorded := 0
	seeds := 10 * golden.Runs(1)
	for seed := range uint64(seeds) {
		fs := vfs.NewCrashableMem()
		s := mustOpen(t, small(fs))
		id := accept(t, s, mail.Envelope{}, addresses(600), text(700)).Envelope.ID
		for i := range uint32(300) {
			s.NoteDelivered(id, []mail.Outcome{sent(2*i, 9)})
		}
		crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(seed, 1))})
		mustClose(t, s)
		s = mustOpen(t, small(crashed))
		odd := 0
		got := pending(t, s, id)
		for _, index := range got {
			odd += int(index % 2)
		}
		if odd != 300 {
			t.Fatalf("%d of 300 recipients without a note are pending", odd)
		}
		recorded += 600 - len(got)
		mustClose(t, s)
	}
	if recorded == 0 || recorded == 300*seeds {
		t.Errorf("%d of %d notes survived, which tests nothing", recorded, 300*seeds)
	}
}

// More notes than there are slots: the newest survive.
func TestNotesGoRound(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := mustOpen(t, small(fs))
	const recipients = noteSlots + noteSlots/2
	id := accept(t, s, mail.Envelope{}, addresses(recipients), text(700)).Envelope.ID
	var writers sync.WaitGroup
	var next sync.Mutex
	index := uint32(0)
	for range 8 {
		writers.Go(func() {
			for {
				next.Lock()
				mine := index
				index++
				next.Unlock()
				if mine >= recipients {
					return
				}
				s.NoteDelivered(id, []mail.Outcome{sent(mine, 9)})
			}
		})
	}
	writers.Wait()
	crashed := killed(fs)
	mustClose(t, s)
	s = open(t, small(crashed))
	if got := pending(t, s, id); len(got) != recipients-noteSlots {
		t.Errorf("%d recipients are pending, want %d", len(got), recipients-noteSlots)
	}
}

// Replies come from servers that are not trusted: text that has the form of a note for
// another message is no note, however long it is and however many notes overwrite it. A
// flipped bit makes a note invalid, and a reply too long for a slot is not noted.
func TestNotesOfHostileReplies(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := mustOpen(t, small(fs))
	victim := accept(t, s, mail.Envelope{}, addresses(1), text(700)).Envelope.ID
	bait := accept(t, s, mail.Envelope{}, addresses(1), text(700)).Envelope.ID
	forged := string(appendNote(nil, victim, outcomes{sent(0, 9)}))
	if id, _ := decodeNote(append([]byte(forged), make([]byte, noteSlot)...)[:noteSlot]); id != victim {
		t.Fatal("the forged note is not a valid one, so this test shows nothing")
	}
	for shift := range len(forged) {
		for _, times := range []int{1, 3, 8, 40} {
			o := sent(0, 9)
			o.Reply.Text = strings.Repeat("x", shift) + strings.Repeat(forged, times)
			s.NoteDelivered(bait, []mail.Outcome{o})
		}
	}
	for bit := range len(forged) * 8 {
		damaged := append([]byte(forged), make([]byte, noteSlot)...)[:noteSlot]
		damaged[bit/8] ^= 1 << (bit % 8)
		if _, known := decodeNote(damaged); known != nil {
			t.Errorf("bit %d is flipped, and the note is valid", bit)
		}
	}
	crashed := killed(fs)
	mustClose(t, s)
	s = open(t, small(crashed))
	if got := pending(t, s, victim); len(got) != 1 {
		t.Error("a forged note was believed")
	}
	if got := pending(t, s, bait); len(got) != 0 {
		t.Error("no note of the hostile server's own message is valid")
	}
}

// The spool works without the file, and after it can no longer be written; a file of
// another length or content is overwritten.
func TestNotesThatCannotBeWritten(t *testing.T) {
	for _, what := range []string{"open", "write", "later write"} {
		t.Run(what, func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			writes := 0
			cfg := small(errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Path != "/spool/delivered" {
					return nil
				}
				if op.Kind == errorfs.OpFileWriteAt {
					writes++
				}
				if what == "open" || op.Kind == errorfs.OpFileWriteAt && (what == "write" || writes > 1) {
					return syscall.ENOSPC
				}
				return nil
			})))
			s := mustOpen(t, cfg)
			id := accept(t, s, mail.Envelope{}, addresses(2), text(700)).Envelope.ID
			s.NoteDelivered(id, []mail.Outcome{sent(0, 9)})
			before := writes
			s.NoteDelivered(id, []mail.Outcome{sent(1, 9)})
			if writes != before {
				t.Error("writing was tried again")
			}
			mustClose(t, s)
			s.NoteDelivered(id, []mail.Outcome{sent(1, 9)}) // after Close
		})
	}
	fs := vfs.NewCrashableMem()
	cfg := small(fs)
	mustClose(t, mustOpen(t, cfg))
	for _, content := range []string{"", "short", strings.Repeat("long", noteSlots*noteSlot)} {
		f, err := fs.Create("/spool/delivered", vfs.WriteCategoryUnspecified)
		if err == nil {
			_, err = f.Write([]byte(content))
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		mustClose(t, mustOpen(t, cfg))
		if kept := notes(ringOf(t, fs)); len(kept) != 0 {
			t.Errorf("notes %v", kept)
		}
	}
}

func FuzzDecodeNote(f *testing.F) {
	f.Add(appendNote(nil, 7, outcomes{sent(0, 9), sent(300, 9)}))
	f.Fuzz(func(t *testing.T, slot []byte) {
		slot = append(slot, make([]byte, noteSlot)...)[:noteSlot]
		decodeNote(slot)
		// With a right length and checksum all of it gets to the decoder.
		length := min(binary.BigEndian.Uint32(slot), noteSlot-noteHead)
		binary.BigEndian.PutUint32(slot, length)
		binary.BigEndian.PutUint32(slot[4:], crc32.Checksum(slot[noteHead:noteHead+length], castagnoli))
		decodeNote(slot)
	})
}
