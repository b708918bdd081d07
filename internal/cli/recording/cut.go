package recording

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/human"
	"github.com/posthaste-mta/posthaste/trace"
	"github.com/posthaste-mta/posthaste/trace/replay"
)

func newTraceCutCommand() *cobra.Command {
	var c traceCut
	cmd := &cobra.Command{
		Use:   "cut FILE",
		Short: "Cut a part out of a trace that replays on its own",
		Long: `Cut a part out of a trace: some messages, the messages for some transports and
nexthops, everything up to a line, or a combination. The selected events are given
to a new scheduler, with the recorded answers to its requests, and recorded again.
So the result can be replayed; copied into qmgr/testdata/traces, it is a test.

Without the other messages, a message may be tried earlier than in the original.
Answers that were not recorded are not invented: such requests stay open.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	c.addFlags(f, "the events of the message with this `ID`; may be repeated", "messages with recipients of")
	f.IntVar(&c.toLine, "to-line", 0, "only up to the line of this `number` in the file")
	f.StringVarP(&c.output, "output", "o", "", "write the result into a `file`")
	return cmd
}

// A traceCut is what the command line asks for.
type traceCut struct {
	subjects
	toLine int
	output string
}

func (c *traceCut) run(cmd *cobra.Command, path string) error {
	want, err := c.selection()
	if err != nil {
		return err
	}
	f, err := openTrace(cmd, path)
	if err != nil {
		return err
	}
	defer f.close()
	fresh := true
	open := func() (*trace.Reader, error) {
		if fresh {
			fresh = false
			return f.Reader, nil
		}
		if !f.seekable() {
			return nil, errors.New("selecting by destination reads the trace twice: use a file instead of standard input")
		}
		err := f.rewind()
		return f.Reader, err
	}
	var result replay.CutResult
	err = writeResult(cmd, c.output, func(to io.Writer) (err error) {
		result, err = replay.Cut(open, want, to, "cut from a trace by "+c.String())
		return err
	})
	if err != nil {
		return err
	}
	warnIncomplete(cmd, f.Reader)
	c.report(cmd, &result)
	return nil
}

// report writes a summary of the cut.
func (c *traceCut) report(cmd *cobra.Command, r *replay.CutResult) {
	var more []string
	if r.Messages > 0 {
		more = append(more, fmt.Sprintf("messages: %d", r.Messages))
	}
	if r.Wakes > 0 {
		more = append(more, fmt.Sprintf("additional timer events: %d", r.Wakes))
	}
	if r.Questions > 0 {
		more = append(more, fmt.Sprintf("requests without a recorded answer: %d", r.Questions))
	}
	if r.Answers > 0 {
		more = append(more, fmt.Sprintf("unused answers left out: %d", r.Answers))
	}
	if r.Crash != "" {
		more = append(more, "the scheduler panics at the end: "+r.Crash)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "posthaste: %d of %d events%s\n", r.Given, r.Events, human.Plain(strings.Join(append([]string{""}, more...), "; ")))
}

func (c *traceCut) selection() (replay.Selection, error) {
	want := replay.Selection{ToLine: c.toLine}
	if c.toLine < 0 {
		return want, exit.Usagef("--to-line is at least 1")
	}
	if !c.any() && c.toLine == 0 {
		return want, exit.Usagef("select a part: --message, --transport, --nexthop or --to-line")
	}
	ids, err := c.ids()
	if err != nil {
		return want, err
	}
	want.Messages = ids
	if len(c.transports)+len(c.nexthops) == 0 {
		return want, nil
	}
	for _, t := range orAny(c.transports) {
		for _, n := range orAny(c.nexthops) {
			want.Destinations = append(want.Destinations, replay.Destination{Transport: t, Nexthop: n})
		}
	}
	return want, nil
}

// orAny makes "any" of an empty list.
func orAny(list []string) []string {
	if len(list) == 0 {
		return []string{""}
	}
	return list
}

// String says what was wanted, as on the command line.
func (c *traceCut) String() string {
	var words []string
	for _, f := range []struct {
		flag   string
		values []string
	}{{"--message", c.messages}, {"--transport", c.transports}, {"--nexthop", c.nexthops}} {
		for _, v := range f.values {
			words = append(words, f.flag+" "+human.Plain(v))
		}
	}
	if c.toLine > 0 {
		words = append(words, fmt.Sprint("--to-line ", c.toLine))
	}
	return strings.Join(words, " ")
}
