package submit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// A Sending is a message and the way to send it.
type Sending struct {
	Message *Message
	Sender  mail.Address // "" is the null sender
	Notify  mail.Notify  // 0: as the server likes
	Ret     mail.Ret
	EnvID   string // not encoded yet; "" if none
	// VERP asks for a sender for each recipient, with Delimiters if they are not "".
	VERP       bool
	Delimiters string
	// Hello is the name by which the program introduces itself.
	Hello string
	// Trace takes the dialogue as it goes, without the content; nil: nothing
	// does.
	Trace io.Writer
	// After is the place behind the recipients that an earlier Send has sent the message to.
	After Mark
}

// A Mark is a place in the list of a message's recipients. The zero value is its beginning.
type Mark struct {
	read  int            // of the list
	again []mail.Address // of those, the ones that were put off
}

// Sent returns how many recipients are before the mark.
func (m Mark) Sent() int { return m.read - len(m.again) }

// A Refusal means that the server refused the message.
type Refusal struct {
	Reply     mail.Reply
	Recipient mail.Address // whom the reply is about; "" if it is about the message
	Sent      int          // recipients that the message was sent to nevertheless
	Mark      Mark         // the place behind them
}

func (e *Refusal) Error() string {
	if e.Recipient != "" {
		return fmt.Sprintf("%s: %s", e.Recipient, e.Reply)
	}
	return e.Reply.String()
}

// A ConnectionError means that the connection was lost or unusable.
type ConnectionError struct {
	Err  error
	Sent int  // recipients that the message was sent to before that
	Mark Mark // the place behind them
	// Doubtful means that it is not known whether the server accepted the last
	// transaction.
	Doubtful bool
}

func (e *ConnectionError) Error() string { return "talk to the server: " + e.Err.Error() }

// Unwrap returns why.
func (e *ConnectionError) Unwrap() error { return e.Err }

// Time that the server has to answer (RFC 5321 4.5.3.2). A local server is
// quicker, but may wait for the disk.
const (
	commandTimeout = 5 * time.Minute
	finalTimeout   = 10 * time.Minute
)

// groupMax is the number of octets of commands that are written before their replies are
// read, so that neither side can block on the other (RFC 2920 3.1).
const groupMax = 4096

// Send hands a message to the server at the other end of a connection that was
// just opened, and returns the server's last reply. The error is a *Refusal or
// a *ConnectionError, or says that the message could not be read back.
func Send(conn net.Conn, s Sending) (mail.Reply, error) {
	d := &dialogue{Sending: s, conn: conn, in: bufio.NewReaderSize(conn, 16<<10), out: bufio.NewWriterSize(conn, 64<<10)}
	reply, err := d.run()
	var broken *ConnectionError
	if !errors.As(err, &broken) {
		d.quit()
	}
	return reply, err
}

// Ask asks the server at the other end of a connection that was just opened what it
// offers; Name is what it calls itself in its greeting. The error is a *Refusal or a
// *ConnectionError.
func Ask(conn net.Conn, hello string) (smtp.Caps, error) {
	d := &dialogue{Sending: Sending{Hello: hello}, conn: conn, in: bufio.NewReader(conn), out: bufio.NewWriter(conn)}
	if err := d.greet(); err != nil {
		return smtp.Caps{}, err
	}
	d.quit()
	d.caps.Name = d.name
	return d.caps, nil
}

// TooLarge is the refusal of a message that has more octets than the server takes.
func TooLarge(most int64) *Refusal {
	return &Refusal{Reply: mail.Reply{Code: 552, Status: mail.Status{Class: 5, Subject: 3, Detail: 4},
		Text: fmt.Sprintf("the message has more than the %d octets that the server takes", most)}}
}

// A dialogue is one session, driven in step by one goroutine.
type dialogue struct {
	Sending
	conn    net.Conn
	in      *bufio.Reader
	out     *bufio.Writer
	parser  smtp.ReplyParser
	name    string // the first word of the greeting
	caps    smtp.Caps
	crowded mail.Reply // the last that said that there are too many recipients
	sent    int        // recipients of transactions that the server took
	mark    Mark       // the place behind them
	final   bool       // content was written to its end; its reply is awaited
}

func (d *dialogue) run() (last mail.Reply, err error) {
	if err := d.greet(); err != nil {
		return last, err
	}
	if err := d.offered(); err != nil {
		return last, err
	}
	recipients, err := d.Message.recipients.reader()
	if err != nil {
		return last, err
	}
	if err := recipients.seek(d.After); err != nil {
		return last, err
	}
	for d.mark = d.After; ; d.mark = recipients.mark() {
		a, ok, err := recipients.next()
		if err != nil || !ok {
			return last, err
		}
		recipients.unread(a)
		if last, err = d.transaction(recipients); err != nil {
			return last, err
		}
	}
}

