package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/internal/submit"
	"github.com/posthaste-mta/posthaste/mail"
)

// leave puts a message into a maildrop as sendmail does.
func leave(t *testing.T, dir, key string, to ...mail.Address) {
	t.Helper()
	m, err := submit.Compose(strings.NewReader(string(text(key, "Hello.\r\n"))), submit.Options{Recipients: to, Author: "sender@origin.test", Domain: "origin.test"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := submit.Leave(dir, submit.Sending{Message: m, Sender: "sender@origin.test"}); err != nil {
		t.Fatal(err)
	}
}

// Mail that was left while no daemon ran is taken in when one starts, as that of the user who
// has left it, whatever else hostile users have put beside it.
func TestMaildrop(t *testing.T) {
	t.Parallel()
	box := receive(t, sink.Config{})
	dir := t.TempDir()
	config := "maildrop = \"all\"\nmessage_size_limit = \"64K\"\n" + routes("d.test", box.address) + fmt.Sprintf("[tenant.owner]\nuser = [\"uid:%d\"]\n", os.Getuid())
	start(t, dir, config).end() // which makes the directory
	drop := filepath.Join(dir, "maildrop")
	info, err := os.Stat(drop)
	if err != nil || info.Mode() != os.ModeDir|os.ModeSetgid|os.ModeSticky|0o733 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	leave(t, drop, "<1>", "a@d.test", "b@d.test")
	in := func(name string) string { return filepath.Join(drop, name) }
	leave(t, t.TempDir(), "<other>", "c@d.test")
	other := t.TempDir()
	leave(t, other, "<linked>", "d@d.test")
	linked, err := filepath.Glob(filepath.Join(other, "*"))
	if err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-2 * dropOld)
	if err := errors.Join(
		os.Symlink(linked[0], in("symlink")), os.Link(linked[0], in("hardlink")), syscall.Mkfifo(in("fifo"), 0o666), os.Mkdir(in("dir"), 0o755),
		os.WriteFile(in("dir/file"), nil, 0o644), os.WriteFile(in("junk"), []byte("junk"), 0o644), os.WriteFile(in("old"), []byte("posthaste-drop 1\nsender a\n"), 0o644),
		os.Chtimes(in("old"), long, long), os.WriteFile(in("large"), []byte("posthaste-drop 1\nsender a\nto b\nsize 10000000\n\n"), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	r := start(t, dir, config)
	r.until("that it is taken in", func() bool { return len(box.deliveries()) > 0 })
	leave(t, drop, "<2>", "a@d.test")
	r.d.drop.scan(t.Context()) // sooner than by itself
	r.until("the second message", func() bool { return len(box.deliveries()) > 1 })
	r.settled()
	box.copies().matches(t, copies{"<1> a@d.test": 1, "<1> b@d.test": 1, "<2> a@d.test": 1})
	if n := r.log.count("msg=accepted", "tenant=owner"); n != 2 {
		t.Errorf("%d messages were accepted as those of their user", n)
	}
	r.end()
	left, err := os.ReadDir(drop)
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); err != nil || got != "dir fifo hardlink junk symlink" {
		t.Errorf("left in the maildrop: %s, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "maildrop-refused", "large")); err != nil {
		t.Errorf("a message that is too large: %v", err)
	}
}

// Without a group, other users cannot leave mail. If the maildrop is switched off, no user can.
func TestMaildropModes(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		text string
		want os.FileMode
	}{
		{"", os.ModeDir | os.ModeSetgid | os.ModeSticky | 0o700},
		{"submission_group = \"0\"\n", os.ModeDir | os.ModeSetgid | os.ModeSticky | 0o730},
		{"maildrop = \"off\"\n", os.ModeDir | 0o700},
	} {
		if os.Geteuid() != 0 && c.text != "" && strings.HasPrefix(c.text, "submission") {
			continue // only members of a group can give files to it
		}
		cfg := configure(t, dir, c.text)
		if _, err := openMaildrop(cfg, quiet.Log); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(cfg.MaildropPath()); err != nil || info.Mode()&^os.ModeSetgid&^os.ModeSticky != c.want&^os.ModeSetgid&^os.ModeSticky {
			t.Errorf("%q: mode %v, %v", c.text, info.Mode(), err)
		}
	}
}

// A file that is not complete yet is taken in once it is, and not read again before it has
// changed; neither is one that this process may not read.
func TestMaildropLater(t *testing.T) {
	from, dir := t.TempDir(), t.TempDir()
	leave(t, from, "<1>", "a@d.test")
	whole, err := filepath.Glob(filepath.Join(from, "*"))
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(whole[0])
	if err != nil {
		t.Fatal(err)
	}
	m, err := openMaildrop(configure(t, dir, ""), quiet.Log)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(m.dir, "drop-x")
	look := func(what string, content []byte, old bool, want bool) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o640); err != nil {
			t.Fatal(err)
		}
		if old {
			long := time.Now().Add(-2 * dropOld)
			if err := os.Chtimes(path, long, long); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if done := m.look(t.Context(), "drop-x"); done != want {
				t.Errorf("%s: done with: %v", what, done)
			}
		}
	}
	look("half of it", content[:len(content)/2], false, false)
	look("half of it, a day ago", content[:len(content)/2], true, true)
	m.sessions.Close() // there is no daemon
	look("all of it", content, false, false)
	if again := m.looked["drop-x"]; again.until.IsZero() || again.size != int64(len(content)) {
		t.Errorf("a whole message: %+v", again)
	}
	m.sizeMax = 10
	m.looked["drop-x"] = looked{}
	m.returner = &tellings{}
	if !m.look(t.Context(), "drop-x") {
		t.Error("a message that is too large is still there")
	}
}

