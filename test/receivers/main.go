//go:build unix

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/test/daemon"
	"github.com/posthaste-mta/posthaste/test/measure"
)

// Ports from where on free ones are looked for: the program must not listen where
// no server may listen.
const (
	daemonPort = 20000
	sitePort   = 28000
)

func main() {
	var (
		o     options
		parts string
	)
	flag.StringVar(&o.binary, "binary", "", "the program under test")
	flag.StringVar(&o.dir, "dir", "", "an empty directory for queues and logs, which are left there")
	flag.StringVar(&parts, "parts", "hostile,slow,crowd,dead,flood,cuts", "what to do")
	flag.IntVar(&o.domains, "domains", 1000, "dead domains of one message")
	flag.IntVar(&o.messages, "messages", 200_000, "messages to dead hosts")
	flag.IntVar(&o.hosts, "hosts", 100, "dead hosts of these messages")
	flag.DurationVar(&o.window, "window", 20*time.Second, "time over which deliveries are counted in the part cuts")
	flag.DurationVar(&o.connect, "connect", 30*time.Second, "smtp_connect_timeout")
	flag.DurationVar(&o.patience, "patience", 5*time.Minute, "time after which a trial is given up")
	flag.BoolVar(&o.short, "short", false, "a run of half a minute: fewer domains and messages, shorter timeouts, one retry, two groups of hostile receivers")
	complete := func() bool { return o.binary != "" && o.dir != "" }
	measure.Main("receivers", complete, func(ctx context.Context) error { return run(ctx, o, parts) })
}

type options struct {
	binary, dir               string
	domains, messages, hosts  int
	window, connect, patience time.Duration
	short                     bool
}

func run(ctx context.Context, o options, parts string) error {
	if o.short {
		o.domains, o.messages, o.window, o.connect = 200, 10_000, 5*time.Second, 2*time.Second
	}
	var f measure.Figures
	known := map[string]func(context.Context, options, *measure.Figures) error{
		"hostile": hostile, "slow": slow, "crowd": crowd, "dead": dead, "flood": flood, "cuts": cuts,
	}
	for part := range strings.SplitSeq(parts, ",") {
		do := known[part]
		if do == nil {
			return fmt.Errorf("there is no part %q", part)
		}
		if err := do(ctx, o, &f); err != nil {
			f.Print(os.Stdout)
			return fmt.Errorf("%s: %w; see %s", part, err, o.dir)
		}
	}
	f.Print(os.Stdout)
	return f.Verdict()
}

// trial starts the program with a queue of its own. The settings are for the top of
// the configuration; routes follow, from domain to target.
func (o options) trial(ctx context.Context, name, settings string, routes map[string]string) (*daemon.Daemon, error) {
	dir := filepath.Join(o.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	var table strings.Builder
	for domain, target := range routes {
		fmt.Fprintf(&table, "%q = %q\n", domain, target)
	}
	return daemon.Begin(ctx, daemon.Config{Binary: o.binary, Dir: dir, Hostname: "receivers.test", FirstPort: daemonPort,
		Settings: settings + "\nspool.ballast_size = \"64K\"\nshutdown_time = \"1s\"\n[routes]\n" + table.String()})
}

// every asks at short intervals until the answer is yes, ctx ends or the time is up,
// and reports whether it was yes.
func every(ctx context.Context, interval, most time.Duration, reached func() (bool, error)) (bool, error) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	end := time.After(most)
	for {
		yes, err := reached()
		if yes || err != nil {
			return yes, err
		}
		select {
		case <-tick.C:
		case <-end:
			return false, nil
		case <-ctx.Done():
			return false, errors.Join(errors.New("interrupted"), ctx.Err())
		}
	}
}
