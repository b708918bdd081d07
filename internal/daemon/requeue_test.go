package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// Mail for a domain that does not answer waits, with a recipient elsewhere who waits, too. An alias leads to another domain, and mail of the
// sender gets its own class and tenant; after a reload, the mail waits as before, and what is new goes to the new domain. A
// requeue brings what waits there, once, and leaves the other recipient alone; the new message is as old as the first one, and both
// IDs are in the log. An alias that leads nowhere leaves a message as it was. What is requeued without a change is
// tried again. A held message stays held, over a restart.
func TestRequeue(t *testing.T) {
	t.Parallel()
	down, other, box := closed(t), closed(t), receive(t, sink.Config{})
	dir := t.TempDir()
	file := filepath.Join(dir, "aliases")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("nobody@old.test nobody@old.test\n")
	text := "virtual_alias_maps = \"" + file + "\"\n" + routes("old.test", down, "other.test", other, "new.test", box.address)
	r := start(t, dir, text)
	queue := queueIn(t, dir)
	sender := string(letter("x", "y@z").Sender)
	for i := range 3 {
		r.feed(letter(key(i), "a@old.test", "b@other.test"))
	}
	r.waiting("all deferred", census{mail.AreaDeferred: 3})
	before := r.ids(mail.AreaDeferred)
	first, err := r.d.spool.Lookup(t.Context(), before[0])
	if err != nil {
		t.Fatal(err)
	}

	write("a@old.test a@new.test, c@new.test\n")
	text += "[tenant.customer]\nsender = [\"" + sender + "\"]\n[class.news]\nheader = [\"Message-ID\"]\nsender = [\"" + sender + "\"]\n"
	if _, err := r.d.reload(configure(t, dir, text)); err != nil {
		t.Fatal(err)
	}
	r.waiting("a reload alone rewrites nothing", census{mail.AreaDeferred: 3})
	if got := queue("requeue", "--domain", "old.test", "--dry-run"); !strings.HasPrefix(got, "Would requeue 3 recipients of 3 messages.\n") || !strings.Contains(got, before[0].String()+": a@old.test becomes a@new.test c@new.test\n") {
		t.Error(got)
	}
	got := queue("requeue", "--domain", "old.test", "--reason", "moved")
	if !strings.HasPrefix(got, "Requeued 3 recipients of 3 messages.\n") || !strings.Contains(got, "\n"+before[0].String()+" is now ") {
		t.Error(got)
	}
	r.until("all have arrived", func() bool { return len(box.deliveries()) == 3 })
	want := copies{}
	for i := range 3 {
		want[key(i)+" a@new.test"], want[key(i)+" c@new.test"] = 1, 1
	}
	box.copies().matches(t, want)
	r.waiting("the others wait", census{mail.AreaDeferred: 3})
	if left := r.ids(mail.AreaDeferred); fmt.Sprint(left) != fmt.Sprint(before) {
		t.Errorf("%v wait, want %v", left, before)
	}
	if n := r.log.count("msg=order", "verb=requeue", "id="+before[0].String(), "into=", "to=a@old.test", "rewritten=a@old.test>a@new.test+c@new.test", "class=news", "tenant=customer", "reason=moved", "by="); n != 1 {
		t.Errorf("%d lines about the order", n)
	}

	// The whole of one message, which is held first: it stays so, and is as old as it was.
	queue("hold", before[0].String(), "--reason", "look")
	queue("requeue", before[0].String())
	held := r.ids(mail.AreaHold)
	if len(held) != 1 || held[0] == before[0] {
		t.Fatalf("%v are held", held)
	}
	again, err := r.d.spool.Lookup(t.Context(), held[0])
	if err != nil || again.Envelope.Arrived != first.Envelope.Arrived || again.Envelope.Attempts != 0 || again.Reason != "look" || again.Envelope.Flow.Class != "news" || again.Envelope.Flow.Tenant != "customer" {
		t.Errorf("%+v %v", again, err)
	}
	if got := queue("show", held[0].String()); !strings.Contains(got, "from "+before[0].String()) {
		t.Errorf("show:\n%s", got)
	}
	if got := explain(t, dir, held[0].String()); !strings.Contains(got, "from "+before[0].String()) {
		t.Errorf("explain:\n%s", got)
	}
	if got := queue("!", "show", before[0].String()); !strings.Contains(got, "no such message") {
		t.Errorf("the original:\n%s", got)
	}

	// A circle refuses one message; nothing that is said to be so changes.
	write("b@other.test c@other.test\nc@other.test b@other.test\n")
	if _, err := r.d.reload(configure(t, dir, text)); err != nil {
		t.Fatal(err)
	}
	if got := queue("!", "requeue", "--all"); !strings.Contains(got, "3 messages not requeued, and as before: ") || !strings.Contains(got, "aliases lead from") {
		t.Error(got)
	}
	if left := r.ids(mail.AreaDeferred); fmt.Sprint(left) != fmt.Sprint(before[1:]) {
		t.Errorf("%v wait, want %v", left, before[1:])
	}
	write("x@old.test y@old.test\n")
	if _, err := r.d.reload(configure(t, dir, text)); err != nil {
		t.Fatal(err)
	}
	if got := queue("requeue", "--all", "--area", "deferred"); !strings.Contains(got, "Requeued 2 recipients of 2 messages.\n") || !strings.Contains(got, "No address has changed.") {
		t.Error(got)
	}
	r.waiting("tried and deferred", census{mail.AreaDeferred: 2, mail.AreaHold: 1})
	r.end()

	r = start(t, dir, text)
	late := open(t, other)
	queue("release", held[0].String())
	r.d.driver.RetryAll()
	r.settled()
	want = copies{}
	for i := range 3 {
		want[key(i)+" b@other.test"] = 1
	}
	late.copies().matches(t, want)
	if n := len(box.deliveries()); n != 3 {
		t.Errorf("%d messages at the new domain", n)
	}
}

