package wiretap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// play gives a tap what two sides say: lines with "> " are sent, those with "< " received, each with a CRLF, and
// "| " is a note. It returns what a watcher sees, in the same form, without the first note. Each side's octets come in pieces of a size.
func play(t *testing.T, size, lines int, dialog string) string {
	t.Helper()
	h := new(Hub)
	w, err := h.Watch(func(Connection) bool { return true }, 0, lines)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	tap := h.Open(Connection{Host: "mx[192.0.2.1]:25"}, 1, func(text string) string { return strings.ReplaceAll(text, "sesame", "[secret]") })
	for line := range strings.Lines(dialog) {
		octets := []byte(strings.TrimSuffix(line[2:], "\n") + "\r\n")
		give := map[byte]func([]byte){'>': tap.Sent, '<': tap.Received}[line[0]]
		if give == nil {
			tap.Note(string(octets[:len(octets)-2]))
			continue
		}
		for len(octets) > 0 {
			n := min(size, len(octets))
			give(octets[:n])
			octets = octets[n:]
		}
	}
	tap.End()
	return strings.Join(seen(t, w)[1:], "\n") + "\n"
}

// seen returns what a watcher of connections has not read yet.
func seen(t *testing.T, w *Watcher) []string {
	t.Helper()
	return unread(t, w, "mx[192.0.2.1]:25")
}

// unread returns what a watcher has not read yet, all of it with one host.
func unread(t *testing.T, w *Watcher, host string) (all []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	lines, _ := w.Next(ctx)
	for _, l := range lines {
		var r Record
		if err := json.Unmarshal(l.JSON, &r); err != nil || r.Connection == 0 || r.Host != host || r.Time.IsZero() {
			t.Fatalf("%s: %v", l.JSON, err)
		}
		all = append(all, r.Direction+" "+r.Text)
	}
	return all
}

// Both sides are shown as they speak, however their octets are cut; of contents only the first lines and the size, and of AUTH nothing but the mechanism and
// whether it succeeds.
func TestWhatIsShown(t *testing.T) {
	for _, c := range []struct{ name, said, shown string }{
		{"a message by DATA, with a dot that was doubled, and one that was refused", `
< 220 mx ESMTP
> EHLO me
< 250-mx
< 250 PIPELINING
> MAIL FROM:<a@b.test>
> RCPT TO:<c@d.test>
> DATA
< 250 ok
< 250 ok
< 354 go on
> Subject: one
> To: two
> From: three
>.
> ..
> .
< 250 taken
> DATA
< 503 no
> RSET
< 250 ok`, `
< 220 mx ESMTP
> EHLO me
< 250-mx
< 250 PIPELINING
> MAIL FROM:<a@b.test>
> RCPT TO:<c@d.test>
> DATA
< 250 ok
< 250 ok
< 354 go on
> Subject: one
> To: two
- SIZE octets of content
> .
< 250 taken
> DATA
< 503 no
> RSET
< 250 ok`},
		{"chunks, which look like commands", `
< 220 mx
> BDAT 7 LAST
> AUTH
> RSET
> BDAT 0 LAST
> QUIT`, `
< 220 mx
> BDAT 7 LAST
> AUTH
- 7 octets of content`},
		{"PLAIN with its response, which the server repeats in its refusal and later", `
< 220 mx
> AUTH PLAIN AGpvZQBzZXNhbWU=
< 535-no such thing as sesame
< 535 5.7.8 go
> NOOP sesame
< 250 sesame`, `
< 220 mx
> AUTH PLAIN [hidden]
< 535-no such thing as [secret]
< 535 5.7.8 go
> NOOP [secret]
< 250 [secret]`},
		{"LOGIN in lower case, behind commands whose replies are still to come", `
< 220 mx
> EHLO me
> auth login
< 250-AUTH LOGIN
< 250 334
< 334 VXNlcm5hbWU6
> am9l
< 334 UGFzc3dvcmQ6
> c2VzYW1l
< 235 ok
> MAIL FROM:<>`, `
< 220 mx
> EHLO me
> AUTH login
< 250-AUTH LOGIN
< 250 334
< 334 [hidden]
> [hidden]
< 334 [hidden]
> [hidden]
< 235 ok
> MAIL FROM:<>`},
		{"TLS, and an empty line", `
< 220 mx
> STARTTLS
< 220 go
| TLS 1.3
> 
< 500 what`, `
< 220 mx
> STARTTLS
< 220 go
- TLS 1.3
> 
< 500 what`},
	} {
		for _, size := range []int{1, 3, 1000} {
			said := strings.TrimPrefix(c.said, "\n") + "\n"
			said = strings.ReplaceAll(said, ">.\n", "> .x\n")
			got := play(t, size, 2, said)
			want := strings.TrimPrefix(c.shown, "\n") + "\n. the connection has ended\n"
			want = strings.ReplaceAll(want, "SIZE", fmt.Sprint(len("Subject: one\r\nTo: two\r\nFrom: three\r\n.x\r\n..\r\n")))
			if c.name == "chunks, which look like commands" { // AUTH and its CRLF are 6 octets, the R of RSET is the seventh
				want = "< 220 mx\n> BDAT 7 LAST\n> AUTH\n> R\n- 7 octets of content\n> SET\n> BDAT 0 LAST\n> QUIT\n. the connection has ended\n"
			}
			if got != want {
				t.Errorf("%s, in pieces of %d: got\n%swant\n%s", c.name, size, got, want)
			}
		}
	}
}