// A serving is what a daemon replies in its sessions with the maildrop, and the recipients
// that it received.
func serve(t *testing.T, m *maildrop, sessions ...[]string) (told func() []string) {
	t.Helper()
	var all []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, says := range sessions {
			conn, err := m.sessions.Accept()
			if err != nil {
				return
			}
			in := bufio.NewScanner(conn)
			for i, reply := range says {
				for i > 0 && in.Scan() {
					if to, ok := strings.CutPrefix(in.Text(), "RCPT TO:"); ok {
						all = append(all, to)
					}
					if !strings.HasPrefix(says[i-1], "354") || in.Text() == "." {
						break
					}
				}
				fmt.Fprintf(conn, "%s\r\n", reply)
			}
			conn.Close()
		}
	}()
	return func() []string { <-done; return all }
}

// A message with more recipients than one transaction takes, of which the second is put off,
// goes on where it came to: its first recipients do not get it again with each attempt.
func TestMaildropInPart(t *testing.T) {
	m, err := openMaildrop(configure(t, t.TempDir(), ""), quiet.Log)
	if err != nil {
		t.Fatal(err)
	}
	leave(t, m.dir, "<1>", "a@d.test", "b@d.test", "c@d.test")
	hello := []string{"220 s", "250-s\r\n250-PIPELINING\r\n250-LIMITS RCPTMAX=2\r\n250 8BITMIME"}
	told := serve(t, m, append(hello, "250 ok", "250 ok", "250 ok", "354 go", "250 taken", "451 4.7.1 too much", "221 bye"),
		append(hello, "250 ok", "250 ok", "354 go", "250 taken", "221 bye"))
	for i := range 2 {
		clear(m.looked) // a minute later
		if left, err := m.scan(t.Context()); err != nil || left != 1-i {
			t.Fatalf("scan %d: %d left, %v", i, left, err)
		}
	}
	if got := strings.Join(told(), " "); got != "<a@d.test> <b@d.test> <c@d.test>" || len(m.partly) > 0 {
		t.Errorf("recipients %s; %+v", got, m.partly)
	}
}

