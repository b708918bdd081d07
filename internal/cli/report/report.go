// Package report has the commands about reports that come back: reading one, and what the daemon has
// counted.
package report

import (
	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
)

// NewCommand returns the commands about reports.
func NewCommand() *cobra.Command {
	cmd := command.Group("report", "Read reports that come back about mail", `Read delivery status notifications and complaints about mail that was sent. docs/feedback.md
describes how the daemon receives them.`,
		newParseCommand(), newFeedbackCommand(&socket.Finder{}))
	cmd.SuggestFor = []string{"bounce", "dsn", "arf", "complaints"}
	return cmd
}
