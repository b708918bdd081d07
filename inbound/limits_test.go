package inbound

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// B-02, S-11: a client that never speaks gets a 421 after five minutes.
func TestSilentClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{}, nil, EarlyLog)
		c := ts.dial(t, "127.0.0.1")
		from := time.Now()
		c.hear("220")
		c.hear("421 4.4.2 mx.example ")
		inTime(t, from, 5*time.Minute)
		c.hearEnd()
		ts.end(t)
		if ts.Snapshot().Timeouts != 1 || !strings.Contains(ts.log.String(), "msg=timeout client=127.0.0.1 waiting=command") {
			t.Errorf("counters %+v, log %s", ts.Snapshot(), ts.log)
		}
	})
}

// S-12, B-05: when the server is nearly full the same client has ten seconds.
func TestStress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{ConnectionLimit: 5}, nil, EarlyLog)
		var last *client
		for range 5 {
			last = ts.dial(t, "127.0.0.1")
			last.hear("220")
		}
		synctest.Wait()
		from := time.Now()
		last.hear("421 4.4.2")
		inTime(t, from, 10*time.Second)
		ts.end(t)
	})
}

// B-03: a command of which one octet comes every twenty seconds.
func TestSlowCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{}, nil, EarlyLog)
		c := ts.dial(t, "127.0.0.1")
		c.hello()
		from := time.Now()
		var writing sync.WaitGroup
		defer writing.Wait()
		writing.Go(func() {
			for _, octet := range []byte("NOOP and so on and so on") {
				if _, err := c.Write([]byte{octet}); err != nil {
					return
				}
				time.Sleep(20 * time.Second)
			}
		})
		c.hear("421 4.4.2")
		inTime(t, from, time.Minute)
		c.Close()
		ts.end(t)
	})
}

// B-03: content that trickles is cut off after a minute; content at twice the
// minimum rate is not, however long it takes.
func TestSlowContent(t *testing.T) {
	for _, test := range []struct {
		octets int // every ten seconds
		lives  bool
	}{{100, false}, {10000, true}} {
		t.Run(fmt.Sprint(test.octets), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts := start(t, Config{}, nil, EarlyLog)
				c := ts.dial(t, "127.0.0.1")
				c.hello()
				c.envelope()
				from := time.Now()
				line := strings.Repeat("x", 98) + "\r\n"
				var writing sync.WaitGroup
				defer writing.Wait()
				writing.Go(func() {
					for range 20 {
						if _, err := c.Write([]byte(strings.Repeat(line, test.octets/100))); err != nil {
							return
						}
						time.Sleep(10 * time.Second)
					}
					c.Write([]byte(".\r\n")) // the reply shows it
				})
				if test.lives {
					c.hear("250 2.0.0")
					inTime(t, from, 200*time.Second)
				} else {
					c.hear("421 4.4.2")
					inTime(t, from, time.Minute)
				}
				c.Close()
				ts.end(t)
			})
		})
	}
}

// A transaction has an end even if content comes fast enough.
func TestTransactionTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{TransactionTimeout: 10 * time.Minute}, nil, EarlyLog)
		c := ts.dial(t, "127.0.0.1")
		c.hello()
		c.envelope()
		from := time.Now()
		var writing sync.WaitGroup
		defer writing.Wait()
		writing.Go(func() {
			for {
				if _, err := c.Write([]byte(strings.Repeat("text\r\n", 1000))); err != nil {
					return
				}
				time.Sleep(7 * time.Second)
			}
		})
		c.hear("421 4.4.2")
		inTime(t, from, 10*time.Minute)
		c.Close()
		ts.end(t)
	})
}

// B-08: a client that does not read its replies.
func TestClientDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{}, nil, EarlyLog)
		c := ts.dial(t, "127.0.0.1")
		c.hello()
		from := time.Now()
		c.say("EHLO again")
		for ts.Snapshot().Open > 0 {
			time.Sleep(time.Second)
			synctest.Wait()
		}
		inTime(t, from, time.Minute)
		ts.end(t)
	})
}