// A file rests as long as it should whatever its age, which its owner can set: without this a
// message that was put off would be tried with every look at the directory, and one that was
// taken but not removed would be sent with each.
func TestMaildropRests(t *testing.T) {
	m, err := openMaildrop(configure(t, t.TempDir(), ""), quiet.Log)
	if err != nil {
		t.Fatal(err)
	}
	leave(t, m.dir, "<1>", "a@d.test")
	names, err := filepath.Glob(filepath.Join(m.dir, "*"))
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	long := time.Now().Add(-2 * dropOld)
	if err := os.Chtimes(names[0], long, long); err != nil {
		t.Fatal(err)
	}
	hello := []string{"220 s", "250 8BITMIME"}
	told := serve(t, m, append(hello, "451 4.7.1 too much", "221 bye"), append(hello, "250 ok", "250 ok", "354 go", "250 taken", "221 bye"))
	for range 2 { // without its rest, the second would be a session
		if m.look(t.Context(), filepath.Base(names[0])) {
			t.Error("it was taken")
		}
	}
	info, err := os.Lstat(names[0])
	if err != nil {
		t.Fatal(err)
	}
	if m.remove(filepath.Join(m.dir, "gone"), partly{}) != true {
		t.Error("a file that is gone is not done with")
	}
	clear(m.looked)
	if err := errors.Join(os.Mkdir(names[0]+"x", 0o700), os.WriteFile(names[0]+"x/y", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if m.remove(names[0]+"x", partly{size: info.Size(), changed: info.ModTime()}) || !m.partly[filepath.Base(names[0])+"x"].all {
		t.Error("what cannot be removed is not remembered")
	}
	m.partly[filepath.Base(names[0])] = partly{size: info.Size(), changed: info.ModTime(), all: true}
	if !m.look(t.Context(), filepath.Base(names[0])) {
		t.Error("it was not removed")
	}
	m.sessions.Close()
	if got := told(); len(got) > 0 {
		t.Errorf("it was sent again to %q", got)
	}
}

// tellings is a returner whose answers are given.
type tellings struct {
	told, whole bool
	err         error
	asked       int
}

func (a *tellings) giveBack(context.Context, *submit.Sending, *submit.Refusal) (told, whole bool, err error) {
	a.asked++
	return a.told, a.whole, a.err
}

// Mail in the maildrop that the daemon refuses permanently goes back to its sender with its whole content. Only
// mail that cannot be returned in whole, or has no sender to return it to, is kept for the operator. Before, the
// sender never learned of the refusal.
func TestMaildropRefused(t *testing.T) {
	t.Parallel()
	box := receive(t, sink.Config{})
	dir := t.TempDir()
	config := "maildrop = \"all\"\nmessage_size_limit = \"64K\"\nmasquerade_domains = \"origin.test\"\n" + routes("d.test", box.address, "origin.test", box.address)
	start(t, dir, config).end() // which makes the directory
	drop := filepath.Join(dir, "maildrop")
	put := func(key, body string, s submit.Sending, to ...mail.Address) {
		t.Helper()
		m, err := submit.Compose(strings.NewReader(string(text(key, body))), submit.Options{Recipients: to, Author: "sender@origin.test", Domain: "origin.test"})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		s.Message = m
		if err := submit.Leave(drop, s); err != nil {
			t.Fatal(err)
		}
	}
	put("<1>", "Hello.\r\n", submit.Sending{Sender: "sender@host.origin.test", EnvID: "a b"}, "a@d.test", "b@-", "c@d.test")
	put("<2>", strings.Repeat("Hello, hello, hello.\r\n", 5000), submit.Sending{Sender: "large@origin.test"}, "a@d.test")
	put("<3>", "Hello.\r\n", submit.Sending{}, "b@-")
	put("<4>", "Hello.\r\n", submit.Sending{Sender: "never@origin.test", Notify: mail.NotifyNever}, "b@-")
	put("<5>", "Hello.\r\n", submit.Sending{Sender: "headers@origin.test", Ret: mail.RetHeaders}, "b@-")
	put("<6>", "Hello.\r\n", submit.Sending{Sender: "not an address"}, "a@d.test")
	r := start(t, dir, config)
	r.until("that all are dealt with", func() bool {
		left, err := os.ReadDir(drop)
		return err == nil && len(left) == 0
	})
	r.settled()
	reports := map[mail.Address]string{}
	for _, d := range box.deliveries() {
		if d.Sender != "" || len(d.Recipients) != 1 || reports[d.Recipients[0]] != "" {
			t.Errorf("%s to %v:\n%s", d.Sender, d.Recipients, d.Content)
			continue
		}
		reports[d.Recipients[0]] = string(d.Content)
	}
	for to, want := range map[mail.Address][]string{
		"sender@origin.test":  {"Final-Recipient: rfc822; a@d.test", "Final-Recipient: rfc822; b@-", "Final-Recipient: rfc822; c@d.test", "Original-Envelope-Id: a b", "Status: 5.1.3", "another recipient", "Message-ID: <1>", "\r\nHello.\r\n"},
		"large@origin.test":   {"Final-Recipient: rfc822; a@d.test", "Status: 5.3.4", "Message-ID: <2>"},
		"headers@origin.test": {"Final-Recipient: rfc822; b@-", "Message-ID: <5>"},
	} {
		got, ok := reports[to]
		if delete(reports, to); !ok {
			t.Errorf("no report to %s", to)
		}
		for _, part := range want {
			if !strings.Contains(got, part) {
				t.Errorf("no %q in the report to %s:\n%s", part, to, got)
			}
		}
		if to != "sender@origin.test" && strings.Contains(got, "\r\nHello") {
			t.Errorf("the report to %s has the text of the message", to)
		}
	}
	if len(reports) > 0 {
		t.Errorf("further reports: %v", reports)
	}
	kept, err := os.ReadDir(filepath.Join(dir, "maildrop-refused"))
	if err != nil || len(kept) != 5 {
		t.Errorf("%d files are kept for the operator, %v, want those of 2, 3, 4, 5 and 6", len(kept), err)
	}
	for _, e := range kept {
		content, err := os.ReadFile(filepath.Join(dir, "maildrop-refused", e.Name()))
		if err != nil || strings.Contains(string(content), "<1>") {
			t.Errorf("kept %s: %v", content, err)
		}
	}
}

// A report that cannot be made, as on a full disk, is made later, and the message waits for that. A file that
// cannot be set aside is no reason for a second report.
func TestMaildropRefusedInTrouble(t *testing.T) {
	m, err := openMaildrop(configure(t, t.TempDir(), ""), quiet.Log)
	if err != nil {
		t.Fatal(err)
	}
	leave(t, m.dir, "<1>", "a@d.test")
	names, err := filepath.Glob(filepath.Join(m.dir, "*"))
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	name := filepath.Base(names[0])
	m.sizeMax = 10
	says := &tellings{err: errors.New("the disk is full")}
	m.returner = says
	look := func(want bool) {
		t.Helper()
		clear(m.looked)
		if done := m.look(t.Context(), name); done != want {
			t.Errorf("done with: %v, want %v", done, want)
		}
	}
	look(false)
	says.err, says.told = nil, true
	aside := m.aside
	m.aside = filepath.Join(aside, "missing")
	look(false)
	look(false)
	if says.asked != 2 {
		t.Errorf("%d reports were asked for, want one that failed and one that did not", says.asked)
	}
	m.aside = aside
	look(true)
	if _, err := os.Stat(filepath.Join(aside, name)); err != nil || says.asked != 2 || len(m.partly) != 0 {
		t.Errorf("%v; asked %d times; %+v", err, says.asked, m.partly)
	}
}
