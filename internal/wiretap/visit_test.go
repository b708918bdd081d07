package wiretap

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// visited returns what a watcher of sessions has not read yet.
func visited(t *testing.T, w *Watcher) []string {
	t.Helper()
	return unread(t, w, stranger.Address)
}

var stranger = Client{Listener: "smtp", Address: "192.0.2.1"}

// watchVisits watches the sessions for which meets is true; nil: all.
func watchVisits(t *testing.T, h *Hub, count, lines int, meets func(*Visit) Choice) *Watcher {
	t.Helper()
	if meets == nil {
		meets = func(*Visit) Choice { return Now }
	}
	w, err := h.WatchVisits(meets, count, lines)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// from wants sessions with a sender.
func from(sender string) func(*Visit) Choice {
	return func(v *Visit) Choice {
		if v.Mail && v.Sender == sender {
			return Now
		}
		return NotYet
	}
}

// equal compares what was seen.
func equal(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A session is shown as both sides speak, with the beginning and the size of contents, and no challenge of AUTH.
func TestVisit(t *testing.T) {
	h := new(Hub)
	w := watchVisits(t, h, 0, 2, nil)
	v := h.Visit(stranger, nil)
	v.Replies([]byte("220 mx ESMTP\r\n250-mx\r\n25"))
	v.Replies([]byte("0 CHUNKING\r\n"))
	v.Command("AUTH LOGIN")
	v.Replies([]byte("334 VXNlcm5hbWU6\r\n334 \r\n"))
	v.Command(strings.Repeat("x", lineMax+1))
	v.Content([]byte("Subject: one\r\nTo"))
	v.Content([]byte(": two\r\nFrom: three\r\n"))
	v.Replies([]byte("250 ok\r\n"))
	v.Content([]byte("no line's end"))
	v.Command("QUIT")
	v.Content(nil)
	v.Note("a note")
	v.End("QUIT")
	equal(t, visited(t, w), "- connection from 192.0.2.1 to smtp", "> 220 mx ESMTP", "> 250-mx", "> 250 CHUNKING", "< AUTH LOGIN", "> 334 [hidden]", "> 334 ",
		"< "+strings.Repeat("x", lineMax)+" …", "< Subject: one", "< To: two", "- 36 octets of content", "> 250 ok", "< no line's end", "- 13 octets of content", "< QUIT",
		"- 0 octets of content", "- a note", ". the connection has ended: QUIT")
}

// With a sender as the condition, a session is shown from a few lines before MAIL to its end, and other sessions are not; also if the sender is refused or malformed.
func TestVisitOfASender(t *testing.T) {
	for argument, sender := range map[string]string{"FROM:<a@a.test>": "a@a.test", "FROM:<a@a.test> SIZE=1": "a@a.test", "from: <a@a.test> ": "a@a.test", "FROM:a@a.test SIZE=1": "a@a.test",
		"FROM:<>": "", `FROM:<"a> b"@a.test>`: `"a`, `FROM:<"a>b"@a.test> SIZE=1`: `"a>b"@a.test`} {
		h := new(Hub)
		w, other := watchVisits(t, h, 1, 0, from(sender)), watchVisits(t, h, 0, 0, from("other@a.test"))
		v := h.Visit(stranger, nil)
		v.Replies([]byte("220 mx\r\n"))
		v.Command("MAIL FROM:<b@b.test>")
		if got := visited(t, w); got != nil {
			t.Errorf("%s: before: %v", argument, got)
		}
		v.Command("RSET")
		v.Command("mail " + argument)
		v.Replies([]byte("550 no\r\n"))
		v.End("")
		equal(t, visited(t, w), "- connection from 192.0.2.1 to smtp", "> 220 mx", "< MAIL FROM:<b@b.test>", "< RSET", "< mail "+argument, "> 550 no", ". the connection has ended")
		if got := visited(t, other); got != nil {
			t.Errorf("%s: another: %v", argument, got)
		}
		if v := h.Visit(stranger, nil); v.later[0] != other || len(v.later) != 1 {
			t.Errorf("%s: a second session is watched, too", argument)
		}
	}
}

// A recipient belongs to its transaction.
func TestVisitOfARecipient(t *testing.T) {
	h := new(Hub)
	w := watchVisits(t, h, 0, 0, func(v *Visit) Choice {
		if v.Mail && v.Sender == "a@a.test" && v.Recipient == "b@b.test" {
			return Now
		}
		return NotYet
	})
	v := h.Visit(stranger, nil)
	for _, again := range []string{"MAIL FROM:<c@c.test>", "RSET", "EHLO x", "helo x"} {
		v.Command("MAIL FROM:<a@a.test>")
		v.Command(again)
		v.Command("RCPT TO:<b@b.test>")
	}
	v.Command("MAIL FROM:<c@c.test>")
	v.Command("RCPT TO:<b@b.test>")
	v.Command("MAIL FROM:<a@a.test>")
	if got := visited(t, w); got != nil {
		t.Errorf("before: %v", got)
	}
	v.Command("RCPT TO:<b@b.test>")
	if len(visited(t, w)) == 0 {
		t.Error("nothing is shown")
	}
}

// What is kept for those who have not decided is bounded, by lines and by octets, and the last lines are there.
func TestKeptIsBounded(t *testing.T) {
	for _, size := range []int{1, lineMax} {
		h := new(Hub)
		w := watchVisits(t, h, 0, 0, from("a@a.test"))
		v := h.Visit(stranger, nil)
		for i := range 1000 {
			v.Command(fmt.Sprint(strings.Repeat("x", size), i))
			if len(v.kept) > keptLines || v.octets > keptOctets {
				t.Fatalf("%d lines, %d octets", len(v.kept), v.octets)
			}
		}
		v.Command("MAIL FROM:<a@a.test>")
		got := visited(t, w)
		if len(got) != min(keptLines, keptOctets/size)+1 && size == 1 || len(got) < 5 || !strings.HasSuffix(got[len(got)-1], "MAIL FROM:<a@a.test>") {
			t.Errorf("%d lines", len(got))
		}
		if v.kept != nil || v.octets != 0 {
			t.Error("they are kept on")
		}
	}
}

// Sessions notice who watches: before there was anybody, after others have come and gone, and that both kinds of watchers do not meet.
func TestVisitors(t *testing.T) {
	if (*Hub)(nil).Visitors() != 0 || (*Hub)(nil).Visit(stranger, nil) != nil {
		t.Error("no hub has visitors")
	}
	h := new(Hub)
	out, err := h.Watch(func(Connection) bool { return true }, 0, 0)
	if err != nil || h.Visitors() != 0 || h.Visit(stranger, nil) != nil {
		t.Error("who watches connections to receivers sees sessions")
	}
	one := watchVisits(t, h, 0, 1, nil)
	first := h.Visitors()
	out.Close()
	if h.Watched() || h.Open(Connection{}, 0, nil) != nil || first == 0 {
		t.Error("who watches sessions sees connections to receivers")
	}
	v := h.Visit(stranger, nil)
	two := watchVisits(t, h, 0, 3, nil)
	if h.Visitors() == first {
		t.Error("a second one is not noticed")
	}
	v.Command("NOOP 1")
	if v = h.Visit(stranger, v); v.contentLines != 3 {
		t.Errorf("%d lines of content", v.contentLines)
	}
	v.Command("NOOP 2")
	equal(t, visited(t, one), "- connection from 192.0.2.1 to smtp", "< NOOP 1", "< NOOP 2")
	equal(t, visited(t, two), "- connection from 192.0.2.1 to smtp", "< NOOP 2")
	one.Close()
	v.Command("NOOP 3")
	if v = h.Visit(stranger, v); v == nil || len(v.to) != 1 {
		t.Error("who has gone is kept")
	}
	equal(t, visited(t, two), "< NOOP 3")
	if visited(t, one) != nil {
		t.Error("who has gone still sees")
	}
	two.Close()
	if h.Visitors() != 0 || h.Visit(stranger, v) != nil {
		t.Error("no watcher is left")
	}
}

// A client that is found to be another one is asked about again.
func TestVisitOfAnotherClient(t *testing.T) {
	h := new(Hub)
	w := watchVisits(t, h, 0, 0, func(v *Visit) Choice {
		if v.Client.Address == "192.0.2.1" {
			return Now
		}
		return NotYet
	})
	v := h.Visit(Client{"smtp", "192.0.2.9"}, nil)
	v.Command("XCLIENT")
	v = h.Visit(stranger, v)
	v.Command("NOOP")
	equal(t, visited(t, w), "- connection from 192.0.2.1 to smtp", "< NOOP")
	if len(v.later) != 0 || v.kept != nil {
		t.Error("it is kept, though there is no watcher")
	}
}
