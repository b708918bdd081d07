package queue

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/human"
)

func newHostsCommand(p *socket.Finder) *cobra.Command {
	var (
		limit  int
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:        "hosts [flags] DESTINATION",
		SuggestFor: []string{"host", "connections", "servers"},
		Short:      "Show a destination in detail: its hosts, its connections, and why mail waits",
		Long: `Show one destination: what its mail waits for, the state of each host, the open
connections, and why the last ones were closed.

DESTINATION is a name as "posthaste queue destinations" shows it, with or without
its transport; a unique part of the name is enough.`,
		Example: `  posthaste queue hosts example.com
  posthaste queue hosts 'smtp:{mx1.example.net;mx2.example.net}'`,
		Args: cobra.ExactArgs(1),
		RunE: withDaemon(p, nil, func(cmd *cobra.Command, args []string, c *client.Client) error {
			if limit < 1 {
				return command.Misuse(cmd, errors.New("--limit takes a whole number of at least 1"))
			}
			d, err := c.Destination(cmd.Context(), args[0], min(limit, admin.DestinationsMax))
			if err != nil {
				return unknownDestination(err)
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			if asJSON {
				if err := json.NewEncoder(out).Encode(&d); err != nil {
					return err
				}
				return out.Flush()
			}
			v := hostsView{out: out, width: command.Terminal(cmd.OutOrStdout()), now: time.Now()}
			v.show(&d)
			return out.Flush()
		}),
		ValidArgsFunction: completeDestination(p),
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 50, "show at most this `number` of hosts, open connections and closed connections")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// unknownDestination makes a hint of the server's suggestions.
func unknownDestination(err error) error {
	var p *client.Problem
	switch {
	case !errors.As(err, &p):
		return err
	case p.Status == http.StatusUnprocessableEntity && len(p.Errors) > 0:
		return exit.New(exit.Usage, errors.New(p.Errors[0].Message), "Give more of the name.")
	case p.Status != http.StatusNotFound:
		return err
	}
	hint := "\"posthaste queue destinations\" lists the destinations of mail that is due. \"posthaste queue list --domain\" lists\n" +
		"deferred mail for a domain, with the reason. A domain with a route is not listed by its own name:\n" +
		"\"posthaste queue show\" shows the destination of a message."
	if len(p.Errors) > 0 {
		guess := human.Plain(p.Errors[0].Message)
		hint = strings.ToUpper(guess[:1]) + guess[1:]
	}
	return exit.New(exit.NoInput, errors.New(p.Detail), hint)
}

// completeDestination completes names of destinations.
func completeDestination(p *socket.Finder) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		c, err := p.Dial()
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer c.Close()
		var names []string
		_, _ = c.Destinations(cmd.Context(), begun, nil, false, 100, func(d *admin.Destination) error {
			if strings.HasPrefix(d.Name, begun) {
				names = append(names, d.Name)
			} else if strings.HasPrefix(d.Nexthop, begun) {
				names = append(names, d.Nexthop)
			}
			return nil
		})
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// A hostsView writes a destination as a person reads it.
type hostsView struct {
	out   *bufio.Writer
	width int
	now   time.Time
}

func (v *hostsView) line(name, format string, args ...any) {
	for _, text := range human.Wrap(fmt.Sprintf(format, args...), max(v.width-12, 0)) {
		fmt.Fprintln(v.out, human.Shorten(fmt.Sprintf("%-11s ", name)+text, v.width))
		name = ""
	}
}

func (v *hostsView) show(d *admin.DestinationDetail) {
	v.head(d)
	v.hosts(d)
	v.connections(d)
	v.ended(d)
}

func (v *hostsView) head(d *admin.DestinationDetail) {
	v.line("Destination", "%s", human.Plain(d.Name))
	if d.Remembered {
		v.line("State", "no mail in core and no open connections; shown from memory")
		return
	}
	state := d.State
	if d.WaitReason != nil && d.State != "dead" {
		state += ": " + waitReasonText(d.WaitReason, v.now)
	}
	v.line("State", "%s", state)
	if d.Reason != "" {
		v.line("Reason", "%s", human.Plain(d.Reason))
	}
	if d.Until != nil {
		v.line("Next", "%s", human.When(*d.Until, v.now))
	}
	if d.Rule != "" {
		v.line("Rule", "%s", ruleText(d.Rule))
	}
	if d.Lowered != "" {
		v.line("Limits", "%s", loweredText(&d.Destination, v.now))
	}
	v.line("Waiting", "%s", waitingText(&d.Destination, v.now))
	window := human.Number(d.Window)
	if d.Limit > 0 {
		window += " of at most " + human.Number(d.Limit)
	}
	if text := connectionsText(d.Open, d.Opening); text != "" {
		window += "; " + text
	}
	v.line("Window", "%s", window)
	for i, r := range d.Rates {
		name := "Rates"
		if i > 0 {
			name = ""
		}
		v.line(name, "%s %s, %s used", human.Plain(r.Key), human.Plain(r.Limit), human.Number(r.Used))
	}
	if len(d.Tables) > 0 {
		v.line("Tables", "[destination.%s]", human.Plain(strings.Join(d.Tables, "], [destination.")))
	}
	if d.Failure != nil {
		v.line("Failed", "%s ago: %s", human.Span(v.now.Sub(d.Failure.At)), human.Plain(d.Failure.Reply))
	}
}

func (v *hostsView) write(t *table) {
	fmt.Fprintln(v.out)
	_ = t.flush() // the writer keeps its error
}

func waitingText(d *admin.Destination, now time.Time) string {
	if d.Messages == 0 {
		return fmt.Sprintf("nothing; %s under way", human.Count(d.Busy, "delivery"))
	}
	text := human.Count(d.Messages, "message") + " with " + human.Count(d.Recipients, "recipient")
	if d.Oldest != nil {
		text += ", the oldest " + human.Span(now.Sub(*d.Oldest)) + " old"
	}
	return text + "; " + human.Count(d.Busy, "delivery") + " under way"
}

func (v *hostsView) hosts(d *admin.DestinationDetail) {
	if len(d.HostList) == 0 {
		return
	}
	t := newTable(v.out, v.width, []int{0, 1, 7}, "HOST", "STATE", "NEXT", "CONNECTIONS", "TIER", "RTT", "SERVICE", "LEVEL")
	t.whole = true // a failure may end in advice
	for i := range d.HostList {
		h := &d.HostList[i]
		next := "-"
		switch {
		case h.Until != nil && h.Until.After(v.now):
			next = "in " + human.Span(h.Until.Sub(v.now))
		case h.Until != nil:
			next = "now"
		}
		connections := human.Number(h.Connections)
		if h.Limit > 0 {
			connections += "/" + human.Number(h.Limit)
		}
		t.rows = append(t.rows, row{[]string{human.Plain(inWay(hostName(h), h.Source, h.Security)), h.State, next, connections, human.Number(h.Tier),
			milliseconds(h.RTT), milliseconds(h.Service), h.Level}, v.hostLines(h)})
	}
	v.write(t)
}

func hostName(h *admin.HostStatus) string {
	address, port, _ := net.SplitHostPort(h.Address) // the API writes both
	return h.Name + "[" + address + "]:" + port
}

// milliseconds is a short time that was measured.
func milliseconds(seconds float64) string {
	switch ms := seconds * 1000; {
	case seconds == 0:
		return "-"
	case ms < 9.95:
		return fmt.Sprintf("%.1fms", ms)
	case seconds < 9.95:
		return fmt.Sprintf("%.0fms", ms)
	}
	return fmt.Sprintf("%.0fs", seconds)
}

// hostLines returns what is unusual about a host.
func (v *hostsView) hostLines(h *admin.HostStatus) []string {
	var lines []string
	if h.Failure != nil {
		times := "failed"
		if h.Failures > 1 {
			times = fmt.Sprintf("failed %d times in a row, the last", h.Failures)
		}
		lines = append(lines, fmt.Sprintf("%s %s ago: %s", times, human.Span(v.now.Sub(h.Failure.At)), human.Plain(h.Failure.Reply)))
	}
	if h.BusyUntil != nil {
		lines = append(lines, "accepts no further connections; tried again "+human.When(*h.BusyUntil, v.now))
	}
	if h.Level != h.Configured {
		lines = append(lines, v.levelText(h))
	}
	if h.Slow {
		lines = append(lines, "slow: a message takes several times as long as at best")
	}
	if h.Mails > 0 {
		lines = append(lines, "closes a connection after "+human.Count(h.Mails, "message"))
	}
	if len(h.Offers) > 0 {
		lines = append(lines, "offers "+human.Plain(strings.Join(h.Offers, " ")))
	}
	return lines
}

func (v *hostsView) levelText(h *admin.HostStatus) string {
	text := "pipelining: " + h.Level + " in place of " + h.Configured
	switch {
	case h.Unproven && h.ProvedAt != nil && h.ProvedAt.After(v.now):
		text += ": the host does not support that; tried again " + human.When(*h.ProvedAt, v.now)
	case h.Unproven:
		text += ": the host has not shown yet that it supports that"
	case h.LevelFixed:
		text += " for good"
	case h.LevelUntil != nil:
		text += ", " + human.Until(*h.LevelUntil, v.now) + " at least"
	}
	if f := h.Fell; f != nil {
		text += "; " + human.Span(v.now.Sub(f.At)) + " ago " + f.Text
		if f.Reply != "" {
			text += ": " + human.Plain(f.Reply)
		}
	}
	return text
}

func (v *hostsView) connections(d *admin.DestinationDetail) {
	if len(d.Connections) == 0 {
		return
	}
	t := newTable(v.out, v.width, []int{0, 1, 2}, "CONNECTION", "STATE", "LEVEL", "IN FLIGHT", "CARRIED", "AGE", "IDLE")
	for _, c := range d.Connections {
		idle := "-"
		if c.Idle != nil {
			idle = human.Span(v.now.Sub(*c.Idle))
		}
		carried := human.Number(c.Carried)
		if c.Limit > 0 {
			carried += "/" + human.Number(c.Limit)
		}
		t.rows = append(t.rows, row{cells: []string{human.Plain(inWay(c.Host, c.Source, c.Security)), c.State, c.Level, human.Number(c.InFlight), carried, human.Span(v.now.Sub(c.Made)), idle}, below: tlsLine(c.TLS)})
	}
	v.write(t)
}

// tlsLine says what protects a connection.
func tlsLine(negotiated string) []string {
	if negotiated == "" {
		return nil
	}
	return []string{negotiated}
}

func (v *hostsView) ended(d *admin.DestinationDetail) {
	if len(d.Ended) == 0 {
		return
	}
	t := newTable(v.out, v.width, []int{0, 1, 4}, "ENDED", "CONNECTION", "CARRIED", "LASTED", "WHY")
	for _, e := range d.Ended {
		why := e.Text
		if e.Reply != "" {
			why += ": " + human.Plain(e.Reply)
		}
		t.rows = append(t.rows, row{cells: []string{human.Span(v.now.Sub(e.At)) + " ago", human.Plain(inWay(e.Host, e.Source, e.Security)), human.Number(e.Carried), human.Span(e.At.Sub(e.Made)), why}})
	}
	v.write(t)
}
