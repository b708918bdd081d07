package outbound

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// newTestClient returns a client on a fake network with one site, example.net,
// whose hosts are servers.
func newTestClient(t testing.TB, n *fakeNet, bodies Bodies, config TransportConfig) *Client {
	t.Helper()
	c, err := New(Config{Hello: "me.example", Transports: map[string]TransportConfig{"smtp": config}}, n, bodies, n)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (n *fakeNet) add(addr string, say map[string]string) *fakeServer {
	s := &fakeServer{addr: address(addr), say: say, said: map[string]int{}}
	n.servers[s.addr] = s
	return s
}

func message(id mail.QueueID, recipients ...string) mail.Delivery {
	d := mail.Delivery{Transport: "smtp", Nexthop: "example.net", Envelope: mail.Envelope{ID: id, Sender: "a@example.org"}}
	for i, r := range recipients {
		d.Recipients = append(d.Recipients, mail.Recipient{Index: uint32(i), Address: mail.Address(r)})
	}
	return d
}

// When the context ends, a delivery ends, wherever it is: dialling, waiting for
// a reply, or stuck in content. The recipients are deferred, and the nexthop is
// not blamed.
func TestContextEndsDelivery(t *testing.T) {
	for name, say := range map[string]map[string]string{
		"dialling": {"dial": "hang"},
		"greeting": {"greeting": ""},
		"mail":     {"mail": "", "rcpt": "", "data": ""},
		"content":  {"data": "deaf 354 go"},
		"final":    {"final": ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNet()
				n.add("1", say)
				n.zone["example.net"] = set("1", "2")
				c := newTestClient(t, n, store{1: {data: strings.Repeat("x\r\n", 50000)}}, TransportConfig{})
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				began := time.Now()
				r := c.Deliver(ctx, message(1, "b@example.net"))
				if took := time.Since(began); took != 10*time.Second {
					t.Errorf("took %v", took)
				}
				if o := r.Outcomes[0]; o.Result != mail.Deferred || o.Reply.IsZero() || !r.Crashed || !r.Site.IsZero() {
					t.Errorf("result %+v", r)
				}
				c.Close()
				n.running.Wait()
			})
		})
	}
}

// When this process has no sockets left that is nobody else's fault: no further
// host is tried, the destination is not blamed, and the transport is said to be
// out of service.
func TestNoSocketsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNet()
		n.add("1", map[string]string{"dial": "lack"})
		n.add("2", nil)
		n.zone["example.net"] = set("1", "2")
		c := newTestClient(t, n, store{1: {data: "x\r\n"}}, TransportConfig{KeepOrder: true})
		r := c.Deliver(t.Context(), message(1, "b@example.net"))
		if o := r.Outcomes[0]; o.Result != mail.Deferred || !r.Crashed || !r.Site.IsZero() || r.Unavailable != o.Reply || len(n.dialed) != 1 {
			t.Errorf("result %+v after %v", r, n.dialed)
		}
		if !strings.Contains(r.Unavailable.Text, "too many open files") {
			t.Errorf("the reason is %v", r.Unavailable)
		}
		k, opened := c.Dial(t.Context(), mail.Opening{Transport: "smtp", Nexthop: "example.net", Host: n.zone["example.net"].Tiers[0][0]})
		if k != nil || !opened.Unavailable || opened.Reply != r.Unavailable {
			t.Errorf("a connection of its own: %v, %+v", k, opened)
		}
		c.Close()
		n.running.Wait()
	})
}

