package queue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
)

func newTLSReportCommand(p *socket.Finder) *cobra.Command {
	var day, domain string
	cmd := &cobra.Command{
		Use:        "tls-report [flags]",
		SuggestFor: []string{"tlsrpt"},
		Short:      "Show the reports on TLS that domains would get",
		Long: `List the domains whose sessions were counted on a day, or print the report about one of
them as JSON (RFC 8460), as it would be sent now. Days are in UTC. Counts are kept until
their report has been sent or dropped, or until the daemon finds that the domain does not
ask for reports.`,
		Example: `  posthaste queue tls-report
  posthaste queue tls-report --date 2026-11-23 --domain example.com | jq .policies`,
		Args: cobra.NoArgs,
		RunE: withDaemon(p, nil, func(cmd *cobra.Command, _ []string, c *client.Client) error {
			if day == "" {
				day = time.Now().UTC().Format(time.DateOnly)
			} else if _, err := time.Parse(time.DateOnly, day); err != nil {
				return fmt.Errorf("--date: %q is not a date such as 2026-11-23", day)
			}
			page, err := c.TLSReports(cmd.Context(), day, domain)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			switch {
			case !page.Counting:
				return fmt.Errorf("sessions are not counted: set organization under [tls_reports], and restart")
			case domain == "" && len(page.Domains) == 0:
				_, err = fmt.Fprintf(out, "No sessions were counted on %s.%s\n", day, otherDays(page.Days))
			case domain == "":
				_, err = fmt.Fprintln(out, strings.Join(page.Domains, "\n"))
			case len(page.Report) == 0:
				return fmt.Errorf("no sessions with %s were counted on %s", domain, day)
			default:
				var text bytes.Buffer
				if err := json.Indent(&text, page.Report, "", "  "); err != nil {
					return err
				}
				_, err = fmt.Fprintln(out, text.String())
			}
			return err
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&day, "date", "", "the UTC `day`, such as 2026-11-23 (default today)")
	f.StringVar(&domain, "domain", "", "print the report on this `domain`")
	return cmd
}

// otherDays says of which days there are counts.
func otherDays(days []string) string {
	if len(days) == 0 {
		return ""
	}
	return " There are counts of " + strings.Join(days, ", ") + "."
}
