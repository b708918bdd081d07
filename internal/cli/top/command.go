package top

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
)

// The time between two readings.
const (
	defaultInterval = time.Second
	intervalMin     = 500 * time.Millisecond
	intervalMax     = time.Hour
)

// NewCommand returns the command that shows the daemon live.
func NewCommand() *cobra.Command {
	var (
		p        socket.Finder
		once     bool
		interval time.Duration
	)
	cmd := &cobra.Command{
		Use:        "top",
		SuggestFor: []string{"watch", "monitor", "live"},
		Short:      "Show the running daemon live in the terminal",
		Long: `Show the running daemon live in the terminal: rates, the queue, and lists of sites, flows,
transports, messages and suspensions. Enter opens a site, a flow or a message, with why its
mail waits. ? shows all keys.

If the output is not a terminal, or with --once, the figures are written once as text.`,
		Example: `  posthaste top
  posthaste top --once | head -20
  posthaste top --url https://mail.example.com:8025 --token-file ~/.config/posthaste-token`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if interval < intervalMin || interval > intervalMax {
				return command.Misuse(cmd, errors.New("--interval takes a time from 500ms to 1h"))
			}
			c, err := p.Dial()
			if err != nil {
				return err
			}
			defer c.Close()
			out, isFile := command.File(cmd.OutOrStdout())
			if once || !isFile || command.Terminal(cmd.OutOrStdout()) == 0 || os.Getenv("TERM") == "dumb" {
				return writeOnce(cmd, c)
			}
			return watch(cmd.Context(), c, interval, out)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	p.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&once, "once", false, "write the figures once as text")
	cmd.Flags().DurationVar(&interval, "interval", defaultInterval, "the `time` between two readings")
	return cmd
}

// watch shows the daemon until the user quits. A daemon that cannot be reached at the start
// is an error, as for other commands; later it is waited for.
func watch(ctx context.Context, c *client.Client, interval time.Duration, out *os.File) error {
	limited, cancel := context.WithTimeout(ctx, requestTime)
	_, err := readAll(limited, c, want{})
	cancel()
	if err != nil {
		return err
	}
	return run(ctx, newModel(ctx, c, interval), out)
}

// run runs the program on a terminal. Whatever ends it, the terminal is restored, also after a panic (guard). A signal ends it as
// the key q does; with its context, or by its own handling of SIGINT, bubbletea would close the terminal while it is still read. A
// terminal that is closed sends SIGHUP.
func run(ctx context.Context, m tea.Model, out *os.File) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	var p *tea.Program
	g := newGuard(m, func() { p.Quit() })
	p = tea.NewProgram(g, tea.WithoutSignalHandler(), tea.WithOutput(out), tea.WithFPS(framesPerSecond))
	defer context.AfterFunc(ctx, p.Quit)()
	_, err := p.Run()
	bug := g.bug.Load()
	if bug != nil {
		fmt.Fprintln(os.Stderr, *bug)
	}
	switch {
	case bug != nil, errors.Is(err, tea.ErrProgramPanic):
		return exit.New(exit.Software, errors.New("a bug has ended posthaste top; the text above says where"), "Please report it.")
	case errors.Is(err, tea.ErrInterrupted), ctx.Err() != nil:
		return nil
	}
	return err
}

// framesPerSecond is enough for figures that change once a second and for keys, and spares
// slow links.
const framesPerSecond = 20

// writeOnce writes the figures once, as text for people and for other programs.
func writeOnce(cmd *cobra.Command, c *client.Client) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), requestTime)
	defer cancel()
	r, err := readAll(ctx, c, want{alarms: true})
	if err != nil {
		return err
	}
	m := newModel(ctx, c, defaultInterval)
	m.palette = palette{}
	m.take(readMsg{reading: r, want: want{alarms: true}, at: time.Now()})
	out := bufio.NewWriter(cmd.OutOrStdout())
	for _, line := range m.plain(command.Terminal(cmd.OutOrStdout())) {
		out.WriteString(line + "\n")
	}
	return out.Flush()
}

// plain returns the figures and all lists but that of messages as lines of text, for a
// terminal of a width, or 0 if there is none.
func (m *model) plain(width int) []string {
	lines := m.head(width)
	for _, v := range []view{viewSites, viewFlows, viewTransports, viewSuspensions} {
		l := &m.lists[v]
		if len(l.shown) == 0 {
			continue
		}
		lines = append(lines, "", strings.ToUpper(v.String()))
		widths := l.widths(l.shown, width)
		lines = append(lines, fit(l.titles(widths), width))
		for _, r := range l.shown {
			lines = append(lines, fit(rowText(r, l.columns, widths, nil), width))
		}
	}
	return lines
}
