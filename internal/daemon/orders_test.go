package daemon

import (
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/queue"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

func key(i int) string { return fmt.Sprintf("<%d>", i) }

// The operator's verbs: what is held stays whatever happens, what is released
// goes at once, what is dropped is gone without a report.
func TestHoldReleaseDrop(t *testing.T) {
	t.Parallel()
	gone, origin := closed(t), receive(t, sink.Config{})
	dir, text := t.TempDir(), routes("d.test", gone, "origin.test", origin.address)
	r := start(t, dir, text)
	for i := range 30 {
		r.feed(letter(key(i), "a@d.test"))
	}
	r.waiting("all deferred", census{mail.AreaDeferred: 30})
	all := r.ids(mail.AreaDeferred)

	held, dropped := all[:10], all[10:20]
	r.d.driver.Hold(held, "suspicious")
	r.d.driver.Drop(dropped)
	r.waiting("10 held, 10 left", census{mail.AreaHold: 10, mail.AreaDeferred: 10})

	box := open(t, gone)
	r.d.driver.RetryAll()
	r.waiting("only held mail left", census{mail.AreaHold: 10})
	if n := len(box.deliveries()); n != 10 {
		t.Errorf("%d messages arrived, want the 10 that were neither held nor dropped", n)
	}
	r.end()
	r = start(t, dir, text)
	if got := r.census(); got != (census{mail.AreaHold: 10}) {
		t.Errorf("after a restart the areas hold %v, want 10 held messages", got)
	}
	summary, err := r.d.spool.Lookup(t.Context(), held[0])
	if err != nil || summary.Reason != "suspicious" {
		t.Errorf("held because of %q (%v)", summary.Reason, err)
	}
	r.d.driver.Release(held)
	r.settled()
	delivered := box.copies()
	if len(delivered) != 20 || len(box.deliveries()) != 20 {
		t.Errorf("%d different messages arrived in %d transactions, want 20", len(delivered), len(box.deliveries()))
	}
	if n := len(origin.deliveries()); n != 0 {
		t.Errorf("the sender got %d messages", n)
	}
}

// The whole way of an order for some recipients: those at one domain are returned or
// dropped, the sender hears of the former, and those at the other domain are
// delivered, once.
func TestOrdersForRecipients(t *testing.T) {
	t.Parallel()
	gone, origin, bad := closed(t), receive(t, sink.Config{ContentKept: 64 << 10}), closed(t)
	dir := t.TempDir()
	r := start(t, dir, routes("bad.test", bad, "good.test", gone, "origin.test", origin.address))
	for i := range 4 {
		r.feed(letter(key(i), "a@bad.test", "b@good.test"))
	}
	r.waiting("all deferred", census{mail.AreaDeferred: 4})
	queue := func(args ...string) string {
		t.Helper()
		var out, complaints strings.Builder
		if err := queue.Call(t.Context(), command.Streams{In: strings.NewReader(""), Out: &out, Err: &complaints}, &socket.Finder{}, append(args, "--queue-directory", dir)...); err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		return out.String()
	}
	ids := r.ids(mail.AreaDeferred)
	if got := queue("bounce", "--domain", "bad.test", "--reason", "moved away", ids[0].String(), ids[1].String()); got != "Returned 2 recipients of 2 messages.\n" {
		t.Error(got)
	}
	if got := queue("drop", "--domain", "bad.test", "--yes"); got != "Dropped 2 recipients of 2 messages.\n" {
		t.Error(got)
	}
	if n := r.log.count("msg=order", "verb=bounce", "id="+ids[0].String(), "to=a@bad.test", `reason="moved away"`, "by="); n != 1 {
		t.Errorf("%d lines say whom the bounce is for", n)
	}
	r.until("the senders have reports while the others wait", func() bool { return len(origin.deliveries()) == 2 })
	r.waiting("the reports are gone, and nothing else", census{mail.AreaDeferred: 4})
	box := open(t, gone)
	r.d.driver.Retry(ids) // all of them: a scan passes by what is just being changed
	r.settled()
	want := copies{}
	for i := range 4 {
		want[key(i)+" b@good.test"] = 1
	}
	box.copies().matches(t, want)
	if n := len(origin.deliveries()); n != 2 {
		t.Errorf("the sender got %d messages, want 2 reports", n)
	}
}

// The whole way of a hold for some recipients: those at one domain wait in messages of
// their own until they are released, which a restart does not change, and each
// recipient gets the mail once.
func TestHoldSomeRecipients(t *testing.T) {
	t.Parallel()
	gone, bad := closed(t), closed(t)
	dir, text := t.TempDir(), routes("bad.test", bad, "good.test", gone)
	r := start(t, dir, text)
	want, held := copies{}, copies{}
	for i := range 3 {
		r.feed(letter(key(i), "a@bad.test", "b@good.test", "c@bad.test"))
		want[key(i)+" b@good.test"] = 1
		held[key(i)+" a@bad.test"], held[key(i)+" c@bad.test"] = 1, 1
	}
	r.waiting("all deferred", census{mail.AreaDeferred: 3})
	ids := r.ids(mail.AreaDeferred)
	var out, complaints strings.Builder
	if err := queue.Call(t.Context(), command.Streams{In: strings.NewReader(""), Out: &out, Err: &complaints}, &socket.Finder{}, "hold", "--domain", "bad.test", "--reason", "look", "--queue-directory", dir); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "Held 6 recipients of 3 messages.\n") || strings.Count(out.String(), ": a@bad.test c@bad.test\n") != 3 {
		t.Error(out.String())
	}
	if got := r.census(); got != (census{mail.AreaDeferred: 3, mail.AreaHold: 3}) {
		t.Errorf("the areas hold %v", got)
	}
	parts := r.ids(mail.AreaHold)
	if n := r.log.count("msg=order", "verb=hold", "into=", "to=a@bad.test,c@bad.test", "reason=look"); n != 3 || !strings.Contains(out.String(), parts[0].String()) {
		t.Errorf("%d lines say who is held; %v are", n, parts)
	}
	good, late := open(t, gone), open(t, bad)
	r.d.driver.Retry(ids)
	r.waiting("only held mail left", census{mail.AreaHold: 3})
	good.copies().matches(t, want)
	late.copies().matches(t, copies{})
	r.end()
	r = start(t, dir, text)
	r.d.driver.Release(parts)
	r.settled()
	late.copies().matches(t, held)
	good.copies().matches(t, want)
}

