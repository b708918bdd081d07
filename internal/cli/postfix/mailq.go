package postfix

import (
	"context"
	"errors"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/cli/queue"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
)

// mailq stands in for the program of that name, which takes no arguments that
// matter.
func mailq(ctx context.Context, name string, args []string, s command.Streams) exit.Code {
	for _, arg := range args {
		if arg == "-q" {
			return flush(ctx, name, s)
		}
	}
	return delegate(ctx, name, s, "list", "--mailq")
}

// delegate runs a queue command for a front end.
func delegate(ctx context.Context, name string, s command.Streams, args ...string) exit.Code {
	err := queue.Call(ctx, s, &socket.Finder{System: true}, args...)
	if known := (*exit.Error)(nil); errors.As(err, &known) && strings.HasPrefix(known.Hint, "Usage: ") {
		known.Hint = usageOf(name) // not of the queue command
	}
	return command.Complain(s.Err, name, err)
}
