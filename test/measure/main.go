package measure

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Main is the main function of a test. It parses the flags, which are defined, and ends
// the process with their usage unless they are complete, or with an error message if run
// returns an error.
func Main(name string, complete func() bool, run func(context.Context) error) {
	flag.Parse()
	if !complete() || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}
