package submit

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posthaste-mta/posthaste/header"
	"github.com/posthaste-mta/posthaste/mail"
)

func options() Options {
	return Options{Author: "me@here.example", Domain: "here.example", Unique: "1.2",
		Now: time.Date(2026, 2, 3, 4, 5, 6, 0, time.FixedZone("", 3600))}
}

func (m *Message) text(t *testing.T) string {
	t.Helper()
	r, err := m.content.Reader(0)
	if err != nil {
		t.Fatal(err)
	}
	octets, err := io.ReadAll(r)
	if err != nil || int64(len(octets)) != m.Size() {
		t.Fatalf("%d octets of %d, %v", len(octets), m.Size(), err)
	}
	return string(octets)
}

func (m *Message) all(t *testing.T) (all []mail.Address) {
	t.Helper()
	r, err := m.recipients.reader()
	if err != nil {
		t.Fatal(err)
	}
	for {
		a, ok, err := r.next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return all
		}
		all = append(all, a)
	}
}

const added = "From: me@here.example\r\nDate: Tue, 3 Feb 2026 04:05:06 +0100\r\nMessage-ID: <1.2@here.example>\r\n"

// What programs pipe into sendmail, and what goes out. Every row is a habit of
// some program that has to keep working.
func TestCompose(t *testing.T) {
	complete := "From: a@b\r\nDate: x\r\nMessage-ID: <y>\r\n"
	for _, c := range []struct{ name, in, want string }{
		{"bare LF", "From: a@b\nDate: x\nMessage-ID: <y>\n\nbody\n", complete + "\r\nbody\r\n"},
		{"CRLF", complete + "\r\nbody\r\n", complete + "\r\nbody\r\n"},
		{"mixed line ends", complete + "\nbo\rdy\n\r\n", complete + "\r\nbo dy\r\n\r\n"},
		{"nothing added twice", "DATE : x\nfrom:a@b\nMESSAGE-id:\n <y>\n\n", "DATE : x\r\nfrom:a@b\r\nMESSAGE-id:\r\n <y>\r\n\r\n"},
		{"all is missing", "Subject: s\n\nbody\n", "Subject: s\r\n" + added + "\r\nbody\r\n"},
		{"empty input", "", added + "\r\n"},
		{"only a header", "Subject: s\n", "Subject: s\r\n" + added + "\r\n"},
		{"header cut off", "Subject: s", "Subject: s\r\n" + added + "\r\n"},
		{"body cut off", "\nbody", added + "\r\nbody\r\n"},
		{"no header", "Hello,\n\nhow are you?\n", added + "\r\nHello,\r\n\r\nhow are you?\r\n"},
		{"no empty line", "Subject: s\nHello, you\n", "Subject: s\r\n" + added + "\r\nHello, you\r\n"},
		{"begins with white space", " x\nSubject: s\n", added + "\r\n x\r\nSubject: s\r\n"},
		{"mailbox line", "From me Mon Jan 1\nSubject: s\n\nb\n", "Subject: s\r\n" + added + "\r\nb\r\n"},
		{"Bcc goes", "Bcc: x@y,\n z@y\nSubject: s\nBCC:\n\nBcc: stays\n", "Subject: s\r\n" + added + "\r\nBcc: stays\r\n"},
		{"Return-Path goes", "Return-Path: <x@y>\nSubject: s\n\n", "Subject: s\r\n" + added + "\r\n"},
		{"dots", "\n.\n..\n.x\n", added + "\r\n.\r\n..\r\n.x\r\n"},
		{"NUL", "\na\x00b\n", added + "\r\na b\r\n"},
		{"CR at the end", "\nx\r", added + "\r\nx \r\n"},
	} {
		for size, in := range map[string]io.Reader{"at once": strings.NewReader(c.in), "by octets": iotest.OneByteReader(strings.NewReader(c.in))} {
			m, err := Compose(in, options())
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			if diff := cmp.Diff(c.want, m.text(t)); diff != "" {
				t.Errorf("%s, read %s: %s", c.name, size, diff)
			}
			m.Close()
		}
	}
}

// A lone dot ends the input when a person types, and must not when a program
// asked for the opposite: mail was cut at such lines for decades.
func TestComposeDot(t *testing.T) {
	for in, want := range map[string]string{
		"Subject: s\n\na\n.\nb\n": "Subject: s\r\n" + added + "\r\na\r\n",
		"\n..\n.\r\nb\n":          added + "\r\n..\r\n",
		"Subject: s\n.\n\nb\n":    "Subject: s\r\n" + added + "\r\n",
		".\nb\n":                  added + "\r\n",
	} {
		o := options()
		o.DotEnds = true
		m, err := Compose(strings.NewReader(in), o)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, m.text(t)); diff != "" {
			t.Errorf("%q: %s", in, diff)
		}
	}
}

