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
		Short: "Submit a message as sendmail does",
		Long: `Read a message from standard input and submit it to the daemon. Programs that expect
sendmail can use this command, or a link named sendmail to posthaste.

  -t          add the recipients in To, Cc and Bcc to those on the command line
  -i, -oi     a line with a single dot does not end the message
  -f ADDRESS  the envelope sender (also -r); "" or <> is the null sender
  -F NAME     the author's full name, used if the message has no From
  -N EVENTS   notifications: never, or a list of success, failure, delay
  -R HOW      what a report returns of the message: full or hdrs
  -V ID       the envelope ID for reports
  -XV         an envelope sender for each recipient (VERP); -XV+= sets the delimiters
  -B TYPE     7bit or 8bitmime; ignored, since the content itself decides
  -v          show the SMTP dialogue with the daemon
  -bm         submit a message (the default)
  -bs         speak SMTP on standard input and output
  -bp         list the queue, like mailq
  -q          try deferred messages now, all or some: -qI ID, -qR DOMAIN, -qS SENDER

  --queue-directory DIRECTORY, --config FILE, --socket SOCKET
              the location of the daemon; these options come first

Other options of sendmail (-A, -C, -d, -e, -G, -h, -L, -m, -n, -O, -o, -p, -U, -X
with a file) are accepted and ignored.

An address without a domain gets the domain in /etc/mailname, or the daemon's
myhostname. Nothing is sent unless all recipients are accepted. The exit statuses are
those of sysexits.h; 75 means that a later attempt may succeed. If the daemon is not
running, the message waits in the maildrop if this user may write there.`,
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
		return tryNow(ctx, s, p, c.flush...)
	}
	if err := c.submit(); err != nil {
		return c.explain(err)
	}
	return nil
}
