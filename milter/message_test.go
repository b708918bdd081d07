package milter

import (
	"strings"
	"testing"
)

// Messages of every form come out as they went in, unless a milter changes something.
func TestUnchanged(t *testing.T) {
	for _, content := range []string{
		"", "\r\n", letter, "A: b\r\n", "A: b", "A: b\r\n\r\n", "A: b\r\n\r\n\r\n", "A : b\r\n c\r\nno field\r\n\r\nbody", "no header at all\r\n", "\r\n no header\r\n",
		" begins with a space\r\nA: b\r\n\r\nbody", "A: " + strings.Repeat("x", 9000) + "\r\n" + strings.Repeat(" y\r\n", 3000) + "\r\n" + strings.Repeat("body\r\n", 20_000),
	} {
		h := host(t, &journal{})
		m := message(t, h, content)
		if err := m.split(); err != nil {
			t.Fatal(err)
		}
		if got := contentOf(t, m); got != "Received: by mta.test\r\n"+content {
			t.Errorf("%.60q became %.90q", content, got)
		}
		if string(m.fields[0].text) != "Received: by mta.test\r\n" {
			t.Errorf("%.60q: a line of it is in our field", content)
		}
	}
}

// Changes of the header, one after the other. Positions for insertion count our own Received field,
// which milters do not see, and positions in a change do not.
func TestHeaderChanges(t *testing.T) {
	for _, c := range []struct {
		what string
		do   func(m *Message, f func(name, value string) field)
		want string
	}{
		{"add", func(m *Message, f func(string, string) field) { m.add(f("X", "1")) }, "Received: by mta.test\r\nA: 1\r\nReceived: 2\r\na: 3\r\nX: 1\r\n"},
		{"insert at the front", func(m *Message, f func(string, string) field) { m.insert(0, f("X", "1")) }, "X: 1\r\nReceived: by mta.test\r\nA: 1\r\nReceived: 2\r\na: 3\r\n"},
		{"insert before the first that it sees", func(m *Message, f func(string, string) field) { m.insert(1, f("X", "1")) }, "Received: by mta.test\r\nX: 1\r\nA: 1\r\nReceived: 2\r\na: 3\r\n"},
		{"insert far behind", func(m *Message, f func(string, string) field) { m.insert(99, f("X", "1")) }, "Received: by mta.test\r\nA: 1\r\nReceived: 2\r\na: 3\r\nX: 1\r\n"},
		{"change the second", func(m *Message, f func(string, string) field) { m.change(2, f("A", "new")) }, "Received: by mta.test\r\nA: 1\r\nReceived: 2\r\nA: new\r\n"},
		{"change the zeroth, which is the first", func(m *Message, f func(string, string) field) { m.change(0, f("A", "new")) }, "Received: by mta.test\r\nA: new\r\nReceived: 2\r\na: 3\r\n"},
		{"ours cannot be removed", func(m *Message, f func(string, string) field) { m.change(1, f("Received", "")) }, "Received: by mta.test\r\nA: 1\r\na: 3\r\n"},
		{"remove both, the last first", func(m *Message, f func(string, string) field) { m.change(2, f("A", "")); m.change(1, f("A", "")) }, "Received: by mta.test\r\nReceived: 2\r\n"},
		{"change one that is not there", func(m *Message, f func(string, string) field) { m.change(3, f("A", "new")) }, "Received: by mta.test\r\nA: 1\r\nReceived: 2\r\na: 3\r\nA: new\r\n"},
		{"remove one that is not there", func(m *Message, f func(string, string) field) { m.change(1, f("B", "")) }, "Received: by mta.test\r\nA: 1\r\nReceived: 2\r\na: 3\r\n"},
		{"several lines", func(m *Message, f func(string, string) field) { m.add(f("X", "1\r\n\t2\n\n3\n")) }, "Received: by mta.test\r\nA: 1\r\nReceived: 2\r\na: 3\r\nX: 1\r\n\t2\r\n\t3\r\n"},
		{"a lone CR", func(m *Message, f func(string, string) field) { m.add(f("X", "1\rB: 2")) }, "Received: by mta.test\r\nA: 1\r\nReceived: 2\r\na: 3\r\nX: 1 B: 2\r\n"},
	} {
		m := message(t, host(t, &journal{}), "A: 1\r\nReceived: 2\r\na: 3\r\n\r\nbody")
		if err := m.split(); err != nil {
			t.Fatal(err)
		}
		c.do(m, func(name, value string) field {
			f, err := newField(name, value, true)
			if err != nil {
				t.Fatal(err)
			}
			return f
		})
		if got := contentOf(t, m); got != c.want+"\r\nbody" {
			t.Errorf("%s: %q\nwant %q", c.what, got, c.want)
		}
	}
}

// A header that ends in the middle of a line gets its end before something follows it, and a header
// without an end gets one before a new body.
func TestAddedAfterAnOpenEnd(t *testing.T) {
	m := message(t, host(t, &journal{}), "A: b")
	if err := m.split(); err != nil {
		t.Fatal(err)
	}
	f, err := newField("X", "ü", true)
	if err != nil {
		t.Fatal(err)
	}
	m.add(f)
	if got := contentOf(t, m); got != "Received: by mta.test\r\nA: b\r\nX: ü\r\n" || !m.EightBit() {
		t.Errorf("%q", got)
	}
}

// A large message and a large new body are in files, of which nothing is left.
func TestLargeBody(t *testing.T) {
	part := strings.Repeat("0123456789abcde\r\n", 3000)
	f := &fake{script: script{'E': strings.Repeat(pack('b', part), 6) + pack('c', "")}}
	h := host(t, &journal{})
	var asked int64
	h.Room = func(octets int64) error {
		asked = max(asked, octets)
		return nil
	}
	s := chain(t, h, FailReject, f.start(t)).Open()
	defer s.Close()
	got := submit(t, s, letter+strings.Repeat("A long body.\r\n", 30_000))
	header, _, _ := strings.Cut(letter, "\r\n\r\n")
	if want := "Received: by mta.test\r\n" + header + "\r\n\r\n" + strings.Repeat(part, 6); got.content != want {
		t.Errorf("%d bytes, want %d; %+v", len(got.content), len(want), got.reason)
	}
	if !strings.Contains(f.seen(), "B:65535 B:65535 ") {
		t.Error(f.seen())
	}
	if asked < 300_000 {
		t.Errorf("room for %d bytes", asked)
	}
}
