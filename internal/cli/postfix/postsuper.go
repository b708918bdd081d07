package postfix

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/human"
	"github.com/posthaste-mta/posthaste/mail"
)

// A superVerb is what an option of postsuper does, with the words of Postfix's program.
type superVerb struct {
	verb  client.Verb
	each  string // of one message: "removed"
	total string // of all: "Deleted"
	areas string // of ALL, where that is not all areas
}

func superVerbs() map[byte]superVerb {
	return map[byte]superVerb{
		'd': {client.Drop, "removed", "Deleted", ""},
		'e': {client.Expire, "expired", "Force-expired", "incoming deferred"},
		'f': {client.Expire, "expired", "Force-expired", ""},
		'h': {client.Hold, "placed on hold", "Placed on hold", ""},
		'H': {client.Release, "released from hold", "Released from hold", ""},
		'r': {client.Requeue, "requeued", "Requeued", ""},
	}
}

// postsuper stands in for Postfix's program of that name: -d drops, -e expires, -f also if it
// is held, -h holds, -H releases and -r requeues. As there, no confirmation is asked for,
// what was done is on standard error, mail that is not there is no failure, and a wrong call
// is exit status 1. Options for repairing directories are ignored.
func postsuper(ctx context.Context, name string, args []string, s command.Streams) exit.Code {
	o, err := getopt(args, optionSet{flags: "pssSv", valued: "defhHrc"})
	if err == nil {
		err = checkAreas(o.rest)
	}
	if err != nil {
		return command.Complain(s.Err, name, exit.New(exit.Wrong, err, usageOf(name)))
	}
	c, err := (&socket.Finder{System: true}).Dial()
	if err != nil {
		return command.Complain(s.Err, name, err)
	}
	defer c.Close()
	verbs, code := superVerbs(), exit.OK
	for _, opt := range o.options {
		verb, ok := verbs[opt.letter]
		if !ok {
			continue
		}
		call := superCall{superVerb: verb, ctx: ctx, client: c, name: name, err: s.Err}
		if err := call.run(opt.value, o.rest, s.In); err != nil {
			code = max(code, command.Complain(s.Err, name, err)) // what fails for one is done for others
		}
	}
	return code
}

// checkAreas refuses what is no area. Mail that is being tried rests in incoming or deferred
// here: without areas, an order for all active mail would be one for all mail.
func checkAreas(areas []string) error {
	for _, area := range areas {
		if !slices.Contains([]string{"incoming", "active", "deferred", "hold", "corrupt"}, area) {
			return fmt.Errorf("invalid directory name: %s", human.Plain(area))
		}
	}
	if len(areas) == 1 && areas[0] == "active" {
		return errors.New("there is no area active: mail that is being tried rests in incoming or deferred")
	}
	return nil
}

// A superCall is one order of postsuper.
type superCall struct {
	superVerb
	ctx    context.Context
	client *client.Client
	name   string // of the program
	err    io.Writer
}

// run gives the order for one queue ID, those on standard input, or all mail.
func (c *superCall) run(which string, areas []string, in io.Reader) error {
	switch {
	case which == "ALL":
		return c.all(areas)
	case which == "-":
		lines := bufio.NewScanner(in)
		var ids []string
		for lines.Scan() {
			if fields := strings.Fields(lines.Text()); len(fields) > 0 {
				ids = append(ids, fields[0])
			}
		}
		if err := lines.Err(); err != nil {
			return exit.Errorf(exit.IO, "read queue IDs: %w", err)
		}
		return c.named(ids)
	}
	return c.named([]string{which})
}

// all gives the order for all mail in areas.
func (c *superCall) all(areas []string) error {
	areas = slices.DeleteFunc(slices.Clone(areas), func(area string) bool { return area == "active" })
	if len(areas) == 0 {
		areas = strings.Fields(c.areas)
	}
	o := admin.Order{Filter: &admin.Filter{Areas: areas}, All: true}
	if c.verb == client.Drop || c.verb == client.Expire { // which the API wants counted before
		o.DryRun = true
		counted, err := c.client.Order(c.ctx, c.verb, o, nil)
		if err != nil && !isPartial(err) {
			return err
		}
		if o.DryRun, o.Confirm = false, counted.Matched; counted.Matched == 0 {
			c.tellTotal(0)
			return nil
		}
	}
	done, err := c.client.Order(c.ctx, c.verb, o, nil)
	c.tellTotal(done.Done + done.Pending)
	return err
}

// named gives the order for some messages.
func (c *superCall) named(ids []string) error {
	valid := ids[:0]
	for _, id := range ids {
		if _, err := mail.ParseQueueID(id); err != nil {
			fmt.Fprintf(c.err, "%s: warning: invalid mail queue id: %s\n", c.name, human.Plain(id))
			continue
		}
		valid = append(valid, id)
	}
	if len(valid) == 0 {
		c.tellTotal(0)
		return nil
	}
	done, err := c.client.Order(c.ctx, c.verb, admin.Order{Filter: &admin.Filter{IDs: valid}}, nil)
	if done.Unchanged == 0 { // otherwise it is not known which
		for _, id := range valid {
			if !slices.Contains(done.Missing, id) && done.Done+done.Pending > 0 {
				fmt.Fprintf(c.err, "%s: %s: %s\n", c.name, id, c.each)
			}
		}
	}
	c.tellTotal(done.Done + done.Pending)
	return err
}

func (c *superCall) tellTotal(n int) {
	fmt.Fprintf(c.err, "%s: %s: %s\n", c.name, c.total, plainCount(n))
}

// plainCount is a number of messages as Postfix writes it, without commas.
func plainCount(n int) string {
	if n == 1 {
		return "1 message"
	}
	return fmt.Sprintf("%d messages", n)
}

// isPartial reports whether an order was carried out but for messages that cannot be read.
func isPartial(err error) bool {
	var partial *client.Partial
	return errors.As(err, &partial)
}
