package configuration

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/human"
)

// NewLogCommand returns the commands about the log of the running daemon.
func NewLogCommand() *cobra.Command {
	return command.Group("log", "Show and change the level of the daemon's log",
		`Show and change the level of the running daemon's log. "posthaste events" follows what happens
to mail, whatever the level of the log is.`, newLevelCommand())
}

func newLevelCommand() *cobra.Command {
	var (
		p      socket.Finder
		order  admin.LogLevelOrder
		asJSON bool
	)
	words := append(admin.LogLevels(), "configured")
	cmd := &cobra.Command{
		Use:   "level [" + strings.Join(words, "|") + "] [--for TIME]",
		Short: "Show the level of the log, or set it without a restart",
		Long: `Show the level of the running daemon's log and where it comes from, or set it at once.
The level of the configuration (log.level) returns when the time is over, when the
configuration is reloaded, at a restart, and with "configured". Each change is logged.`,
		Example: `  posthaste log level
  posthaste log level debug --for 10m
  posthaste log level configured`,
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: words,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				if order.Level = args[0]; !slices.Contains(words, order.Level) {
					return command.Misuse(cmd, fmt.Errorf("there is no level %q; there are %s", human.Plain(order.Level), strings.Join(words, ", ")))
				}
			}
			if cmd.Flags().Changed("for") {
				if order.Level == "" || order.Level == "configured" {
					return command.Misuse(cmd, fmt.Errorf("--for needs a level: %s", strings.Join(admin.LogLevels(), ", ")))
				}
				if d, err := admin.ParseAge(order.For); err != nil || d <= 0 {
					return command.Misuse(cmd, fmt.Errorf("--for takes a time such as 30m, 4h, 5d or 1h30m, not %q", human.Plain(order.For)))
				}
			}
			c, err := p.Dial()
			if err != nil {
				return err
			}
			defer c.Close()
			var level admin.LogLevel
			if order.Level == "" {
				level, err = c.LogLevel(cmd.Context())
			} else {
				level, err = c.SetLogLevel(cmd.Context(), order)
			}
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(level)
			}
			return writeLevel(cmd.OutOrStdout(), &level, time.Now())
		},
	}
	p.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&order.For, "for", "", "how long, such as 30m, 4h or 1d (default: until a reload or restart)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return cmd
}

// writeLevel writes the level of the log for people.
func writeLevel(w io.Writer, level *admin.LogLevel, now time.Time) error {
	text := level.Level + " (log.level: " + human.Plain(level.From) + ")"
	switch {
	case level.Ordered && level.Until != nil:
		text = fmt.Sprintf("%s %s, then %s (ordered by %s)", level.Level, human.Until(*level.Until, now), level.Configured, human.Plain(level.From))
	case level.Ordered:
		text = fmt.Sprintf("%s until a reload or restart, then %s (ordered by %s)", level.Level, level.Configured, human.Plain(level.From))
	}
	_, err := fmt.Fprintln(w, text)
	return err
}
