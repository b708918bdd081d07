package outbound

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/internal/histogram"
	"github.com/posthaste-mta/posthaste/mail"
)

// connections are the part of a script's world that is about Client.Hosts and
// Conn. Times in the output are relative to the beginning of the block.
type connections struct {
	began   time.Time
	conn    *Conn
	cancel  context.CancelFunc
	sent    []mail.Delivery
	running sync.WaitGroup

	telling sync.Mutex
}

func (w *world) tell(format string, args ...any) {
	w.telling.Lock()
	defer w.telling.Unlock()
	if after := time.Since(w.began).Round(time.Millisecond); after > 0 {
		fmt.Fprintf(&w.out, "%v ", after)
	}
	fmt.Fprintf(&w.out, format+"\n", args...)
}

func (w *world) hosts(t *testing.T, l *golden.Line) {
	w.start(t)
	set, reply := w.client.Hosts(t.Context(), l.Str("transport", "smtp"), l.Words[0])
	var tiers []string
	for _, tier := range set.Tiers {
		var hosts []string
		for _, h := range tier {
			hosts = append(hosts, short(h.Addr))
		}
		tiers = append(tiers, strings.Join(hosts, " "))
	}
	w.out.WriteString(strings.TrimSpace(fmt.Sprintf("%s for %v: %v", strings.Join(tiers, " | "), set.Until.Sub(now()), reply)) + "\n")
}

func (w *world) open(t *testing.T, l *golden.Line) {
	w.start(t)
	o := mail.Opening{Transport: "smtp", Nexthop: "example.net", Level: mail.LevelOverlap}
	o.Probe = l.Has("probe")
	o.Host = mail.Host{Name: "mx" + l.Words[0], Addr: address(l.Words[0])}
	if level := l.Str("level", ""); level != "" {
		if err := o.Level.UnmarshalText([]byte(level)); err != nil {
			t.Fatal(l.Pos, err)
		}
	}
	w.began = time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	k, opened := w.client.Dial(ctx, o)
	if (k == nil) != !opened.Reply.IsZero() {
		t.Errorf("%v: %v and reply %v", l.Pos, k, opened.Reply)
	}
	w.conn, w.cancel = k, cancel
	if k == nil {
		w.tell("not opened: %v", opened.Reply)
		return
	}
	probes := ""
	if opened.Probes {
		probes = " probes"
	}
	if opened.Extensions&^(mail.ExtPipelining|mail.Ext8BitMIME) != 0 || opened.SizeMax > 0 {
		probes += fmt.Sprintf(" extensions=%#x size=%d", opened.Extensions, opened.SizeMax)
	}
	w.tell("%v connect=%v mails=%d%s", opened.Level, opened.Connect, opened.Mails, probes)
	w.running.Go(func() {
		told := uint64(0)
		closing := k.Run(ctx, func(id uint64, r mail.DeliveryResult) {
			if told++; id != told {
				t.Errorf("result of %d reported when it was the turn of %d", id, told)
			}
			w.result(id, r)
		})
		why := closing.Why.String()
		if closing.Proof != mail.ProofNone {
			why += ", proof " + closing.Proof.String()
		}
		if closing.Level > mail.LevelLockStep {
			w.tell("closed: %v at %v %v", why, closing.Level, closing.Reply)
		} else {
			w.tell("%s", strings.TrimSpace(fmt.Sprintf("closed: %v %v", why, closing.Reply)))
		}
		if int(told) != len(w.sent) {
			t.Errorf("%d were sent, %d told", len(w.sent), told)
		}
	})
	synctest.Wait()
}

// send sends messages at once, so that there is no telling one from the other by
// when it was sent.
func (w *world) send(t *testing.T, l *golden.Line) {
	k := w.conn
	k.mu.Lock()
	for range l.Int(t, "count", 1) {
		w.sent = append(w.sent, w.message(t, l))
		if !k.over {
			k.inbox = append(k.inbox, letter{uint64(len(w.sent)), w.sent[len(w.sent)-1]})
		}
	}
	k.mu.Unlock()
	k.line.call()
	synctest.Wait()
}

func (w *world) result(id uint64, r mail.DeliveryResult) {
	var facts []string
	for i, o := range r.Outcomes {
		fact := fmt.Sprintf("%s %v %v", w.sent[id-1].Recipients[i].Address.Local(), o.Result, o.Reply)
		if o.Unknown {
			fact += " (unknown)"
		}
		if o.Report != mail.ReportNone {
			fact += fmt.Sprintf(" (%v)", o.Report)
		}
		facts = append(facts, strings.TrimSpace(fact))
	}
	text := strings.Join(facts, ", ")
	for _, f := range []struct {
		name  string
		value any
		given bool
	}{
		{"connect", r.Connect, r.Connect > 0}, {"send", r.Send, r.Send > 0}, {"reused", r.Reused, r.Reused > 0},
		{"crashed", r.Crashed, r.Crashed}, {"site", r.Site.Code, !r.Site.IsZero()}, {"nowhere", true, r.Host == ""},
	} {
		if f.given {
			text += fmt.Sprintf(" %s=%v", f.name, f.value)
		}
	}
	w.tell("%d: %s", id, text)
}

// The counts that metrics are made of, of connections.
func TestConnStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNet()
		c := newTestClient(t, n, store{}, TransportConfig{})
		for a, say := range map[string]map[string]string{
			"1": nil,
			"2": {"mail": "250 ok;close"},          // gone when the second message comes
			"3": {"final": "close"},                // lost, in doubt
			"4": {"mail": "nonsense"},              // a violation
			"5": {"greeting": "554 no"},            // no session
			"6": {"rcpt": "550 no", "data": "354"}, // an empty message
			"7": {"dial": "hang"},                  // no connection
		} {
			n.add(a, say)
			k, _ := c.Dial(t.Context(), mail.Opening{Transport: "smtp", Host: mail.Host{Addr: address(a)}, Level: mail.LevelOverlap})
			if k == nil {
				continue
			}
			k.Send(1, message(1, "b@example.net"))
			var second sync.Once
			k.Run(t.Context(), func(uint64, mail.DeliveryResult) {
				second.Do(func() { k.Send(2, message(2, "b@example.net")) })
				k.Hangup()
			})
		}
		want := Stats{
			Transactions: 8, Connects: 6, ConnectFailures: 1, HandshakeFails: 1, Reused: 2,
			Stale: 1, Lost: 1, Protocol: 1, Doubtful: 1, EmptyTaken: 2,
		}
		got := c.Stats()
		// Nobody pipelines here, and each connection that began has ended.
		if got.Depth.Count != 8 || got.Depth.UpTo(0) != 8 || got.Carried.Count != 5 || got.Carried.Sum != float64(got.Transactions) {
			t.Errorf("depth %+v, transactions of connections %+v", got.Depth, got.Carried)
		}
		got.Depth, got.Carried = histogram.Values{}, histogram.Values{}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		n.running.Wait()
	})
}
