package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/test/measure"
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
	complete := func() bool { return o.binary != "" && o.dir != "" }
	measure.Main("descriptors", complete, func(ctx context.Context) error { return o.run(ctx, limits) })
}

// run tries one limit after the other.
func (o options) run(ctx context.Context, limits string) error {
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
	return errors.Join(failed...)
}
