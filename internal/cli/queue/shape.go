package queue

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/human"
)

// Shape of the table: like qshape's of Postfix, ages double from column to
// column.
const (
	shapeColumns = 10
	shapeFirst   = 5 * time.Minute
	shapeDomains = 100_000 // domains counted apart; further ones are added up
	shapeOthers  = "(other domains)"
)

// newShapeCommand is Postfix's qshape.
func newShapeCommand(p *socket.Finder) *cobra.Command {
	var (
		q        client.Query
		bySender bool
		rows     int
	)
	cmd := &cobra.Command{
		Use:        "shape",
		SuggestFor: []string{"qshape"},
		Short:      "Count waiting recipients by domain and age",
		Long: `Count waiting recipients by domain and by the age of their messages in minutes, the
domains with the most recipients first. Mail in the left columns only is normal for
a busy domain; mail in the right columns means that the domain does not accept it.`,
		Args: cobra.NoArgs,
		RunE: withDaemon(p, nil, func(cmd *cobra.Command, _ []string, c *client.Client) error {
			s := shape{now: time.Now(), domains: map[string]*shapeRow{}}
			if q.Recipients = admin.RecipientsMax; bySender {
				q.Recipients = 0
			}
			var unread client.Partial
			recipients := recipientsOf(cmd, c, &unread)
			err := c.List(cmd.Context(), q, func(m *admin.Summary) error {
				if bySender {
					s.add(domainOf(m.Sender, "MAILER-DAEMON"), m.Arrived)
					return nil
				}
				return recipients(m, func(r *admin.Recipient) error {
					s.add(domainOf(r.Address, r.Address), m.Arrived)
					return nil
				})
			})
			if !isPartial(err) {
				return err
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			s.write(out, rows)
			return cmp.Or(out.Flush(), err, unread.OrNil())
		}),
	}
	addFilters(cmd.Flags(), &q.Filter)
	cmd.Flags().BoolVarP(&bySender, "by-sender", "s", false, "count messages by sender domain")
	cmd.Flags().IntVarP(&rows, "rows", "n", 20, "show at most this `number` of domains")
	completeFilters(cmd)
	return cmd
}

// A shape counts by domain and age.
type shape struct {
	now     time.Time
	total   shapeRow
	domains map[string]*shapeRow
}

type shapeRow struct {
	name  string
	all   int
	byAge [shapeColumns]int
}

func domainOf(address, none string) string {
	if i := strings.LastIndexByte(address, '@'); i >= 0 {
		return strings.ToLower(address[i+1:])
	}
	return none
}

func (s *shape) add(domain string, arrived time.Time) {
	row := s.domains[domain]
	if row == nil {
		if len(s.domains) >= shapeDomains {
			domain = shapeOthers
		}
		if row = s.domains[domain]; row == nil {
			row = &shapeRow{name: domain}
			s.domains[domain] = row
		}
	}
	column := 0
	for limit := shapeFirst; column < shapeColumns-1 && s.now.Sub(arrived) >= limit; limit *= 2 {
		column++
	}
	for _, r := range []*shapeRow{row, &s.total} {
		r.all++
		r.byAge[column]++
	}
}

func (s *shape) write(out io.Writer, rows int) {
	var all []*shapeRow
	width := len("TOTAL")
	for _, row := range s.domains {
		all = append(all, row)
	}
	slices.SortFunc(all, func(a, b *shapeRow) int {
		return cmp.Or(cmp.Compare(b.all, a.all), strings.Compare(a.name, b.name))
	})
	all = all[:min(len(all), rows)]
	for _, row := range all {
		width = max(width, len(human.Plain(row.name)))
	}
	fmt.Fprintf(out, "%*s %6s", width, "", "T")
	limit := shapeFirst
	for range shapeColumns - 1 {
		fmt.Fprintf(out, " %6d", limit/time.Minute)
		limit *= 2
	}
	fmt.Fprintf(out, " %6s\n", strconv.Itoa(int(limit/2/time.Minute))+"+")
	s.total.name = "TOTAL"
	for _, row := range append([]*shapeRow{&s.total}, all...) {
		fmt.Fprintf(out, "%*s %6d", width, human.Plain(row.name), row.all)
		for _, n := range row.byAge {
			fmt.Fprintf(out, " %6d", n)
		}
		fmt.Fprintln(out)
	}
}
