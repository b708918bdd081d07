package queue

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/human"
	"github.com/posthaste-mta/posthaste/internal/wiretap"
)

// errEnough ends a stream that has shown what was asked for.
var errEnough = errors.New("all connections have ended")

// Conditions of one direction, which exclude those of the other.
var (
	outgoingFlags = []string{"site", "host", "source", "transport"}
	incomingFlags = []string{"listener", "client", "sender", "recipient"}
)

// NewTraceSMTPCommand returns the command that watches connections.
func NewTraceSMTPCommand() *cobra.Command {
	var (
		p        socket.Finder
		of       admin.WiretapFilter
		visits   admin.VisitFilter
		incoming bool
		shown    conversation
	)
	cmd := &cobra.Command{
		Use:   "smtp [flags]",
		Short: "Watch what SMTP connections say, live",
		Long: `Show the SMTP conversations of connections while they go on: those to receivers, or, with
--incoming or one of --listener, --client, --sender and --recipient, those of clients. ">" is
what this machine sends, "<" what it receives, "-" a note. The number tells connections
apart. Connections under TLS are shown in plaintext, with a line on what was negotiated.

Secrets of AUTH are never shown. Of each message, the first lines and the size are shown.
A connection to a receiver that is open already is shown from its next message on, one of
a client from its next command on. With --sender or --recipient, a client's connection is
shown once the address is named, from a few lines before that.

The command ends with Ctrl-C, after --count connections, or when the daemon stops. It
never delays mail: what it does not read in time is lost, and a line says so.`,
		Example: `  posthaste trace smtp --site example.net
  posthaste trace smtp --host mx1.example.net --count 1
  posthaste trace smtp --source pool-2 --lines 0
  posthaste trace smtp --incoming
  posthaste trace smtp --listener submission --client 192.0.2.0/24
  posthaste trace smtp --sender @shop.example --count 1`,
		Args: cobra.NoArgs,
		RunE: withDaemon(&p, nil, func(cmd *cobra.Command, _ []string, c *client.Client) error {
			for _, name := range incomingFlags {
				incoming = incoming || cmd.Flags().Changed(name)
			}
			if incoming {
				for _, name := range outgoingFlags {
					if cmd.Flags().Changed(name) {
						return exit.Usagef("--%s is for connections to receivers, not for those of clients", name)
					}
				}
			}
			shown.out, shown.warn = cmd.OutOrStdout(), cmd.ErrOrStderr()
			var err error
			if incoming {
				visits.Count, visits.Lines, shown.count = of.Count, of.Lines, of.Count
				err = c.WatchVisits(cmd.Context(), visits, shown.line)
			} else {
				shown.count = of.Count
				err = c.Watch(cmd.Context(), of, shown.line)
			}
			if errors.Is(err, errEnough) || errors.Is(err, syscall.EPIPE) {
				return nil
			}
			return err
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	p.AddFlags(cmd.Flags())
	f := cmd.Flags()
	f.StringArrayVar(&of.Site, "site", nil, "only connections for this `destination`, as queue destinations names it; * stands for any text, /RE2/ for a regular expression")
	f.StringArrayVar(&of.Host, "host", nil, "only to hosts whose name[address]:port contains this `text`")
	f.StringArrayVar(&of.Source, "source", nil, "only from this `source`; * stands for any text, /RE2/ for a regular expression")
	f.StringArrayVar(&of.Transport, "transport", nil, "only by this `transport`; * stands for any text, /RE2/ for a regular expression")
	f.BoolVar(&incoming, "incoming", false, "connections of clients to this machine")
	f.StringArrayVar(&visits.Listener, "listener", nil, "only of clients of this `listener`; * stands for any text, /RE2/ for a regular expression")
	f.StringArrayVar(&visits.Client, "client", nil, "only of clients at this `address` or in this network, such as 192.0.2.0/24; local stands for programs on this machine")
	f.StringArrayVar(&visits.Sender, "sender", nil, "only of clients that name this `address` in MAIL; @example.com stands for its whole domain, <> for the null sender")
	f.StringArrayVar(&visits.Recipient, "recipient", nil, "only of clients that name this `address` in RCPT; @example.com stands for its whole domain")
	f.IntVar(&of.Count, "count", 0, "end after this `number` of connections; 0 means no end")
	f.IntVar(&of.Lines, "lines", 5, "show this `number` of lines of each message, up to 1000")
	f.BoolVar(&shown.asJSON, "json", false, "one JSON object per line")
	return cmd
}

// A conversation prints what connections say.
type conversation struct {
	out    io.Writer
	warn   io.Writer
	asJSON bool
	count  int // maximum of connections to show; 0: no limit
	ended  int
}

// line prints a line of the stream; errEnough is after the last.
func (c *conversation) line(line []byte) error {
	var r struct {
		wiretap.Record
		Events  int    // that were lost
		Warning string // about a condition
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return err
	}
	if r.Warning != "" {
		fmt.Fprintf(c.warn, "Warning: %s\n", human.Plain(r.Warning))
	}
	var err error
	switch {
	case c.asJSON:
		_, err = fmt.Fprintf(c.out, "%s\n", line)
	case r.Events > 0:
		_, err = fmt.Fprintf(c.out, "… %s lost\n", human.Count(r.Events, "line"))
	case r.Connection > 0:
		direction := r.Direction
		if direction == "." {
			direction = "-"
		}
		_, err = fmt.Fprintf(c.out, "%s #%d %s %s\n", r.Time.Local().Format("15:04:05.000"), r.Connection, direction, human.Plain(r.Text))
	}
	if r.Direction == "." {
		c.ended++
	}
	if err == nil && c.count > 0 && c.ended >= c.count {
		return errEnough
	}
	return err
}