// Every wait has its own time.
func TestTimeouts(t *testing.T) {
	config := TransportConfig{
		HeloTimeout: 10 * time.Second, MailTimeout: 20 * time.Second, RcptTimeout: 30 * time.Second,
		DataInitTimeout: 40 * time.Second, DataXferTimeout: 50 * time.Second, DataDoneTimeout: 60 * time.Second,
		RsetTimeout: 70 * time.Second, ConnectTimeout: 80 * time.Second,
	}
	for _, c := range []struct {
		name string
		say  map[string]string
		want time.Duration
	}{
		{"connect", map[string]string{"dial": "hang"}, 80 * time.Second},
		{"greeting", map[string]string{"greeting": ""}, 10 * time.Second},
		{"ehlo", map[string]string{"ehlo": ""}, 10 * time.Second},
		{"mail", map[string]string{"mail": "", "ehlo": "250 mx"}, 20 * time.Second},
		{"rcpt", map[string]string{"rcpt": "", "ehlo": "250 mx"}, 30 * time.Second},
		{"data", map[string]string{"data": "", "ehlo": "250 mx"}, 40 * time.Second},
		{"content", map[string]string{"data": "deaf 354 go"}, 50*time.Second + lastWords},
		{"final", map[string]string{"final": ""}, 60 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNet()
				n.add("1", c.say)
				n.zone["example.net"] = set("1")
				client := newTestClient(t, n, store{1: {data: "x\r\n"}}, config)
				began := time.Now()
				r := client.Deliver(t.Context(), message(1, "b@example.net"))
				if took := time.Since(began); took != c.want {
					t.Errorf("took %v, want %v", took, c.want)
				}
				if r.Site.IsZero() || r.Outcomes[0].Result != mail.Deferred {
					t.Errorf("result %+v", r)
				}
				client.Close()
				n.running.Wait()
			})
		})
	}
}

// RSET has its own time, too; it is sent only where an envelope was left open.
func TestResetTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNet()
		n.add("1", map[string]string{"rcpt": "550 no;250 ok", "rset": "deaf"})
		n.zone["example.net"] = set("1")
		c := newTestClient(t, n, store{}, TransportConfig{})
		c.Deliver(t.Context(), message(1, "b@example.net"))
		began := time.Now()
		r := c.Deliver(t.Context(), message(2, "b@example.net"))
		if took := time.Since(began); took != 20*time.Second || r.Outcomes[0].Result != mail.Delivered {
			t.Errorf("took %v, result %+v", took, r)
		}
		c.Close()
		n.running.Wait()
	})
}

// Many deliveries at once share the idle sessions, each used by one at a time;
// all arrive, each once, and when all is done nothing is left behind.
func TestManyDeliveriesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNet()
		var servers []*fakeServer
		for _, a := range []string{"1", "2", "3"} {
			servers = append(servers, n.add(a, nil))
		}
		n.zone["example.net"] = set("1 2", "3")
		const workers, each = 20, 25
		bodies := store{}
		for id := range workers * each {
			bodies[mail.QueueID(id)] = fakeContent{data: fmt.Sprintf("%d.\r\n", id), inFile: id%2 == 0}
		}
		c := newTestClient(t, n, bodies, TransportConfig{})
		var group sync.WaitGroup
		for w := range workers {
			group.Go(func() {
				for i := range each {
					r := c.Deliver(t.Context(), message(mail.QueueID(w*each+i), "b@example.net"))
					if r.Outcomes[0].Result != mail.Delivered {
						t.Errorf("result %+v", r)
					}
				}
			})
		}
		group.Wait()
		s := c.Stats()
		if s.Connects > workers || s.Reused != workers*each-s.Connects || s.Idle != int(s.Connects) {
			t.Errorf("stats %+v", s)
		}
		got := map[string]int{}
		for _, s := range servers {
			for _, m := range s.got {
				got[m]++
			}
		}
		if len(got) != workers*each {
			t.Errorf("%d messages arrived", len(got))
		}
		time.Sleep(20 * time.Second) // all fall idle, and are ended
		if s := c.Stats(); s.Idle != 0 {
			t.Errorf("%d sessions are idle after their time", s.Idle)
		}
		n.running.Wait()
		for _, k := range n.log {
			if k.verbs[len(k.verbs)-1] != "QUIT" {
				t.Errorf("a session ended without QUIT: %v", k.verbs)
			}
		}
		c.Close()
	})
}

// A server that writes before it reads, and a client that writes before it
// reads, must not wait for each other: a message of many pieces against a server
// that says 2000 lines while it comes.
func TestNobodyWaitsForEverybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNet()
		s := n.add("1", map[string]string{"early": "flood 250 ok"})
		n.zone["example.net"] = set("1")
		c := newTestClient(t, n, store{1: {data: strings.Repeat("0123456789\r\n", 50000)}}, TransportConfig{})
		began := time.Now()
		r := c.Deliver(t.Context(), message(1, "b@example.net"))
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("took %v", took)
		}
		if r.Outcomes[0].Result != mail.Deferred || len(s.got) != 0 {
			t.Errorf("result %+v", r)
		}
		c.Close()
		n.running.Wait()
	})
}

