// Package simulation has the commands of the simulator.
package simulation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/sim"
	"github.com/posthaste-mta/posthaste/sim/chart"
	"github.com/posthaste-mta/posthaste/sim/scenario"
)

// Exit codes of "posthaste sim", by which a script can distinguish an invalid scenario
// from a scheduler that violates its rules. They are not those of sysexits(3).
const (
	exitSimInput            exit.Code = 2 // the scenario does not exist or is invalid
	exitSimUnsafe           exit.Code = 3 // a safety rule was violated
	exitSimStuck            exit.Code = 4 // mail got stuck
	exitSimNondeterministic exit.Code = 5 // two runs with the same seed differed
)

// NewCommand returns the command that runs scenarios.
func NewCommand() *cobra.Command {
	var s simulation
	cmd := &cobra.Command{
		Use:   "sim SCENARIO",
		Short: "Simulate the queue manager in virtual time",
		Long: `Run the queue manager of "posthaste serve", with the same parameters, in a world that
a scenario describes: receivers with limits and faults, arriving mail, disk and name
servers. Virtual time passes as fast as the machine allows.

SCENARIO is a file or the name of a built-in scenario: "posthaste sim list" lists
them, and "posthaste sim show NAME" prints one to start from. docs/simulation.md
describes the format.

The exit status is 0 on success, 2 if the scenario is invalid, 3 if a safety rule was
violated, 4 if mail got stuck, and 5 if two runs with the same seed differed.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return s.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	f.Uint64Var(&s.options.Seed, "seed", 0, "the `seed` of all random choices (default: the scenario's)")
	f.IntVar(&s.options.Seeds, "seeds", 1, "repeat each run with this `number` of seeds, and show means and deviations")
	f.BoolVar(&s.options.Twice, "twice", false, "make each run twice and compare the events")
	f.IntVarP(&s.options.Parallel, "parallel", "j", runtime.NumCPU(), "the `number` of runs at the same time")
	f.StringArrayVar(&s.only, "run", nil, "make only the run with this `name`; may be repeated")
	f.BoolVar(&s.json, "json", false, "print one JSON object")
	f.StringVar(&s.trace, "trace", "", `record the run in a `+"`file`"+`; with several runs its name contains {run} or {seed}`)
	f.StringVar(&s.plot, "plot", "", "draw slots, windows and delays as an SVG `file`")
	f.StringVar(&s.delays, "plot-delays", "", "draw only the delays as an SVG `file`")
	cmd.AddCommand(newSimListCommand(), newSimShowCommand())
	return cmd
}

func newSimListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the built-in scenarios",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			for _, name := range scenario.Shipped() {
				s, err := scenario.Open(name)
				if err != nil {
					return err
				}
				first, _, _ := strings.Cut(strings.Join(strings.Fields(s.Description), " "), ". ")
				fmt.Fprintf(out, "%s\n    %s.\n", name, strings.TrimSuffix(first, "."))
			}
			return nil
		},
	}
}

func newSimShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Print a built-in scenario",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := scenario.Text(args[0])
			if err != nil {
				return exit.New(exitSimInput, err, `"posthaste sim list" lists them.`)
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
}

// A simulation is what the command line asks for.
type simulation struct {
	options sim.Options
	only    []string
	json    bool
	plot    string
	delays  string
	trace   string
}

func (s *simulation) run(cmd *cobra.Command, name string) error {
	if s.options.Seeds < 1 || s.options.Parallel < 1 {
		return exit.Usagef("--seeds and --parallel are at least 1")
	}
	what, err := openScenario(name)
	if err != nil {
		return simInput(err)
	}
	if err := s.selectRuns(what); err != nil {
		return err
	}
	if err := s.recordRuns(what); err != nil {
		return err
	}
	// Most of what a simulation allocates lives for one step: collecting it
	// less often makes it a fifth faster.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	line := newSimProgress(cmd.ErrOrStderr())
	if line != nil {
		s.options.Progress = line.show
	}
	report, err := sim.Simulate(what, s.options)
	line.clear()
	var known *exit.Error
	switch {
	case errors.As(err, &known):
		return known
	case err != nil:
		return simInput(err)
	}
	if err := s.write(cmd.OutOrStdout(), report); err != nil {
		return err
	}
	return verdictOf(report)
}

// openScenario reads a file if there is one of that name or the name looks like
// a path, else a shipped scenario.
func openScenario(name string) (*sim.Scenario, error) {
	if _, err := os.Stat(name); err == nil || strings.ContainsAny(name, `/\`) || strings.HasSuffix(name, ".toml") {
		return scenario.Load(name)
	}
	return scenario.Open(name)
}

// selectRuns leaves only the runs that are asked for.
func (s *simulation) selectRuns(what *sim.Scenario) error {
	if len(s.only) == 0 {
		return nil
	}
	for _, name := range s.only {
		if !slices.ContainsFunc(what.Runs, func(r sim.Run) bool { return r.Name == name }) {
			return exit.Errorf(exitSimInput, "scenario %s has no run %q; its runs are %s", what.Name, name, strings.Join(runNames(what), ", "))
		}
	}
	what.Runs = slices.DeleteFunc(what.Runs, func(r sim.Run) bool { return !slices.Contains(s.only, r.Name) })
	return nil
}

// runNames returns the names of a scenario's runs, quoted.
func runNames(what *sim.Scenario) (names []string) {
	for i := range what.Runs {
		names = append(names, strconv.Quote(what.Runs[i].Name))
	}
	return names
}

// recordRuns has each run recorded in a file of its own.
func (s *simulation) recordRuns(what *sim.Scenario) error {
	if s.trace == "" {
		return nil
	}
	if len(what.Runs) > 1 && !strings.Contains(s.trace, "{run}") {
		return exit.New(exit.Usage, fmt.Errorf("--trace %s is one file, and scenario %s has %d runs", s.trace, what.Name, len(what.Runs)),
			"Choose one with --run, or put {run} into the name for a file each. The runs are:\n  "+strings.Join(runNames(what), "\n  "))
	}
	if s.options.Seeds > 1 && !strings.Contains(s.trace, "{seed}") {
		return exit.New(exit.Usage, fmt.Errorf("--trace %s is one file, and there are %d seeds", s.trace, s.options.Seeds), "Put {seed} into the name for a file each.")
	}
	files := make(map[string]string)
	for i := range what.Runs {
		name := what.Runs[i].Name
		if other, taken := files[fileName(name)]; taken {
			return exit.New(exit.Usage, fmt.Errorf("runs %q and %q would have the same file", other, name), "Choose one with --run.")
		}
		files[fileName(name)] = name
	}
	s.options.Trace = func(run string, seed uint64) (io.WriteCloser, error) {
		f, err := os.Create(strings.NewReplacer("{run}", fileName(run), "{seed}", strconv.FormatUint(seed, 10)).Replace(s.trace))
		if err != nil {
			return nil, exit.New(exit.IO, err, "")
		}
		return traceOutput{f}, nil
	}
	return nil
}

// fileName makes of a run's name one that a file may have anywhere.
func fileName(run string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || r == '.' || r == '_' {
			return r
		}
		return '-'
	}, run), "-.")
}

// A traceOutput is a file whose trouble is not the scenario's.
type traceOutput struct{ *os.File }

func (o traceOutput) Write(p []byte) (int, error) {
	n, err := o.File.Write(p)
	if err != nil {
		err = exit.New(exit.IO, err, "")
	}
	return n, err
}

// simInput is for what is wrong with a scenario.
func simInput(err error) error {
	return exit.New(exitSimInput, err, `"posthaste sim list" lists the built-in scenarios.`)
}

// drawn draws a picture of a report into a file, if it has a name.
func drawn(name string, draw func(io.Writer, *sim.Report) error, report *sim.Report) error {
	if name == "" {
		return nil
	}
	f, err := os.Create(name)
	if err != nil {
		return exit.New(exit.IO, err, "")
	}
	if err := errors.Join(draw(f, report), f.Close()); err != nil {
		return exit.Errorf(exit.IO, "draw %s: %w", name, err)
	}
	return nil
}

func (s *simulation) write(out io.Writer, report *sim.Report) error {
	if err := errors.Join(drawn(s.plot, chart.Draw, report), drawn(s.delays, chart.DrawDelays, report)); err != nil {
		return err
	}
	if !s.json {
		return report.WriteTable(out)
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}

// verdictOf makes what the checkers found the program's exit status.
func verdictOf(report *sim.Report) error {
	switch report.Verdict() {
	case sim.VerdictUnsafe:
		return exit.Errorf(exitSimUnsafe, "a safety rule was violated")
	case sim.VerdictStuck:
		return exit.Errorf(exitSimStuck, "mail got stuck")
	case sim.VerdictNondeterministic:
		return exit.Errorf(exitSimNondeterministic, "two runs with the same seed differed")
	}
	return nil
}
