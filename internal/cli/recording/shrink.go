package recording

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/human"
	"github.com/posthaste-mta/posthaste/trace/replay"
)

func newTraceShrinkCommand() *cobra.Command {
	var s traceShrink
	cmd := &cobra.Command{
		Use:   "shrink FILE",
		Short: "Find the fewest events of a trace that still go wrong",
		Long: `Find the fewest events of a trace that still go wrong, and record them anew. Wrong
is, by default, that the scheduler panics, or that it does something else than was
recorded; with --until, that it does something whose line matches a pattern, as in
'note dead .*nexthop=example.com'; with --check, that a command says so by the exit
status 1. The command is given the name of a file with a smaller trace; to see
where two versions part, let the other one replay it:

    posthaste trace shrink x.trace --check 'old/posthaste trace replay'

Messages are left out first, then single events. All of the trace is kept in memory;
"posthaste trace cut" makes a large one smaller. An interrupt (Ctrl-C) ends the
search with the smallest trace that was found.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return s.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&s.until, "until", "", "wrong is an action that matches this `pattern` (a regular expression)")
	f.StringVar(&s.check, "check", "", "wrong is what this `command` finds wrong (exit status 1)")
	f.StringVarP(&s.output, "output", "o", "", "write the result into a `file`")
	return cmd
}

// A traceShrink is what the command line asks for.
type traceShrink struct{ until, check, output string }

func (s *traceShrink) run(cmd *cobra.Command, path string) error {
	if s.until != "" && s.check != "" {
		return exit.Usagef("--until and --check exclude each other")
	}
	f, err := openTrace(cmd, path)
	if err != nil {
		return err
	}
	defer f.close()
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
	defer stop()
	goal, cleanUp, err := s.goal(ctx, f)
	if err != nil {
		return err
	}
	defer cleanUp()
	var text bytes.Buffer
	result, err := replay.Shrink(ctx, f.Reader, goal, &text, progressOn(cmd.ErrOrStderr()))
	if err != nil {
		return f.trouble(err)
	}
	err = writeResult(cmd, s.output, func(to io.Writer) error {
		_, err := text.WriteTo(to)
		return err
	})
	if err != nil {
		return err
	}
	ended := ""
	if result.Interrupted {
		ended = "; interrupted before all was tried"
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "posthaste: %d of %d events, after %d tries%s: %s\n", result.After, result.Before, result.Tries, ended, human.Plain(goal.What))
	return nil
}

// goal returns what the smaller trace has to show, and what to do when it has
// been found.
func (s *traceShrink) goal(ctx context.Context, f *traceFile) (goal replay.Goal, cleanUp func(), err error) {
	cleanUp = func() {}
	switch {
	case s.until != "":
		pattern, err := regexp.Compile(s.until)
		if err != nil {
			return goal, nil, exit.Usagef("--until: %w", err)
		}
		return replay.Until("an action that matches "+s.until, f.Head().Format(), pattern.Match), cleanUp, nil
	case s.check != "":
		return s.judge(ctx)
	}
	if !f.seekable() {
		return goal, nil, badTrace(errors.New("to find what goes wrong the trace has to be read twice: give a file"))
	}
	if goal, err = replay.FailureOf(f.Reader); err == nil {
		err = f.rewind()
	}
	if err != nil {
		return goal, nil, f.trouble(err)
	}
	return goal, cleanUp, nil
}

// judge asks a command about each candidate, in a file of its own.
func (s *traceShrink) judge(ctx context.Context) (goal replay.Goal, cleanUp func(), err error) {
	words := strings.Fields(s.check)
	if len(words) == 0 {
		return goal, nil, exit.Usagef("--check wants a command")
	}
	dir, err := os.MkdirTemp("", "posthaste")
	if err != nil {
		return goal, nil, exit.New(exit.IO, err, "")
	}
	candidate := filepath.Join(dir, "candidate.trace")
	words = append(words, candidate)
	judge := func(text []byte) (bool, error) {
		if err := os.WriteFile(candidate, text, 0o600); err != nil {
			return false, err
		}
		var complaint bytes.Buffer
		run := exec.CommandContext(context.WithoutCancel(ctx), words[0], words[1:]...)
		run.Stderr = &complaint
		var ended *exec.ExitError
		switch err := run.Run(); {
		case err == nil:
			return false, nil
		case errors.As(err, &ended) && ended.ExitCode() == int(exitDiffers):
			return true, nil
		default:
			return false, fmt.Errorf("%s: %w: %s", s.check, err, strings.TrimSpace(complaint.String()))
		}
	}
	return replay.Judged("what makes "+s.check+" end with 1", judge), func() { os.RemoveAll(dir) }, nil
}

// progressEvery is how often a search that takes long tells how far it is.
const progressEvery = 2 * time.Second

func progressOn(out io.Writer) func(events, tries int) {
	last := time.Now()
	return func(events, tries int) {
		if time.Since(last) >= progressEvery {
			last = time.Now()
			fmt.Fprintf(out, "posthaste: trying %d events, the %dth try\n", events, tries)
		}
	}
}
