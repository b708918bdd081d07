package outbound

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp/client"
)

// idleConn returns a connection as good as any for lying idle.
func idleConn(hop, addr int, until time.Time) *conn {
	ours, theirs := net.Pipe()
	theirs.Close()
	return &conn{
		sock:      ours,
		session:   client.New(client.Config{}),
		config:    &TransportConfig{},
		hop:       hopKey{"smtp", fmt.Sprint(hop)},
		host:      mail.Host{Addr: address(fmt.Sprint(addr))},
		idleUntil: until,
	}
}

// The pool against a plain list: what is taken, pushed out and swept must be
// the same, and nothing may be in one of its three places only.
func TestIdlePoolAgainstList(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	synctest.Test(t, func(t *testing.T) {
		const limit = 6
		p := newIdlePool(limit)
		p.sweeps = true // this test does the sweeping
		var list []*conn
		for step := range 5000 {
			hop, addr := rng.IntN(3), 1+rng.IntN(3)
			newest := func(match func(*conn) bool) *conn {
				for i := len(list) - 1; i >= 0; i-- {
					if match(list[i]) {
						c := list[i]
						list = slices.Delete(list, i, i+1)
						return c
					}
				}
				return nil
			}
			var got, want *conn
			switch rng.IntN(4) {
			case 0, 1:
				c := idleConn(hop, addr, time.Now().Add(time.Duration(rng.IntN(10))*time.Second))
				got = p.put(c)
				if len(list) == limit {
					want = list[0]
					list = list[1:]
				}
				list = append(list, c)
			case 2:
				key := hopKey{"smtp", fmt.Sprint(hop)}
				got, want = p.takeHop(key), newest(func(c *conn) bool { return c.hop == key })
			case 3:
				key := addrKey{"smtp", address(fmt.Sprint(addr))}
				got, want = p.takeAddr(key), newest(func(c *conn) bool { return c.address() == key })
			}
			if got != want {
				t.Fatalf("seed %d step %d: got %p, want %p", seed, step, got, want)
			}
			if step%10 == 0 {
				time.Sleep(time.Second)
				due, more := p.expired(time.Now())
				p.sweeps = true
				kept := slices.DeleteFunc(slices.Clone(list), func(c *conn) bool { return !time.Now().Before(c.idleUntil) })
				if len(due) != len(list)-len(kept) || more != (len(kept) > 0) {
					t.Fatalf("seed %d step %d: %d are due, want %d", seed, step, len(due), len(list)-len(kept))
				}
				list = kept
			}
			checkPool(t, p, list)
		}
	})
}

func checkPool(t *testing.T, p *idlePool, list []*conn) {
	t.Helper()
	onHops, onAddrs := 0, 0
	for _, s := range p.hops {
		onHops += len(s.list)
	}
	for _, s := range p.addrs {
		onAddrs += len(s.list)
	}
	i := 0
	for c := p.oldest; c != nil; c = c.newer {
		if i >= len(list) || c != list[i] || c.newer != nil && c.newer.older != c {
			t.Fatal("the list of all is not in order")
		}
		i++
	}
	if p.count != len(list) || i != len(list) || onHops != len(list) || onAddrs != len(list) {
		t.Fatalf("count %d, list %d, hops %d, addresses %d, want %d", p.count, i, onHops, onAddrs, len(list))
	}
}

// The sweeper exists only while there is something to sweep, and a pool that
// was closed takes nothing more.
func TestIdlePoolSweeperAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newIdlePool(10)
		p.put(idleConn(1, 1, time.Now().Add(5*time.Second)))
		p.put(idleConn(1, 2, time.Now().Add(10*time.Second)))
		time.Sleep(7 * time.Second)
		if p.len() != 1 {
			t.Errorf("%d idle after 7 s", p.len())
		}
		time.Sleep(7 * time.Second)
		p.mu.Lock()
		if p.count != 0 || p.sweeps || len(p.hops) != 0 || len(p.addrs) != 0 {
			t.Errorf("after all is over: %d idle, sweeps %v, %d and %d shelves", p.count, p.sweeps, len(p.hops), len(p.addrs))
		}
		p.mu.Unlock()
		p.put(idleConn(1, 1, time.Now().Add(5*time.Second)))
		p.close()
		p.close()
		c := idleConn(1, 1, time.Now().Add(5*time.Second))
		if p.len() != 0 || p.put(c) != c {
			t.Error("a closed pool keeps sessions")
		}
	})
}
