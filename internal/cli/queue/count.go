package queue

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/human"
)

// groupings are the properties by which messages are counted.
func groupings() []string {
	return []string{"area", "sender", "sender-domain", "class", "tenant", "flow", "domain", "reply-class", "error", "host", "site", "source"}
}

func newCountCommand(p *socket.Finder) *cobra.Command {
	var (
		of     admin.Filter
		by     string
		limit  int
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:        "count [flags] [ID…]",
		SuggestFor: []string{"stats", "top", "summary"},
		Aliases:    []string{"sum"},
		Short:      "Count messages and recipients, by domain, sender, reply or another property",
		Long: `Count the messages that meet all given conditions, or all messages, and their waiting
recipients. With --by they are counted in groups, the largest first: by a property of the
message (area, sender, sender-domain, class, tenant, flow), or of its recipients (domain,
reply-class, error, host: the server that sent the last reply, site, source: those of the
last attempt).

` + patternHelp,
		Example: `  posthaste queue count --by domain
  posthaste queue count --by error --domain gmail.com --domain googlemail.com
  posthaste queue count --by tenant --older 1d`,
		RunE: withDaemon(p, &of, func(cmd *cobra.Command, _ []string, c *client.Client) error {
			stderr, begin, told := cmd.ErrOrStderr(), time.Now(), false
			progress := func(so *admin.Count) {
				if command.Terminal(stderr) > 0 && time.Since(begin) > time.Second {
					fmt.Fprintf(stderr, "\r%s looked at …", human.Count(so.Scanned, "message"))
					told = true
				}
			}
			count, err := c.Count(cmd.Context(), of, by, progress)
			if told {
				fmt.Fprintf(stderr, "\r%s\r", strings.Repeat(" ", 40))
			}
			if !isPartial(err) {
				return err
			}
			if asJSON {
				if wrong := json.NewEncoder(cmd.OutOrStdout()).Encode(&count); wrong != nil {
					return wrong
				}
				return err
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			if wrong := writeCount(out, command.Terminal(cmd.OutOrStdout()), &count, by, limit); wrong != nil {
				return wrong
			}
			return err
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	addFilters(f, &of)
	f.StringVar(&by, "by", "", "in groups by this `property`: "+strings.Join(groupings(), ", "))
	f.IntVarP(&limit, "limit", "n", 20, "show at most this `number` of groups; 0: all")
	f.BoolVar(&asJSON, "json", false, "one JSON object with all groups")
	completeFilters(cmd)
	complete(cmd, "by", groupings()...)
	return cmd
}

// writeCount writes the groups, those beyond a limit in one row, and the total.
func writeCount(out *bufio.Writer, width int, c *admin.Count, by string, limit int) error {
	if by != "" {
		t := newTable(out, width, []int{2}, "RECIPIENTS", "MESSAGES", strings.ToUpper(strings.ReplaceAll(by, "-", " ")))
		rest := admin.Group{}
		if c.Other != nil {
			rest = *c.Other
		}
		add := func(g admin.Group, name string) error {
			return t.add(row{cells: []string{human.Number(g.Recipients), human.Number(g.Messages), name}})
		}
		more := 0
		for i, g := range c.Groups {
			if limit > 0 && i >= limit {
				rest.Add(g)
				more++
				continue
			}
			if err := add(g, groupName(g.Value, by)); err != nil {
				return err
			}
		}
		if rest != (admin.Group{}) {
			name := "(all others)"
			if c.Other == nil {
				name = fmt.Sprintf("(%s)", human.Count(more, "other"))
			}
			if err := add(rest, name); err != nil {
				return err
			}
		}
		if err := t.flush(); err != nil {
			return err
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintf(out, "%s of %s\n", human.Count(c.Recipients, "waiting recipient"), human.Count(c.Messages, "message"))
	return out.Flush()
}

// groupName is a group's property in one line.
func groupName(value, by string) string {
	switch {
	case value == "" && by == "sender":
		return "<>"
	case value == "":
		return "-"
	}
	return human.Plain(strings.ReplaceAll(value, "\n", " "))
}
