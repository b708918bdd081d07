package postfix

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/human"
	"github.com/posthaste-mta/posthaste/mail"
)

// postcat stands in for Postfix's program of that name: -q takes queue IDs, and -e, -h and
// -b choose the envelope, the header and the body; without them all is shown. A message is
// in no file of its own here, so files cannot be named.
func postcat(ctx context.Context, name string, args []string, s command.Streams) exit.Code {
	o, err := getopt(args, optionSet{flags: "bdehoqrv", valued: "cs"})
	if err != nil { // as Postfix's program ends, and below
		return command.Complain(s.Err, name, exit.New(exit.Wrong, err, usageOf(name)))
	}
	var (
		v     catView
		byID  bool
		known []string
	)
	for _, opt := range o.options {
		switch opt.letter {
		case 'q':
			byID = true
		case 'e':
			v.envelope = true
		case 'h':
			v.header = true
		case 'b':
			v.body = true
		}
	}
	if !v.envelope && !v.header && !v.body {
		v.envelope, v.header, v.body = true, true, true
	}
	switch {
	case !byID:
		err = errors.New("messages are in no files of their own; name queue IDs after -q")
	case len(o.rest) == 0:
		err = errors.New("name the queue IDs of the messages")
	}
	for _, text := range o.rest {
		if _, bad := mail.ParseQueueID(text); bad != nil && err == nil {
			err = fmt.Errorf("%q is not a queue ID", human.Plain(text))
		}
		known = append(known, text)
	}
	if err != nil { // as Postfix's program ends, and below
		return command.Complain(s.Err, name, exit.New(exit.Wrong, err, usageOf(name)))
	}
	c, err := (&socket.Finder{System: true}).Dial()
	if err != nil {
		return command.Complain(s.Err, name, err)
	}
	defer c.Close()
	v.client, v.out = c, bufio.NewWriterSize(s.Out, 64<<10)
	var code exit.Code
	for _, id := range known { // a failure for one does not affect the others
		if err := errors.Join(v.show(ctx, id), v.out.Flush()); err != nil {
			command.Complain(s.Err, name, fmt.Errorf("%s: %w", id, err))
			code = exit.Wrong
		}
	}
	return code
}

// A catView writes messages in the layout of postcat.
type catView struct {
	client                 *client.Client
	out                    *bufio.Writer
	envelope, header, body bool
}

// show writes one message. The lines with asterisks come with the envelope only, so that
// "-bh" gives the message alone.
func (v *catView) show(ctx context.Context, id string) error {
	d, err := v.client.Show(ctx, id, 0, admin.RecipientsMax)
	if err != nil {
		return err
	}
	file := d.Area + "/" + id
	mark := func(what string) {
		if v.envelope {
			fmt.Fprintf(v.out, "*** %s %s ***\n", what, file)
		}
	}
	if mark("ENVELOPE RECORDS"); v.envelope {
		if err := v.records(ctx, &d); err != nil {
			return err
		}
	}
	mark("MESSAGE CONTENTS")
	if v.header || v.body {
		w := &sections{out: v.out, header: v.header, body: v.body}
		if err := v.client.Content(ctx, id, w); err != nil {
			return err
		}
	}
	mark("HEADER EXTRACTED")
	mark("MESSAGE FILE END")
	return nil
}

// records writes the envelope.
func (v *catView) records(ctx context.Context, d *admin.Detail) error {
	const size = "%16d"
	fmt.Fprintf(v.out, "message_size: "+size+size+size+size+size+size+"\n", d.Size, 0, d.Total, 0, d.Size, 0)
	at := d.Arrived.Local().Format(time.ANSIC)
	fmt.Fprintf(v.out, "message_arrival_time: %s\ncreate_time: %s\n", at, at)
	for _, a := range [...]struct{ name, value string }{
		{"rewrite_context", "local"}, {"client_address", d.ClientAddr}, {"helo_name", d.ClientHelo}, {"protocol_name", d.Protocol},
		{"class", d.Class}, {"tenant", d.Tenant}, {"flow", d.Flow}, {"envelope_id", d.EnvID}, {"ret_flags", d.Ret}, {"encoding", d.Body},
	} {
		if a.value != "" {
			fmt.Fprintf(v.out, "named_attribute: %s=%s\n", a.name, human.Plain(a.value))
		}
	}
	fmt.Fprintf(v.out, "sender: %s\n", human.Plain(d.Sender))
	for {
		for i := range d.All {
			record := "recipient"
			if r := d.All[i].Result; r != "pending" && r != "deferred" {
				record = "done_recipient"
			}
			fmt.Fprintf(v.out, "%s: %s\n", record, human.Plain(d.All[i].Address))
		}
		if d.Next == nil {
			return nil
		}
		more, err := v.client.Show(ctx, d.ID, *d.Next, admin.RecipientsMax)
		if err != nil {
			return err
		}
		d.All, d.Next = more.All, more.Next
	}
}

// Sections passes on the header or the body of a message, or both, with lines that end as
// a terminal expects. The empty line between them belongs to the body.
type sections struct {
	out          *bufio.Writer
	header, body bool
	inBody       bool
	begun        bool // the present line is not empty
	cr           bool // the last octet was a carriage return, which is not passed on yet
}

// Write implements io.Writer. Errors are those of the last flush.
func (s *sections) Write(p []byte) (int, error) {
	for _, b := range p {
		if s.cr && b != '\n' {
			s.octet('\r')
		}
		if s.cr = b == '\r'; !s.cr {
			s.octet(b)
		}
	}
	return len(p), nil
}

func (s *sections) octet(b byte) {
	if !s.inBody && b == '\n' && !s.begun {
		s.inBody = true
	}
	s.begun = b != '\n'
	if s.inBody && s.body || !s.inBody && s.header {
		s.out.WriteByte(b) // a bufio.Writer keeps its error
	}
}
