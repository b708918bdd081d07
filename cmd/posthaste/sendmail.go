package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/user"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/internal/submit"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

func newSendmailCommand() *cobra.Command {
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

Nothing is sent unless all recipients are accepted. Exit codes are those of
sysexits.h: 75 means that it may work later, such as when the daemon is not
running.`,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, arg := range args[:min(len(args), 1)] {
				if arg == "--help" || arg == "-h" && len(args) == 1 {
					return cmd.Help()
				}
			}
			return runSendmail(cmd.Context(), args, streams{cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()}, &place{})
		},
	}
}

// sendmail stands in for the program of that name. A bug in it ends with a code
// that its callers know.
func sendmail(ctx context.Context, name string, args []string, s streams) (code exitCode) {
	defer func() {
		if bug := recover(); bug != nil {
			fmt.Fprintf(s.err, "%s: bug: %v\n%s", name, bug, debug.Stack())
			code = exitSoftware
		}
	}()
	return complain(s.err, name, runSendmail(ctx, args, s, &place{system: true}))
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
	streams
	place    *place
	mode     sendmailMode
	flush    []string // modeFlush: arguments of "queue flush"
	options  submit.Options
	sending  submit.Sending
	sender   string
	hasFrom  bool
	raw      []string // recipients as given
	fullName string
}

func runSendmail(ctx context.Context, args []string, s streams, p *place) error {
	if len(args) == 1 && args[0] == "--help" {
		_, err := fmt.Fprintln(s.out, newSendmailCommand().Long)
		return err
	}
	c := &sendmailCall{streams: s, place: p}
	c.options.DotEnds = true
	rest, err := c.where(args)
	if err == nil {
		err = c.parse(rest)
	}
	if err == nil {
		err = c.checkOrder()
	}
	if err != nil {
		return &exit{exitUsage, err, "Try \"posthaste sendmail --help\"."}
	}
	switch c.mode {
	case modeSMTP:
		return c.smtp()
	case modeList:
		return queueCall(ctx, s, p, "list", "--mailq")
	case modeFlush:
		return queueCall(ctx, s, p, append([]string{"flush"}, c.flush...)...)
	}
	if err := c.submit(); err != nil {
		return c.explain(err)
	}
	return nil
}

// queueCall runs a queue command.
func queueCall(ctx context.Context, s streams, p *place, args ...string) error {
	root := newQueueCommandAt(p)
	root.SilenceUsage, root.SilenceErrors = true, true
	checkArgs(root)
	root.SetArgs(args)
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	return root.ExecuteContext(ctx)
}

// where takes the long options that say where the daemon is off the front.
func (c *sendmailCall) where(args []string) (rest []string, err error) {
	to := map[string]*string{"--socket": &c.place.socket, "--queue-directory": &c.place.directory, "--config": &c.place.config}
	for len(args) > 0 {
		name, value, joined := strings.Cut(args[0], "=")
		field, ok := to[name]
		if !ok {
			break
		}
		if args = args[1:]; !joined {
			if len(args) == 0 {
				return nil, fmt.Errorf("option %s needs a value", name)
			}
			value, args = args[0], args[1:]
		}
		*field = value
	}
	return args, nil
}

func (c *sendmailCall) parse(args []string) error {
	found, err := getopt(args, optionSet{flags: "GgimntvU", valued: "fFrNRVBCOLXhp", attached: "bqoeAd"})
	if err != nil {
		return err
	}
	c.raw = found.rest
	for _, o := range found.options {
		if err := c.option(o); err != nil {
			return err
		}
	}
	return nil
}

// checkOrder refuses what looks like an option behind a recipient: nobody means
// such an address, and a sender that is not obeyed gets no report.
func (c *sendmailCall) checkOrder() error {
	for _, arg := range c.raw[min(len(c.raw), 1):] {
		if len(arg) > 1 && arg[0] == '-' {
			return fmt.Errorf("%s comes too late: options go before the recipients", plain(arg))
		}
	}
	return nil
}

// option obeys one option. Those that are not here do nothing.
func (c *sendmailCall) option(o option) (err error) {
	switch o.letter {
	case 't':
		c.options.FromHeader = true
	case 'i':
		c.options.DotEnds = false
	case 'o':
		if o.value == "i" {
			c.options.DotEnds = false
		}
	case 'f', 'r':
		c.sender, c.hasFrom = o.value, true
	case 'F':
		c.fullName = o.value
	case 'N':
		c.sending.Notify, err = parseNotify(o.value)
	case 'R':
		c.sending.Ret, err = parseRet(o.value)
	case 'V':
		c.sending.EnvID, err = parseEnvID(o.value)
	case 'B':
		if v := strings.ToLower(o.value); v != "7bit" && v != "8bitmime" {
			err = fmt.Errorf("-B %s: want 7bit or 8bitmime", plain(o.value))
		}
	case 'v':
		c.sending.Trace = c.err
	case 'b':
		err = c.setMode(o.value)
	case 'q':
		err = c.setFlush(o.value)
	}
	return err
}

func (c *sendmailCall) setMode(value string) error {
	modes := map[string]sendmailMode{"m": modeSubmit, "s": modeSMTP, "p": modeList}
	mode, ok := modes[value]
	if !ok {
		return fmt.Errorf("-b%s is not something that this sendmail does", plain(value))
	}
	c.mode = mode
	return nil
}

// setFlush reads the value of -q: nothing, or what to try, as in -qI and -qR.
func (c *sendmailCall) setFlush(value string) error {
	c.mode = modeFlush
	if value == "" {
		return nil
	}
	what := value[1:]
	switch value[0] {
	case 'I':
		c.flush = []string{what}
	case 'R':
		c.flush = []string{"--recipient", "*" + what + "*"}
	case 'S':
		c.flush = []string{"--sender", "*" + what + "*"}
	default:
		return errors.New("-q with a time is for a daemon; \"posthaste serve\" needs none")
	}
	if what == "" {
		return fmt.Errorf("-q%s needs a value", value)
	}
	return nil
}

func parseNotify(text string) (mail.Notify, error) {
	words := map[string]mail.Notify{"never": mail.NotifyNever, "success": mail.NotifySuccess, "failure": mail.NotifyFailure, "delay": mail.NotifyDelay}
	var sum mail.Notify
	for word := range strings.SplitSeq(strings.ToLower(text), ",") {
		n, ok := words[strings.TrimSpace(word)]
		if !ok {
			return 0, fmt.Errorf("-N %s: want never, or some of success,failure,delay", plain(text))
		}
		sum |= n
	}
	if sum&mail.NotifyNever != 0 && sum != mail.NotifyNever {
		return 0, errors.New("-N: never goes with nothing else")
	}
	return sum, nil
}

func parseRet(text string) (mail.Ret, error) {
	switch strings.ToLower(text) {
	case "full":
		return mail.RetFull, nil
	case "hdrs":
		return mail.RetHeaders, nil
	}
	return 0, fmt.Errorf("-R %s: want full or hdrs", plain(text))
}

// envIDMax is how long an envelope ID can be (RFC 3461 4.4).
const envIDMax = 100

func parseEnvID(text string) (string, error) {
	for i := 0; i < len(text); i++ {
		if text[i] < ' ' || text[i] > '~' {
			return "", errors.New("-V: an envelope ID is printable ASCII")
		}
	}
	if text == "" || len(text) > envIDMax {
		return "", fmt.Errorf("-V: an envelope ID has 1 to %d characters", envIDMax)
	}
	return text, nil
}

// submit reads the message and hands it in.
func (c *sendmailCall) submit() error {
	domain := origin()
	if err := c.addresses(domain); err != nil {
		return err
	}
	if len(c.raw) == 0 && !c.options.FromHeader {
		return usageError("no recipients: give some, or -t to take them from the message")
	}
	c.options.Domain, c.options.Now, c.options.Unique = domain, time.Now(), unique(time.Now())
	m, err := submit.Compose(c.in, c.options)
	if err != nil {
		return err
	}
	defer m.Close()
	if m.Recipients() == 0 {
		return &exit{code: exitData, err: errors.New("no recipients: there are none in To, Cc or Bcc")}
	}
	conn, err := c.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	c.sending.Message, c.sending.Hello = m, domain
	_, err = submit.Send(conn, c.sending)
	return err
}

// addresses reads the envelope that the command line gives, and finds out who
// is sending where it does not say.
func (c *sendmailCall) addresses(domain string) error {
	login, name := whoAmI()
	c.options.FullName = name
	if c.fullName != "" {
		c.options.FullName = c.fullName
	}
	author, err := submit.ParseAddress(login, domain)
	if err != nil {
		author = mail.Address("nobody@" + domain)
	}
	c.options.Author, c.sending.Sender = author, author
	if c.hasFrom {
		var given []mail.Address
		text := strings.TrimSpace(c.sender)
		if text == "<>" {
			text = ""
		}
		if err := submit.ParseList(text, domain, func(a mail.Address) error { given = append(given, a); return nil }); err != nil {
			return fmt.Errorf("sender: %w", err)
		}
		switch len(given) {
		case 0:
			c.sending.Sender = ""
		case 1:
			c.sending.Sender, c.options.Author = given[0], given[0]
			if c.fullName == "" && given[0] != author {
				c.options.FullName = "" // it is not this user's
			}
		default:
			return usageError("there can be only one sender")
		}
	}
	for _, arg := range c.raw {
		if err := submit.ParseList(arg, domain, func(a mail.Address) error {
			c.options.Recipients = append(c.options.Recipients, a)
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// connect opens a connection to the daemon.
func (c *sendmailCall) connect() (net.Conn, error) {
	socket, err := c.place.submit()
	if err != nil {
		return nil, err
	}
	conn, err := net.Dial("unix", socket)
	if err == nil {
		return conn, nil
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	code, hint := codeOfConnect(err)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		code = exitTempFail // callers keep the message and try again
	}
	return nil, &exit{code, fmt.Errorf("connect to %s: %w", socket, err), hint}
}

// explain turns an error into what the caller is told: the exit code, and
// whether anything was sent.
func (c *sendmailCall) explain(err error) error {
	code := codeOfSubmission(err)
	var known *exit
	if errors.As(err, &known) {
		return err
	}
	hint := "The message was not sent."
	var refused *submit.Refusal
	var broken *submit.ConnectionError
	switch {
	case errors.As(err, &refused) && refused.Sent > 0:
		hint = sentTo(refused.Sent)
	case errors.As(err, &broken) && broken.Sent > 0:
		hint = sentTo(broken.Sent)
	case errors.As(err, &broken) && broken.Doubtful:
		hint = "It is not known whether the message was sent."
	}
	return &exit{code, err, hint}
}

func sentTo(n int) string {
	return "The message was sent to the first " + count(n, "recipient") + ", not to the others."
}

// smtp connects standard input and output with the daemon.
func (c *sendmailCall) smtp() error {
	conn, err := c.connect()
	if err != nil {
		fmt.Fprintf(c.out, "421 4.3.2 The mail system is not available\r\n")
		return err
	}
	defer conn.Close()
	go func() {
		// The daemon ends the session when it sees the end of the input.
		_, _ = io.Copy(&lineEnder{w: conn}, c.in)
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}()
	if _, err := io.Copy(c.out, conn); err != nil {
		return &exit{code: exitIO, err: fmt.Errorf("copy the dialogue: %w", err)}
	}
	return nil
}

// A lineEnder makes CRLF of the line ends that people and scripts type.
type lineEnder struct {
	w     io.Writer
	lines smtp.Normalizer
	buf   []byte
}

func (l *lineEnder) Write(p []byte) (int, error) {
	l.buf = l.lines.Append(l.buf[:0], p)
	if _, err := l.w.Write(l.buf); err != nil {
		return 0, err
	}
	return len(p), nil
}

// origin is the domain of addresses without one: what /etc/mailname says, as is
// the custom on Debian, else the host's name.
func origin() string {
	if text, err := os.ReadFile("/etc/mailname"); err == nil {
		if name := strings.TrimSpace(string(text)); validDomain(name) {
			return name
		}
	}
	if name, err := os.Hostname(); err == nil && validDomain(name) {
		return name
	}
	return "localhost"
}

func validDomain(name string) bool {
	_, err := submit.ParseAddress("a@"+name, "")
	return err == nil
}

// whoAmI is the login name and the full name of the user.
func whoAmI() (login, fullName string) {
	u, err := user.Current()
	if err != nil {
		return fmt.Sprintf("uid%d", os.Getuid()), ""
	}
	name, _, _ := strings.Cut(u.Name, ",") // what follows are rooms and telephones
	return u.Username, strings.TrimSpace(name)
}

// unique is the part of a message ID that no other message has.
func unique(now time.Time) string {
	return now.UTC().Format("20060102150405") + "." + strings.ToLower(rand.Text()[:16])
}
