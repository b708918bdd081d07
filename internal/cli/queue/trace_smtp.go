package queue

import (
	"encoding/json"
	"errors"
	"fmt"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/human"
	"github.com/posthaste-mta/posthaste/internal/wiretap"
)

// errEnough ends a stream that has shown what was asked for.
var errEnough = errors.New("all connections have ended")

// NewTraceSMTPCommand returns the command that watches connections to receivers.
func NewTraceSMTPCommand() *cobra.Command {
	var (
		p      socket.Finder
		of     admin.WiretapFilter
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "smtp [flags]",
		Short: "Watch what connections to receivers say, live",
		Long: `Show the SMTP conversations of connections to receivers while they go on: ">" is what is
sent, "<" what is received, "-" a note. The number tells connections apart. Connections
under TLS are shown in plaintext, with a line on what was negotiated.

Secrets of AUTH are never shown. Of each message, the first lines and the size are shown.
A connection that is open already is shown from its next message on.

The command ends with Ctrl-C, after --count connections, or when the daemon stops. It
never delays mail: what it does not read in time is lost, and a line says so.`,
		Example: `  posthaste trace smtp --site example.net
  posthaste trace smtp --host mx1.example.net --count 1
  posthaste trace smtp --source pool-2 --lines 0`,
		Args: cobra.NoArgs,
		RunE: withDaemon(&p, nil, func(cmd *cobra.Command, _ []string, c *client.Client) error {
			out, ended := cmd.OutOrStdout(), 0
			err := c.Watch(cmd.Context(), of, func(line []byte) error {
				var r struct {
					wiretap.Record
					Events int // that were lost
				}
				if err := json.Unmarshal(line, &r); err != nil {
					return err
				}
				var err error
				switch {
				case asJSON:
					_, err = fmt.Fprintf(out, "%s\n", line)
				case r.Events > 0:
					_, err = fmt.Fprintf(out, "… %s lost\n", human.Count(r.Events, "line"))
				case r.Connection > 0:
					direction := r.Direction
					if direction == "." {
						direction = "-"
					}
					_, err = fmt.Fprintf(out, "%s #%d %s %s\n", r.Time.Local().Format("15:04:05.000"), r.Connection, direction, human.Plain(r.Text))
				}
				if r.Direction == "." {
					ended++
				}
				if err == nil && of.Count > 0 && ended >= of.Count {
					return errEnough
				}
				return err
			})
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
	f.IntVar(&of.Count, "count", 0, "end after this `number` of connections; 0 means no end")
	f.IntVar(&of.Lines, "lines", 5, "show this `number` of lines of each message, up to 1000")
	f.BoolVar(&asJSON, "json", false, "one JSON object per line")
	return cmd
}