// Servers that answer at random: every recipient has exactly one outcome, and
// is delivered only if some server took the message for it; and a message is
// never taken for a recipient whose outcome is that it failed.
func TestRandomServers(t *testing.T) {
	seed := rand.Uint64()
	results := map[mail.Result]int{}
	for round := range uint64(120) {
		rng := rand.New(rand.NewPCG(seed, round))
		synctest.Test(t, func(t *testing.T) { randomRound(t, rng, results) })
		if t.Failed() {
			t.Fatalf("seed %d round %d", seed, round)
		}
	}
	for _, r := range []mail.Result{mail.Delivered, mail.Deferred, mail.Failed} {
		if results[r] == 0 {
			t.Errorf("no recipient was ever %v, so the test shows little", r)
		}
	}
}

// randomSay makes the words of a server that is odd in a few ways. It swallows
// replies or doubles them, never both: a server that makes up for a reply that
// is missing by one too many cannot be found out.
func randomSay(rng *rand.Rand) map[string]string {
	odd := []string{
		"250 ok", "354 go", "450 4.2.0 later", "550 5.1.1 no", "452 many", "421 bye", "close 421 bye", "close",
		[]string{"", "250 a|250 b"}[rng.IntN(2)], "garbage", "503 5.5.1 order", "wait=1m 250 ok", "wait=1m 550 no", "251 ok", "552 5.3.4 big",
	}
	say := map[string]string{}
	for _, one := range [][2]string{
		{"greeting", "220 mx"}, {"ehlo", "250-mx|250 PIPELINING"}, {"mail", "250 ok"}, {"rcpt", "250 ok"}, {"data", "354 go"},
		{"final", "250 taken"}, {"rset", "250 ok"},
	} {
		occasion, good := one[0], one[1]
		var words []string
		for range 1 + rng.IntN(6) {
			if rng.IntN(4) == 0 {
				words = append(words, odd[rng.IntN(len(odd))])
			} else {
				words = append(words, good)
			}
		}
		say[occasion] = strings.Join(words, ";")
	}
	if rng.IntN(4) == 0 {
		say["early"] = odd[rng.IntN(len(odd))]
	}
	return say
}

func randomRound(t *testing.T, rng *rand.Rand, results map[mail.Result]int) {
	n := newFakeNet()
	var servers []*fakeServer
	for _, a := range []string{"1", "2", "3"}[:1+rng.IntN(3)] {
		servers = append(servers, n.add(a, randomSay(rng)))
	}
	n.zone["example.net"] = set("1 2", "3")
	bodies := store{}
	var open atomic.Int64
	c := newTestClient(t, n, bodies, TransportConfig{})
	for id := range mail.QueueID(6) {
		bodies[id] = fakeContent{open: &open, data: fmt.Sprintf("message %d\r\n%s", id, strings.Repeat("x\r\n", rng.IntN(2)*25000)), inFile: rng.IntN(2) == 0}
		d := message(id, []string{"b@example.net", "c@example.net", "d@example.net"}[:1+rng.IntN(3)]...)
		r := c.Deliver(t.Context(), d)
		if len(r.Outcomes) != len(d.Recipients) {
			t.Fatalf("%d outcomes for %d recipients", len(r.Outcomes), len(d.Recipients))
		}
		for i, o := range r.Outcomes {
			results[o.Result]++
			taken := takenBy(servers, id, string(d.Recipients[i].Address))
			switch {
			case o.Index != uint32(i) || o.Result == mail.Pending || o.Reply.IsZero():
				t.Errorf("outcome %+v", o)
			case o.Result == mail.Delivered && taken == 0, o.Result == mail.Failed && taken > 0, taken > 1:
				t.Errorf("%v is %v: %v, but was taken %d times", d.Recipients[i].Address, o.Result, o.Reply, taken)
			}
		}
	}
	c.Close()
	n.running.Wait()
	if open.Load() != 0 {
		t.Errorf("%d contents were not closed", open.Load())
	}
}

// takenBy counts how often servers took a message for a recipient.
func takenBy(servers []*fakeServer, id mail.QueueID, recipient string) (n int) {
	for _, s := range servers {
		s.mu.Lock()
		for _, m := range s.got {
			rcpts, text, _ := strings.Cut(m, "]")
			if strings.Contains(text, fmt.Sprintf("message %d\\n", uint64(id))) && strings.Contains(rcpts, recipient) {
				n++
			}
		}
		s.mu.Unlock()
	}
	return n
}

