package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// The disk operations of accepting mail are recorded in testdata: a missing or
// misplaced sync is a difference. UPDATE=1 rewrites the file.
func TestGoldenAccept(t *testing.T) {
	var mu sync.Mutex
	var log strings.Builder
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		line := strings.TrimSpace(fmt.Sprintf(format, args...))
		if !strings.HasPrefix(line, "close:") && !strings.Contains(line, "ballast") { // neither is about mail
			fmt.Fprintln(&log, line)
		}
	}
	mem := vfs.NewMem()
	s := mustOpen(t, small(vfs.WithLogging(mem, note)))
	defer mustClose(t, s)
	<-s.work.swept
	accept(t, s, mail.Envelope{}, addresses(1), text(10)) // reserves queue IDs
	mu.Lock()
	log.Reset()
	mu.Unlock()
	for _, c := range []struct {
		what  string
		rcpts int
		size  int
	}{
		{"a small message", 1, 1000},
		{"a large one, the first in its directory", 1, 50_000},
		{"recipients written ahead", 5000, 1000},
	} {
		note("# %s", c.what)
		accept(t, s, mail.Envelope{}, addresses(c.rcpts), text(c.size))
	}
	mu.Lock()
	defer mu.Unlock()
	golden := filepath.Join("testdata", "accept.golden")
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(golden, []byte(log.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if log.String() != string(want) {
		t.Errorf("operations:\n%s\nwant:\n%s", log.String(), want)
	}
}

// If the disk fails at any operation on a content file, the client gets an error,
// there is no message, and later mail is not affected.
func TestContentFileErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		kind errorfs.OpKind
		path string
	}{
		{"directory", errorfs.OpMkdirAll, "/spool/body/*"},
		{"create", errorfs.OpCreate, "*.t"},
		{"write", errorfs.OpFileWrite, "*.t"},
		{"sync", errorfs.OpFileSyncData, "*.t"},
		{"rename", errorfs.OpRename, "*.t"},
		{"open directory", errorfs.OpOpenDir, "/spool/body/*"},
		{"sync directory", errorfs.OpFileSync, "/spool/body/*"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var broken errorfs.Toggle
			broken.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
				name := op.Path
				if strings.HasPrefix(c.path, "*") {
					name = filepath.Base(name)
				}
				if ok, _ := filepath.Match(c.path, name); ok && op.Kind == c.kind {
					return syscall.EIO
				}
				return nil
			})
			s := open(t, small(errorfs.Wrap(vfs.NewMem(), &broken)))
			d := draft(t, s, addresses(1), nil)
			broken.On()
			_, err := d.Write(text(50_000))
			if err == nil {
				err = d.Commit(ctxTest, mail.Envelope{})
			} else {
				if commit := d.Commit(ctxTest, mail.Envelope{}); !errors.Is(commit, err) {
					t.Errorf("commit after a failed write: %v", commit)
				}
			}
			broken.Off()
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("the client got: %v", err)
			}
			if _, err := s.Lookup(ctxTest, d.ID()); !errors.Is(err, ErrGone) {
				t.Errorf("lookup: %v", err)
			}
			accept(t, s, mail.Envelope{}, addresses(1), text(50_000))
			checkNoRemains(t, s)
		})
	}
}

// A content file that does not fit on the disk, or into a quota that the file
// system does not report, is refused temporarily; the ballast is not used for it.
func TestContentFileWithoutRoom(t *testing.T) {
	for _, cause := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		for _, kind := range []errorfs.OpKind{errorfs.OpFileWrite, errorfs.OpFileSyncData} {
			mem := vfs.NewMem()
			s := open(t, small(errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind == kind && filepath.Ext(op.Path) == draftSuffix {
					return cause
				}
				return nil
			}))))
			if err := s.round(ctxTest, true); err != nil {
				t.Fatal(err)
			}
			d := draft(t, s, addresses(1), nil)
			_, err := d.Write(text(50_000))
			if err == nil {
				err = d.Commit(ctxTest, mail.Envelope{})
			}
			if !errors.Is(err, ErrFull) {
				t.Errorf("%v: the client got %v", cause, err)
			}
			d.Abort()
			if _, err := s.Begin(ctxTest); !errors.Is(err, ErrFull) {
				t.Errorf("%v: the next mail: %v", cause, err)
			}
			if _, err := mem.Stat("/spool/ballast"); err != nil {
				t.Errorf("%v: ballast: %v", cause, err)
			}
			checkNoRemains(t, s)
		}
	}
}

