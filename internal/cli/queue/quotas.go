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

func newQuotasCommand(p *socket.Finder) *cobra.Command {
	var (
		kind   string
		names  []string
		limit  int
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:        "quotas [flags]",
		SuggestFor: []string{"limits", "usage"},
		Short:      "List how much of their quotas tenants have used",
		Long: `List classes, tenants and flows that have quotas, with how much of each limit is used.
Those that are closest to a limit come first. A tenant or flow without limits of its own is
listed if it is among those with the most mail waiting, or has sent something lately.

REFUSED is the number of commands and messages that were refused because of any of the
limits since the daemon started.`,
		Example: `  posthaste queue quotas
  posthaste queue quotas --kind tenant --name acme
  posthaste queue quotas --json | jq -r 'select(.refused > 0).name'`,
		Args: cobra.NoArgs,
		RunE: withDaemon(p, nil, func(cmd *cobra.Command, _ []string, c *client.Client) error {
			page, err := c.Quotas(cmd.Context(), kind, names, limit)
			if err != nil {
				return err
			}
			return writeRows(cmd.OutOrStdout(), asJSON, page.Quotas, func(out *bufio.Writer, width int) error {
				return writeQuotas(out, width, &page, kind != "" || len(names) > 0)
			})
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&kind, "kind", "", "only of this `kind`: class, tenant or flow")
	f.StringArrayVar(&names, "name", nil, "only of the class, tenant or flow with this `name`; * stands for any text, /RE2/ for a regular expression")
	f.IntVarP(&limit, "limit", "n", 50, "show at most this `number` of quotas, up to 1000")
	f.BoolVar(&asJSON, "json", false, "one JSON object per line")
	return cmd
}

func writeQuotas(out *bufio.Writer, width int, page *admin.QuotaPage, filtered bool) error {
	if page.Counting {
		fmt.Fprintf(out, "The messages in the queue are being counted (%s so far); until then limits on them refuse nothing.\n", human.Number(page.Counted))
	}
	t := newTable(out, width, []int{0, 1, 2}, "KIND", "NAME", "LIMIT", "USED", "OF", "REFUSED")
	for i := range page.Quotas {
		q := &page.Quotas[i]
		kind, name, refused := q.Kind, quotaName(q), human.Number(q.Refused)
		for _, u := range q.Uses {
			used, of := quotaAmounts(&u)
			if err := t.add(row{[]string{kind, name, u.Limit, used, of, refused}, nil}); err != nil {
				return err
			}
			kind, name, refused = "", "", ""
		}
		if q.RecipientLimit > 0 {
			if err := t.add(row{[]string{kind, name, "recipient_limit", "", human.Number(q.RecipientLimit), refused}, nil}); err != nil {
				return err
			}
		}
	}
	if page.Matched > 0 {
		_ = t.flush() // the writer keeps its error
	}
	switch n := len(page.Quotas); {
	case page.Matched == 0 && filtered:
		fmt.Fprintln(out, "No quotas meet the conditions.")
	case page.Matched == 0:
		fmt.Fprintln(out, "No quotas are configured, or no mail counts for those of each tenant or flow.")
	case page.Matched > n:
		fmt.Fprintf(out, "%s of %s quotas\n", human.Number(n), human.Number(page.Matched))
	}
	return nil
}

func quotaName(q *admin.Quota) string {
	name := human.Shorten(human.Plain(q.Name), destinationMax)
	switch {
	case q.Shared:
		return "(many)"
	case q.Tenant != "":
		return name + " of " + human.Plain(q.Tenant)
	}
	return name
}

// quotaAmounts formats what is used of a limit, and the limit.
func quotaAmounts(u *admin.QuotaUsage) (used, of string) {
	format := human.Number[int64]
	if u.Limit == "queue_size_limit" {
		format = human.Bytes
	}
	used, of = format(u.Used), format(u.Of)
	if u.Unknown {
		used = "?"
	}
	if u.Per > 0 {
		of += " in " + human.Span(time.Duration(u.Per)*time.Millisecond)
	}
	return used, of
}
