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
		Short: "Minimize a trace that shows a failure",
		Long: `Find a minimal set of events of a trace that still shows a failure, and record it
again. By default, the failure is that the scheduler panics or acts differently from
the recording. With --until it is an action whose line matches a pattern, such as
'note dead .*nexthop=example.com'. With --check it is that a command exits with
status 1; the file with the smaller trace becomes its last argument. To find the
difference between two versions, let the other version replay it:

    posthaste trace shrink x.trace --check 'old/posthaste trace replay'

Messages are left out first, then single events. The whole trace is kept in memory;
use "posthaste trace cut" first if it is large. An interrupt (Ctrl-C) ends the
search with the smallest trace found so far.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return s.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&s.until, "until", "", "the failure is an action that matches this `pattern` (a regular expression)")
	f.StringVar(&s.check, "check", "", "the failure is exit status 1 of this `command`")
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
		return goal, nil, badTrace(errors.New("finding the failure reads the trace twice: use a file instead of standard input"))
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

// progressEvery is the interval between reports of a long search.
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
