// Package queue has the commands that inspect and change the mail queue: lists of
// messages, destinations and hosts, the status, and orders. They are clients of the
// administration API and know nothing else of the daemon.
package queue

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/human"
	"github.com/posthaste-mta/posthaste/mail"
)

// NewCommand returns the queue commands.
func NewCommand() *cobra.Command { return newQueueCommandAt(&socket.Finder{}) }

// newQueueCommandAt returns the queue commands for a daemon at a location, which their
// flags may change.
func newQueueCommandAt(p *socket.Finder) *cobra.Command {
	cmd := command.Group("queue", "Inspect and change the mail queue", "",
		newListCommand(p), newCountCommand(p), newShowCommand(p), newStatusCommand(p), newDestinationsCommand(p), newFlowsCommand(p), newSourcesCommand(p), newWarmupCommand(p), newSuspendCommand(p), newResumeCommand(p), newSuspensionsCommand(p), newQuotasCommand(p), newTLSReportCommand(p), newHostsCommand(p), newShapeCommand(p))
	for _, o := range orders() {
		cmd.AddCommand(newOrderCommand(p, o))
	}
	p.AddFlags(cmd.PersistentFlags())
	return cmd
}

// withDaemon returns a command's function that reads the queue IDs and checks the
// conditions in a filter, if there is one, and connects to the daemon.
func withDaemon(p *socket.Finder, f *admin.Filter, run func(*cobra.Command, []string, *client.Client) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) (err error) {
		if f != nil {
			if err := checkFilters(cmd, f); err != nil {
				return err
			}
			if f.IDs, err = readIDs(args, cmd.InOrStdin()); err != nil {
				return err
			}
		}
		c, err := p.Dial()
		if err != nil {
			return err
		}
		defer c.Close()
		return run(cmd, args, c)
	}
}

// patternHelp says how conditions are given, the same for all commands.
const patternHelp = `If a condition is given several times, any of its values suffices. If several
conditions are given, all must be met. A value between slashes, such as
/^news-[0-9]+@/, is a regular expression in the syntax of RE2. Case does not matter.`

// addFilters adds the flags that select messages, the same for all commands.
func addFilters(f *pflag.FlagSet, to *admin.Filter) {
	f.StringSliceVar(&to.Areas, "area", nil, "only in these `areas`: incoming, deferred, hold, corrupt (default all but corrupt)")
	f.StringArrayVar(&to.Sender, "sender", nil, "from this `address`; * stands for any text, @domain for a domain, <> for the null sender, /RE2/ for a regular expression")
	f.StringArrayVar(&to.Class, "class", nil, "of this `class`; * stands for any text, - for messages without a class")
	f.StringArrayVar(&to.Tenant, "tenant", nil, "of this `tenant`; * stands for any text")
	f.StringArrayVar(&to.Flow, "flow", nil, "of this `flow`; * stands for any text")
	f.StringArrayVar(&to.Recipient, "recipient", nil, "to this `address`; * stands for any text, @domain for a domain")
	f.StringArrayVar(&to.Domain, "domain", nil, "to this `domain`; with a leading dot, also to its subdomains; * stands for any text")
	f.StringArrayVar(&to.Site, "site", nil, "whose last attempt was for this `site`: a nexthop as in \"queue destinations\", or a host of a site; * stands for any text")
	f.StringArrayVar(&to.Host, "host", nil, "whose last reply came from this `host`: its name or its address; * stands for any text, - for replies of this program")
	f.StringArrayVar(&to.Source, "source", nil, "whose last attempt was from this `source`; * stands for any text, - for none")
	f.StringArrayVar(&to.Error, "error", nil, "with this `text`, in which * is a star, or /RE2/ in the last reply or in the reason for a hold")
	f.StringArrayVar(&to.ReplyClass, "reply-class", nil, "with a last reply of this `class`, such as mailbox-full; * stands for any text")
	f.BoolVar(&to.Damaged, "damaged", false, "only damaged messages; without --area, the area corrupt is included")
	f.StringVar(&to.Older, "older", "", "older than this `time`, such as 30m, 4h or 5d")
	f.StringVar(&to.Younger, "younger", "", "younger than this `time`")
	f.StringVar(&to.Larger, "larger", "", "larger than this `size`, such as 500k or 10M")
	f.StringVar(&to.Smaller, "smaller", "", "smaller than this `size`")
}

// checkFilters returns an error for an invalid value of a flag, with the allowed ones.
func checkFilters(cmd *cobra.Command, f *admin.Filter) error {
	for _, area := range f.Areas {
		if !slices.Contains(areaNames(), area) {
			return command.Misuse(cmd, fmt.Errorf("--area takes incoming, deferred, hold or corrupt, not %q", human.Plain(area)))
		}
	}
	for _, age := range []struct{ flag, value string }{{"older", f.Older}, {"younger", f.Younger}} {
		if age.value == "" {
			continue
		}
		if _, err := admin.ParseAge(age.value); err != nil {
			return command.Misuse(cmd, fmt.Errorf("--%s takes a time such as 30s, 20m, 4h, 5d or 1h30m, not %q", age.flag, human.Plain(age.value)))
		}
	}
	for _, size := range []struct{ flag, value string }{{"larger", f.Larger}, {"smaller", f.Smaller}} {
		if size.value == "" {
			continue
		}
		if _, err := admin.ParseSize(size.value); err != nil {
			return command.Misuse(cmd, fmt.Errorf("--%s takes a size such as 500, 10k, 1.5M or 2G, not %q", size.flag, human.Plain(size.value)))
		}
	}
	return nil
}

func areaNames() []string { return []string{"incoming", "deferred", "hold", "corrupt"} }

// completeFilters completes the values of the flags of addFilters.
func completeFilters(cmd *cobra.Command) {
	complete(cmd, "area", areaNames()...)
	for _, name := range []string{"class", "tenant", "flow", "sender", "recipient", "domain", "site", "host", "source", "error", "reply-class", "older", "younger", "larger", "smaller"} {
		complete(cmd, name)
	}
}

// complete completes the values of a flag, which are not names of files.
func complete(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag does not exist: a bug
	}
}

// isAll reports whether a filter has no conditions.
func isAll(f *admin.Filter) bool { return f.Unconditional() && len(f.Areas) == 0 }

// readIDs checks queue IDs. A single "-" stands for the IDs on standard input, one at the
// start of each line; the rest of a line is ignored.
func readIDs(args []string, in io.Reader) ([]string, error) {
	if len(args) == 1 && args[0] == "-" {
		args = nil
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			if fields := strings.Fields(lines.Text()); len(fields) > 0 {
				args = append(args, fields[0])
			}
		}
		if err := lines.Err(); err != nil {
			return nil, exit.Errorf(exit.IO, "read queue IDs: %w", err)
		}
	}
	for _, id := range args {
		if _, err := mail.ParseQueueID(id); err != nil {
			return nil, exit.New(exit.Usage, fmt.Errorf("%q is not a queue ID", human.Plain(id)), "A queue ID has 13 digits and upper-case letters; \"posthaste queue list\" shows the IDs.")
		}
	}
	return args, nil
}

// Call runs a queue command for another program.
func Call(ctx context.Context, s command.Streams, p *socket.Finder, args ...string) error {
	return command.Execute(ctx, newQueueCommandAt(p), args, s)
}
