package main

import (
	"context"
	"errors"
	"strings"
)

// postqueue stands in for Postfix's program of that name: -p, -j, -f, -i ID and
// -s site.
func postqueue(ctx context.Context, name string, args []string, s streams) exitCode {
	o, err := getopt(args, postqueueOptions())
	if err != nil {
		return complain(s.err, name, &exit{exitUsage, err, postqueueUsage})
	}
	var command []string
	for _, opt := range o.options {
		switch opt.letter {
		case 'p':
			command = []string{"list", "--mailq"}
		case 'j':
			command = []string{"list", "--json"}
		case 'f':
			command = []string{"flush"}
		case 'i':
			command = []string{"flush", opt.value}
		case 's':
			command = []string{"flush", "--domain", strings.Trim(opt.value, "[]")}
		}
	}
	if command == nil || len(o.rest) > 0 {
		return complain(s.err, name, &exit{exitUsage, errors.New("say what to do"), postqueueUsage})
	}
	return delegate(ctx, name, s, command...)
}

// postqueueOptions are its options: v and c matter to Postfix alone.
func postqueueOptions() optionSet {
	return optionSet{flags: "pjfv", valued: "isc"}
}

// postsuper stands in for Postfix's program of that name: -d drops, -h holds, -H
// releases and -r tries again; as there, nobody is asked. What Postfix's has for
// repairing its directories has no meaning here and does nothing.
func postsuper(ctx context.Context, name string, args []string, s streams) exitCode {
	o, err := getopt(args, optionSet{flags: "pssSv", valued: "dhHrc"})
	if err != nil {
		return complain(s.err, name, &exit{exitUsage, err, postsuperUsage})
	}
	verbs := map[byte]string{'d': "drop", 'h': "hold", 'H': "release", 'r': "flush"}
	for _, opt := range o.options {
		verb, ok := verbs[opt.letter]
		if !ok {
			continue
		}
		if code := delegate(ctx, name, s, superCommand(verb, opt.value, o.rest)...); code != exitOK {
			return code
		}
	}
	return exitOK
}

// superCommand is the queue command for a verb of postsuper's. Areas are the
// directories of Postfix's queue; active mail rests in incoming or deferred
// here.
func superCommand(verb, which string, areas []string) []string {
	command := []string{verb}
	if verb == "drop" {
		command = append(command, "--yes")
	}
	if which != "ALL" {
		return append(command, which)
	}
	if verb != "flush" {
		command = append(command, "--all")
	}
	for _, area := range areas {
		if area != "active" {
			command = append(command, "--area", area)
		}
	}
	return command
}
