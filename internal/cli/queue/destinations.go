package queue

import (
	"bufio"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/human"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// stateNames are the states of destinations, as in the API.
func stateNames() []string {
	var names []string
	for _, c := range qmgr.Conditions() {
		names = append(names, c.String())
	}
	return names
}

// checkStates refuses unknown states.
func checkStates(cmd *cobra.Command, states []string) error {
	for _, s := range states {
		if !slices.Contains(stateNames(), s) {
			return command.Misuse(cmd, fmt.Errorf("--state takes %s, not %q", strings.Join(stateNames(), ", "), human.Plain(s)))
		}
	}
	return nil
}

func newDestinationsCommand(p *socket.Finder) *cobra.Command {
	var (
		states []string
		each   bool
		limit  int
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:        "destinations [flags] [NAME]",
		SuggestFor: []string{"sites", "destination", "domains"},
		Aliases:    []string{"dest"},
		Short:      "List destinations, and what their mail waits for",
		Long: `List the destinations that the scheduler has mail for or remembers, the ones with
the most waiting mail first. Below each one is why its mail waits: the limit that is
reached and the parameter that sets it, the end of a pause, or why the destination
is dead.

NAME is a part of a destination's name, transport:nexthop. If it contains a *, it is a
pattern for the whole name, in which * matches any text. Deferred mail that is not due
is not counted; "posthaste queue shape" counts all mail.`,
		Example: `  posthaste queue destinations example.com
  posthaste queue destinations --state dead,rate-limited
  posthaste queue destinations --json | jq -r 'select(.messages > 100).name'`,
		Args: cobra.MaximumNArgs(1),
		RunE: withDaemon(p, nil, func(cmd *cobra.Command, args []string, c *client.Client) error {
			if err := checkStates(cmd, states); err != nil {
				return err
			}
			name := strings.Join(args, "")
			buffered := bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10)
			if asJSON {
				e := json.NewEncoder(buffered)
				if _, err := c.Destinations(cmd.Context(), name, states, each, limit, func(d *admin.Destination) error { return e.Encode(d) }); err != nil {
					return err
				}
				return buffered.Flush()
			}
			l := newDestinationLister(buffered, command.Terminal(cmd.OutOrStdout()))
			page, err := c.Destinations(cmd.Context(), name, states, each, limit, l.destination)
			if err != nil {
				return err
			}
			l.end(&page, len(states) > 0)
			if l.shown == 0 && name != "" && len(states) == 0 {
				fmt.Fprintf(buffered, "A destination is the next hop of mail: a host or a domain, with its transport. [routes] maps recipient\n"+
					"domains to destinations; \"posthaste queue list --domain %s\" lists the mail for a recipient domain.\n", human.Plain(name))
			}
			return buffered.Flush()
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringSliceVar(&states, "state", nil, "only in these `states`: "+strings.Join(stateNames(), ", "))
	f.BoolVar(&each, "sources", false, "show a destination once for each source of its mail and each TLS level that the mail demands")
	f.IntVarP(&limit, "limit", "n", 50, "show at most this `number` of destinations; 0: all")
	f.BoolVar(&asJSON, "json", false, "one JSON object per line")
	complete(cmd, "state", stateNames()...)
	return cmd
}

// A destinationLister writes a table of destinations.
type destinationLister struct {
	*table
	now   time.Time
	shown int
}

func newDestinationLister(out *bufio.Writer, width int) *destinationLister {
	t := newTable(out, width, []int{0, 1, 8}, "DESTINATION", "STATE", "MESSAGES", "RECIPIENTS", "OLDEST", "BUSY", "WINDOW", "CONNECTIONS", "HOSTS")
	return &destinationLister{table: t, now: time.Now()}
}

func (l *destinationLister) destination(d *admin.Destination) error {
	l.shown++
	oldest := "-"
	if d.Oldest != nil {
		oldest = human.Age(l.now.Sub(*d.Oldest))
	}
	return l.add(row{[]string{human.Shorten(human.Plain(inWay(d.Name, d.Source, d.Security)), destinationMax), d.State, human.Number(d.Messages), human.Number(d.Recipients), oldest,
		human.Number(d.Busy), human.Number(d.Window), connectionsCell(d), hostsCell(d.Hosts)}, whyLines(d, l.now)})
}

// inWay returns the name of a destination, from which source its mail leaves, and what it demands
// of the security of connections.
func inWay(name, source, security string) string {
	if source != "" {
		name += " from " + source
	}
	if security != "" {
		name += " with TLS level " + security
	}
	return name
}

func connectionsCell(d *admin.Destination) string {
	if d.Opening > 0 {
		return fmt.Sprintf("%s+%s", human.Number(d.Open), human.Number(d.Opening))
	}
	return human.Number(d.Open)
}

func hostsCell(h *admin.HostCounts) string {
	if h == nil {
		return "-"
	}
	var parts []string
	if h.Up > 0 || h.Retry == 0 {
		parts = append(parts, human.Number(h.Up)+" up")
	}
	if h.Busy > 0 {
		parts = append(parts, human.Number(h.Busy)+" busy")
	}
	if h.Retry > 0 {
		parts = append(parts, human.Number(h.Retry)+" retry")
	}
	return strings.Join(parts, ", ")
}

// whyLines returns what a destination's mail waits for, and its last failure.
func whyLines(d *admin.Destination, now time.Time) []string {
	var lines []string
	if d.Suspended != nil {
		lines = append(lines, suspensionText(d.Suspended, now))
	}
	if d.State == "dead" && d.Reason != "" {
		lines = append(lines, human.Plain(d.Reason))
		if d.Rule != "" {
			lines = append(lines, ruleText(d.Rule))
		}
		if d.Until != nil {
			lines = append(lines, "tried again "+human.When(*d.Until, now))
		}
		return lines
	}
	if d.Lowered != "" {
		lines = append(lines, loweredText(d, now))
	}
	if d.WaitReason != nil {
		lines = append(lines, waitReasonText(d.WaitReason, now))
	}
	if d.Failure != nil && d.Hosts != nil && d.Hosts.Retry+d.Hosts.Busy > 0 {
		lines = append(lines, fmt.Sprintf("last failure %s ago: %s", human.Span(now.Sub(d.Failure.At)), human.Plain(d.Failure.Reply)))
	}
	return lines
}

// ruleText names the rule that has a destination rest.
func ruleText(rule string) string { return "by the rule [reply_rule." + human.Plain(rule) + "]" }

// loweredText names the rule whose limits apply, and says until when.
func loweredText(d *admin.Destination, now time.Time) string {
	text := "limits lowered by the rule [reply_rule." + human.Plain(d.Lowered) + "]"
	if d.LoweredEnd != nil {
		text += ", " + human.Until(*d.LoweredEnd, now)
	}
	return text
}

// waitReasonText returns what mail waits for, when that ends, and which parameter sets it.
func waitReasonText(o *admin.WaitReason, now time.Time) string {
	text := human.Plain(o.Text)
	if o.Kind == "suspended" {
		return text + suspendedUntil(o.Until, now) + "; " + human.Plain(o.Command)
	}
	if o.Until != nil {
		text += ", next in " + human.Span(max(o.Until.Sub(now)+time.Second-1, 0)) // never sooner than it is
	}
	if o.Key != "" {
		text += " (" + human.Plain(o.Key) + ")"
	}
	return text
}

func (l *destinationLister) end(page *admin.DestinationPage, filtered bool) {
	if l.shown == 0 {
		fmt.Fprintln(l.out, "No destinations.")
	} else {
		_ = l.flush() // the writer keeps its error
		fmt.Fprintln(l.out)
	}
	writeSuspensions(l.out, "", page.Suspensions, l.now)
	if page.Matched == 0 {
		return
	}
	var parts []string
	for _, state := range stateNames() {
		if n := page.States[state]; n > 0 {
			parts = append(parts, human.Number(n)+" "+state)
		}
	}
	fmt.Fprintf(l.out, "%s: %s\n", human.Count(page.Matched, "destination"), strings.Join(parts, ", "))
	if page.Next != "" && !filtered {
		fmt.Fprintf(l.out, "%s more not shown; --limit 0 shows all\n", human.Number(page.Matched-l.shown))
	}
}
