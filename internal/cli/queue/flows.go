package queue

import (
	"bufio"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/human"
)

func newFlowsCommand(p *socket.Finder) *cobra.Command {
	var (
		of     admin.FlowFilter
		limit  int
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:        "flows [flags]",
		SuggestFor: []string{"tenants", "classes", "senders"},
		Short:      "List the flows of mail, their waits and their shares",
		Long: `List the flows that have mail in core or had some lately, those with the most waiting
deliveries first. WAIT is the median and the 99th percentile of the time that a
delivery spends in core before it starts, rounded up to a power of two.

Below each flow are the destinations for which it waits. If flows have more mail than a
destination accepts, they take turns. The line shows the share to which the flow is
entitled, and how many deliveries of other flows its next one may have to wait for.

Mail that was not classified is in no flow.`,
		Example: `  posthaste queue flows
  posthaste queue flows --tenant shop
  posthaste queue flows --json | jq -r 'select(.wait_p99_ms > 60000).flow'`,
		Args: cobra.NoArgs,
		RunE: withDaemon(p, nil, func(cmd *cobra.Command, _ []string, c *client.Client) error {
			page, err := c.Flows(cmd.Context(), of, limit)
			if err != nil {
				return err
			}
			return writeRows(cmd.OutOrStdout(), asJSON, page.Flows, func(out *bufio.Writer, width int) error {
				return writeFlows(out, width, &page)
			})
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringArrayVar(&of.Class, "class", nil, "only of this `class`; * stands for any text, /RE2/ for a regular expression")
	f.StringArrayVar(&of.Tenant, "tenant", nil, "only of this `tenant`; * stands for any text, /RE2/ for a regular expression")
	f.StringArrayVar(&of.Flow, "flow", nil, "only this `flow`; * stands for any text, /RE2/ for a regular expression")
	f.IntVarP(&limit, "limit", "n", 50, "show at most this `number` of flows, up to 1000")
	f.BoolVar(&asJSON, "json", false, "one JSON object per line")
	return cmd
}

func writeFlows(out *bufio.Writer, width int, page *admin.FlowPage) error {
	now := time.Now()
	t := newTable(out, width, []int{0, 1, 2}, "CLASS", "TENANT", "FLOW", "MESSAGES", "WAITING", "BUSY", "STARTED", "WAIT 50%", "WAIT 99%")
	for i := range page.Flows {
		f := &page.Flows[i]
		cells := []string{human.Plain(f.Class), human.Plain(f.Tenant), human.Shorten(human.Plain(f.Flow), destinationMax), human.Number(f.Messages),
			human.Number(f.Waiting), human.Number(f.Busy), human.Number(int(f.Started)), flowWait(f, f.WaitMedianMS), flowWait(f, f.WaitP99MS)}
		if err := t.add(row{cells, flowLines(f, now)}); err != nil {
			return err
		}
	}
	if page.Matched > 0 {
		_ = t.flush() // the writer keeps its error
	}
	writeSuspensions(out, "", page.Suspensions, now)
	switch n := len(page.Flows); {
	case page.Matched == 0:
		fmt.Fprintln(out, "No flows.")
	case page.Matched > n:
		fmt.Fprintf(out, "%s of %s flows\n", human.Number(n), human.Number(page.Matched))
	}
	return nil
}

// flowWait formats a quantile of a flow's waits.
func flowWait(f *admin.Flow, ms int64) string {
	if f.Started == 0 {
		return "-"
	}
	if ms < 1000 {
		return fmt.Sprintf("%d ms", ms)
	}
	return human.Span(time.Duration(ms) * time.Millisecond)
}

// flowLines returns where a flow's mail waits.
func flowLines(f *admin.Flow, now time.Time) (lines []string) {
	if f.Suspended != nil {
		lines = append(lines, suspensionText(f.Suspended, now))
	}
	for i := range f.Destinations {
		d := &f.Destinations[i]
		line := fmt.Sprintf("%s waiting for %s", human.Number(d.Waiting), human.Plain(inWay(d.Name, d.Source, d.Security)))
		if text := sharingText(&d.Sharing); text != "" {
			line += ": " + text
		}
		lines = append(lines, line)
	}
	if f.MoreDestinations > 0 {
		lines = append(lines, "and "+human.Count(f.MoreDestinations, "more destination"))
	}
	return lines
}

// sharingText says how a flow shares a destination; "" if no other wants it.
func sharingText(s *admin.Sharing) string {
	if s.Flows < 2 {
		return ""
	}
	text := human.Number(s.Flows) + " flows share it"
	switch {
	case s.Share == 0:
		return text + ", and there is room for all"
	case s.Turns == 0:
		return text + fmt.Sprintf("; share %.1f %%, its turn is next", float64(s.Share)/10)
	}
	return text + fmt.Sprintf("; share %.1f %%, next after at most %s of others", float64(s.Share)/10, human.Count(s.Turns, "delivery"))
}
