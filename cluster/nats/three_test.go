package nats

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/cluster"
	"github.com/posthaste-mta/posthaste/cluster/clustertest"
)

// The connection takes no bytes and brings none, as with a stopped process at its other
// end. It is not closed, so only heartbeats show it.
func TestStalledConnection(t *testing.T) {
	if os.Getenv("POSTHASTE_CLUSTER") == "" {
		t.Skip("takes ten seconds; make cluster-store")
	}
	r, near, far := cutOff(t)
	outage(t, near, far,
		func() { r.stall(true) },
		func() { r.stall(false) })
}

// A trio is three nodes in one process, each with a server and a directory of its own.
type trio struct {
	configs [3]Config
	nodes   [3]*Node
}

func newTrio(t *testing.T) *trio {
	t.Helper()
	ours := newAuthority(t)
	peers := freePorts(t, 3)
	three := &trio{}
	for i := range three.configs {
		three.configs[i] = Config{
			Node: string(rune('a' + i)), Cluster: "c", Dir: t.TempDir(), DiskMax: 1 << 40,
			Listen: peers[i], Peers: peers, TLS: ours.node(t, ours),
		}
	}
	return three
}

func (three *trio) start(t *testing.T, i int) {
	t.Helper()
	n, err := Start(three.configs[i])
	if err != nil {
		t.Fatal(err)
	}
	three.nodes[i] = n
}

func (three *trio) stop(t *testing.T, i int) {
	closeNode(t, three.nodes[i])
	three.nodes[i] = nil
}

// persist repeats a call until it is not the cluster that fails.
func persist(t *testing.T, what string, call func(ctx context.Context) error) {
	t.Helper()
	began := time.Now()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		err := call(ctx)
		cancel()
		switch {
		case err == nil:
			t.Logf("%s: after %v", what, time.Since(began).Round(10*time.Millisecond))
			return
		case !errors.Is(err, cluster.ErrUnreachable) && !errors.Is(err, cluster.ErrFull):
			t.Fatalf("%s: %v", what, err)
		case time.Since(began) > 2*time.Minute:
			t.Fatalf("%s: after two minutes still: %v", what, err)
		}
	}
}

// Three nodes with three copies: the contract holds; with one node down the others go on;
// with two down every call fails in time; and each comes back by itself, with everything.
func TestThreeNodes(t *testing.T) {
	if os.Getenv("POSTHASTE_CLUSTER") == "" {
		t.Skip("takes a minute; make cluster-store")
	}
	three := newTrio(t)
	for i := range three.nodes {
		three.start(t, i)
	}
	defer func() {
		for i, n := range three.nodes {
			if n != nil {
				three.stop(t, i)
			}
		}
	}()
	kv := func(i int) cluster.KV {
		kv, err := three.nodes[i].Bucket(cluster.Bucket{Name: "facts"})
		if err != nil {
			t.Fatal(err)
		}
		return kv
	}
	create := func(i int, key string) {
		t.Helper()
		persist(t, fmt.Sprintf("node %d creates %s", i, key), func(ctx context.Context) error {
			_, err := kv(i).Create(ctx, key, nil, 0)
			if errors.Is(err, cluster.ErrExists) {
				return nil // an earlier attempt
			}
			return err
		})
	}
	create(0, "first")
	t.Run("contract", func(t *testing.T) {
		for _, test := range clustertest.Tests() {
			t.Run(test.Name, func(t *testing.T) {
				t.Parallel()
				test.Run(t, clustertest.Fixture{A: three.nodes[0], B: three.nodes[1], Bucket: newBucket()})
			})
		}
	})

	var m cluster.Mirror
	w, err := kv(1).Watch("")
	if err != nil {
		t.Fatal(err)
	}
	see := func(key string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		for began := time.Now(); ; {
			if _, known := m.Entry(key); known && m.Current() {
				t.Logf("node 1 sees %s: after %v", key, time.Since(began).Round(10*time.Millisecond))
				return
			}
			e, err := w.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			m.Apply(e)
		}
	}
	see("first")
	three.stop(t, 0)
	create(2, "one-down")
	see("one-down")

	three.stop(t, 2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	began := time.Now()
	if _, err := kv(1).Create(ctx, "two-down", nil, 0); !errors.Is(err, cluster.ErrUnreachable) {
		t.Errorf("without a majority: %v", err)
	}
	if late := time.Since(began); late > 10*time.Second {
		t.Errorf("a call with a second to live took %v", late)
	}
	cancel()

	three.start(t, 0)
	three.start(t, 2)
	create(0, "again")
	create(2, "again-2")
	see("again-2")
	w.Stop()
	for _, key := range []string{"first", "one-down", "again"} {
		if _, known := m.Entry(key); !known {
			t.Errorf("%s is lost", key)
		}
	}
}
