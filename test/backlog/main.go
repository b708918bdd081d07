package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/posthaste-mta/posthaste/test/measure"
)

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "", "the program under test")
	flag.StringVar(&o.dir, "dir", "", "an empty directory for queues and logs, which are left there")
	flag.StringVar(&o.parts, "parts", "backlog,recipients,idle,bounces", "what to do")
	flag.IntVar(&o.messages, "messages", 1_000_000, "messages of the backlog")
	flag.IntVar(&o.size, "size", 1000, "octets of each of them")
	flag.IntVar(&o.clients, "clients", 20, "connections that hand them in")
	flag.IntVar(&o.recipients, "recipients", 1_000_000, "recipients of the large message")
	flag.IntVar(&o.domains, "domains", 20, "domains that these are in")
	flag.IntVar(&o.bounces, "bounces", 60_000, "messages that bounce at once")
	flag.IntVar(&o.idle, "idle", 5000, "idle connections")
	flag.StringVar(&o.queue, "queue", "", "part operator: a queue directory to copy, which is made if it does not exist")
	flag.StringVar(&o.settings, "settings", "", "further configuration, such as spool.cache_size=\"64M\"")
	flag.Float64Var(&o.scale, "scale", 1, "a factor for messages, recipients and connections")
	complete := func() bool { return o.binary != "" && o.dir != "" && o.scale > 0 }
	measure.Main("backlog", complete, func(ctx context.Context) error { return run(ctx, o.scaled()) })
}

type options struct {
	binary, dir, parts, settings, queue string
	messages, size, clients             int
	recipients, domains, idle           int
	bounces                             int
	scale                               float64
}

func (o options) scaled() options {
	for _, n := range []*int{&o.messages, &o.recipients, &o.idle, &o.bounces} {
		*n = max(int(float64(*n)*o.scale), 100)
	}
	return o
}

func run(ctx context.Context, o options) error {
	var f measure.Figures
	known := map[string]func(context.Context, options, string, *measure.Figures) error{
		"backlog": backlog, "recipients": recipients, "idle": idle, "bounces": bounces, "sender": sender, "waiting": waiting, "suspended": suspended, "operator": operator,
	}
	for part := range strings.SplitSeq(o.parts, ",") {
		do := known[part]
		if do == nil {
			return fmt.Errorf("there is no part %q", part)
		}
		dir := filepath.Join(o.dir, part)
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		if err := do(ctx, o, dir, &f); err != nil {
			f.Print(os.Stdout)
			return fmt.Errorf("%s: %w; see %s", part, err, dir)
		}
	}
	f.Print(os.Stdout)
	return f.Verdict()
}
