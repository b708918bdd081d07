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

func newSourcesCommand(p *socket.Finder) *cobra.Command {
	var (
		sites  int
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:        "sources [flags]",
		SuggestFor: []string{"source", "pools", "addresses"},
		Short:      "List the addresses that mail leaves from, and what they send",
		Long: `List the sources in the order of the configuration. Each line shows how many recipients,
deliveries and connections the source has, and the outcomes of its recipients today (UTC),
or since the start if that was later. Below it are its addresses and its pools. An address
that cannot be used on this machine is withdrawn and tried again after a pause; until
then its mail leaves from the other sources of its pool. For a source in its warm-up, the
list shows the day of the plan, and with --sites also the sites with the most messages
today.`,
		Example: `  posthaste queue sources
  posthaste queue sources --sites 10
  posthaste queue sources --json | jq -r 'select(.state != "in use").name'`,
		Args: cobra.NoArgs,
		RunE: withDaemon(p, nil, func(cmd *cobra.Command, _ []string, c *client.Client) error {
			page, err := c.Sources(cmd.Context(), sites)
			if err != nil {
				return err
			}
			return writeRows(cmd.OutOrStdout(), asJSON, page.Sources, func(out *bufio.Writer, width int) error {
				return writeSources(out, width, &page, time.Now())
			})
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.IntVar(&sites, "sites", 0, "show for each source this `number` of its destinations, up to 1000, those with the most waiting first")
	f.BoolVar(&asJSON, "json", false, "one JSON object per line")
	return cmd
}

func writeSources(out *bufio.Writer, width int, page *admin.SourcePage, now time.Time) error {
	if len(page.Sources) == 0 {
		fmt.Fprintln(out, "No sources are configured: mail leaves from the address that the system chooses, or from bind_address.")
		return nil
	}
	t := newTable(out, width, []int{0, 1}, "SOURCE", "STATE", "WAITING", "BUSY", "CONNECTIONS", "DESTINATIONS", "DELIVERED", "DEFERRED", "BOUNCED", "PER MINUTE")
	for i := range page.Sources {
		s := &page.Sources[i]
		cells := []string{human.Plain(s.Name), s.State, human.Number(s.Waiting), human.Number(s.Busy), human.Number(s.Connections), human.Number(s.Destinations),
			human.Number(int(s.Delivered)), human.Number(int(s.Deferred)), human.Number(int(s.Bounced)), perMinute(s, now)}
		if err := t.add(row{cells, sourceLines(s, now)}); err != nil {
			return err
		}
	}
	return t.flush()
}

// perMinute returns the rate of deliveries today.
func perMinute(s *admin.Source, now time.Time) string {
	if s.Since == nil || s.Delivered == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(s.Delivered)/max(now.Sub(*s.Since).Minutes(), 1))
}

// sourceLines returns a source's addresses, pools and destinations.
func sourceLines(s *admin.Source, now time.Time) (lines []string) {
	for _, a := range s.Addresses {
		line := a.Address
		if s.Ehlo != "" {
			line += ", EHLO " + human.Plain(s.Ehlo)
		}
		if a.State != "in use" {
			line += ": " + human.Plain(a.Reason)
			if a.Since != nil {
				line += ", withdrawn " + human.Span(now.Sub(*a.Since)) + " ago"
			}
			if a.Until != nil {
				line += ", tried again in " + human.Span(max(a.Until.Sub(now), 0))
			}
		}
		lines = append(lines, line)
	}
	for _, p := range s.Pools {
		lines = append(lines, fmt.Sprintf("in pool %s with weight %d of %d", human.Plain(p.Name), p.Weight, p.Of))
	}
	lines = append(lines, warmupLines(s.Warmup)...)
	for i := range s.Sites {
		d := &s.Sites[i]
		line := fmt.Sprintf("%s: %s, %s waiting, %s busy, %s, window %s", human.Plain(d.Name), d.State, human.Number(d.Waiting), human.Number(d.Busy),
			human.Count(d.Connections, "connection"), human.Number(d.Window))
		if d.Reason != "" {
			line += ": " + human.Plain(d.Reason)
		}
		lines = append(lines, line)
	}
	return lines
}