// With -t the header decides who gets the message; resent fields go before the
// original ones, arguments are added, no recipient is named twice.
func TestRecipientsFromHeader(t *testing.T) {
	for in, want := range map[string][]mail.Address{
		"To: a@x, B <b@x>\nCc: c@x\nBcc: d@x,\n\te@x\nSubject: f@x\n\nTo: g@x\n": {"z@x", "a@x", "b@x", "c@x", "d@x", "e@x"},
		"To: a@x\nCc: a@x\nTo: z@x, b@x\n\n":                                     {"z@x", "a@x", "b@x"},
		"To: a@x\nResent-To: r@x\nResent-Bcc: s@x\nResent-Cc: t@x\n\n":           {"z@x", "r@x", "s@x", "t@x"},
		"Reply-To: a@x\nX-To: b@x\n\n":                                           {"z@x"},
		"To: a@x":                                                                {"z@x", "a@x"},
		"To: (no comma)\n\ta@x\n (x)\nCc: undisclosed:;\n\n":                     {"z@x", "a@x"},
	} {
		o := options()
		o.FromHeader, o.Recipients = true, []mail.Address{"z@x"}
		m, err := Compose(strings.NewReader(in), o)
		if err != nil {
			t.Errorf("%q: %v", in, err)
			continue
		}
		if diff := cmp.Diff(want, m.all(t)); diff != "" {
			t.Errorf("%q: %s", in, diff)
		}
		if text := m.text(t); strings.Contains(text, "d@x") || strings.Contains(text, "s@x") {
			t.Errorf("%q: Bcc shows in %q", in, text)
		}
	}
	o := options()
	o.FromHeader = true
	var bad *header.AddressError
	if _, err := Compose(strings.NewReader("To: a@x, b c\n\n"), o); !errors.As(err, &bad) || bad.Text != "b c" {
		t.Errorf("a bad address: %v", err)
	}
	o.FromHeader = false
	if m, err := Compose(strings.NewReader("To: a@x, b c\n\n"), o); err != nil || m.Recipients() != 0 {
		t.Errorf("without -t: %v", err)
	}
}

// Full names come from the password file and may hold anything.
func TestAuthor(t *testing.T) {
	for name, want := range map[string]string{
		"":              "me@here.example",
		"Jane Doe":      "Jane Doe <me@here.example>",
		"Doe, Jane":     `"Doe, Jane" <me@here.example>`,
		`J. "J" \`:      `"J. \"J\" \\" <me@here.example>`,
		"Jäne":          "=?utf-8?q?J=C3=A4ne?= <me@here.example>",
		"x\nBcc: all@x": `"x Bcc: all@x" <me@here.example>`,
	} {
		if got := author(name, "me@here.example"); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

// MAIL must declare what the content needs, and not more: mail that claims to need
// SMTPUTF8 cannot go to half of the world.
func TestDetection(t *testing.T) {
	long := strings.Repeat("ä", 100_000)
	for _, c := range []struct {
		in             string
		eightBit, utf8 bool
	}{
		{"Subject: s\n\nb\n", false, false},
		{"Subject: s\n\nbödy\n", true, false},
		{"Subject: s\n\n\xff\n", true, false},
		{"Subject: ä\n\nb\n", true, true},
		{"Subject: \xe4\n\nb\n", true, false},
		{"Subject: ä\nX: \xe4\n\nb\n", true, false},
		{"Bcc: ä@x\nSubject: s\n\nb\n", false, false},
		{"Subject: s\n\n" + long + "\n", true, false},
	} {
		m, err := Compose(strings.NewReader(c.in), options())
		if err != nil {
			t.Fatal(err)
		}
		if m.eightBit != c.eightBit || m.utf8Header != c.utf8 {
			t.Errorf("%.30q: 8-bit %v, UTF-8 %v", c.in, m.eightBit, m.utf8Header)
		}
		m.Close()
	}
}

// A program that dies halfway must not send half a message, and the reason must be
// distinguished from other errors.
func TestInputFails(t *testing.T) {
	in := io.MultiReader(strings.NewReader("Subject: s\n\nhalf"), iotest.ErrReader(io.ErrClosedPipe))
	var failed *InputError
	if _, err := Compose(in, options()); !errors.As(err, &failed) || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v", err)
	}
}

// manyRecipients writes a header with n recipients.
func manyRecipients(n int) io.Reader {
	r, w := io.Pipe()
	go func() {
		io.WriteString(w, "Subject: s\nBcc: list:")
		for i := range n {
			fmt.Fprintf(w, "\n User %d <user%d@example%d.net>,", i, i, i%1000)
		}
		io.WriteString(w, ";\n\nbody\n")
		w.Close()
	}()
	return r
}

// A mailing by -t to very many people must not take the machine's memory: what is
// held does not grow with their number (a million were tried by hand).
func TestManyRecipients(t *testing.T) {
	const n = 200_000
	o := options()
	o.FromHeader = true
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	m, err := Compose(manyRecipients(n), o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	runtime.GC()
	runtime.ReadMemStats(&after)
	if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > 8<<20 {
		t.Errorf("%d octets are held", held)
	}
	if m.Recipients() != n {
		t.Errorf("%d recipients", m.Recipients())
	}
	if all := m.all(t); all[n-1] != mail.Address(fmt.Sprintf("user%d@example%d.net", n-1, (n-1)%1000)) {
		t.Errorf("the last one is %s", all[n-1])
	}
}
