package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/human"
)

func newFeedbackCommand(p *socket.Finder) *cobra.Command {
	var since, by string
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "feedback",
		Short: "Show how many bounces and complaints came back",
		Long: `Show the number of recipients about whom reports came to the addresses of [feedback], by
the class of the reply or the type of the complaint, or by another property (--by). Days
are in UTC; counts of 35 days are kept.`,
		Example: `  posthaste report feedback --since 7d --by receiver
  posthaste report feedback --by tenant --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			day, err := firstDay(since, time.Now())
			if err != nil {
				return err
			}
			c, err := p.Dial()
			if err != nil {
				return err
			}
			defer c.Close()
			page, err := c.Feedback(cmd.Context(), day, by, limit)
			if err != nil {
				return err
			}
			return printPage(cmd.OutOrStdout(), &page, by, asJSON)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&since, "since", "", "from this `day` on, such as 2026-11-23, or 7d for the last seven days (default all)")
	f.StringVar(&by, "by", "class", "group by this `property`: class, tenant, sender, receiver (the domains) or day")
	f.IntVar(&limit, "limit", 50, "show at most this `number` of rows")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	p.AddFlags(f)
	return cmd
}

// firstDay returns the day of --since, "" for all.
func firstDay(since string, now time.Time) (string, error) {
	var days int
	if since == "" {
		return "", nil
	}
	if _, err := time.Parse(time.DateOnly, since); err == nil {
		return since, nil
	}
	if n, err := fmt.Sscanf(since, "%dd", &days); n != 1 || err != nil || days < 1 || since != fmt.Sprintf("%dd", days) {
		return "", exit.Usagef("--since: %q is neither a day such as 2026-11-23 nor a number of days such as 7d", human.Plain(since))
	}
	return now.UTC().AddDate(0, 0, 1-min(days, 3650)).Format(time.DateOnly), nil
}

func printPage(out io.Writer, page *admin.FeedbackPage, by string, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(page)
	}
	if len(page.Addresses) == 0 && len(page.Rows) == 0 {
		return exit.New(exit.Config, errors.New("no reports are taken in: feedback.addresses is not set"), "Set it to the envelope senders of your mailings, and reload; see docs/feedback.md.")
	}
	if len(page.Rows) == 0 {
		_, err := fmt.Fprintf(out, "No reports came to %s.\n", human.Plain(strings.Join(page.Addresses, ", ")))
		return err
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "RECIPIENTS\tREPORT\t%s\n", strings.ToUpper(by))
	for _, r := range page.Rows {
		name := human.Plain(r.Name)
		if name == "" {
			name = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", human.Number(r.Count), r.Kind, name)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if page.More > 0 {
		_, err := fmt.Fprintf(out, "and %s more\n", human.Count(page.More, "row"))
		return err
	}
	return nil
}
