package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/test/daemon"
	"github.com/posthaste-mta/posthaste/test/measure"
)

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "", "the program under test")
	flag.StringVar(&o.dir, "dir", "", "a directory for the queue and the log, which is left there")
	flag.IntVar(&o.rounds, "rounds", 100, "how many times to kill it")
	flag.IntVar(&o.clients, "clients", 16, "connections that submit messages")
	flag.BoolVar(&o.full, "full", false, "use up all space of the queue's file system now and then")
	flag.Uint64Var(&o.seed, "seed", uint64(rand.Uint32()), "of all that is random but the machine itself")
	complete := func() bool { return o.binary != "" && o.dir != "" && o.rounds >= 1 && o.clients >= 1 }
	measure.Main("counts", complete, func(ctx context.Context) error { return run(ctx, o) })
}

type options struct {
	binary, dir     string
	rounds, clients int
	full            bool
	seed            uint64
}

func run(ctx context.Context, o options) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	box, err := receiver(o.seed)
	if err != nil {
		return err
	}
	d, err := daemon.New(daemon.Config{Binary: o.binary, Dir: o.dir, Hostname: "counts.test", FirstPort: 23000})
	if err != nil {
		return err
	}
	t := &trial{options: o, dice: rand.New(rand.NewPCG(o.seed, 0)), daemon: d, receiver: ln.Addr().(*net.TCPAddr).Port}
	defer d.Abandon()
	var all sync.WaitGroup
	defer all.Wait()
	busy, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	all.Go(func() { served <- box.Serve(busy, ln) })
	begin := func(n uint64, do func(context.Context, *rand.Rand)) {
		all.Go(func() { do(busy, rand.New(rand.NewPCG(o.seed, n))) })
	}
	for i := range uint64(o.clients) {
		begin(100+i, t.submit)
	}
	for i := range uint64(2) {
		begin(1+i, t.order)
	}
	if o.full {
		begin(3, t.eat)
	}
	if err := t.killOften(ctx); err != nil {
		return err
	}
	stop()
	return <-served
}

// receiver makes mail come back often enough that all kinds of ends are frequent.
func receiver(seed uint64) (*sink.Server, error) {
	return sink.New(sink.Config{Hostname: "receiver.test", MessageDelay: 5 * time.Millisecond, Seed: seed, Faults: []sink.Fault{
		{Stage: sink.AtRecipient, Kind: sink.RefuseForGood, Share: 0.15},
		{Stage: sink.AtMail, Kind: sink.RefuseForNow, Share: 0.5},
		{Stage: sink.AtContent, Kind: sink.Drop, Share: 0.02},
	}})
}

func (t *trial) killOften(ctx context.Context) error {
	fmt.Printf("seed %d: %d rounds, %d clients, queue in %s\n", t.seed, t.rounds, t.clients, t.daemon.Queue())
	for n := 1; n <= t.rounds; n++ {
		if err := t.round(ctx, n); err != nil {
			return fmt.Errorf("round %d: %w", n, err)
		}
	}
	fmt.Printf("%d rounds with counts, after %d of which messages were counted again; at most %d messages; %d accepted, %d refused, %d changed by orders; full %d times, without a start %d times\n",
		t.rounds-t.without, t.again, t.most, t.accepted.Load(), t.refused.Load(), t.ordered.Load(), t.fills.Load(), t.unstarted)
	return nil
}
