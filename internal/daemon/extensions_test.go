package daemon

import (
	"bytes"
	"fmt"
	"maps"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/dsn"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/queue"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// say speaks SMTP: it sends each line, and returns the last reply. A line "." ends a message, and
// the lines before it back to DATA have no reply.
func say(t *testing.T, address string, lines ...string) string {
	t.Helper()
	c, err := textproto.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	reply := func() (string, error) {
		code, text, err := c.ReadResponse(0)
		return fmt.Sprintf("%d %s", code, text), err
	}
	said, err := reply()
	content := false
	for _, line := range append([]string{"EHLO client.test"}, lines...) {
		if err != nil {
			t.Fatalf("before %q: %v", line, err)
		}
		if err = c.PrintfLine("%s", line); err != nil || content && line != "." {
			continue
		}
		content = false
		said, err = reply()
		content = line == "DATA" && strings.HasPrefix(said, "354")
	}
	if err != nil {
		t.Fatal(err)
	}
	return said
}

// mailWith sends one message, whose MAIL has parameters.
func mailWith(t *testing.T, address, parameters, key, to string) string {
	t.Helper()
	return say(t, address, "MAIL FROM:<sender@origin.test>"+parameters, "RCPT TO:<"+to+">", "DATA", "From: <sender@origin.test>", "Message-ID: "+key, "", "Hello.", ".")
}

// A client has mail kept for a time, and until a date: it is sent when its time has come, after a
// restart too, and not before, whatever is flushed; an operator sends it sooner.
func TestFutureRelease(t *testing.T) {
	t.Parallel()
	box := receive(t, sink.Config{})
	dir, text := t.TempDir(), routes("d.test", box.address)+"[[listener]]\naddress = \"127.0.0.1:0\"\npurpose = \"submission\"\ntls = \"none\"\n"
	r := start(t, dir, text)
	submission := r.d.addresses()[1]
	if got := say(t, submission); !strings.Contains(got, "FUTURERELEASE 2592000 20") {
		t.Errorf("EHLO is answered with %q", got)
	}
	if got := mailWith(t, submission, " HOLDFOR=1", "<soon>", "a@d.test"); !strings.HasPrefix(got, "250") {
		t.Fatal(got)
	}
	if got := mailWith(t, submission, " HOLDFOR=3600", "<later>", "a@d.test"); !strings.HasPrefix(got, "250") {
		t.Fatal(got)
	}
	if got := say(t, submission, "MAIL FROM:<sender@origin.test> HOLDFOR=2592001"); !strings.HasPrefix(got, "501 5.5.4 Error: mail is kept for at most 2592000 seconds, now until 20") {
		t.Error(got)
	}
	if got := say(t, r.address(), "MAIL FROM:<sender@origin.test> HOLDFOR=1"); !strings.HasPrefix(got, "555 ") {
		t.Errorf("a listener for relaying answers %q", got)
	}
	r.end()
	r = start(t, dir, text)
	r.waiting("the later message only", census{mail.AreaHold: 1})
	r.d.driver.RetryAll()
	r.waiting("it is still there", census{mail.AreaHold: 1})
	box.copies().matches(t, copies{"<soon> a@d.test": 1})
	held := r.ids(mail.AreaHold)
	if m, err := r.d.spool.Lookup(t.Context(), held[0]); err != nil || m.Envelope.Release.Sub(m.Envelope.Arrived).Hours() > 1.01 || m.Place.Due != m.Envelope.Release {
		t.Errorf("it is %+v, %v", m, err)
	}
	queueCommand(t, dir, "hold", "--sender", "sender@origin.test")
	if got := queueCommand(t, dir, "show", held[0].String()); !strings.Contains(got, "; then its sender has it kept until ") {
		t.Errorf("held it is shown as\n%s", got)
	}
	const waits = "Waiting for the date until which its sender has it kept: 1 message. A release by ID sends such a message now.\n"
	if got := queueCommand(t, dir, "release", "--sender", "sender@origin.test"); got != "Released 1 message.\n"+waits {
		t.Error(got)
	}
	if got := queueCommand(t, dir, "release", "--all"); got != "There is nothing to release.\n"+waits {
		t.Error(got)
	}
	r.end()
	r = start(t, dir, text)
	r.waiting("it waits for its date", census{mail.AreaHold: 1})
	if m, err := r.d.spool.Lookup(t.Context(), held[0]); err != nil || m.Place.Due != m.Envelope.Release {
		t.Errorf("it is %+v, %v", m, err)
	}
	if got := queueCommand(t, dir, "release", held[0].String()); got != "Released 1 message.\n" {
		t.Error(got)
	}
	r.settled()
	box.copies().matches(t, copies{"<soon> a@d.test": 1, "<later> a@d.test": 1})
}

// queueCommand returns what a queue command writes about the daemon in a directory.
func queueCommand(t *testing.T, dir string, args ...string) string {
	t.Helper()
	var out, complaints strings.Builder
	if err := queue.Call(t.Context(), command.Streams{In: strings.NewReader(""), Out: &out, Err: &complaints}, &socket.Finder{}, append(args, "--queue-directory", dir)...); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return out.String()
}

// reportsTo waits until a sender has some reports, and returns what they say of each recipient.
func reportsTo(t *testing.T, origin *mailbox, want int) map[mail.Address]dsn.Report {
	t.Helper()
	await(t, fmt.Sprint(want, " reports"), func() bool { return len(origin.deliveries()) >= want })
	reports := make(map[mail.Address]dsn.Report)
	for _, d := range origin.deliveries() {
		report, _, err := dsn.Parse(bytes.NewReader(d.Content))
		if err != nil || len(report.Recipients) != 1 {
			t.Fatalf("%+v, %v\n%s", report, err, d.Content)
		}
		reports[report.Recipients[0].Final] = report
	}
	if len(reports) != want {
		t.Fatalf("there are reports on %v, want %d", slices.Collect(maps.Keys(reports)), want)
	}
	return reports
}

// A client names a deadline. A receiver that offers DELIVERBY gets it, one that does not gets
// the message all the same; what is put off comes back, or its sender hears of it, at that time and long before the next
// attempt, after a restart too.
func TestDeliverBy(t *testing.T) {
	t.Parallel()
	promises, plain, busy, origin := receive(t, sink.Config{DeliverBy: true}), receive(t, sink.Config{}), receive(t, sink.Config{}), receive(t, sink.Config{})
	busy.refuse(sink.AtMail, sink.RefuseForNow)
	dir, text := t.TempDir(), routes("promises.test", promises.address, "plain.test", plain.address, "busy.test", busy.address, "origin.test", origin.address,
		"strict.test", "strict:["+strings.Replace(plain.address, ":", "]:", 1), "strict-promises.test", "strict:["+strings.Replace(promises.address, ":", "]:", 1))+
		"[transport.strict]\ntype = \"smtp\"\ndeliver_by_strict = true\n[[listener]]\naddress = \"127.0.0.1:0\"\npurpose = \"submission\"\ntls = \"none\"\n"
	r := start(t, dir, text)
	submission := r.d.addresses()[1]
	if got := say(t, submission); !strings.Contains(got, "\nDELIVERBY\n") {
		t.Errorf("EHLO is answered with %q", got)
	}
	if got := say(t, r.address(), "MAIL FROM:<sender@origin.test> BY=60;R"); !strings.HasPrefix(got, "555 ") {
		t.Errorf("a listener for relaying answers %q", got)
	}
	for _, one := range [][2]string{{"60;R", "a@promises.test"}, {"60;N", "b@promises.test"}, {"60;R", "c@plain.test"}, {"60;N", "d@plain.test"}, {"60;R", "e@strict.test"}, {"60;R", "f@strict-promises.test"},
		{"1;R", "g@busy.test"}, {"1;N", "h@busy.test"}, {"3600;R", "i@busy.test"}} {
		if got := mailWith(t, submission, " BY="+one[0], "<"+one[1]+">", one[1]); !strings.HasPrefix(got, "250") {
			t.Fatal(one, got)
		}
	}
	reports := reportsTo(t, origin, 4)
	for to, want := range map[mail.Address]dsn.Recipient{
		"d@plain.test":  {Kind: mail.ReportRelayed, Status: mail.Status{Class: 2, Subject: 0, Detail: 0}},
		"e@strict.test": {Kind: mail.ReportFailed, Status: mail.Status{Class: 5, Subject: 3, Detail: 3}},
		"g@busy.test":   {Kind: mail.ReportFailed, Status: mail.Status{Class: 5, Subject: 4, Detail: 7}},
		"h@busy.test":   {Kind: mail.ReportDelayed, Status: mail.Status{Class: 4, Subject: 4, Detail: 7}},
	} {
		got := reports[to]
		if len(got.Recipients) != 1 || got.Recipients[0].Kind != want.Kind || got.Recipients[0].Status.Class != want.Status.Class || want.Kind != mail.ReportRelayed && got.Recipients[0].Status != want.Status {
			t.Errorf("the report on %s is %+v", to, got)
			continue
		}
		seconds := 60 * time.Second
		if strings.HasSuffix(string(to), "@busy.test") {
			seconds = time.Second
		}
		if after := got.Deadline.Sub(got.Arrived); after < seconds-time.Second || after > seconds || got.Date < got.Deadline && seconds == time.Second {
			t.Errorf("the report on %s is of %v; the deadline %v, %v after the arrival", to, got.Date, got.Deadline, after)
		}
	}
	promises.copies().matches(t, copies{"<a@promises.test> a@promises.test": 1, "<b@promises.test> b@promises.test": 1, "<f@strict-promises.test> f@strict-promises.test": 1})
	plain.copies().matches(t, copies{"<c@plain.test> c@plain.test": 1, "<d@plain.test> d@plain.test": 1})
	for _, d := range promises.deliveries() {
		by, ok := smtp.ParseBy([]byte(d.By))
		if mode := map[bool]mail.ByMode{true: mail.ByNotify, false: mail.ByReturn}[d.Key == "<b@promises.test>"]; !ok || by.Mode != mode || by.Time <= 0 || by.Time > time.Minute {
			t.Errorf("%s goes on with BY=%s", d.Key, d.By)
		}
	}
	if n := r.log.count("msg=overdue"); n != 1 || r.log.count("msg=late") != 1 || r.log.count("msg=accepted", "deliver_by=", ";R") != 6 {
		t.Errorf("the log says of %d messages that they are overdue", n)
	}

	// One with a deadline that passes while nothing runs, and one whose deadline is far.
	if got := mailWith(t, submission, " BY=1;R", "<j>", "j@busy.test"); !strings.HasPrefix(got, "250") {
		t.Fatal(got)
	}
	r.end()
	r = start(t, dir, text)
	if got := reportsTo(t, origin, 5)["j@busy.test"]; got.Recipients[0].Status != (mail.Status{Class: 5, Subject: 4, Detail: 7}) || got.Date < got.Deadline {
		t.Errorf("%+v", got)
	}
	r.waiting("the late one, and the one that has time", census{mail.AreaDeferred: 2})
	busy.accept()
	r.d.driver.RetryAll()
	r.settled()
	busy.copies().matches(t, copies{"<h@busy.test> h@busy.test": 1, "<i@busy.test> i@busy.test": 1})
}
