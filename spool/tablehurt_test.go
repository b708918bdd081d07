package spool

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// The note about a damaged table that cannot be made is made later, and keeps no other
// note from being made.
//
// Seen failing: the table passed for noted, and the next start did not repair it.
func TestNoteOfADamagedTableIsMadeInTheEnd(t *testing.T) {
	img, _ := spooled(t, false)
	tables := img.names(isTable)
	if len(tables) < 2 {
		t.Fatalf("tables %v", tables)
	}
	for _, name := range tables {
		img = img.flipped(name, len(img[name])/3*8)
	}
	first := filepath.Base(tables[0])
	var broken errorfs.Toggle
	broken.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && filepath.Base(op.Path) == first+noteExt {
			return syscall.EIO
		}
		return nil
	})
	s := open(t, small(errorfs.Wrap(img.fs(t), &broken)))
	note := func(want int) error {
		t.Helper()
		failed := s.noteTables()
		if noted, err := s.notedTables(); err != nil || len(noted) != want {
			t.Errorf("notes %v (%v), want %d", noted, err, want)
		}
		return failed
	}
	broken.On()
	for _, name := range tables {
		s.hurt.report(s.disk.PathJoin(s.path("db"), filepath.Base(name)))
	}
	if err := note(len(tables) - 1); err == nil || !strings.Contains(err.Error(), first) {
		t.Errorf("error %v", err)
	}
	broken.Off()
	if err := note(len(tables)); err != nil {
		t.Error(err)
	}
}
