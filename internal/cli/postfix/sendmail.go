package postfix

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/cli/queue"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/submit"
)

// NewSendmailCommand returns sendmail as a command of posthaste.
func NewSendmailCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "sendmail [options] [recipient…]",
		Short: "Hand in a message, as programs expect of sendmail",
		Long: `Read a message from standard input and hand it to the daemon. Programs that
expect sendmail can be given this command, or a link of that name to posthaste.

  -t          take recipients from To, Cc and Bcc, besides those given
  -i, -oi     a line with a lone dot does not end the message
  -f ADDRESS  the envelope sender (also -r); "" or <> for none
  -F NAME     the author's full name, if the message has no From
  -N EVENTS   report to the sender: never, or of success, failure, delay
  -R HOW      return in reports: full or hdrs
  -V ID       the envelope ID for reports
  -B TYPE     7bit or 8bitmime; ignored, as the message is looked at
  -v          show the dialogue with the daemon
  -bm         hand in a message (the default)
  -bs         speak SMTP on standard input and output
  -bp         list the queue, like mailq
  -q          try deferred messages now, or some of them: -qI ID, -qR DOMAIN, -qS SENDER

  --queue-directory DIRECTORY, --config FILE, --socket SOCKET
              where the daemon is; these come first

Options that only matter to other programs of this name (-A, -C, -d, -e, -G, -h,
-L, -m, -n, -O, -o, -p, -U, -X) are accepted and do nothing.

An address without a domain gets the one in /etc/mailname or else the daemon's
myhostname. Nothing is sent unless all recipients are accepted. Exit codes are those of
sysexits.h: 75 means that it may work later, such as when the daemon is not
running.`,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, arg := range args[:min(len(args), 1)] {
				if arg == "--help" || arg == "-h" && len(args) == 1 {
					return cmd.Help()
				}
			}
			return runSendmail(cmd.Context(), args, command.Streams{In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr()}, &socket.Finder{})
		},
	}
}

// sendmail stands in for the program of that name. A bug in it ends with a code
// that its callers know.
func sendmail(ctx context.Context, name string, args []string, s command.Streams) (code exit.Code) {
	defer func() {
		if bug := recover(); bug != nil {
			fmt.Fprintf(s.Err, "%s: bug: %v\n%s", name, bug, debug.Stack())
			code = exit.Software
		}
	}()
	return command.Complain(s.Err, name, runSendmail(ctx, args, s, &socket.Finder{System: true}))
}

// A sendmailMode is what sendmail is to do.
type sendmailMode uint8

const (
	modeSubmit sendmailMode = iota
	modeSMTP                // -bs
	modeList                // -bp
	modeFlush               // -q
)

// A sendmailCall is a call of sendmail.
type sendmailCall struct {
	command.Streams
	place    *socket.Finder
	mode     sendmailMode
	flush    []string // modeFlush: arguments of "queue flush"
	options  submit.Options
	sending  submit.Sending
	sender   string
	hasFrom  bool
	raw      []string // recipients as given
	fullName string
}

func runSendmail(ctx context.Context, args []string, s command.Streams, p *socket.Finder) error {
	if len(args) == 1 && args[0] == "--help" {
		_, err := fmt.Fprintln(s.Out, NewSendmailCommand().Long)
		return err
	}
	c := &sendmailCall{Streams: s, place: p}
	c.options.DotEnds = true
	rest, err := c.where(args)
	if err == nil {
		err = c.parse(rest)
	}
	if err == nil {
		err = c.checkOrder()
	}
	if err != nil {
		return exit.New(exit.Usage, err, "Try \"posthaste sendmail --help\".")
	}
	switch c.mode {
	case modeSMTP:
		return c.smtp()
	case modeList:
		return queue.Call(ctx, s, p, "list", "--mailq")
	case modeFlush:
		return queue.Call(ctx, s, p, append([]string{"flush"}, c.flush...)...)
	}
	if err := c.submit(); err != nil {
		return c.explain(err)
	}
	return nil
}