// transaction sends the message to as many recipients as the server takes at
// once.
func (d *dialogue) transaction(recipients *rosterReader) (last mail.Reply, err error) {
	if err := d.expect(2, d.mailCommand()); err != nil {
		return last, err
	}
	count, err := d.envelope(recipients)
	if err != nil {
		return last, err
	}
	if last, err = d.data(); err == nil {
		d.sent += count
	}
	return last, err
}

// greet waits for the server's greeting and introduces the program.
func (d *dialogue) greet() error {
	r, err := d.reply(commandTimeout)
	if err != nil {
		return err
	}
	if !r.Positive() {
		return d.refusal(r, "")
	}
	d.name, _, _ = strings.Cut(r.Text, " ")
	d.write("EHLO " + d.Hello)
	if err := d.flush(); err != nil {
		return err
	}
	if r, err = d.reply(commandTimeout); err != nil {
		return err
	}
	if !r.Positive() {
		return d.refusal(r, "")
	}
	d.caps = smtp.ParseCaps(d.parser.Text())
	return nil
}

// offered reports whether the server offers what the message needs.
func (d *dialogue) offered() error {
	m := d.Message
	missing, status := "", mail.Status{Class: 5, Subject: 6, Detail: 3}
	switch {
	case d.needsUTF8() && !d.caps.UTF8:
		missing, status.Detail = "SMTPUTF8", 7
	case m.eightBit && !d.caps.EightBit:
		missing = "8BITMIME"
	case (d.Notify != 0 || d.Ret != mail.RetUnset || d.EnvID != "") && !d.caps.DSN:
		missing, status = "DSN", mail.Status{Class: 5, Subject: 3, Detail: 3}
	case d.VERP && !d.caps.VERP:
		missing, status = "XVERP", mail.Status{Class: 5, Subject: 3, Detail: 3}
	case d.caps.SizeMax > 0 && m.Size() > d.caps.SizeMax:
		return TooLarge(d.caps.SizeMax)
	default:
		return nil
	}
	return d.refusal(mail.Reply{Code: 554, Status: status, Text: "the server does not offer " + missing + ", which the message needs"}, "")
}

func (d *dialogue) needsUTF8() bool {
	return d.Message.utf8Header || d.Message.recipients.nonASCII || !isASCII([]byte(d.Sender))
}

func (d *dialogue) mailCommand() string {
	var b strings.Builder
	b.WriteString("MAIL FROM:<" + string(d.Sender) + ">")
	if d.caps.Size {
		b.WriteString(" SIZE=" + strconv.FormatInt(d.Message.Size(), 10))
	}
	if d.Message.eightBit {
		b.WriteString(" BODY=8BITMIME")
	}
	if d.needsUTF8() {
		b.WriteString(" SMTPUTF8")
	}
	if d.Ret != mail.RetUnset {
		b.WriteString(" RET=" + d.Ret.String())
	}
	if d.EnvID != "" {
		b.WriteString(" ENVID=" + smtp.EncodeXtext(d.EnvID))
	}
	if d.VERP {
		b.WriteString(" XVERP")
		if d.Delimiters != "" {
			b.WriteString("=" + d.Delimiters)
		}
	}
	return b.String()
}

func (d *dialogue) rcptCommand(a mail.Address) string {
	if d.Notify != 0 {
		return "RCPT TO:<" + string(a) + "> NOTIFY=" + d.Notify.String()
	}
	return "RCPT TO:<" + string(a) + ">"
}

// envelope names recipients until there are no more or the server takes no more
// in this transaction, and returns how many were accepted.
func (d *dialogue) envelope(from *rosterReader) (count int, err error) {
	for {
		group, err := d.group(from, count)
		if err != nil || len(group) == 0 {
			return count, err
		}
		accepted, again, err := d.accepted(group)
		if err != nil {
			return 0, err
		}
		count += accepted
		switch {
		case len(again) == 0:
			continue
		case count == 0:
			return 0, d.refusal(d.crowded, again[0])
		}
		from.unread(again...)
		return count, nil
	}
}

// group writes as many RCPTs as may go out together; count were accepted.
func (d *dialogue) group(from *rosterReader, count int) (group []mail.Address, err error) {
	for size := 0; !d.full(count + len(group)); {
		a, ok, err := from.next()
		if err != nil || !ok {
			return group, err
		}
		command := d.rcptCommand(a)
		size += len(command) + len("\r\n")
		if len(group) > 0 && (!d.caps.Pipelining || size > groupMax) {
			from.unread(a)
			break
		}
		d.write(command)
		group = append(group, a)
	}
	return group, nil
}

