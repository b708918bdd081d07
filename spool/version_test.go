package spool

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// unpack returns a file system with an archived spool in /spool.
func unpack(t *testing.T, archive string) vfs.FS {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	fs := vfs.NewMem()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return fs
		}
		if err != nil {
			t.Fatal(err)
		}
		path := "/spool/" + strings.TrimSuffix(h.Name, "/")
		if h.FileInfo().IsDir() {
			if err := fs.MkdirAll(path, 0o700); err != nil {
				t.Fatal(err)
			}
			continue
		}
		to, err := fs.Create(path, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(to, r); err != nil {
			t.Fatal(err)
		}
		if err := to.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A spool of a version that did not classify messages is read as it is: the archive
// was made by the daemon at commit fa3dccc, which took in five messages, deferred
// four, held one and stopped.
func TestSpoolWithoutFlows(t *testing.T) {
	cfg := small(unpack(t, "testdata/version-1.tar.gz"))
	s := mustOpen(t, cfg)
	const want = `deferred <news+jane=example.net@list.example.com> 219 bytes 10592fbc, 1 recipients, first jane@example.net 450 4.4.1 kept for a test
deferred <> 195 bytes d1ab144b, 1 recipients, first c@example.net 450 4.4.1 kept for a test
deferred <many@shop.example> 164 bytes 76edc763, 300 recipients, first r0@example.net 450 4.4.1 kept for a test
deferred <big@shop.example> 25782 bytes c6305f53, 1 recipients, first big@example.net 450 4.4.1 kept for a test
hold <otp@shop.example> 168 bytes 7c8f91cb, 2 recipients, first a@example.net 450 4.4.1 kept for a test
`
	got, held := describe(t, s)
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	m, err := s.Lookup(ctxTest, held[0])
	if err != nil || m.Envelope.EnvID != "QQ314159" || m.Envelope.Ret != mail.RetHeaders || m.Envelope.Body != mail.Body8BitMIME ||
		m.Envelope.Client.Helo != "client.example.org" || m.Envelope.Flow != (mail.Flow{}) {
		t.Errorf("%+v %v", m.Envelope, err)
	}

	// Changes and new mail do not disturb it, nor it them.
	flow := mail.Flow{Class: "normal", Tenant: "local", Flow: "otp@shop.example"}
	id := accept(t, s, mail.Envelope{Sender: "otp@shop.example", Flow: flow}, addresses(1), text(10)).Envelope.ID
	apply(t, s, mail.Change{Op: mail.ChangeRelease, ID: held[0], Due: 9})
	mustClose(t, s)
	s = open(t, cfg)
	if m, err = s.Lookup(ctxTest, id); err != nil || m.Envelope.Flow != flow {
		t.Errorf("%+v %v", m.Envelope, err)
	}
	if m, err = s.Lookup(ctxTest, held[0]); err != nil || m.Place.Area != mail.AreaDeferred || m.Envelope.Flow != (mail.Flow{}) {
		t.Errorf("%+v %v", m, err)
	}
	if due := inArea(t, s, mail.AreaDeferred); len(due) != 5 || !slices.Contains(due, held[0]) {
		t.Errorf("%v are deferred", due)
	}
}

// describe returns the contents of a spool, a line for each message, and the IDs of
// those that are held.
func describe(t *testing.T, s *Spool) (lines string, held []mail.QueueID) {
	t.Helper()
	for area := mail.AreaIncoming; area <= mail.AreaCorrupt; area++ {
		list, _, more, err := s.List(ctxTest, area, mail.Cursor{}, 100)
		if err != nil || more {
			t.Fatal(err, more)
		}
		for _, m := range list {
			id := m.Envelope.ID
			outcomes, _, err := s.Outcomes(ctxTest, id, 0, 1000)
			if err != nil {
				t.Fatal(err)
			}
			body, err := contentOf(s, id)
			if err != nil || int64(len(body)) != m.Envelope.Size {
				t.Fatal(len(body), err)
			}
			lines += fmt.Sprintf("%v <%s> %d bytes %08x, %d recipients, first %s %v\n", area, m.Envelope.Sender, len(body), crc32.ChecksumIEEE(body),
				len(outcomes), outcomes[0].Recipient.Address, outcomes[0].Outcome.Reply)
			if area == mail.AreaHold {
				held = append(held, id)
			}
		}
	}
	return lines, held
}

// An earlier version of this program can read what it could have written. A message
// with a flow is not damaged to it, but of a later version, and waits for that.
func TestEnvelopeVersions(t *testing.T) {
	s := open(t, small(vfs.NewMem()))
	by := mail.DeliverBy{At: -7, Mode: mail.ByNotify}
	for _, c := range []struct {
		flow     mail.Flow
		priority int8
		tls      mail.TLSRequest
		by       mail.DeliverBy
		version  byte
	}{
		{mail.Flow{}, 0, 0, mail.DeliverBy{}, 1}, {mail.Flow{Class: "normal"}, 0, 0, mail.DeliverBy{}, 2}, {mail.Flow{Flow: "<>"}, 0, 0, mail.DeliverBy{}, 2},
		{mail.Flow{}, -9, 0, mail.DeliverBy{}, 4}, {mail.Flow{Class: "normal"}, 9, 0, mail.DeliverBy{}, 4},
		{mail.Flow{}, 0, mail.TLSRequired, mail.DeliverBy{}, 4}, {mail.Flow{Class: "normal"}, 9, mail.TLSOptional, by, 4},
		{mail.Flow{}, 0, 0, by, 4}, {mail.Flow{}, 0, 0, mail.DeliverBy{At: 1 << 60, Mode: mail.ByReturn, Trace: true}, 4},
	} {
		id := accept(t, s, mail.Envelope{Sender: "a@example.com", Flow: c.flow, Priority: c.priority, TLS: c.tls, By: c.by}, addresses(2), text(10)).Envelope.ID
		k := messageKey(keyEnvelope, id)
		value, closer, err := s.db.Get(k.bytes())
		if err != nil {
			t.Fatal(err)
		}
		if value[0] != c.version {
			t.Errorf("%+v has version %d, want %d", c.flow, value[0], c.version)
		}
		if err := closer.Close(); err != nil {
			t.Fatal(err)
		}
		into, err := s.Reserve(0)
		if err != nil {
			t.Fatal(err)
		}
		apply(t, s, mail.Change{Op: mail.ChangeRecord, ID: id, At: 5, Splits: []mail.Split{{Into: into, Recipients: []uint32{1}, Reason: "why"}}})
		if m, err := s.Lookup(ctxTest, into); err != nil || m.Envelope.Flow != c.flow || m.Envelope.Priority != c.priority || m.Envelope.TLS != c.tls || m.Envelope.By != c.by {
			t.Errorf("split off: %+v %v, want %+v", m.Envelope, err, c.flow)
		}
	}
	if _, err := decodeEnvelope(1, string(appendEnvelope(nil, &envelope{Envelope: mail.Envelope{Priority: 1}}))); err != nil {
		t.Error(err)
	}
	for _, wish := range []byte{0, 3} { // what no version has written
		odd := appendEnvelope(nil, &envelope{Envelope: mail.Envelope{TLS: mail.TLSRequired}})
		odd[len(odd)-1] = wish
		if _, err := decodeEnvelope(1, string(odd)); err == nil || !isDamage(err) {
			t.Errorf("request %d: %v", wish, err)
		}
	}
	for _, how := range []byte{0, 3, byTrace, byTrace | 3, 1 << 6} {
		odd := appendEnvelope(nil, &envelope{Envelope: mail.Envelope{By: by}})
		odd[len(odd)-2] = how // before the deadline
		if _, err := decodeEnvelope(1, string(odd)); err == nil || !isDamage(err) {
			t.Errorf("deadline with %#x: %v", how, err)
		}
	}
	further := appendEnvelope(nil, &envelope{Envelope: mail.Envelope{Priority: 1}})
	further[len(further)-2] |= 1 << 6 // the set of fields, before the priority
	if _, err := decodeEnvelope(1, string(further)); err == nil || isDamage(err) {
		t.Errorf("a field of a later version: %v", err)
	}
	const later = valueLatest + 1
	b := s.db.NewBatch()
	k := messageKey(keyEnvelope, 77)
	if err := putSealed(b, later, k.bytes(), nil); err != nil {
		t.Fatal(err)
	}
	if err := s.commit(b); err != nil {
		t.Fatal(err)
	}
	b.Close()
	if _, err := s.readEnvelope(77); err == nil || isDamage(err) {
		t.Errorf("a value of version %d: %v", later, err)
	}
}
