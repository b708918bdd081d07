package spool

import (
	"bytes"
	"errors"
	"io"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// Content in a file is read twice: once to check it before anything else is done with
// the message, and again to send it. The second reading must match the checksum, too:
// the last bytes of a content that has changed meanwhile are withheld, so that it is
// never sent completely; and the message is moved to the corrupt area, as when the
// damage is found earlier.
func TestContentIsCheckedWhileItIsRead(t *testing.T) {
	const size = 200_000
	for name, spoil := range map[string]func(data []byte){
		"first octet": func(data []byte) { data[0] ^= 1 },
		"middle":      func(data []byte) { data[size/2] ^= 0x80 },
		"last octet":  func(data []byte) { data[size-1] ^= 1 },
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			s := open(t, small(fs))
			m := accept(t, s, mail.Envelope{}, addresses(1), text(size))
			sound := accept(t, s, mail.Envelope{}, addresses(1), text(size))
			c, err := s.Content(ctxTest, m.Envelope.ID)
			if err != nil {
				t.Fatal(err)
			}
			_, file := s.bodies.path(m.Envelope.ID)
			data, err := fs.UnsafeGetFileDataBuffer(file)
			if err != nil {
				t.Fatal(err)
			}
			spoil(data)
			var got bytes.Buffer
			buf := make([]byte, 3000)
			_, err = io.CopyBuffer(struct{ io.Writer }{&got}, struct{ io.Reader }{c.Reader()}, buf)
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("read %d bytes: %v", got.Len(), err)
			}
			if got.Len() >= size {
				t.Errorf("all %d bytes were returned", got.Len())
			}
			if _, err := c.Reader().Read(buf); !errors.Is(err, ErrCorrupt) {
				t.Errorf("and then: %v", err)
			}
			c.Close()
			if in := inArea(t, s, mail.AreaCorrupt); len(in) != 1 || in[0] != m.Envelope.ID {
				t.Errorf("the corrupt area has %v", in)
			}
			if got, err := contentOf(s, sound.Envelope.ID); err != nil || len(got) != size {
				t.Errorf("a sound message: %d bytes, %v", len(got), err)
			}
		})
	}
}

// A read error that does not repeat is not damage: the message stays where it is,
// and is read correctly the next time.
func TestContentThatIsReadWronglyOnce(t *testing.T) {
	var reads atomic.Int64
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileReadAt && reads.Load() > 0 && reads.Add(-1) == 0 {
			return errors.New("passing")
		}
		return nil
	}))
	s := open(t, small(fs))
	m := accept(t, s, mail.Envelope{}, addresses(1), text(200_000))
	c, err := s.Content(ctxTest, m.Envelope.ID)
	if err != nil {
		t.Fatal(err)
	}
	reads.Store(3)
	got, err := io.ReadAll(c.Reader())
	if err == nil || errors.Is(err, ErrCorrupt) || len(got) >= 200_000 {
		t.Errorf("read %d bytes: %v", len(got), err)
	}
	c.Close()
	if in := inArea(t, s, mail.AreaCorrupt); len(in) != 0 {
		t.Errorf("the corrupt area has %v", in)
	}
	if got, err := contentOf(s, m.Envelope.ID); err != nil || len(got) != 200_000 {
		t.Errorf("read again: %d bytes, %v", len(got), err)
	}
}

// The same, if the data read differs from the file.
func TestContentThatIsReadDifferentlyOnce(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, small(fs))
	m := accept(t, s, mail.Envelope{}, addresses(1), text(200_000))
	c, err := s.Content(ctxTest, m.Envelope.ID)
	if err != nil {
		t.Fatal(err)
	}
	_, file := s.bodies.path(m.Envelope.ID)
	data, err := fs.UnsafeGetFileDataBuffer(file)
	if err != nil {
		t.Fatal(err)
	}
	data[5] ^= 1
	if _, err := io.ReadFull(c.Reader(), make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	data[5] ^= 1
	if got, err := io.ReadAll(c.Reader()); err == nil || errors.Is(err, ErrCorrupt) || len(got) >= 199_000 {
		t.Errorf("read %d bytes: %v", len(got), err)
	}
	c.Close()
	if in := inArea(t, s, mail.AreaCorrupt); len(in) != 0 {
		t.Errorf("the corrupt area has %v", in)
	}
}
