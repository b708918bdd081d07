package memory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/cluster"
	"github.com/posthaste-mta/posthaste/cluster/model"
	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
)

func bucketOf(t *testing.T, n *Node) cluster.KV {
	t.Helper()
	kv, err := n.Bucket(cluster.Bucket{Name: "bucket"})
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

// follow applies events until a condition holds, and returns what happened meanwhile.
func follow(t *testing.T, w cluster.Watcher, m *cluster.Mirror, holds func() bool) (kinds []cluster.Kind) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	for !holds() {
		e, err := w.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		m.Apply(e)
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// A node is cut off. Its calls end with their contexts, its watcher says that it is
// stale, and after the partition it has what changed meanwhile, removals included.
func TestPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		c := New(model.Config{}, time.Millisecond, 2*time.Millisecond, 1)
		a, b := bucketOf(t, c.Node("a")), bucketOf(t, c.Node("b"))
		stays, _ := a.Create(ctx, "stays", []byte("1"), 0)
		goes, _ := a.Create(ctx, "goes", nil, 0)
		w, err := b.Watch("")
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		var m cluster.Mirror
		follow(t, w, &m, m.Current)

		c.Faults(func(l *model.Links) { l.Partition([]string{"b"}) })
		began := time.Now()
		brief, cancel := context.WithTimeout(ctx, 700*time.Millisecond)
		defer cancel()
		if _, err := b.Get(brief, "stays"); !errors.Is(err, cluster.ErrUnreachable) || time.Since(began) != 700*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if _, err := b.Update(ctx, "stays", nil, stays, 0); !errors.Is(err, cluster.ErrUnreachable) || time.Since(began) != 5700*time.Millisecond {
			t.Errorf("without a deadline, after %v: %v", time.Since(began), err)
		}
		follow(t, w, &m, func() bool { return !m.Current() })
		if m.Len() != 2 {
			t.Errorf("%d keys are left of 2, though their fate is unknown", m.Len())
		}
		changed, err := a.Update(ctx, "stays", []byte("2"), stays, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Delete(ctx, "goes", goes); err != nil {
			t.Fatal(err)
		}
		c.Faults(func(l *model.Links) { l.Partition() })
		follow(t, w, &m, m.Current)
		if e, _ := m.Entry("stays"); m.Len() != 1 || e.Revision != changed || string(e.Value) != "2" {
			t.Errorf("%d keys, and %+v", m.Len(), e)
		}
	})
}

// One message in five is lost. Of a call without an answer it is unknown whether it was
// made; nothing else is uncertain, and a watcher ends up with everything.
func TestLoss(t *testing.T) {
	for range golden.Runs(5) {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) {
			c := New(model.Config{}, time.Millisecond, 20*time.Millisecond, seed)
			c.Faults(func(l *model.Links) { l.Loss = 200 })
			a, b := bucketOf(t, c.Node("a")), bucketOf(t, c.Node("b"))
			w, err := b.Watch("")
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			made, unknown := 0, 0
			for made+unknown < 50 {
				ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
				_, err := a.Create(ctx, fmt.Sprint(made+unknown), nil, 0)
				cancel()
				switch {
				case err == nil:
					made++
				case errors.Is(err, cluster.ErrUnreachable):
					unknown++
				default:
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			c.Faults(func(l *model.Links) { l.Loss = 0 })
			if _, err := a.Create(t.Context(), "end", nil, 0); err != nil {
				t.Fatal(err)
			}
			var m cluster.Mirror
			follow(t, w, &m, func() bool {
				_, ended := m.Entry("end")
				return ended && m.Current()
			})
			if n := m.Len() - 1; n < made || n > made+unknown || unknown == 0 {
				t.Errorf("seed %d: %d keys, %d made, %d unknown", seed, n, made, unknown)
			}
		})
	}
}

// A node that was killed gets no answers, and the next one of its name is heard at once
// by those who knew the first.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		c := New(model.Config{}, time.Millisecond, 2*time.Millisecond, 1)
		a, b := c.Node("a"), c.Node("b")
		s, err := b.Subscribe("t")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Stop()
		hear := func(n *Node) cluster.Register {
			if err := n.Publish(ctx, "t", nil, time.Second); err != nil {
				t.Fatal(err)
			}
			r, err := s.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		hear(a)
		before := hear(a)
		kv := bucketOf(t, a)
		a.Close()
		if _, err := kv.Create(ctx, "k", nil, 0); !errors.Is(err, cluster.ErrClosed) {
			t.Errorf("a change of a node that is gone: %v", err)
		}
		if err := a.Publish(ctx, "t", nil, time.Second); !errors.Is(err, cluster.ErrClosed) {
			t.Errorf("a register of a node that is gone: %v", err)
		}
		if _, err := kv.Watch(""); !errors.Is(err, cluster.ErrClosed) {
			t.Errorf("a watcher of a node that is gone: %v", err)
		}
		if after := hear(c.Node("a")); !after.Version.After(before.Version) {
			t.Errorf("%+v does not count after %+v", after.Version, before.Version)
		}
	})
}

