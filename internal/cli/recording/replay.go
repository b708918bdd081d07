package recording

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/human"
	"github.com/posthaste-mta/posthaste/trace/replay"
)

func newTraceReplayCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "replay FILE…",
		Short: "Give the events of a trace to the scheduler and compare what it does",
		Long: `Give the events of a trace to a new scheduler with the recorded configuration and
seed, and compare each action with the recorded one. The same configuration, seed
and events result in the same actions on every machine, so a difference is a change
of the scheduler since the recording, or a bug in it.

The exit status is 1 if an action differs and 2 if a trace is invalid. A trace of a
program that was killed is replayed up to its last complete line.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			differ := 0
			for _, path := range args {
				equal, err := replayTrace(cmd, path)
				if err != nil {
					return badTrace(err)
				}
				if !equal {
					differ++
				}
			}
			if differ > 0 {
				return exit.Errorf(exitDiffers, "%d of %d traces differ", differ, len(args))
			}
			return nil
		},
	}
}

// replayTrace replays one trace and reports whether it is equal.
func replayTrace(cmd *cobra.Command, path string) (equal bool, err error) {
	f, err := openTrace(cmd, path)
	if err != nil {
		return false, err
	}
	defer f.close()
	result, err := replay.Run(f.Reader)
	if err != nil {
		return false, err
	}
	out := cmd.OutOrStdout()
	if d := result.Difference; d != nil {
		writeDifference(out, f.Name(), d)
		return false, nil
	}
	warnIncomplete(cmd, f.Reader)
	missing := ""
	if result.Missing > 0 {
		missing = fmt.Sprintf(", and %d after the end of the recording", result.Missing)
	}
	fmt.Fprintf(out, "%s: %d events, %d actions: equal%s\n", human.Plain(f.Name()), result.Events, result.Actions, missing)
	return true, nil
}

func writeDifference(out io.Writer, name string, d *replay.Difference) {
	what := "the scheduler acts differently from the recording"
	if d.Panic != "" {
		what = "the scheduler panics"
	}
	fmt.Fprintf(out, "%s:%d: %s\n", human.Plain(name), d.Line, what)
	writeBefore(out, d.Before)
	fmt.Fprintf(out, "  event     %s\n", human.Plain(d.Event))
	if d.Panic != "" {
		fmt.Fprintf(out, "  panic     %s\n", human.Plain(d.Panic))
		for line := range strings.Lines(d.Stack) {
			fmt.Fprintf(out, "            %s\n", human.Plain(strings.TrimRight(line, "\n")))
		}
		return
	}
	fmt.Fprintf(out, "  recorded  %s\n", orNothing(d.Recorded))
	fmt.Fprintf(out, "  now       %s\n", orNothing(d.Got))
}

func writeBefore(out io.Writer, lines []string) {
	for _, line := range lines {
		fmt.Fprintf(out, "  before    %s\n", human.Plain(line))
	}
}

func orNothing(line string) string {
	if line == "" {
		return "(nothing more)"
	}
	return human.Plain(line)
}

func newTraceDiffCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "diff A B",
		Short: "Find the first difference of two traces",
		Long: `Compare two traces and print the first lines that differ, with the equal lines before
them. Seeds and configurations are compared, too; times are relative to the beginning
of each trace. The exit status is 1 if the traces differ and 2 if one is invalid.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return diffTraces(cmd, args[0], args[1]) },
	}
}

func diffTraces(cmd *cobra.Command, pathA, pathB string) error {
	a, err := openTrace(cmd, pathA)
	if err != nil {
		return err
	}
	defer a.close()
	b, err := openTrace(cmd, pathB)
	if err != nil {
		return err
	}
	defer b.close()
	d, err := replay.Diff(a.Reader, b.Reader)
	if err != nil {
		return badTrace(err)
	}
	if d == nil {
		return nil
	}
	out := cmd.OutOrStdout()
	for _, h := range d.Heads {
		fmt.Fprintf(out, "  head      %s\n", human.Plain(h))
	}
	if d.A != nil {
		writeBefore(out, d.Before)
		writePlace(out, a.Name(), d.A)
		writePlace(out, b.Name(), d.B)
	}
	return exit.Errorf(exitDiffers, "%s and %s differ", pathA, pathB)
}

func writePlace(out io.Writer, name string, p *replay.Place) {
	if p.Text == "" {
		fmt.Fprintf(out, "%s: (it ends)\n", human.Plain(name))
		return
	}
	fmt.Fprintf(out, "%s:%d: %s\n", human.Plain(name), p.Line, human.Plain(p.Text))
}