// A sender's name has changed since he wrote: the bounce goes to the new address. A recipient who was rewritten is named in it by
// the address that the sender knows.
func TestRequeueOriginal(t *testing.T) {
	t.Parallel()
	down, box := closed(t), receive(t, sink.Config{})
	dir := t.TempDir()
	file := filepath.Join(dir, "canonical")
	text := routes("old.test", down, "home.test", box.address)
	text = "canonical_maps = \"" + file + "\"\ncanonical_classes = [\"envelope_sender\", \"envelope_recipient\"]\n" + text
	if err := os.WriteFile(file, []byte("x@old.test y@old.test\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, dir, text)
	queue := queueIn(t, dir)
	m := letter("one", "a@old.test")
	m.Sender = "joe@home.test"
	r.feed(m)
	r.waiting("deferred", census{mail.AreaDeferred: 1})
	if err := os.WriteFile(file, []byte("joe@home.test jane@home.test\na@old.test b@old.test\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.d.reload(configure(t, dir, text)); err != nil {
		t.Fatal(err)
	}
	if got := queue("requeue", "--all"); !strings.Contains(got, "the sender becomes <jane@home.test>; a@old.test becomes b@old.test\n") {
		t.Error(got)
	}
	r.waiting("deferred again", census{mail.AreaDeferred: 1})
	queue("bounce", r.ids(mail.AreaDeferred)[0].String())
	r.until("the report arrives", func() bool { return len(box.deliveries()) == 1 })
	report := box.deliveries()[0]
	for _, want := range []string{"Original-Recipient: rfc822;a@old.test\r\n", "Final-Recipient: rfc822; b@old.test\r\n"} {
		if !strings.Contains(strings.ReplaceAll(string(report.Content), "rfc822; ", "rfc822;"), strings.ReplaceAll(want, "rfc822; ", "rfc822;")) {
			t.Errorf("the report does not have %q:\n%s", want, report.Content)
		}
	}
	if fmt.Sprint(report.Recipients) != "[jane@home.test]" {
		t.Errorf("the report went to %v", report.Recipients)
	}
}
