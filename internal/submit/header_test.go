package submit

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/posthaste-mta/posthaste/mail"
)

// A header that two programs read differently is refused. In each of these, one
// reading loses a recipient or shows a blind copy to all recipients.
func TestAmbiguousHeader(t *testing.T) {
	for _, c := range []struct {
		name, in string
		line     int
	}{
		{"bare CR in To", "To: a@b\rBcc: secret@x\n\nbody\n", 1},
		{"bare CR before the line end", "To: a@b\r\r\nBcc: secret@x\n\nbody\n", 1},
		{"bare CR at the begin", "To: a@b\n\rBcc: secret@x\n\nbody\n", 2},
		{"only CR", "To: a@b\rBcc: secret@x\r\rbody\r", 1},
		{"bare CR in a folded line", "To: a@b,\n c@d\rBcc: secret@x\n\n", 2},
		{"bare CR in a field that does not matter", "Subject: s\rBcc: secret@x\nTo: a@b\n\n", 1},
		{"CR at the end of the input", "To: a@b\nSubject: s\r", 2},
		{"NUL in To", "To: a@b\x00, c@d\n\n", 1},
		{"NUL in a name", "To: a@b\nB\x00cc: secret@x\n\n", 2},
		{"Bcc behind a bad line", "To: a@b\nwhat is this\nBcc: secret@x\n\nbody\n", 3},
		{"bcc with white space behind a bad line", "To: a@b\nwhat is this\nbCC \t: secret@x\n\nbody\n", 3},
		{"Resent-Bcc behind a bad line", "To: a@b\nwhat is this\nSubject: s\nResent-Bcc: secret@x\n\nbody\n", 4},
		{"Cc behind a bad line", "To: a@b\nwhat is this\nCc: c@d\n\nbody\n", 3},
		{"Bcc without a header", "Hello\nBcc: secret@x\n\n", 2},
		{"Bcc behind a white line at the begin", " \nBcc: secret@x\nTo: a@b\n\n", 2},
	} {
		for how, in := range map[string]io.Reader{"at once": strings.NewReader(c.in), "by octets": iotest.OneByteReader(strings.NewReader(c.in))} {
			o := options()
			o.FromHeader = true
			m, err := Compose(in, o)
			var header *HeaderError
			if err == nil {
				t.Errorf("%s, %s: sent to %q as %q", c.name, how, m.all(t), m.text(t))
				m.Close()
			} else if !errors.As(err, &header) || header.Line != c.line {
				t.Errorf("%s, %s: %v, want an error in line %d", c.name, how, err, c.line)
			}
		}
	}
}

// The same within a line that is longer than the buffer, at each of its ends.
func TestBareCRInALongLine(t *testing.T) {
	const buffer = 64 << 10
	for at := buffer - 12; at < buffer+4; at++ {
		in := "X: " + strings.Repeat("x", at) + "\rBcc: secret@x\nTo: a@b\n\n"
		if m, err := Compose(strings.NewReader(in), options()); err == nil {
			m.Close()
			t.Errorf("a CR after %d bytes is accepted", at)
		}
		in = strings.ReplaceAll(in, "\rBcc: secret@x\n", "\r\n")
		m, err := Compose(strings.NewReader(in), options())
		if err != nil {
			t.Errorf("a line end after %d bytes: %v", at, err)
			continue
		}
		m.Close()
	}
}

// However Bcc is written and folded, and whatever stands around it: its recipients get
// the message, and no recipient sees their addresses.
func TestBccNeverShows(t *testing.T) {
	for _, name := range []string{"Bcc", "BCC", "bcc", "bCc ", "Bcc\t", "Bcc  "} {
		for _, value := range []string{" secret@x", "secret@x", "\n secret@x", "\r\n\tsecret@x", "\n \n secret@x", " one@y,\n\tsecret@x", " Hidden <secret@x>", " (no)secret@x", " group: secret@x;", "\n\t\"a\n b\" <secret@x>"} {
			for _, around := range [][2]string{{"To: a@b\n", "Subject: s\n"}, {"", "To: a@b\n"}, {"Subject: s\n folded\n", "To: a@b\n"}, {"To: a@b\n", ""}, {"From me Mon\nTo: a@b\n", "Cc: c@d\n"}} {
				for _, prefix := range []string{"", "Resent-"} {
					head := around[0] + prefix + name + ":" + value + "\n" + around[1]
					if prefix != "" {
						head = strings.ReplaceAll(head, "To:", "Resent-To:")
					}
					for _, end := range []string{"\nbody\n", "", "\n"} {
						checkBcc(t, head+end)
					}
				}
			}
		}
	}
}

func checkBcc(t *testing.T, in string) {
	t.Helper()
	o := options()
	o.FromHeader = true
	m, err := Compose(strings.NewReader(in), o)
	if err != nil {
		t.Errorf("%q: %v", in, err)
		return
	}
	defer m.Close()
	if text := m.text(t); strings.Contains(text, "secret") || strings.Contains(strings.ToLower(text), "bcc") {
		t.Errorf("%q is sent as %q", in, text)
	}
	if all := fmt.Sprint(m.all(t)); !strings.Contains(all, "secret@x") || !strings.Contains(all, "a@b") {
		t.Errorf("%q goes to %s", in, all)
	}
}

// A message that is resent does not go to its first recipients again, even if no new
// recipient is named.
func TestResent(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []mail.Address
	}{
		{"To: a@b\nResent-To: c@d\n\n", []mail.Address{"c@d"}},
		{"Resent-Cc: c@d\nBcc: x@y\nCc: a@b\n\n", []mail.Address{"c@d"}},
		{"To: a@b\nResent-From: me@b\n\n", nil},
		{"resent-DATE: now\nTo: a@b\n\n", nil},
		{"To: a@b\nResentful: yes\n\n", []mail.Address{"a@b"}},
	} {
		o := options()
		o.FromHeader = true
		m, err := Compose(strings.NewReader(c.in), o)
		if err != nil {
			t.Errorf("%q: %v", c.in, err)
			continue
		}
		if diff := cmp.Diff(c.want, m.all(t)); diff != "" {
			t.Errorf("%q: %s", c.in, diff)
		}
		m.Close()
	}
}
