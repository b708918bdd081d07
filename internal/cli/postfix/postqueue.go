package postfix

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/human"
)

// postqueue stands in for Postfix's program of that name: -p, -j, -f, -i ID and
// -s site.
func postqueue(ctx context.Context, name string, args []string, s command.Streams) exit.Code {
	o, err := getopt(args, postqueueOptions())
	if err != nil {
		return command.Complain(s.Err, name, exit.New(exit.Usage, err, usageOf(name)))
	}
	var call []string
	asked := 0
	for _, opt := range o.options {
		if strings.IndexByte("pjfis", opt.letter) >= 0 {
			asked++
		}
		switch opt.letter {
		case 'p':
			call = []string{"list", "--mailq"}
		case 'j':
			call = []string{"list", "--json"}
		case 'f':
			call = []string{"flush"}
		case 'i':
			call = []string{"flush", opt.value}
		case 's':
			call = []string{"flush", "--domain", siteOf(opt.value)}
		}
	}
	switch {
	case len(o.rest) > 0:
		err = fmt.Errorf("unexpected argument %q", human.Plain(o.rest[0]))
	case asked == 0:
		err = errors.New("say what to do")
	case asked > 1:
		err = errors.New("say one thing to do at a time")
	}
	if err != nil {
		return command.Complain(s.Err, name, exit.New(exit.Usage, err, usageOf(name)))
	}
	return delegate(ctx, name, s, call...)
}

// siteOf returns the domain of recipients for the site of -s. One that is an IP address has brackets there, as in
// Postfix; around a name, which Postfix refuses, they are left out.
func siteOf(value string) string {
	bare := strings.Trim(value, "[]")
	if _, err := netip.ParseAddr(strings.TrimPrefix(strings.ToLower(bare), "ipv6:")); err == nil {
		return "[" + bare + "]"
	}
	return bare
}

// postqueueOptions are its options: v and c matter to Postfix alone.
func postqueueOptions() optionSet {
	return optionSet{flags: "pjfv", valued: "isc"}
}

// postsuper stands in for Postfix's program of that name: -d drops, -e expires, -f also if it
// is held, -h holds, -H releases and -r tries again. As there, no confirmation is asked for, and a failure for
// one message does not affect the others. Options for repairing directories are ignored.
func postsuper(ctx context.Context, name string, args []string, s command.Streams) (code exit.Code) {
	o, err := getopt(args, optionSet{flags: "pssSv", valued: "defhHrc"})
	if err != nil {
		return command.Complain(s.Err, name, exit.New(exit.Usage, err, usageOf(name)))
	}
	if len(o.rest) == 1 && o.rest[0] == "active" {
		// Without it an order for all active mail would be one for all mail.
		return command.Complain(s.Err, name, exit.New(exit.Usage, errors.New("there is no area active: mail that is being tried rests in incoming or deferred"), usageOf(name)))
	}
	verbs := map[byte]string{'d': "drop", 'e': "expire", 'f': "expire", 'h': "hold", 'H': "release", 'r': "flush"}
	for _, opt := range o.options {
		verb, ok := verbs[opt.letter]
		if !ok {
			continue
		}
		areas := o.rest
		if opt.letter == 'e' && len(areas) == 0 {
			areas = []string{"incoming", "deferred"}
		}
		code = max(code, delegate(ctx, name, s, superCommand(verb, opt.value, areas)...))
	}
	return code
}

// superCommand is the queue command for a verb of postsuper's. Areas are the
// directories of Postfix's queue; active mail rests in incoming or deferred
// here.
func superCommand(verb, which string, areas []string) []string {
	command := []string{verb}
	if verb == "drop" || verb == "expire" {
		command = append(command, "--yes")
	}
	switch {
	case which != "ALL":
		command = append(command, which)
	case verb != "flush":
		command = append(command, "--all")
	}
	if which != "ALL" && verb != "expire" {
		return command
	}
	for _, area := range areas {
		if area != "active" {
			command = append(command, "--area", area)
		}
	}
	return command
}
