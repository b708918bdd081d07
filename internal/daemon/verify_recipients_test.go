package daemon

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// With verify_recipients a client hears at RCPT what the DNS says of a domain, and
// the recipients that can be sent to are taken; without, everything is taken, and
// the sender gets a report. A reload switches it.
func TestVerifyRecipients(t *testing.T) {
	t.Parallel()
	good, origin := receive(t, sink.Config{}), receive(t, sink.Config{})
	server := zone(t, "nomail.test. 60 IN MX 0 .\n")
	text := fmt.Sprintf("dns.servers = [%q]\n", server) + "verify_recipients = %q\n" + routes("good.test", good.address, "origin.test", origin.address)
	r := start(t, t.TempDir(), fmt.Sprintf(text, "route"))

	c := r.dial()
	got := c.Send(letter("<1>", "a@nomail.test", "a@good.test", "a@nosuch.test"))
	if !slices.Equal(got.Accepted, []int{1}) {
		t.Errorf("of a good recipient between two bad ones: %+v", got)
	}
	for _, want := range []string{"556 5.1.10 <a@nomail.test>: nomail.test does not accept mail (null MX)", "550 5.1.2 <a@nosuch.test>: nosuch.test does not exist"} {
		if !strings.Contains(r.log.tail(64<<10), want) {
			t.Errorf("no client has heard %q", want)
		}
	}
	r.settled()
	good.copies().matches(t, copies{"<1> a@good.test": 1})

	if _, err := r.d.reload(configure(t, r.dir, fmt.Sprintf(text, "no"))); err != nil {
		t.Fatal(err)
	}
	if got := c.Send(letter("<3>", "a@nosuch.test")); !slices.Equal(got.Accepted, []int{0}) {
		t.Errorf("without verification: %+v", got)
	}
	r.settled()
	if _, rep, _ := reportTo(t, origin); len(rep.Recipients) != 1 {
		t.Errorf("the report is about %d recipients, want 1", len(rep.Recipients))
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// A name server that does not answer makes a client wait until the deadline, and
// then try again later; it delays no other client.
func TestVerifyRecipientsWithoutDNS(t *testing.T) {
	t.Parallel()
	good := receive(t, sink.Config{})
	verifying := func(deadline string) (r *rig, server net.PacketConn) {
		server, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { server.Close() })
		return start(t, t.TempDir(), fmt.Sprintf("dns.servers = [%q]\ndns.timeout = \"1m\"\nverify_recipients = \"route\"\nverify_deadline = %q\n", server.LocalAddr(), deadline)+
			routes("good.test", good.address)), server
	}
	r, _ := verifying("500ms")
	began := time.Now()
	c := r.dial()
	got := c.Send(letter("<1>", "a@slow.test"))
	if took := time.Since(began); len(got.Accepted) != 0 || took < 500*time.Millisecond {
		t.Errorf("after %v: %+v", took, got)
	}
	if want := "450 4.4.3 <a@slow.test>: DNS lookup of slow.test failed: no answer in time"; !strings.Contains(r.log.tail(64<<10), want) {
		t.Errorf("the client has not heard %q", want)
	}
	r.settled()
	if err := c.Close(); err != nil {
		t.Error(err)
	}

	r, server := verifying("5m")
	waits, heard := r.dial(), make(chan feed.Result, 1)
	go func() { heard <- waits.Send(letter("<2>", "a@slow.test")) }()
	query := make([]byte, 512)
	n, client, err := server.ReadFrom(query)
	if err != nil {
		t.Fatal(err)
	}
	r.feed(letter("<3>", "a@good.test"))
	if len(heard) > 0 {
		t.Error("mail that needs no lookup waits for one of another client")
	}
	query[2], query[3] = query[2]|0x80, query[3]|3 // it becomes the answer that there is no such name
	if _, err := server.WriteTo(query[:n], client); err != nil {
		t.Fatal(err)
	}
	if got := <-heard; len(got.Accepted) != 0 {
		t.Errorf("the client of whom the lookup was: %+v", got)
	}
	waits.Abort()
	r.settled()
}

// With verify_recipients = "callout" the receiver is asked, and a recipient that it
// would refuse is refused at once; what it said is remembered, so that no receiver is asked
// twice. Call-outs and mail share connections, and no message is sent for a question.
func TestVerifyRecipientsByCallout(t *testing.T) {
	t.Parallel()
	box := receive(t, sink.Config{Faults: []sink.Fault{{Stage: sink.AtRecipient, Kind: sink.RefuseForGood, Share: 0.5}}})
	r := start(t, t.TempDir(), "verify_recipients = \"callout\"\nverify_deadline = \"1m\"\naddress_verify_sender = \"asks@origin.test\"\n"+
		"smtpd_soft_error_limit = 50\nsmtpd_hard_error_limit = 100\n"+routes("good.test", box.address))
	var to []mail.Address
	for i := range 20 {
		to = append(to, mail.Address(fmt.Sprintf("user%d@good.test", i)))
	}
	c := r.dial()
	first := c.Send(letter("<1>", to...))
	if n := len(first.Accepted); n == 0 || n == len(to) {
		t.Fatalf("%d of %d are accepted, where the receiver would refuse every other: %+v", n, len(to), first)
	}
	refused := box.Stats().Faults
	if refused != uint64(len(to)-len(first.Accepted)) {
		t.Errorf("the receiver refused %d, and of %d only %d were accepted", refused, len(to), len(first.Accepted))
	}
	if again := c.Send(letter("<2>", to...)); !slices.Equal(again.Accepted, first.Accepted) {
		t.Errorf("the second time %v are accepted, the first time %v", again.Accepted, first.Accepted)
	}
	r.settled()
	want := make(copies)
	for _, i := range first.Accepted {
		want.add("<1>", to[i])
		want.add("<2>", to[i])
	}
	box.copies().matches(t, want)
	if n := box.Stats().Faults; n != refused {
		t.Errorf("the receiver had to refuse %d times, at first %d", n, refused)
	}
	log := r.log.tail(256 << 10)
	if n := strings.Count(log, "msg=callout"); n != len(to) {
		t.Errorf("%d call-outs are in the log, want %d", n, len(to))
	}
	for _, want := range []string{" from=asks@origin.test to=user0@good.test ", "status=undeliverable", "status=deliverable",
		"550 5.1.1 <user", ">: undeliverable address: "} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no %q", want)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// A receiver that takes long over its answer is waited for until the deadline; the
// call-out goes on, and the client hears the answer when it comes again. One that
// cannot be reached leaves the client to try again later, and takes nothing.
func TestCalloutsTakeTheirTime(t *testing.T) {
	t.Parallel()
	slow := receive(t, sink.Config{RecipientDelay: 1200 * time.Millisecond})
	gone := listen(t)
	gone.Close()
	r := start(t, t.TempDir(), "verify_recipients = \"callout\"\nverify_deadline = \"500ms\"\n"+
		routes("slow.test", slow.address, "gone.test", gone.Addr().String()))
	c := r.dial()
	if got := c.Send(letter("<1>", "a@slow.test", "a@gone.test")); len(got.Accepted) != 0 {
		t.Errorf("before anybody knows: %+v", got)
	}
	for _, want := range []string{"450 4.1.1 <a@slow.test>: address verification in progress", "450 4.1.1 <a@gone.test>: the address cannot be verified now\""} {
		if !strings.Contains(r.log.tail(64<<10), want) {
			t.Errorf("no client has heard %q", want)
		}
	}
	r.until("the answer of a slow receiver", func() bool { return strings.Contains(r.log.tail(64<<10), "status=deliverable") })
	if got := c.Send(letter("<2>", "a@slow.test", "a@gone.test")); !slices.Equal(got.Accepted, []int{0}) {
		t.Errorf("when it is known: %+v", got)
	}
	r.settled()
	slow.copies().matches(t, copies{"<2> a@slow.test": 1})
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// A receiver that refuses the null sender cannot be asked: its mail is taken as
// without call-outs.
func TestCalloutToReceiverThatRefusesToBeAsked(t *testing.T) {
	t.Parallel()
	box := receive(t, sink.Config{})
	box.refuse(sink.AtMail, sink.RefuseForGood)
	r := start(t, t.TempDir(), "verify_recipients = \"callout\"\nverify_deadline = \"1m\"\n"+routes("mute.test", box.address))
	c := r.dial()
	if got := c.Send(letter("<1>", "a@mute.test")); !slices.Equal(got.Accepted, []int{0}) {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(r.log.tail(64<<10), `status="not asked"`) {
		t.Error("the log does not say that the receiver was not asked")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
