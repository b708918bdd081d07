package qmgr_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/qmgrtest"
)

// calls asks n questions about recipients at d.test, each from a network of its own.
func calls(w *qmgrtest.World, n int) {
	for i := range n {
		w.Ask(qmgr.Verify{Verification: qmgr.VerificationID(1 + i), Client: netip.AddrFrom4([4]byte{10, 0, byte(i), 1}),
			Transport: "smtp", Nexthop: "d.test", Routed: true, Recipient: mail.Address(fmt.Sprintf("u%d@d.test", i))})
	}
}

// answerOthers answers all that the core has asked for, except what is of one kind.
func answerOthers[T qmgr.Action](w *qmgrtest.World) {
	for i := 0; i < len(w.Outstanding); {
		if _, is := w.Outstanding[i].(T); is {
			i++
			continue
		}
		w.Answer(w.Take(i))
		i = 0
	}
}

// However many call-outs were there before, mail that waits behind them is what a
// connection is opened for: call-outs of strangers have no claim to one that it needs.
func TestMailBehindCallOutsIsFirst(t *testing.T) {
	const before = 40
	cfg := qmgr.Config{VerifyLimit: before, VerifyNetworkLimit: before,
		DefaultTransport: qmgr.TransportConfig{Agents: qmgr.AgentsConnections}}
	w, err := qmgrtest.New(cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	calls(w, before)
	m := w.Arrive("s@x.test", []mail.Recipient{{Address: "u@d.test"}})
	answerOthers[qmgr.Resolve](w)
	if v := w.Core.View(0); v.Callouts.InCore != before || v.Recipients != 1 {
		t.Fatalf("%d call-outs and %d recipients are in core", v.Callouts.InCore, v.Recipients)
	}
	answerOthers[qmgr.Dial](w)
	if len(w.Outstanding) == 0 {
		t.Fatal("no connection is opened")
	}
	if got := w.Core.OpenedFor(w.Outstanding[0].(qmgr.Dial).Conn); got != m.Envelope.ID {
		t.Errorf("the first connection is opened for %v, and mail waits", got)
	}
}

// A client that asks first gets the same reply as those that ask later, out of memory; and however
// long a receiver's name and words are, the answer is no longer than a reply may be.
func TestAllHearTheSame(t *testing.T) {
	for _, result := range []mail.Result{mail.Failed, mail.Deferred} {
		q, err := qmgr.New(qmgr.Config{DefaultTransport: qmgr.TransportConfig{Agents: qmgr.AgentsConnections}}, 1)
		if err != nil {
			t.Fatal(err)
		}
		said := mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 2, Detail: 0}, Text: strings.Repeat("no\n", 340),
			By: strings.Repeat("x", 253) + "[2001:db8:1111:2222:3333:4444:5555:6666]"}
		const now = mail.Instant(1e18)
		var heard []mail.Reply
		var step func(ev qmgr.Event)
		step = func(ev qmgr.Event) {
			for _, a := range append([]qmgr.Action(nil), q.Step(now, ev)...) {
				switch a := a.(type) {
				case qmgr.Verified:
					heard = append(heard, a.Reply)
				case qmgr.Resolve:
					set := mail.HostSet{Tiers: [][]mail.Host{{{Name: "mx", Addr: netip.MustParseAddrPort("192.0.2.1:25")}}}, Until: mail.Never}
					step(qmgr.Hosts{Transport: a.Transport, Nexthop: a.Nexthop, Set: set})
				case qmgr.Dial:
					step(qmgr.Dialed{Conn: a.Conn})
				case qmgr.Send:
					step(qmgr.Delivered{Entry: a.Entry, Result: mail.DeliveryResult{Outcomes: []mail.Outcome{{Result: result, Reply: said}}}})
				}
			}
		}
		for range 2 {
			step(qmgr.Verify{Client: netip.MustParseAddr("192.0.2.9"), Transport: "smtp", Nexthop: "d.test", Routed: true, Recipient: "u@d.test"})
		}
		if len(heard) != 2 || heard[0] != heard[1] || len(heard[0].Text) > mail.ReplyTextMax || !strings.Contains(heard[0].Text, " said: 450 4.2.0 no / no / no") {
			t.Errorf("%v: they hear %v", result, heard)
		}
	}
}