// The tarpit: from the eleventh error on each costs a second, the twentieth ends
// the connection (B-42).
func TestTarpit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{}, nil, EarlyLog)
		c := ts.dial(t, "127.0.0.1")
		c.hello()
		from := time.Now()
		for i := range 20 {
			c.say("FOO")
			c.hear("500")
			inTime(t, from, time.Duration(min(max(i-9, 0), 9))*time.Second)
		}
		c.hear("421 4.7.0")
		c.hearEnd()
		ts.end(t)
	})
}

// B-04: one address, and one network, may have connections up to their limits;
// those of our own network are not counted.
func TestConnectionLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{ClientConnectionLimit: 2, PrefixConnectionLimit: 3}, nil, EarlyLog)
		var all []*client
		for _, step := range []struct{ from, reply string }{
			{"192.0.2.1", "220"}, {"192.0.2.1", "220"}, {"192.0.2.1", "421 4.7.0 mx.example Error: too many connections from"},
			{"192.0.2.2", "220"}, {"192.0.2.3", "421 4.7.0"}, {"192.0.3.1", "220"},
			{"2001:db8::1", "220"}, {"2001:db8::2", "220"}, {"2001:db8::3", "220"}, {"2001:db8::4", "421 4.7.0"}, {"2001:db8:0:1::4", "220"},
			{"127.0.0.1", "220"}, {"127.0.0.1", "220"}, {"127.0.0.1", "220"}, {"", "220"}, {"", "220"}, {"", "220"},
		} {
			c := ts.dial(t, step.from)
			c.hear(step.reply)
			all = append(all, c)
		}
		all[0].Close()
		synctest.Wait()
		ts.dial(t, "192.0.2.1").hear("220")
		if n := ts.Snapshot(); n.Refused != 3 {
			t.Errorf("counters %+v", n)
		}
		ts.end(t)
		if a := ts.admission; len(a.all)+len(a.counts.byClient)+len(a.counts.byPrefix)+a.fresh.Len() != 0 {
			t.Errorf("left behind: %d %v %v %d", len(a.all), a.counts.byClient, a.counts.byPrefix, a.fresh.Len())
		}
	})
}

// B-05: at the limit of all connections the oldest that has not given MAIL
// makes room; if all have, the new one is turned away.
func TestEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{ConnectionLimit: 2, ClientConnectionLimit: Unlimited, PrefixConnectionLimit: Unlimited}, nil, EarlyLog)
		worker := ts.dial(t, "192.0.2.1")
		worker.hello()
		worker.envelope()
		idler := ts.dial(t, "192.0.2.2")
		idler.hello()
		third := ts.dial(t, "192.0.2.3")
		idler.hear("421 4.7.0")
		idler.hearEnd()
		third.hello()
		third.envelope()
		ts.dial(t, "192.0.2.4").hear("421 4.7.0")
		worker.say(".", "QUIT")
		worker.hear("250 2.0.0")
		worker.hear("221")
		third.Close()
		ts.end(t)
		if n := ts.Snapshot(); n.Shed != 1 || n.Refused != 1 {
			t.Errorf("counters %+v", n)
		}
	})
}

// S-14: refused networks get a 554 and no service; S-09: others may use bare LF as
// line ends.
func TestNetworks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := func(s string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix(s)} }
		ts := start(t, Config{RefuseNetworks: net("203.0.113.0/24"), NormalizeNetworks: net("192.0.2.0/24")}, nil, EarlyLog)
		bad := ts.dial(t, "203.0.113.9")
		bad.hear("554 5.7.1 mx.example ")
		bad.say("EHLO x", "QUIT")
		bad.hear("503")
		bad.hear("221")
		careless := ts.dial(t, "192.0.2.9")
		careless.hear("220")
		careless.say("EHLO x\nNOOP")
		careless.hear("250 ")
		careless.hear("250 2.0.0")
		strict := ts.dial(t, "198.51.100.9")
		strict.hear("220")
		strict.say("EHLO x\nNOOP")
		strict.hear("500 5.5.2")
		strict.hear("250 2.0.0")
		for _, c := range []*client{careless, strict} {
			c.Close()
		}
		ts.end(t)
	})
}

