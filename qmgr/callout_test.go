package qmgr_test

import (
	"fmt"
	"net/netip"
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
