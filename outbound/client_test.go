package outbound

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
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

// When the context ends, what is under way ends, wherever it is: dialling, waiting
// for a reply, or stuck in content. The recipients are deferred by us, and the host
// is not blamed.
func TestContextEnds(t *testing.T) {
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
				c := newTestClient(t, n, store{1: {data: strings.Repeat("x\r\n", 50000)}}, TransportConfig{})
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				began := time.Now()
				opened, r, closing := once(ctx, c)
				if took := time.Since(began); took != 10*time.Second {
					t.Errorf("took %v", took)
				}
				if opened.Reply.IsZero() {
					if o := r.Outcomes[0]; o.Result != mail.Deferred || o.Reply.IsZero() || r.Crashed == o.Unknown || closing.Why != mail.CloseAsked {
						t.Errorf("result %+v, closed %v", r, closing)
					}
				} else if opened.Reply != interrupted() {
					t.Errorf("opened %+v", opened)
				}
				n.running.Wait()
			})
		})
	}
}

// once opens a connection to host 1 and sends one message.
func once(ctx context.Context, c *Client) (opened mail.OpenedConnection, r mail.DeliveryResult, closing mail.Closing) {
	k, opened := c.Dial(ctx, mail.Opening{Transport: "smtp", Host: mail.Host{Name: "mx1", Addr: address("1")}, Level: mail.LevelOverlap})
	if k == nil {
		return opened, r, closing
	}
	k.Send(1, message(1, "b@example.net"))
	k.Hangup()
	closing = k.Run(ctx, func(_ uint64, told mail.DeliveryResult) { r = told })
	return opened, r, closing
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
				client := newTestClient(t, n, store{1: {data: "x\r\n"}}, config)
				began := time.Now()
				opened, r, closing := once(t.Context(), client)
				if took := time.Since(began); took != c.want {
					t.Errorf("took %v, want %v", took, c.want)
				}
				if opened.Reply.IsZero() && (closing.Why != mail.CloseLost || r.Outcomes[0].Result != mail.Deferred) {
					t.Errorf("result %+v, closed %v", r, closing)
				}
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
		c := newTestClient(t, n, store{}, TransportConfig{})
		k, _ := c.Dial(t.Context(), mail.Opening{Transport: "smtp", Host: mail.Host{Addr: address("1")}, Level: mail.LevelOverlap})
		k.Send(1, message(1, "b@example.net"))
		k.Send(2, message(2, "b@example.net"))
		began := time.Now()
		k.Run(t.Context(), func(id uint64, r mail.DeliveryResult) {
			if id == 2 && (time.Since(began) != 20*time.Second || r.Outcomes[0].Result != mail.Untried) {
				t.Errorf("after %v, result %+v", time.Since(began), r)
			}
		})
		n.running.Wait()
	})
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
// its place would let it, the connection is not made (B-155).
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

// A nexthop that the operator wrote down may be a domain inside the network,
// as a relayhost often is. Its addresses are private, and refusing to dial them
// would return all mail to its senders; what a recipient's domain leads to is
// still not dialled.
func TestConfiguredNexthopMayBePrivate(t *testing.T) {
	for nexthop, permitted := range map[string]bool{
		"relay.corp.example":                     true,
		"relay.corp.example,second.corp.example": true,
		"elsewhere.example":                      false,
		"relay.corp.example,elsewhere.example":   false,
		"[10.0.0.5]":                             true,
		"[10.0.0.6]":                             false, // what user@[10.0.0.6] leads to
		"[10.0.0.6]:26":                          true,
		"[relay]":                                true,
		"[IPv6:::1]":                             false,
	} {
		n := newFakeNet()
		n.zone[nexthop] = mail.HostSet{Tiers: [][]mail.Host{{{Name: "h", Addr: netip.MustParseAddrPort("10.0.0.5:25")}}}}
		client, err := New(Config{
			Hello: "me.example", Transports: map[string]TransportConfig{"smtp": {}},
			Trusted: []string{"relay.corp.example", "second.corp.example", "[10.0.0.5]"},
		}, n, store{}, n)
		if err != nil {
			t.Fatal(err)
		}
		set, reply := client.Hosts(t.Context(), "smtp", nexthop)
		if (len(set.Tiers) == 1) != permitted || reply.IsZero() != permitted || reply.Permanent() == permitted {
			t.Errorf("%s: %v, %v", nexthop, set, reply)
		}
		if n := client.Stats().Blocked; (n == 1) == permitted {
			t.Errorf("%s: %d addresses are counted as blocked", nexthop, n)
		}
	}
}
