package main

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/sink"
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
// then try again later; it holds up nobody else.
func TestVerifyRecipientsWithoutDNS(t *testing.T) {
	t.Parallel()
	mute, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	good := receive(t, sink.Config{})
	r := start(t, t.TempDir(), fmt.Sprintf("dns.servers = [%q]\nverify_recipients = \"route\"\nverify_deadline = \"500ms\"\n", mute.LocalAddr())+
		routes("good.test", good.address))
	began, done := time.Now(), make(chan time.Duration)
	go func() {
		r.feed(letter("<1>", "a@good.test"))
		done <- time.Since(began)
	}()
	c := r.dial()
	got := c.Send(letter("<2>", "a@slow.test"))
	took := time.Since(began)
	if len(got.Accepted) != 0 || took < 500*time.Millisecond || took > 5*time.Second {
		t.Errorf("after %v: %+v", took, got)
	}
	if want := "450 4.4.3 <a@slow.test>: the look-up of slow.test did not end in time"; !strings.Contains(r.log.tail(64<<10), want) {
		t.Errorf("the client has not heard %q", want)
	}
	if other := <-done; other >= took {
		t.Errorf("mail that needs no look-up took %v", other)
	}
	r.settled()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