func (d *dialogue) full(count int) bool {
	return d.caps.Limits.Recipients > 0 && count >= d.caps.Limits.Recipients
}

// accepted reads the replies to a group of RCPTs. It returns how many of them were
// accepted, and those that were refused because there are too many recipients in
// the transaction (RFC 5321 4.5.3.1.10): they get another one.
func (d *dialogue) accepted(group []mail.Address) (n int, again []mail.Address, err error) {
	if err := d.flush(); err != nil {
		return 0, nil, err
	}
	var refused *Refusal
	for _, a := range group {
		r, err := d.reply(commandTimeout)
		switch {
		case err != nil:
			return 0, nil, err
		case r.Positive():
			n++
		case r.Code == 452 && (r.Status == mail.Status{} || r.Status.Subject == 5 && r.Status.Detail == 3):
			again = append(again, a)
			d.crowded = r
		case refused == nil:
			refused = d.refusal(r, a)
		}
	}
	if refused != nil {
		return 0, nil, refused
	}
	return n, again, nil
}

// data sends the content.
func (d *dialogue) data() (mail.Reply, error) {
	if err := d.expect(3, "DATA"); err != nil {
		return mail.Reply{}, err
	}
	content, err := d.Message.content.Reader(0)
	if err != nil {
		return mail.Reply{}, err
	}
	var stuffer smtp.Stuffer
	buf := make([]byte, 32<<10)
	for {
		n, err := content.Read(buf)
		d.deadline(commandTimeout)
		if _, err := d.out.Write(stuffer.Encode(buf[:n])); err != nil {
			return mail.Reply{}, d.broken(err)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return mail.Reply{}, fmt.Errorf("read back the message: %w", err)
		}
	}
	if _, err := d.out.Write(stuffer.End()); err != nil {
		return mail.Reply{}, d.broken(err)
	}
	d.final = true
	d.trace("-> (%d octets)", d.Message.Size())
	if err := d.out.Flush(); err != nil {
		return mail.Reply{}, d.broken(err)
	}
	r, err := d.reply(finalTimeout)
	d.final = false
	if err == nil && !r.Positive() {
		err = d.refusal(r, "")
	}
	return r, err
}

// expect writes a command and wants a reply whose code begins with a digit.
func (d *dialogue) expect(digit uint16, command string) error {
	d.write(command)
	if err := d.flush(); err != nil {
		return err
	}
	r, err := d.reply(commandTimeout)
	if err == nil && r.Code/100 != digit {
		err = d.refusal(r, "")
	}
	return err
}

// quit takes leave. The message is safe, so nothing that goes wrong matters.
func (d *dialogue) quit() {
	d.write("QUIT")
	if d.flush() == nil {
		_, _ = d.reply(time.Second)
	}
}

// write keeps a command for flush. Errors of the buffer last until then.
func (d *dialogue) write(command string) {
	d.trace("-> %s", command)
	d.out.WriteString(command)
	d.out.WriteString("\r\n")
}

func (d *dialogue) flush() error {
	d.deadline(commandTimeout)
	if err := d.out.Flush(); err != nil {
		return d.broken(err)
	}
	return nil
}

// deadline bounds the next reads and writes. A connection that cannot do that
// fails in them.
func (d *dialogue) deadline(after time.Duration) { _ = d.conn.SetDeadline(time.Now().Add(after)) }

// reply reads one reply.
func (d *dialogue) reply(timeout time.Duration) (mail.Reply, error) {
	d.deadline(timeout)
	for {
		if _, err := d.in.Peek(1); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return mail.Reply{}, d.broken(err)
		}
		octets, _ := d.in.Peek(d.in.Buffered())
		n, done, err := d.parser.Feed(octets)
		if _, discard := d.in.Discard(n); err == nil {
			err = discard
		}
		if err != nil {
			return mail.Reply{}, d.broken(err)
		}
		if done {
			r := d.parser.Reply("")
			d.trace("<- %s", r)
			return r, nil
		}
	}
}

func (d *dialogue) trace(format string, args ...any) {
	if d.Trace != nil {
		fmt.Fprintf(d.Trace, format+"\n", args...)
	}
}

func (d *dialogue) refusal(r mail.Reply, about mail.Address) *Refusal {
	return &Refusal{Reply: r, Recipient: about, Sent: d.sent, Mark: d.mark}
}

func (d *dialogue) broken(err error) error {
	return &ConnectionError{Err: err, Sent: d.sent, Mark: d.mark, Doubtful: d.final}
}
