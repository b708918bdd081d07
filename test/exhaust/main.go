package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
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
	flag.Parse()
	if o.binary == "" || o.dir == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var failed []error
	for name := range strings.SplitSeq(what, ",") {
		err := fmt.Errorf("there is no such thing to use up")
		dir := filepath.Join(o.dir, name)
		if eater, ok := eaters[name]; ok {
			err = o.try(ctx, name, eater, dir)
		} else if name == "start" {
			err = o.tryStarts(ctx, dir)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", name, err))
		}
	}
	if err := errors.Join(failed...); err != nil {
		fmt.Fprintln(os.Stderr, "exhaust:", err)
		os.Exit(1)
	}
}
