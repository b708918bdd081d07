package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	var (
		o      options
		limits string
	)
	flag.StringVar(&o.binary, "binary", "", "the program under test")
	flag.StringVar(&o.dir, "dir", "", "an empty directory for queues and logs, which are left there")
	flag.StringVar(&limits, "limits", "256,4096", "limits of file descriptors, tried one after the other")
	flag.IntVar(&o.clients, "clients", 2100, "clients at the same time")
	flag.IntVar(&o.size, "size", 78_000, "bytes of each message")
	flag.Parse()
	if o.binary == "" || o.dir == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var failed []error
	for text := range strings.SplitSeq(limits, ",") {
		limit, err := strconv.Atoi(text)
		if err == nil {
			err = o.try(ctx, limit, filepath.Join(o.dir, text))
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("limit %s: %w", text, err))
		}
	}
	if err := errors.Join(failed...); err != nil {
		fmt.Fprintln(os.Stderr, "descriptors:", err)
		os.Exit(1)
	}
}