// Routes send mail where the table says, the most exact line first: an
// address, a domain, what is below a domain, and the relay host for the rest.
// Some transports deliver nothing.
func TestRoutes(t *testing.T) {
	t.Parallel()
	user, domain, below, bulk, rest, origin := receive(t, sink.Config{}), receive(t, sink.Config{}), receive(t, sink.Config{}),
		receive(t, sink.Config{}), receive(t, sink.Config{}), receive(t, sink.Config{})
	r := start(t, t.TempDir(), fmt.Sprintf("relayhost = %q\n", to(rest.address)[len("smtp:"):])+
		"[transport.bulk]\ndestination_recipient_limit = 1\n"+
		routes("user@d.test", user.address, "d.test", domain.address, ".d.test", below.address,
			"bulk.test", "bulk:"+to(bulk.address)[len("smtp:"):],
			"gone.test", "error:5.1.6 this domain has moved", "void.test", "discard:", "later.test", "retry:4.3.2 not today",
			"origin.test", origin.address))
	r.feed(letter("<1>", "user@d.test", "other@d.test", "user@sub.d.test", "user@sub.sub.d.test", "user@elsewhere.test",
		"a@bulk.test", "b@bulk.test", "c@bulk.test", "user@gone.test", "user@void.test", "user@later.test"))
	r.waiting("one recipient left", census{mail.AreaDeferred: 1})
	user.copies().matches(t, copies{"<1> user@d.test": 1})
	domain.copies().matches(t, copies{"<1> other@d.test": 1})
	below.copies().matches(t, copies{"<1> user@sub.d.test": 1, "<1> user@sub.sub.d.test": 1})
	rest.copies().matches(t, copies{"<1> user@elsewhere.test": 1})
	bulk.copies().matches(t, copies{"<1> a@bulk.test": 1, "<1> b@bulk.test": 1, "<1> c@bulk.test": 1})
	if n := len(bulk.deliveries()); n != 3 {
		t.Errorf("%d transactions of the bulk transport, want 3 of one recipient each", n)
	}
	_, rep, _ := reportTo(t, origin)
	if len(rep.Recipients) != 1 || rep.Recipients[0].Final != "user@gone.test" || rep.Recipients[0].Status != (mail.Status{Class: 5, Subject: 1, Detail: 6}) {
		t.Errorf("the report says %+v", rep.Recipients)
	}
	list, _, err := r.d.spool.Outcomes(t.Context(), r.ids(mail.AreaDeferred)[0], 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list {
		if waits := o.Recipient.Address == "user@later.test"; waits == o.Outcome.Result.Settled() {
			t.Errorf("%s is %s", o.Recipient.Address, o.Outcome.Result)
		}
	}
}

// A sender gets a report at the next start about recipients of held mail given up when
// there was no room for a report. The message stays held.
//
// Seen failing: the sender got the report when the message was released.
func TestHeldMailThatOwesAReport(t *testing.T) {
	t.Parallel()
	origin := receive(t, sink.Config{})
	dir, text := t.TempDir(), routes("d.test", closed(t), "origin.test", origin.address)
	r := start(t, dir, text)
	r.feed(letter("<1>", "a@d.test", "b@d.test"))
	r.waiting("a deferred message", census{mail.AreaDeferred: 1})
	r.d.driver.Hold(r.ids(mail.AreaDeferred), "x")
	r.waiting("a held message", census{mail.AreaHold: 1})
	r.end()

	r = start(t, dir, fmt.Sprintf("queue_minfree = %d\n", math.MaxInt64/4)+text)
	if err := queue.Call(t.Context(), command.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, &socket.Finder{}, "bounce", "--recipient", "a@d.test", "--yes", "--queue-directory", dir); err != nil {
		t.Fatal(err)
	}
	r.end()
	if n := len(origin.deliveries()); n != 0 {
		t.Fatalf("%d reports without room for one", n)
	}

	r = start(t, dir, text)
	r.until("the report", func() bool { return len(origin.deliveries()) == 1 })
	r.waiting("the held message", census{mail.AreaHold: 1})
}