// The address that is dialled is the one that was checked, from the address
// that was configured.
func TestNetDialer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	to := netip.MustParseAddrPort(l.Addr().String())
	c, err := netDialer{}.Dial(t.Context(), netip.MustParseAddr("127.0.0.2"), to)
	if err != nil {
		t.Skipf("no second loopback address: %v", err)
	}
	defer c.Close()
	if from := c.LocalAddr().String(); !strings.HasPrefix(from, "127.0.0.2:") {
		t.Errorf("from %s", from)
	}
}

// Should anything between us and the system choose another address, as a name in
// its place would let it, the connection is not made.
func TestOnlyTheAddressThatWasChecked(t *testing.T) {
	for _, c := range []struct {
		to, at string
		same   bool
	}{
		{"192.0.2.1:25", "192.0.2.1:25", true},
		{"[::ffff:192.0.2.1]:25", "192.0.2.1:25", true},
		{"[2001:db8::1]:25", "[2001:db8::1]:25", true},
		{"192.0.2.1:25", "192.0.2.2:25", false},
		{"192.0.2.1:25", "192.0.2.1:26", false},
		{"192.0.2.1:25", "127.0.0.1:25", false},
		{"192.0.2.1:25", "mx:25", false},
	} {
		if err := only(netip.MustParseAddrPort(c.to))("tcp", c.at, nil); err == nil != c.same {
			t.Errorf("%s for %s: %v", c.at, c.to, err)
		}
	}
}

// The counts are what metrics are made of: each kind of trouble has its own.
func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNet()
		for site, say := range map[string]map[string]string{
			"1": {"final": "250 ok;close"},
			"2": {"mail": "250 ok;close;250 ok"},
			"3": {"mail": "nonsense"},
			"4": {"greeting": "554 no"},
			"5": {"rcpt": "550 no", "data": "354 go", "final": "250 taken"},
		} {
			n.add(site, say)
			n.zone[site] = set(site)
		}
		n.zone["6"] = set("6 127.0.0.1")
		bodies := store{}
		c := newTestClient(t, n, bodies, TransportConfig{})
		for id, site := range []string{"1", "1", "2", "2", "3", "4", "5", "6"} {
			d := message(mail.QueueID(id), "b@example.net")
			d.Nexthop = site
			c.Deliver(t.Context(), d)
		}
		want := Stats{
			Deliveries: 8, Transactions: 7, Connects: 6, ConnectFailures: 1, HandshakeFails: 1, Reused: 0,
			Stale: 1, Lost: 1, Protocol: 1, Doubtful: 1, EmptyTaken: 1, Blocked: 1, Idle: 2,
		}
		if got := c.Stats(); got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		c.Close()
		n.running.Wait()
	})
}

// A nexthop that the operator wrote down may be a domain inside the network,
// as a relayhost often is. Its addresses are private, and refusing to dial them
// would return all mail to its senders; what a recipient's domain leads to is
// still not dialled.
func TestConfiguredNexthopMayBePrivate(t *testing.T) {
	for _, c := range []struct {
		nexthop string
		want    mail.Result
	}{
		{"relay.corp.example", mail.Delivered},
		{"relay.corp.example,second.corp.example", mail.Delivered},
		{"elsewhere.example", mail.Failed},
		{"relay.corp.example,elsewhere.example", mail.Failed},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newFakeNet()
			n.servers[netip.MustParseAddrPort("10.0.0.5:25")] = &fakeServer{addr: netip.MustParseAddrPort("10.0.0.5:25"), said: map[string]int{}}
			n.zone[c.nexthop] = mail.HostSet{Tiers: [][]mail.Host{{{Name: "h", Addr: netip.MustParseAddrPort("10.0.0.5:25")}}}}
			client, err := New(Config{
				Hello: "me.example", Transports: map[string]TransportConfig{"smtp": {}},
				Trusted: []string{"relay.corp.example", "second.corp.example"},
			}, n, store{1: {data: "x\r\n"}}, n)
			if err != nil {
				t.Fatal(err)
			}
			d := message(1, "u@example.com")
			d.Nexthop = c.nexthop
			if got := client.Deliver(t.Context(), d).Outcomes[0]; got.Result != c.want {
				t.Errorf("%s: %v (%v), want %v", c.nexthop, got.Result, got.Reply, c.want)
			}
			client.Close()
			n.running.Wait()
		})
	}
}