// A paused node gets what it was sent when it goes on; its clock may be wrong.
func TestPauseAndSkew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(model.Config{}, time.Millisecond, 2*time.Millisecond, 1)
		a, b := c.Node("a"), c.Node("b")
		s, err := b.Subscribe("")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Stop()
		until := c.Now().Add(20 * time.Second)
		c.Faults(func(l *model.Links) {
			l.Pause("b", until)
			l.Skew("b", -time.Minute)
			if got := l.ClockOf("b", until); got != until.Add(-time.Minute) {
				t.Errorf("the clock of b shows %v at %v", got, until)
			}
		})
		if err := a.Publish(t.Context(), "t", nil, time.Second); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Next(t.Context()); err != nil || c.Now() != until {
			t.Errorf("heard at %v, %v; want %v", c.Now(), err, until)
		}
	})
}

// Three nodes want one lease, while messages are lost and delayed, nodes are cut off,
// and holders stop without a word. No two of them ever hold it at once.
func TestLeaseUnderFaults(t *testing.T) {
	for range golden.Runs(5) {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) { leaseUnderFaults(t, seed) })
	}
}

// A holding is a time in which a node had the lease.
type holding struct {
	node       string
	from, till mail.Instant
}

func leaseUnderFaults(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	c := New(model.Config{}, time.Millisecond, 300*time.Millisecond, seed)
	c.Faults(func(l *model.Links) { l.Loss = 50 })
	end := time.Now().Add(3 * time.Minute)
	var mu sync.Mutex
	var held []holding
	var all sync.WaitGroup
	names := []string{"a", "b", "c"}
	for i, name := range names {
		kv := bucketOf(t, c.Node(name))
		own := rand.New(rand.NewPCG(seed, uint64(i+2)))
		all.Go(func() {
			for time.Now().Before(end) {
				h, ok := holdOnce(kv, name, own, c.Now)
				if ok {
					mu.Lock()
					held = append(held, h)
					mu.Unlock()
				}
				time.Sleep(time.Duration(own.IntN(1000)) * time.Millisecond)
			}
		})
	}
	for time.Now().Before(end) {
		time.Sleep(time.Duration(rng.IntN(8000)) * time.Millisecond)
		c.Faults(func(l *model.Links) {
			l.Partition()
			if rng.IntN(2) == 0 {
				l.Partition([]string{names[rng.IntN(3)]})
			}
		})
	}
	all.Wait()
	nodes := map[string]bool{}
	for i, h := range held {
		nodes[h.node] = true
		for _, other := range held[i+1:] {
			if h.node != other.node && h.from < other.till && other.from < h.till {
				t.Fatalf("seed %d: both hold the lease: %+v, %+v", seed, h, other)
			}
		}
	}
	if len(nodes) < 2 || len(held) < 10 {
		t.Errorf("seed %d: %d holdings by %d nodes show nothing", seed, len(held), len(nodes))
	}
}

// holdOnce takes the lease, renews it some times, and gives it back or does not.
func holdOnce(kv cluster.KV, name string, rng *rand.Rand, now func() mail.Instant) (holding, bool) {
	const ttl = 3 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	lease, err := cluster.Take(ctx, kv, "lease", []byte(name), ttl, now())
	if err != nil {
		return holding{}, false
	}
	h := holding{name, now(), lease.Until}
	for range rng.IntN(5) {
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
		if now() >= lease.Until {
			break
		}
		again, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		lease, err = cluster.Renew(again, kv, lease, []byte(name), ttl, now())
		cancel()
		if errors.Is(err, cluster.ErrConflict) {
			break
		}
		h.till = max(h.till, lease.Until)
	}
	if rng.IntN(2) == 0 {
		h.till = min(h.till, now())
		again, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		_ = cluster.Release(again, kv, lease)
	}
	return h, true
}