// A long line is cut, and takes no more memory than is shown of it. What is left of a reply could end in a part of a secret.
func TestLongLines(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for said, want := range map[string]string{"> NOOP " + long: "> NOOP " + long[:lineMax-3] + cut, "< 250 " + long + "sesame": "< 250 " + Hidden} {
		if got := play(t, 4096, 2, said); got != want+"\n. the connection has ended\n" {
			t.Errorf("%d octets are shown: %.80q", len(got), got)
		}
	}
	var p partial
	for range 100 {
		p.take([]byte(long))
	}
	if cap(p.text) > 4*lineMax {
		t.Errorf("%d octets are kept", cap(p.text))
	}
}

// Each watcher gets the connections that it wants, and no more than it asked for.
func TestWatchersChoose(t *testing.T) {
	h := new(Hub)
	if h.Watched() || (*Hub)(nil).Watched() {
		t.Error("a new hub is watched")
	}
	mx := Connection{Transport: "smtp", Nexthop: "d.test", Source: "one", Host: "mx[192.0.2.1]:25"}
	w, _ := h.Watch(func(c Connection) bool { return c == mx }, 2, 0)
	if !h.Watched() || h.Open(Connection{Host: "other"}, 0, nil) != nil {
		t.Error("a connection is shown that no watcher wants")
	}
	first, second := h.Open(mx, 0, nil), h.Open(mx, 0, nil)
	if first == nil || second == nil || h.Open(mx, 0, nil) != nil || first.number == second.number {
		t.Fatal("not two connections are shown")
	}
	all, _ := h.Watch(func(Connection) bool { return true }, 0, 0)
	for range 3 {
		if h.Open(mx, 0, nil) == nil {
			t.Error("a connection is missing")
		}
	}
	if got := seen(t, w); len(got) != 2 || got[0] != "- connection to mx[192.0.2.1]:25 by smtp for d.test from one" {
		t.Errorf("got %q", got)
	}
	if got := seen(t, all); len(got) != 3 {
		t.Errorf("got %q", got)
	}
	if w.Close(); !h.Watched() {
		t.Error("a watcher that has gone still watches")
	}
	if first.Sent([]byte("QUIT\r\n")); len(seen(t, w)) > 0 {
		t.Error("and gets something")
	}
	if all.Close(); h.Watched() {
		t.Error("not watched any more")
	}
	for range WatchersMax {
		if _, err := h.Watch(nil, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.Watch(nil, 0, 0); !errors.Is(err, ErrTooMany) {
		t.Error(err)
	}
}

// Several watchers see one connection: one that comes later joins what is watched already, within its count, and sees what follows with the lines of
// contents that it wants. What a tap knows of the dialog, such as that a secret comes, holds for it, too.
//
// Seen failing: a second watcher did not see a connection that was watched already.
func TestWatchersJoin(t *testing.T) {
	h := new(Hub)
	mx := Connection{Transport: "smtp", Nexthop: "d.test", Host: "mx[192.0.2.1]:25"}
	wants := func(c Connection) bool { return c == mx }
	first, _ := h.Watch(wants, 0, 0)
	tap := h.Open(mx, 1, nil)
	say := func(sent, received string) {
		tap.Sent([]byte(sent))
		tap.Received([]byte(received))
	}
	say("", "220 mx\r\n")
	say("AUTH LOGIN\r\n", "334 VXNlcg==\r\n")
	later, _ := h.Watch(wants, 1, 1)
	never, _ := h.Watch(func(Connection) bool { return false }, 0, 0)
	for range 2 {
		if !h.Join(tap, mx) {
			t.Error("no watcher is known")
		}
	}
	say("sesame\r\n", "235 ok\r\n")
	say("DATA\r\n", "354 go\r\n")
	say("one\r\ntwo\r\n.\r\n", "250 ok\r\n")
	want := []string{"- connection to mx[192.0.2.1]:25 by smtp for d.test", "> [hidden]", "< 235 ok", "> DATA", "< 354 go", "> one", "- 10 octets of content", "> .", "< 250 ok"}
	if got := seen(t, later); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the later one sees %q, want %q", got, want)
	}
	if got := seen(t, first); len(got) != 4+len(want)-1 || got[0] != want[0] || got[len(got)-1] != "< 250 ok" {
		t.Errorf("the first sees %q", got)
	}
	if got := seen(t, never); len(got) > 0 {
		t.Errorf("one that wants others sees %q", got)
	}
	if first.Close(); !h.Join(tap, mx) {
		t.Error("the later one does not watch any more")
	}
	tap.Sent([]byte("QUIT\r\n"))
	if got := seen(t, later); len(got) != 1 || len(seen(t, first)) != 0 {
		t.Errorf("the later one sees %q", got)
	}
	if other := h.Open(mx, 0, nil); other != nil {
		t.Error("the later one sees more connections than it asked for")
	}
	never.Close()
	if later.Close(); h.Join(tap, mx) {
		t.Error("a watcher that has gone is still known")
	}
}

// No octets of either side make a tap fail, and what is sent between AUTH and the reply to it is never shown.
func FuzzTap(f *testing.F) {
	f.Add("AUTH PLAIN sesame\r\n", "220 a\r\n235 b\r\n")
	f.Add("BDAT 99999999999999999999\r\nDATA\r\n.\r\n", "354\r\n354-\r\n")
	f.Fuzz(func(t *testing.T, sent, received string) {
		h := new(Hub)
		w, _ := h.Watch(func(Connection) bool { return true }, 0, 3)
		tap := h.Open(Connection{Host: "mx[192.0.2.1]:25"}, 1, nil)
		tap.Received([]byte("220 mx\r\n"))
		tap.Sent([]byte("AUTH LOGIN\r\n"))
		for tap.Sent([]byte("open\x01sesame\r\n")); received != ""; {
			n := min(7, len(received))
			tap.Received([]byte(received[:n]))
			received = received[n:]
		}
		tap.Sent([]byte(sent))
		for _, line := range seen(t, w) {
			if strings.Contains(line, "open\x01sesame") && !strings.Contains(sent, "open\x01sesame") {
				t.Error(line)
			}
		}
	})
}