// Below the minimum of free space mail is refused at every stage, reports only
// below half of it, and mail in the spool can still be finished.
func TestAdmission(t *testing.T) {
	mem := vfs.NewMem()
	var raised alarms
	cfg := small(mem)
	cfg.MinFree = 100 << 20
	cfg.OnAlarm = raised.add
	free := func(s *Spool, mb uint64) {
		mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: mb << 20, TotalBytes: 1 << 40})
		if s != nil {
			s.room.look()
		}
	}
	free(nil, 1000)
	s := open(t, cfg)
	a := accept(t, s, mail.Envelope{Sender: "a@example.com"}, addresses(1), text(10))
	early := draft(t, s, addresses(1), text(10))
	large := draft(t, s, addresses(1), text(10))
	many := draft(t, s, addresses(4000), text(10))

	free(s, 150)
	if raised.count(AlarmLow) != 1 {
		t.Error("no warning ahead of the floor")
	}
	if _, err := s.Begin(ctxTest); err != nil {
		t.Errorf("above the floor: %v", err)
	}
	free(s, 99)
	if raised.count(AlarmFull) != 1 {
		t.Error("no alarm at the floor")
	}
	if _, err := s.Begin(ctxTest); !errors.Is(err, ErrFull) {
		t.Errorf("begin: %v", err)
	}
	if err := early.Commit(ctxTest, mail.Envelope{}); !errors.Is(err, ErrFull) {
		t.Errorf("commit: %v", err)
	}
	if _, err := large.Write(text(20_000)); !errors.Is(err, ErrFull) {
		t.Errorf("write: %v", err)
	}
	var err error
	for i := 0; i < 200 && err == nil; i++ {
		err = many.AddRecipient(mail.Recipient{Address: "x@example.org"})
	}
	if !errors.Is(err, ErrFull) {
		t.Errorf("add recipient: %v", err)
	}
	large.Abort()
	many.Abort()
	apply(t, s, mail.Change{Op: mail.ChangeExpire, ID: a.Envelope.ID, Place: a.Place})
	report := func() error {
		d, err := s.BeginReport(ctxTest)
		if err != nil {
			return err
		}
		_ = d.AddRecipient(mail.Recipient{Address: "a@example.com"})
		return d.CommitWith(ctxTest, mail.Envelope{}, []mail.Change{{Op: mail.ChangeReported, ID: a.Envelope.ID, Outcomes: []mail.Outcome{{}}}})
	}
	if err := report(); err != nil {
		t.Errorf("report: %v", err)
	}
	free(s, 49)
	if err := report(); !errors.Is(err, ErrFull) {
		t.Errorf("report below half of the floor: %v", err)
	}
	apply(t, s, mail.Change{Op: mail.ChangeRemove, ID: a.Envelope.ID})
	free(s, 1000)
	if _, err := s.Begin(ctxTest); err != nil || raised.count(AlarmRoom) != 1 {
		t.Errorf("with room again: %v", err)
	}
	checkNoRemains(t, s)
}

// Data written between two checks of the disk counts, so that a burst does not pass
// the minimum.
func TestAdmissionCountsWhatIsWritten(t *testing.T) {
	mem := vfs.NewMem()
	mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 110 << 20, TotalBytes: 1 << 40})
	cfg := small(mem)
	cfg.MinFree = 100 << 20
	s := open(t, cfg)
	d := draft(t, s, addresses(1), nil)
	written := 0
	for {
		n, err := d.Write(text(64 << 10))
		written += n
		if errors.Is(err, ErrFull) {
			break
		}
		if err != nil || written > 20<<20 {
			t.Fatalf("%d bytes were accepted with 10 MiB to spare (%v)", written, err)
		}
		s.room.asked.Store(int64(1 << 62)) // the check of this second was already made
	}
	d.Abort()
}
