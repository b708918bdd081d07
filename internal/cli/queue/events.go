package queue

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/event"
	"github.com/posthaste-mta/posthaste/internal/human"
)

// NewEventsCommand returns the command that follows events.
func NewEventsCommand() *cobra.Command {
	var (
		p      socket.Finder
		of     admin.EventFilter
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:        "events [flags]",
		SuggestFor: []string{"follow", "tail", "watch"},
		Short:      "Follow what happens to messages, live",
		Long: `Show events as they happen: a message is accepted, an attempt ends for a recipient, a
message is deferred or expires, a report comes back. Each is a line of the daemon's log,
whatever the log's level is. docs/log.md lists all events with their fields.

The command ends with Ctrl-C, or when the daemon stops. It never delays mail: if it does
not read as fast as events come, some are lost, and a line "lost" says how many.`,
		Example: `  posthaste events
  posthaste events --kind delivery --status bounced
  posthaste events --site example.net --json
  posthaste events --kind feedback --tenant shop --json | jq -r .recipient`,
		Args: cobra.NoArgs,
		RunE: withDaemon(&p, nil, func(cmd *cobra.Command, _ []string, c *client.Client) error {
			out := cmd.OutOrStdout()
			var text []byte
			err := c.Events(cmd.Context(), of, func(line []byte) error {
				if text = append(append(text[:0], line...), '\n'); !asJSON {
					text = appendEvent(text[:0], line)
				}
				_, err := out.Write(text)
				return err
			})
			if errors.Is(err, syscall.EPIPE) {
				return nil // the reader has enough
			}
			return err
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	p.AddFlags(cmd.Flags())
	f := cmd.Flags()
	const pattern = "; * stands for any text, /RE2/ for a regular expression"
	f.StringArrayVar(&of.Kind, "kind", nil, "only events of this `kind`, such as accepted, delivery, deferred or feedback")
	f.StringArrayVar(&of.Status, "status", nil, "only with this `status`: of delivery sent, deferred or bounced")
	f.StringArrayVar(&of.ID, "id", nil, "only about the message with this queue `ID`")
	f.StringArrayVar(&of.Site, "site", nil, "only about this `destination`, as queue destinations names it"+pattern)
	f.StringArrayVar(&of.Domain, "domain", nil, "only about recipients in this `domain`; .example.net includes subdomains")
	f.StringArrayVar(&of.Recipient, "recipient", nil, "only about this recipient `address`, or @domain")
	f.StringArrayVar(&of.Sender, "sender", nil, "only mail of this sender `address`, @domain, or <>")
	f.StringArrayVar(&of.Class, "class", nil, "only mail of this `class`"+pattern)
	f.StringArrayVar(&of.Tenant, "tenant", nil, "only mail of this `tenant`"+pattern)
	f.StringArrayVar(&of.Flow, "flow", nil, "only mail of this `flow`"+pattern)
	f.StringArrayVar(&of.Transport, "transport", nil, "only by this `transport`"+pattern)
	f.StringArrayVar(&of.Source, "source", nil, "only from this `source`"+pattern)
	f.BoolVar(&asJSON, "json", false, "one JSON object per line, as in the log")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(event.Names(), cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions([]string{"sent", "deferred", "bounced"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// appendEvent appends an event as a person reads it: the time of day, the name, and the fields in their order. A
// line that is not an event is left as it is.
func appendEvent(to, line []byte) []byte {
	begin := len(to)
	fields := json.NewDecoder(bytes.NewReader(line))
	fields.UseNumber()
	if open, err := fields.Token(); err != nil || open != json.Delim('{') {
		return append(append(to, line...), '\n')
	}
	for fields.More() {
		name, err := fields.Token()
		var value json.RawMessage
		if err == nil {
			err = fields.Decode(&value)
		}
		if err != nil {
			return append(append(to[:begin], line...), '\n')
		}
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = strings.Trim(strings.ReplaceAll(string(value), ",", "/"), "[]")
		}
		switch name {
		case "time":
			if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
				text = at.Local().Format("15:04:05.000")
			}
			to = append(to, text...)
		case "level":
		case "msg":
			to = append(append(to, ' '), human.Plain(text)...)
		default:
			to = append(append(append(to, ' '), human.Plain(name.(string))...), '=')
			if text = human.Plain(text); text == "" || strings.ContainsAny(text, ` "=`) {
				text = `"` + strings.ReplaceAll(text, `"`, `'`) + `"`
			}
			to = append(to, text...)
		}
	}
	return append(to, '\n')
}
