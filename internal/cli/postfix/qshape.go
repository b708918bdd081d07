package postfix

import (
	"context"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
)

// qshape stands in for Postfix's program of that name: -s counts senders, and
// arguments are areas. Without any it looks at mail that was not deferred yet.
func qshape(ctx context.Context, name string, args []string, s command.Streams) exit.Code {
	o, err := getopt(args, optionSet{flags: "slp", valued: "bmtncNw"})
	if err != nil {
		return command.Complain(s.Err, name, exit.New(exit.Usage, err, usageOf(name)))
	}
	command := []string{"shape"}
	for _, opt := range o.options {
		switch opt.letter {
		case 's':
			command = append(command, "--by-sender")
		case 'n':
			command = append(command, "--rows", opt.value)
		}
	}
	areas := o.rest
	if len(areas) == 0 {
		areas = []string{"incoming"}
	}
	for _, area := range areas {
		if area != "active" || len(areas) == 1 {
			command = append(command, "--area", strings.Replace(area, "active", "incoming", 1))
		}
	}
	return delegate(ctx, name, s, command...)
}
