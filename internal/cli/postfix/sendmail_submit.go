package postfix

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/user"
	"strings"
	"syscall"
	"time"

	"github.com/posthaste-mta/posthaste/header"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/human"
	"github.com/posthaste-mta/posthaste/internal/submit"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// submit reads the message and submits it.
func (c *sendmailCall) submit() error {
	caps, unasked := c.ask()
	drop := ""
	if canWait(unasked) {
		drop = c.maildrop()
	}
	if drop != "" {
		caps, unasked = smtp.Caps{SizeMax: dropSizeMax}, nil
	}
	domain := origin(caps.Name)
	if err := c.addresses(domain); err != nil {
		return err
	}
	if len(c.options.Recipients) == 0 && !c.options.FromHeader {
		return exit.Usagef("no recipients: give some, or -t to take them from the message")
	}
	c.options.Domain, c.options.Now, c.options.Unique = domain, time.Now(), unique(time.Now())
	c.options.Grow = func(octets int64) error {
		switch {
		case unasked != nil || caps.SizeMax == 0 || octets <= caps.SizeMax:
			return unasked
		case drop != "": // the daemon may take more
			return exit.New(exit.TempFail, errors.New("the daemon does not run, and a message of more than "+human.Size(dropSizeMax)+" does not wait for it"), "Try again when it runs.")
		}
		return submit.TooLarge(caps.SizeMax)
	}
	m, err := submit.Compose(c.In, c.options)
	if err == nil && unasked != nil {
		m.Close()
		err = unasked
	}
	if err != nil {
		return err
	}
	defer m.Close()
	if m.Recipients() == 0 {
		return exit.New(exit.Data, errors.New("no recipients: there are none in To, Cc or Bcc, nor in Resent-To, Resent-Cc or Resent-Bcc if the message was resent"), "")
	}
	c.sending.Message, c.sending.Hello = m, hostname()
	if drop == "" {
		conn, err := c.connect()
		if err == nil {
			defer conn.Close()
			_, err = submit.Send(conn, c.sending)
			return err
		}
		if canWait(err) { // it has stopped since it was asked
			drop = c.maildrop()
		}
		if drop == "" {
			return err
		}
	}
	if err := submit.Leave(drop, c.sending); err != nil {
		return exit.New(exit.TempFail, err, "No daemon accepts the message, and it could not be kept for one.")
	}
	return nil
}

// dropSizeMax is the size of the largest message that waits for the daemon, in octets. What
// the daemon takes is not known then; this is its default.
const dropSizeMax = 10_240_000

// canWait reports whether the daemon could not be asked because it is not running, or because
// this user may not use its socket.
func canWait(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrPermission)
}

// maildrop returns the directory in which the message can wait for the daemon; "" if there is
// none that this user may write to. Only the attempt shows that, as the directory can not be
// listed.
func (c *sendmailCall) maildrop() string {
	dir := c.place.Maildrop()
	if dir == "" || submit.CanLeave(dir) != nil {
		return ""
	}
	return dir
}

// ask asks the daemon, before the message is read, for its name and for the largest
// message it takes, since the input may have no end. The session is over then: the
// input may also be slow. Mistakes in the message are reported even if no daemon runs.
func (c *sendmailCall) ask() (smtp.Caps, error) {
	conn, err := c.connect()
	if err != nil {
		return smtp.Caps{}, err
	}
	defer conn.Close()
	return submit.Ask(conn, hostname())
}

// addresses reads the envelope that the command line gives, and finds out who
// is sending where it does not say.
func (c *sendmailCall) addresses(domain string) error {
	login, name := whoAmI()
	c.options.FullName = name
	if c.fullName != "" {
		c.options.FullName = c.fullName
	}
	author, err := header.ParseAddress(login, domain)
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
		if err := header.ParseList(text, domain, func(a mail.Address) error { given = append(given, a); return nil }); err != nil {
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
			return exit.Usagef("there can be only one sender")
		}
	}
	if c.sending.VERP && c.sending.Sender == "" {
		return exit.Usagef("-XV needs a sender: there is no place for recipients in the null sender")
	}
	for _, arg := range c.raw {
		if err := header.ParseList(arg, domain, func(a mail.Address) error {
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
	socket, err := c.place.Submission()
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
	code, hint := exit.OfConnect(err)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		code = exit.TempFail // callers keep the message and try again
	}
	return nil, exit.New(code, fmt.Errorf("connect to %s: %w", socket, err), hint)
}

// explain adds the exit code to an error, and whether anything was sent.
func (c *sendmailCall) explain(err error) error {
	code := codeOfSubmission(err)
	var known *exit.Error
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
	return exit.New(code, err, hint)
}

func sentTo(n int) string {
	return "The message was sent to the first " + human.Count(n, "recipient") + ", not to the others."
}

// smtp connects standard input and output with the daemon.
func (c *sendmailCall) smtp() error {
	conn, err := c.connect()
	if err != nil {
		fmt.Fprintf(c.Out, "421 4.3.2 The mail system is not available\r\n")
		return err
	}
	defer conn.Close()
	go func() {
		// The daemon ends the session when it sees the end of the input.
		_, _ = io.Copy(&lineEnder{w: conn}, c.In)
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}()
	if _, err := io.Copy(c.Out, conn); err != nil {
		return exit.Errorf(exit.IO, "copy the dialogue: %w", err)
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
// the custom on Debian, else the daemon's name, if it is known.
func origin(daemon string) string {
	if text, err := os.ReadFile("/etc/mailname"); err == nil {
		if name := strings.TrimSpace(string(text)); validDomain(name) {
			return name
		}
	}
	if daemon != "" && validDomain(daemon) {
		return daemon
	}
	return hostname()
}

func hostname() string {
	if name, err := os.Hostname(); err == nil && validDomain(name) {
		return name
	}
	return "localhost"
}

func validDomain(name string) bool {
	_, err := header.ParseAddress("a@"+name, "")
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
