package nats

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/posthaste-mta/posthaste/cluster/clustertest"
)

// Two nodes on one server: the first has it in its process, the second reaches it over
// a connection of its own, as other processes do.
var first *Node

func TestMain(m *testing.M) {
	flag.Parse()
	// Tests that wait for the end of a TTL need no processor meanwhile.
	if err := flag.Set("test.parallel", "32"); err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "posthaste-nats")
	if err != nil {
		panic(err)
	}
	code := func() int {
		defer os.RemoveAll(dir)
		if first, err = Start(Config{Node: "a", Cluster: "test", Dir: dir, DiskMax: 1 << 40}); err != nil {
			panic(err)
		}
		code := m.Run()
		if err := first.Close(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		if err := goleak.Find(
			// See startRoutes.
			goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*Server).StartRouting"),
		); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		return code
	}()
	os.Exit(code)
}

// beside returns another node on the server of the first.
func beside(t *testing.T, name string) *Node {
	t.Helper()
	cfg := first.cfg
	cfg.Node = name
	n := newNode(cfg, first.server)
	t.Cleanup(func() { closeNode(t, n) })
	return n
}

func closeNode(t *testing.T, n *Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := n.Close(ctx); err != nil {
		t.Error(err)
	}
}

// newBucket returns a name that was not used on the server of the first, also with -count.
func newBucket() string { return fmt.Sprintf("bucket%d", bucketsMade.Add(1)) }

var bucketsMade atomic.Int64

func TestContract(t *testing.T) {
	second := beside(t, "b")
	t.Run("parts", func(t *testing.T) {
		for _, test := range clustertest.Tests() {
			t.Run(test.Name, func(t *testing.T) {
				t.Parallel()
				test.Run(t, clustertest.Fixture{A: first, B: second, Bucket: newBucket()})
			})
		}
	})
}
