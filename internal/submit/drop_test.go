package submit

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// dropped returns a message, and the text of its file.
func dropped(t testing.TB, content string) (Sending, []byte) {
	t.Helper()
	m, err := Compose(strings.NewReader(content), Options{Recipients: []mail.Address{"b@x.example", "ü@x.example"}, Author: "a@x.example", Domain: "x.example",
		Now: time.Unix(0, 0).UTC(), Unique: "1"})
	if err != nil {
		t.Fatal(err)
	}
	s := Sending{Message: m, Sender: "a@x.example", Notify: mail.NotifySuccess | mail.NotifyDelay, Ret: mail.RetHeaders, EnvID: "x=1\r", VERP: len(content) < 100, Delimiters: map[bool]string{true: "-="}[len(content) < 10]}
	var b bytes.Buffer
	if err := writeDrop(&b, s); err != nil {
		t.Fatal(err)
	}
	return s, b.Bytes()
}

// A message comes out of the maildrop as it went in, whatever its size is.
func TestDrop(t *testing.T) {
	for _, content := range []string{"Subject: x\n\nHello\n.\n", "\n", "Subject: ä\n\n" + strings.Repeat("0123456789ä\n", 200000)} {
		s, _ := dropped(t, content)
		defer s.Message.Close()
		dir := t.TempDir()
		if err := errors.Join(CanLeave(dir), Leave(dir, s)); err != nil {
			t.Fatal(err)
		}
		names, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(names) != 1 {
			t.Fatalf("files %q, %v", names, err)
		}
		if info, err := os.Stat(names[0]); err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		f, err := os.Open(names[0])
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		got, err := Load(f, math.MaxInt64)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Message.Close()
		var again, want bytes.Buffer
		if err := errors.Join(writeDrop(&again, got), writeDrop(&want, s)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again.Bytes(), want.Bytes()) || got.Message.eightBit != s.Message.eightBit || got.Message.Recipients() != 2 {
			t.Errorf("%.200q came out as %.200q", want.Bytes(), again.Bytes())
		}
	}
}

// A file that breaks off anywhere, or in which anything has changed, is no message.
func TestBrokenDrop(t *testing.T) {
	s, text := dropped(t, "Subject: x\n\nHello\n")
	s.Message.Close()
	load := func(text []byte) error {
		got, err := Load(bytes.NewReader(text), 1000)
		if err == nil {
			got.Message.Close()
		}
		return err
	}
	if err := load(text); err != nil {
		t.Fatal(err)
	}
	for n := range text {
		if err := load(text[:n]); !errors.Is(err, ErrIncomplete) {
			t.Fatalf("the first %d octets: %v", n, err)
		}
		changed := bytes.Clone(text)
		changed[n] ^= 1
		var refused *Refusal
		if err := load(changed); !errors.Is(err, ErrIncomplete) && !errors.As(err, &refused) {
			t.Fatalf("octet %d changed: %v", n, err)
		}
	}
	if err := load(append(text, '\n')); !errors.Is(err, ErrIncomplete) {
		t.Errorf("one octet more: %v", err)
	}
	var refused *Refusal
	if _, err := Load(bytes.NewReader(text), 10); !errors.As(err, &refused) || !refused.Reply.Permanent() {
		t.Errorf("too large: %v", err)
	}
}

// Whatever users put into a maildrop, what comes out can be sent: no address has a line end
// or another character that would be a command.
func FuzzLoad(f *testing.F) {
	s, text := dropped(f, "Subject: x\n\nHello\n")
	s.Message.Close()
	f.Add(text)
	f.Add([]byte(dropMagic + "\nsender <x>\nto \nsize 1\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Load(bytes.NewReader(text), 10000)
		if err != nil {
			return
		}
		defer s.Message.Close()
		if s.Message.Size() == 0 || s.Message.Recipients() == 0 || strings.ContainsAny(string(s.Sender), "\r\n<>") {
			t.Fatalf("loaded %+v", s)
		}
		recipients, err := s.Message.recipients.reader()
		if err != nil {
			t.Fatal(err)
		}
		for a, ok, err := recipients.next(); ok || err != nil; a, ok, err = recipients.next() {
			if err != nil || a == "" || strings.ContainsAny(string(a), "\r\n<>\x00") {
				t.Fatalf("recipient %q, %v", a, err)
			}
		}
	})
}
