package daemon

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// No relay may change content (RFC 5321 6.4): whatever its form and size,
// whichever way it came in, and whether or not the next hop takes commands in
// groups, all bytes of the body arrive. A last line without an end gets one,
// for DATA cannot do without.
func TestContentArrivesUnchanged(t *testing.T) {
	t.Parallel()
	grouping, single := receive(t, sink.Config{}), receive(t, sink.Config{Withheld: []string{"PIPELINING", "SIZE", "DSN", "ENHANCEDSTATUSCODES", "LIMITS", "CHUNKING"}})
	r := start(t, t.TempDir(), routes("grouping.test", grouping.address, "single.test", single.address))
	bodies := map[string]string{
		"empty":            "",
		"one line":         "x\r\n",
		"dots":             ".\r\n..\r\n.x\r\nx.\r\n\r\n.\r\n",
		"only dots":        strings.Repeat(".", 500) + "\r\n",
		"empty lines":      strings.Repeat("\r\n", 1000),
		"like commands":    "QUIT\r\nDATA\r\nMAIL FROM:<x@y.test>\r\n",
		"long lines":       strings.Repeat(strings.Repeat("0123456789", 99)+"\r\n", 100),
		"no final line":    "first\r\nsecond",
		"final dot":        "first\r\n.",
		"at inline limit":  bodyOf(65_000),
		"1 MB":             bodyOf(1 << 20),
		"1 MB of dots":     strings.Repeat("..\r\n", 1<<18),
		"8 bits":           "Gr\xc3\xbc\xc3\x9fe \xff\xfe\r\n",
		"more than a file": bodyOf(5 << 20),
	}
	want := make(map[string]uint32)
	copiesGrouping, copiesSingle := make(copies), make(copies)
	var letters []feed.Message
	for name, body := range bodies {
		for _, chunked := range []bool{false, true} {
			key := fmt.Sprintf("<%s, BDAT %t>", name, chunked)
			m := letter(key, "a@grouping.test", "b@single.test")
			m.Content, m.Chunked, m.Parameters = text(key, body), chunked, " BODY=8BITMIME"
			if !strings.HasSuffix(string(m.Content), "\r\n") {
				body += "\r\n"
			}
			want[key] = sum(body)
			copiesGrouping.add(key, "a@grouping.test")
			copiesSingle.add(key, "b@single.test")
			letters = append(letters, m)
		}
	}
	r.feed(letters...)
	r.settled()
	grouping.copies().matches(t, copiesGrouping)
	single.copies().matches(t, copiesSingle)
	for _, d := range append(grouping.deliveries(), single.deliveries()...) {
		if d.BodySum != want[d.Key] {
			t.Errorf("%s came with another body, %d bytes in all", d.Key, d.Size)
		}
	}
}

// bodyOf returns random lines, many of which begin with a dot.
func bodyOf(size int) string {
	rng := rand.New(rand.NewPCG(1, uint64(size)))
	var b strings.Builder
	for b.Len() < size {
		if rng.IntN(3) == 0 {
			b.WriteByte('.')
		}
		for range rng.IntN(200) {
			b.WriteByte(byte('!' + rng.IntN('~'-'!')))
		}
		b.WriteString("\r\n")
	}
	return b.String()
}

// The header gets one Received field, on top, and loses nothing.
func TestHeaderArrivesUnchanged(t *testing.T) {
	t.Parallel()
	box := receive(t, sink.Config{})
	r := start(t, t.TempDir(), routes("d.test", box.address))
	m := letter("", "a@d.test")
	m.Content = []byte("X-Folded: one\r\n\ttwo\r\nx-lower:no space\r\nSubject: =?utf-8?q?x?=\r\nBcc: hidden@elsewhere.test\r\nX-Empty:\r\nMessage-ID: <1>\r\n\r\nbody\r\n")
	r.feed(m)
	r.settled()
	got := box.deliveries()[0].Content
	received, rest, _ := bytes.Cut(got, []byte("\r\nX-Folded"))
	if "X-Folded"+string(rest) != string(m.Content) {
		t.Errorf("got %q", got)
	}
	if !bytes.HasPrefix(received, []byte("Received: from feed.test ")) || !bytes.Contains(received, []byte("by mta.test ")) || bytes.Count(received, []byte("\r\nReceived:")) != 0 {
		t.Errorf("the new field is %q", received)
	}
}

// What cannot be passed on safely is refused at the door: line ends that two
// servers could understand in two ways, and messages that go round in circles.
func TestUnfitContentIsRefused(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), "message_size_limit = 70000\n")
	for name, test := range map[string]struct {
		content string
		code    uint16
	}{
		"bare LF":    {"Subject: x\r\n\r\na\nb\r\n", 550},
		"bare CR":    {"Subject: x\r\n\r\na\rb\r\n", 550},
		"NUL":        {"Subject: x\r\n\r\na\x00b\r\n", 554},
		"mail loop":  {strings.Repeat("Received: from a by b; date\r\n", 101) + "\r\nx\r\n", 554},
		"own loop":   {strings.Repeat("Received: from a by mta.test; date\r\n", 21) + "\r\nx\r\n", 554},
		"line limit": {"Subject: x\r\n\r\n" + strings.Repeat("x", 66_000) + "\r\n", 554},
		"too large":  {bodyOf(80_000), 552},
	} {
		c := r.dial()
		m := letter("", "a@d.test")
		m.Content, m.Chunked = []byte(test.content), true // DATA would repair line ends
		if got := c.Send(m); got.Fate != feed.Refused || got.Reply.Code/100 != 5 {
			t.Errorf("%s: %s, %s, %v", name, got.Fate, got.Reply, got.Err)
		} else if got.Reply.Code != test.code {
			t.Errorf("%s: %s, want %d", name, got.Reply, test.code)
		}
		c.Abort()
	}
	r.waiting("nothing queued", census{mail.AreaIncoming: 0})
}
