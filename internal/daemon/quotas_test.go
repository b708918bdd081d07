package daemon

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/queue"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// The whole way of a quota: what waits counts across restarts and reloads, what leaves
// the queue makes room, and what was sent in the last hour counts after a restart.
func TestQuotas(t *testing.T) {
	t.Parallel()
	gone := closed(t)
	dir, rules := t.TempDir(), routes("d.test", gone, "origin.test", "discard:")
	quota := func(format string, args ...any) string {
		return "flow_header_clients = []\n" + rules + "[tenant.acme]\nsender = [\"origin.test\"]\n" + fmt.Sprintf(format, args...)
	}
	var r *rig
	n := 0
	send := func(want string) {
		t.Helper()
		c := r.dial()
		n++
		got := c.Send(letter(key(n), "a@d.test"))
		if reply := got.Reply.String(); !strings.HasPrefix(reply, want) || (got.Fate == feed.Accepted) != strings.HasPrefix(want, "250") {
			t.Fatalf("message %d: %v %s, want %s", n, got.Fate, reply, want)
		}
		_ = c.Close() // the client may already have given up
	}
	counted := func() {
		t.Helper()
		r.until("counted", func() bool { _, underway := r.d.spool.Counting(); return !underway })
	}
	// Mail that is there already is counted when the first quota is configured.
	r = start(t, dir, quota(""))
	for range 2 {
		send("250")
	}
	r.waiting("two deferred", census{mail.AreaDeferred: 2})
	r.end()
	r = start(t, dir, quota("queue_message_limit = 4\n"))
	counted()
	for range 2 {
		send("250")
	}
	const full = "452 4.3.1 Too much mail of tenant acme waits here: 4 of 4 messages; try again later"
	send(full)
	r.waiting("four deferred", census{mail.AreaDeferred: 4})
	r.end()

	r = start(t, dir, quota("queue_message_limit = 4\n"))
	if _, underway := r.d.spool.Counting(); underway {
		t.Error("the messages are counted again")
	}
	send(full)
	r.d.driver.Hold(r.ids(mail.AreaDeferred)[:1], "why")
	r.waiting("one held", census{mail.AreaDeferred: 3, mail.AreaHold: 1})
	send(full)
	r.d.driver.Drop(r.ids(mail.AreaHold))
	r.waiting("one dropped", census{mail.AreaDeferred: 3})
	r.until("the count says so", func() bool { return r.d.spool.Waiting(mail.Flow{Tenant: "acme"}).Tenant.Messages == 3 }) // it follows the sync
	send("250")
	send(full)
	r.waiting("four deferred again", census{mail.AreaDeferred: 4})
	if n := r.log.count("msg=rejected", "4 of 4 messages"); n != 3 {
		t.Errorf("%d refusals are logged", n)
	}

	var out, complaints strings.Builder
	err := queue.Call(t.Context(), command.Streams{In: strings.NewReader(""), Out: &out, Err: &complaints}, &socket.Finder{}, "quotas", "--kind", "tenant", "--queue-directory", dir)
	if want := "KIND    NAME  LIMIT                USED  OF  REFUSED\ntenant  acme  queue_message_limit     4   4        3\n"; err != nil || out.String() != want {
		t.Errorf("shown is\n%s\nwant\n%s(%v)", &out, want, err)
	}

	// A reload raises the limit, and gives one for the hour.
	if _, err := r.d.reload(configure(t, dir, quota("queue_message_limit = 5\n"))); err != nil {
		t.Fatal(err)
	}
	send("250")
	send("452 4.3.1 Too much mail of tenant acme waits here: 5 of 5 messages")
	hourly := quota("message_rate = \"2/h\"\n")
	if _, err := r.d.reload(configure(t, dir, hourly)); err != nil {
		t.Fatal(err)
	}
	send("250")
	send("250")
	const often = "450 4.7.1 Too many messages from tenant acme: 2 in the last hour, the limit is 2; try again in "
	send(often)
	r.end()
	r = start(t, dir, hourly)
	send(often)
	if _, err := r.d.reload(configure(t, dir, quota("queue_message_limit = 7\n"))); err != nil {
		t.Fatal(err)
	}
	r.until("the messages are counted again", func() bool { return r.d.spool.Waiting(mail.Flow{Tenant: "acme"}).Tenant.Messages == 7 })
	send("452 4.3.1 Too much mail of tenant acme waits here: 7 of 7 messages")
	if format, err := r.d.spool.Stats(context.Background()); err != nil || format.Messages[mail.AreaDeferred] != 7 {
		t.Errorf("%+v %v", format.Messages, err)
	}
}

// A report that the program makes itself is stored although the tenant's quota is
// exhausted, and counts.
func TestQuotaDoesNotStopReports(t *testing.T) {
	t.Parallel()
	box := receive(t, sink.Config{})
	box.refuse(sink.AtRecipient, sink.RefuseForGood)
	dir := t.TempDir()
	r := start(t, dir, "flow_header_clients = []\ntenant_queue_message_limit = 1\n"+routes("d.test", box.address, "origin.test", closed(t)))
	r.feed(letter("<1>", "a@d.test"))
	r.waiting("the report, deferred", census{mail.AreaDeferred: 1})
	r.until("one message is counted", func() bool { return r.d.spool.Waiting(mail.Flow{Tenant: "local"}).Tenant.Messages == 1 })
	c := r.dial()
	if got := c.Send(letter("<2>", "a@d.test")); !strings.HasPrefix(got.Reply.String(), "452 4.3.1") {
		t.Errorf("%+v", got)
	}
	_ = c.Close()
}
