package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/test/daemon"
	"github.com/posthaste-mta/posthaste/test/measure"
)

func main() {
	var (
		o    options
		what string
	)
	flag.StringVar(&o.binary, "binary", "", "the program under test")
	flag.StringVar(&o.dir, "dir", "", "an empty directory for logs, which are left there, and for file systems to be mounted in")
	flag.StringVar(&what, "what", "inodes,space,start", "what runs out, one after the other; start: space, before a start")
	flag.IntVar(&o.clients, "clients", 40, "clients at the same time")
	flag.IntVar(&o.messages, "messages", 40, "messages from each client")
	flag.DurationVar(&o.hold, "hold", 2*time.Second, "how long nothing is left")
	complete := func() bool { return o.binary != "" && o.dir != "" }
	measure.Main("exhaust", complete, func(ctx context.Context) error { return o.run(ctx, what) })
}

// run uses up one thing after the other.
func (o options) run(ctx context.Context, what string) error {
	var failed []error
	for name := range strings.SplitSeq(what, ",") {
		err := fmt.Errorf("there is no such thing to use up")
		dir := filepath.Join(o.dir, name)
		if eater, ok := eaters[name]; ok {
			err = o.onSmallDisk(ctx, dir, func(ctx context.Context, d *daemon.Daemon, receiver string) error {
				return o.try(ctx, d, name, eater, receiver)
			})
		} else if name == "start" {
			err = o.onSmallDisk(ctx, dir, o.tryStarts)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(failed...)
}
