package queue

import (
	"bufio"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/human"
)

func newWarmupCommand(p *socket.Finder) *cobra.Command {
	var (
		o                    admin.WarmupOrder
		pause, resume, reset bool
	)
	cmd := &cobra.Command{
		Use:   "warmup SOURCE [flags]",
		Short: "Change the progress of a source's warm-up",
		Long: `Change the progress of a source's warm-up, at one site or at all of them, including those
to which it has not sent yet. What was sent today counts in any case. The order is kept over
restarts. "queue sources --sites 10" shows the result, and the names of the sites.

Mail that was deferred because an allowance was used up waits until the day ends, even
if the order allows more. "queue flush --error 'warm-up of SOURCE'" tries it now.`,
		Example: `  posthaste queue warmup mta7 --day 10
  posthaste queue warmup mta7 --site example.com --pause
  posthaste queue warmup mta7 --site example.com --resume`,
		Args: cobra.ExactArgs(1),
		RunE: withDaemon(p, nil, func(cmd *cobra.Command, args []string, c *client.Client) error {
			if err := command.Exclusive(cmd, "day", "pause", "resume", "reset"); err != nil {
				return err
			}
			switch given := cmd.Flags().Changed("day"); {
			case given:
				o.Order = "day"
			case pause:
				o.Order = "pause"
			case resume:
				o.Order = "resume"
			case reset:
				o.Order = "reset"
			default:
				return command.Misuse(cmd, errors.New("one of --day, --pause, --resume and --reset is needed"))
			}
			s, err := c.Warmup(cmd.Context(), args[0], o)
			if err != nil {
				return err
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			if err := writeSources(out, command.Terminal(cmd.OutOrStdout()), &admin.SourcePage{Sources: []admin.Source{s}}, time.Now()); err != nil {
				return err
			}
			return out.Flush()
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&o.Site, "site", "", "only at this `site`, named by its nexthop (default: all sites)")
	f.IntVar(&o.Day, "day", 0, "continue with this `day` of the plan, from 1 on; a number beyond its last day ends the warm-up")
	f.BoolVar(&pause, "pause", false, "keep the allowance as it is until --resume")
	f.BoolVar(&resume, "resume", false, "go on with a plan that was paused")
	f.BoolVar(&reset, "reset", false, "begin the plan again")
	return cmd
}

// warmupLines returns where a source is in its warm-up.
func warmupLines(w *admin.SourceWarmup) (lines []string) {
	if w == nil {
		return nil
	}
	line := fmt.Sprintf("warm-up by plan %s: %s today; %s known, %s warm, %s with today's allowance used up", human.Plain(w.Plan), human.Count(w.Today, "message"),
		human.Count(w.Known, "site"), human.Number(w.Warm), human.Number(w.Spent))
	if w.Start != "" {
		line += ", from " + w.Start
	}
	if w.Paused {
		line += ", paused"
	}
	lines = append(lines, line)
	for i := range w.Sites {
		lines = append(lines, warmupLine(&w.Sites[i]))
	}
	return lines
}

func warmupLine(s *admin.WarmupSite) string {
	line := "to " + human.Plain(s.Site) + ": "
	if s.State == "warm" {
		return line + "warm, " + human.Count(s.Today, "message") + " today"
	}
	share := func(n int) int { return n * 100 / max(s.Accepted+s.Deferred+s.Bounced, 1) }
	line += fmt.Sprintf("day %d, %s of %s today, %d %% deferred, %d %% bounced; last: %s; ", s.Day, human.Number(s.Today), human.Number(s.Allowance), share(s.Deferred), share(s.Bounced), s.Last)
	switch {
	case s.Paused:
		return line + "paused"
	case s.Tomorrow == 0:
		return line + "tomorrow warm"
	}
	return line + "tomorrow " + human.Number(s.Tomorrow)
}
