package pipe

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// Bodies gives access to the content of messages. Its methods are called concurrently.
type Bodies interface {
	// Open returns the content of a message: lines that end in CRLF, without
	// dot-stuffing. It has been verified. If it changes while it is read, Read returns an error
	// in place of the end.
	Open(ctx context.Context, id mail.QueueID) (io.ReadCloser, error)
}

// lineMax is the size of the pieces in which a longer line is handled.
const lineMax = 64 << 10

// A loopError says that a message has been delivered to its recipient before.
type loopError struct{ recipient mail.Address }

func (e loopError) Error() string { return "mail forwarding loop for " + string(e.recipient) }

// A readError is an error of the content, and not of the file that it is written to.
type readError struct{ error }

func (e readError) Unwrap() error { return e.error }

// prepare returns a file with the message as the program is to get it, at its start. The
// caller closes it; it has no name any more.
func (a *Agent) prepare(ctx context.Context, t *TransportConfig, d *mail.Delivery) (*os.File, error) {
	body, err := a.bodies.Open(ctx, d.Envelope.ID)
	if err != nil {
		return nil, readError{err}
	}
	defer body.Close() // it was only read
	write, read, err := nameless(a.cfg.Dir)
	if err != nil {
		return nil, err
	}
	w := writer{out: bufio.NewWriter(write), flags: t.Flags, delivery: d}
	if err := errors.Join(w.message(body), write.Close()); err != nil {
		read.Close() // nothing was written by it
		return nil, err
	}
	return read, nil
}

// nameless makes a file without a name, opened once for writing, and once for the program,
// which can only read it.
func nameless(dir string) (write, read *os.File, err error) {
	write, err = os.CreateTemp(dir, filePrefix)
	if err != nil {
		return nil, nil, err
	}
	read, err = os.Open(write.Name())
	if err = errors.Join(err, os.Remove(write.Name())); err != nil {
		write.Close() // nothing was written
		if read != nil {
			read.Close()
		}
		return nil, nil, err
	}
	return write, read, nil
}

// A writer writes a message in the form that flags demand.
type writer struct {
	out      *bufio.Writer
	flags    Flags
	delivery *mail.Delivery
	body     bool // the header is over
	cr       bool // a CR at the end of the latest part was not written: it may belong to a line end
}

// message writes the message. Errors of out come when it is flushed.
func (w *writer) message(from io.Reader) error {
	w.head()
	in := bufio.NewReaderSize(from, lineMax)
	for start := true; ; {
		part, err := in.ReadSlice('\n')
		if len(part) > 0 {
			if err := w.line(part, start); err != nil {
				return err
			}
			start = part[len(part)-1] == '\n'
		}
		switch {
		case err == io.EOF:
			w.end(start)
			return w.out.Flush()
		case err != nil && err != bufio.ErrBufferFull:
			return readError{err}
		}
	}
}

// head writes what precedes the header.
func (w *writer) head() {
	e, first := &w.delivery.Envelope, &w.delivery.Recipients[0]
	if w.flags&FlagFrom != 0 {
		sender := string(e.Sender)
		if sender == "" {
			sender = "MAILER-DAEMON"
		}
		fmt.Fprintf(w.out, "From %s  %s\n", sender, time.Now().Format(time.ANSIC))
	}
	if w.flags&FlagReturnPath != 0 {
		fmt.Fprintf(w.out, "Return-Path: <%s>\n", e.Sender)
	}
	if w.flags&FlagOriginalTo != 0 {
		fmt.Fprintf(w.out, "X-Original-To: %s\n", smtp.OriginalRecipient(first))
	}
	if w.flags&FlagDeliveredTo != 0 {
		fmt.Fprintf(w.out, "Delivered-To: %s\n", first.Address)
	}
}

// line writes a line, or, where start is false, more of one that is long.
func (w *writer) line(part []byte, start bool) error {
	text, ended := bytes.CutSuffix(part, []byte("\n"))
	if w.cr && !(ended && len(text) == 0) {
		w.out.WriteByte('\r')
	}
	text, w.cr = bytes.CutSuffix(text, []byte("\r"))
	w.cr = w.cr && !ended
	if start && !w.body {
		if w.body = ended && len(text) == 0; w.loops(text) {
			return loopError{w.delivery.Recipients[0].Address}
		}
	}
	if start && w.flags&FlagDot != 0 && bytes.HasPrefix(text, []byte(".")) {
		w.out.WriteByte('.')
	}
	if start && w.flags&FlagQuoteFrom != 0 && bytes.HasPrefix(text, []byte("From ")) {
		w.out.WriteByte('>')
	}
	w.out.Write(text)
	if ended {
		w.out.WriteByte('\n')
	}
	return nil
}

// loops reports whether a line of the header shows that the message was delivered to the
// recipient before.
func (w *writer) loops(line []byte) bool {
	const field = "Delivered-To:"
	if w.flags&FlagDeliveredTo == 0 || len(line) < len(field) || !bytes.EqualFold(line[:len(field)], []byte(field)) {
		return false
	}
	return strings.EqualFold(strings.TrimSpace(string(line[len(field):])), string(w.delivery.Recipients[0].Address))
}

// end ends the message; start says whether its last line is complete.
func (w *writer) end(start bool) {
	if w.cr {
		w.out.WriteByte('\r')
	}
	if !start {
		w.out.WriteByte('\n')
	}
	if w.flags&FlagBlank != 0 {
		w.out.WriteByte('\n')
	}
	if w.flags&FlagDot != 0 {
		w.out.WriteString(".\n")
	}
}