// Local submission has a recipient limit of its own.
func TestLocalRecipientLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{}, nil, EarlyLog)
		c := ts.dial(t, "")
		c.hello()
		lines := []string{"MAIL FROM:<>"}
		for i := range 3000 {
			lines = append(lines, fmt.Sprintf("RCPT TO:<r%d@b.example>", i))
		}
		c.say(lines...)
		for range lines {
			c.hear("250")
		}
		c.Close()
		ts.end(t)
	})
}

// An evicted client keeps its file descriptor until its connection is closed. A
// flood of connections must not be able to evict all others at once, or there would
// be twice as many as the limit for a moment.
func TestEvictionIsBounded(t *testing.T) {
	cfg := Config{ConnectionLimit: 100}.WithDefaults()
	a := newAdmission(&cfg)
	var out []*connection
	for i := range 300 {
		v, evicted := a.enter(&connection{socket: &socket{}, terms: &terms{}})
		if evicted != nil {
			out = append(out, evicted)
		}
		if want := i < 100+leavingMax; (v == admitted) != want || len(a.all) > 100+leavingMax {
			t.Fatalf("connection %d: %s, with %d open", i, v, len(a.all))
		}
	}
	for _, c := range out {
		a.leave(c)
	}
	if v, _ := a.enter(&connection{socket: &socket{}, terms: &terms{}}); v != admitted || a.leaving != 1 {
		t.Errorf("after those have gone: %s, %d are leaving", v, a.leaving)
	}
}

// A client with a network of its own has any number of addresses: so the network
// counts, with the configured prefix length. And no client or network ever gets more
// than half of all connections, however few there are.
func TestNetworkLimits(t *testing.T) {
	for _, c := range []struct {
		name    string
		cfg     Config
		address func(i int) string
		want    int
	}{
		{"one /24", Config{PrefixConnectionLimit: 20}, func(i int) string { return fmt.Sprintf("192.0.2.%d", i) }, 20},
		{"two /24", Config{PrefixConnectionLimit: 20}, func(i int) string { return fmt.Sprintf("192.0.%d.%d", i%2, i) }, 40},
		{"two /24 of one /16", Config{PrefixConnectionLimit: 20, IPv4PrefixLength: 16}, func(i int) string { return fmt.Sprintf("192.0.%d.%d", i%2, i) }, 20},
		{"one /64", Config{PrefixConnectionLimit: 20}, func(i int) string { return fmt.Sprintf("2001:db8::%x", i) }, 20},
		{"a /64 for each", Config{PrefixConnectionLimit: 20}, func(i int) string { return fmt.Sprintf("2001:db8:0:%x::1", i) }, 100},
		{"a /48", Config{PrefixConnectionLimit: 20, IPv6PrefixLength: 48}, func(i int) string { return fmt.Sprintf("2001:db8:0:%x::1", i) }, 20},
		{"few in all", Config{ConnectionLimit: 30}, func(i int) string { return fmt.Sprintf("192.0.2.%d", i) }, 15},
		{"few in all, one client", Config{ConnectionLimit: 30}, func(int) string { return "192.0.2.1" }, 15},
		{"no limit", Config{PrefixConnectionLimit: Unlimited}, func(i int) string { return fmt.Sprintf("192.0.2.%d", i) }, 100},
	} {
		cfg := c.cfg.WithDefaults()
		a := newAdmission(&cfg)
		admissions := 0
		for i := range 100 {
			if v, _ := a.enter(&connection{socket: &socket{}, terms: &terms{}, client: Client{Addr: netip.MustParseAddr(c.address(i))}}); v == admitted {
				admissions++
			}
		}
		if admissions != c.want {
			t.Errorf("%s: %d of 100 connections were admitted, want %d", c.name, admissions, c.want)
		}
	}
}
