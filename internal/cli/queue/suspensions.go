package queue

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/human"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
)

func newSuspensionsCommand(p *socket.Finder) *cobra.Command {
	var (
		of     admin.SuspensionFilter
		limit  int
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "suspensions [flags] [ID…]",
		Short: "List what operators and rules on replies have suspended",
		Long: `List the suspensions in force that meet all given conditions, or those with these IDs. An ID
stays the same over restarts, and when the same thing is suspended again; --json shows it.

` + patternHelp,
		Example: `  posthaste queue suspensions --scope destination --rule 'block-*'
  posthaste queue suspensions --reason '/4\.7\.[0-9]+/' --json | jq -r .id`,
		RunE: withDaemon(p, nil, func(cmd *cobra.Command, ids []string, c *client.Client) error {
			out := bufio.NewWriter(cmd.OutOrStdout())
			visit := func(s *admin.Suspension) error {
				if asJSON {
					return json.NewEncoder(out).Encode(s)
				}
				_, err := fmt.Fprintln(out, suspensionText(s, time.Now()))
				return err
			}
			if len(ids) > 0 {
				return cmp.Or(suspensionsByID(cmd, c, ids, visit), out.Flush())
			}
			page, err := c.Suspensions(cmd.Context(), of, limit, visit)
			if err == nil && !asJSON {
				writeSuspensionsEnd(out, &page, limit)
			}
			switch err := cmp.Or(err, out.Flush()); {
			case err != nil:
				return err
			case page.Matched == 0 && conditional(&of):
				return exit.New(exit.Nothing, errors.New("no suspension meets the conditions"), "")
			}
			return nil
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringSliceVar(&of.Scope, "scope", nil, "of these `kinds`: site, domain, destination, transport, source, tenant, class")
	f.StringArrayVar(&of.Value, "value", nil, "of this `value`; * stands for any text")
	f.StringArrayVar(&of.By, "by", nil, "by this `operator`, or \"rule NAME\"; * stands for any text")
	f.StringArrayVar(&of.Rule, "rule", nil, "by this `rule` on replies; * stands for any text, - for suspensions of operators")
	f.StringArrayVar(&of.Reason, "reason", nil, "with this `text` in the reason, which of a rule's is the reply")
	f.IntVarP(&limit, "limit", "n", 0, "show at most this `number` of suspensions; 0: all")
	f.BoolVar(&asJSON, "json", false, "one JSON object per line")
	complete(cmd, "scope", scopeNames()...)
	for _, name := range []string{"value", "by", "rule", "reason", "limit"} {
		complete(cmd, name)
	}
	return cmd
}

// scopeNames returns the kinds of what is suspended.
func scopeNames() (names []string) {
	for _, s := range measure.Scopes() {
		names = append(names, s.String())
	}
	return names
}

func conditional(f *admin.SuspensionFilter) bool {
	return len(f.Scope)+len(f.Value)+len(f.By)+len(f.Rule)+len(f.Reason) > 0
}

// suspensionsByID calls visit with the suspensions that have these IDs.
func suspensionsByID(cmd *cobra.Command, c *client.Client, ids []string, visit func(*admin.Suspension) error) error {
	var missing []string
	for _, id := range ids {
		s, err := c.Suspension(cmd.Context(), id)
		if problem := (*client.Problem)(nil); errors.As(err, &problem) && problem.Status == http.StatusNotFound {
			missing = append(missing, human.Plain(id))
			continue
		}
		if err = cmp.Or(err, visit(&s)); err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		return exit.New(exit.NoInput, errors.New("no suspension in force has the ID "+strings.Join(missing, " ")), "")
	}
	return nil
}

// writeSuspensionsEnd writes what comes behind a list: the numbers, and what was left out.
func writeSuspensionsEnd(out io.Writer, page *admin.SuspensionPage, limit int) {
	if page.Matched == 0 {
		fmt.Fprintln(out, "Nothing is suspended.")
		return
	}
	var parts []string
	for _, scope := range scopeNames() {
		if n := page.Scopes[scope]; n > 0 {
			parts = append(parts, human.Count(n, scope))
		}
	}
	fmt.Fprintf(out, "%s: %s\n", human.Count(page.Matched, "suspension"), strings.Join(parts, ", "))
	if page.Next != "" {
		fmt.Fprintf(out, "%s more not shown; --limit 0 shows all\n", human.Number(page.Matched-limit))
	}
}

// writeSuspensions writes a line for each of the first few suspensions, with a word before it, and how many there are besides.
func writeSuspensions(out io.Writer, word string, c *admin.SuspensionCounts, now time.Time) {
	if c == nil {
		return
	}
	for i := range c.Few {
		fmt.Fprintf(out, "%s%s\n", word, suspensionText(&c.Few[i], now))
	}
	if more := c.More(); more > 0 {
		fmt.Fprintf(out, "%s%s, %s of them by rules on replies; posthaste queue suspensions lists all\n", word, human.Count(c.Total, "suspension"), human.Number(c.Rules))
	}
}
