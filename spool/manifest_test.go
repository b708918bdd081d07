package spool

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// The power fails while the store's marker is moved to a new MANIFEST, when the new
// marker is not durable yet and Pebble deletes a file in the background. The copy must
// not say by then that the new MANIFEST is in use, or an intact store would not open.
func TestPowerFailureAsTheMarkerMoves(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := mustOpen(t, small(fs))
	defer s.Close()
	id := accept(t, s, mail.Envelope{Sender: "a@example.com"}, addresses(1), text(700)).Envelope.ID
	names, err := fs.List("/spool/db")
	if err != nil {
		t.Fatal(err)
	}
	num, ok := currentManifest(names)
	if !ok {
		t.Fatal("there is no marker")
	}
	data, err := s.readFile(fs.PathJoin("/spool/db", fmt.Sprintf("MANIFEST-%06d", num)))
	if err != nil {
		t.Fatal(err)
	}
	create := func(name string) vfs.File {
		f, err := s.fs.Create(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	obsolete := fs.PathJoin("/spool/db", "999999.sst")
	if err := create(obsolete).Close(); err != nil {
		t.Fatal(err)
	}
	next := create(fs.PathJoin("/spool/db", fmt.Sprintf("MANIFEST-%06d", num+1000)))
	defer next.Close()
	if _, err := next.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := next.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := create(fs.PathJoin("/spool/db", "marker.manifest.000999."+fmt.Sprintf("MANIFEST-%06d", num+1000))).Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.fs.Remove(obsolete); err != nil {
		t.Fatal(err)
	}
	after := mustOpen(t, small(fs.CrashClone(vfs.CrashCloneCfg{})))
	defer after.Close()
	if _, err := contentOf(after, id); err != nil {
		t.Error(err)
	}
}

// Pebble closes the MANIFEST before its last deletions. Each is in the copy all the same: a log
// that is recorded but missing would be taken for lost mail at the next start. A newer
// MANIFEST, and the end of the store, close the copy.
func TestLogDeletedBehindTheManifest(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, small(fs))
	s.manifests.mu.Lock()
	own := s.manifests.last
	s.manifests.mu.Unlock()
	f := &storeFS{FS: s.disk, s: s}
	create := func(num uint64) vfs.File {
		t.Helper()
		m, err := f.createManifest(s.disk.PathJoin(s.path("db"), fmt.Sprintf("MANIFEST-%06d", num)), num, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := create(777)
	if err := errors.Join(s.manifests.logMade(900), s.manifests.logMade(901), m.Close(), s.manifests.logGivenUp(900)); err != nil {
		t.Fatal(err)
	}
	data, err := s.readFile(s.manifestCopy(777))
	if err != nil {
		t.Fatal(err)
	}
	if c := parseManifestCopy(777, data); !c.whole || c.logs[900] || !c.logs[901] {
		t.Errorf("%+v", c.logs)
	}
	newer := create(778)
	if err := errors.Join(newer.Close(), s.manifests.close()); err != nil || s.manifests.last != nil {
		t.Errorf("%v, %v", s.manifests.last, err)
	}
	s.manifests.mu.Lock()
	s.manifests.last = own
	s.manifests.mu.Unlock()
}
