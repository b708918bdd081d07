package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/test/daemon"
	"github.com/posthaste-mta/posthaste/test/measure"
)

// recipients measures what a message with very many recipients costs, handed
// in by each of two ways.
func recipients(ctx context.Context, o options, dir string, f *measure.Figures) error {
	for _, way := range []struct {
		name   string
		handIn func(context.Context, options, *daemon.Daemon, *measure.Figures, string) error
	}{{"submission socket", bySocket}, {"sendmail -t", bySendmail}} {
		sub := dir + "/" + strings.Fields(way.name)[0]
		if err := os.Mkdir(sub, 0o700); err != nil {
			return err
		}
		if err := largeMessage(ctx, o, sub, f, "recipients, "+way.name+": ", way.handIn); err != nil {
			return err
		}
	}
	return nil
}

func largeMessage(ctx context.Context, o options, dir string, f *measure.Figures, what string, handIn func(context.Context, options, *daemon.Daemon, *measure.Figures, string) error) error {
	fmt.Printf("%sone message for %d\n", what, o.recipients)
	tally := newTally(o.recipients)
	routes, stopReceiving, err := o.receiveBulk(sink.Config{}, tally, nil)
	if err != nil {
		return err
	}
	defer stopReceiving()
	// sendmail reads no more than the daemon takes, the list of recipients included.
	d, err := o.begin(ctx, dir, fmt.Sprintf("message_size_limit = %d\n", 40*o.recipients), routes)
	if err != nil {
		return err
	}
	defer d.Abandon()
	began := time.Now()
	if err := handIn(ctx, o, d, f, what); err != nil {
		return err
	}
	accepted := time.Now()
	if err := tally.wait(ctx); err != nil {
		return err
	}
	if _, err := d.Settled(ctx, 0); err != nil {
		return err
	}
	m, err := memoryOf(d.Pid())
	if err != nil {
		return err
	}
	cpu, err := cpuOf(d.Pid())
	if err != nil {
		return err
	}
	f.Note(what+"accepted", "after %s, %.0f recipients/s", measure.Brief(accepted.Sub(began)), float64(o.recipients)/accepted.Sub(began).Seconds())
	f.Within(what+"first recipient served after that", max(0, tally.first.Sub(accepted)), time.Second)
	f.Note(what+"all served after that", "%s, %.0f recipients/s", measure.Brief(tally.last.Sub(accepted)), float64(o.recipients)/tally.last.Sub(accepted).Seconds())
	f.Note(what+"processor in all", "%.1f µs a recipient", float64(cpu.Microseconds())/float64(o.recipients))
	f.AtMost(what+"largest memory", m.peak, memoryBudget, "MB")
	tally.balance(f, what+"recipients")
	return d.StopClean()
}

func (o options) recipient(i int) mail.Address {
	return mail.Address(fmt.Sprintf("u%d@d%d.test", i, i%o.domains))
}

// bySocket speaks SMTP on the submission socket: one session, one transaction.
func bySocket(ctx context.Context, o options, d *daemon.Daemon, _ *measure.Figures, _ string) error {
	everybody := make([]mail.Address, o.recipients)
	for i := range everybody {
		everybody[i] = o.recipient(i)
	}
	return measure.SubmitOne(ctx, "unix", d.Submission(),
		feed.Message{Sender: "s@origin.test", Recipients: everybody, Content: []byte("Subject: large\r\nMessage-ID: <1>\r\n\r\nHello.\r\n")})
}

// bySendmail pipes a message whose Bcc names all recipients into the sendmail
// command.
func bySendmail(ctx context.Context, o options, d *daemon.Daemon, f *measure.Figures, what string) error {
	cmd := exec.CommandContext(ctx, o.binary, "sendmail", "--config", d.Config(), "-t", "-i", "-f", "s@origin.test")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	// What the kernel reports of a process that has ended includes what its parent
	// took when it was forked.
	w := watchMemory(ctx, cmd.Process.Pid, func() int { return 0 })
	err = errors.Join(o.writeLarge(in), in.Close())
	err = errors.Join(err, cmd.Wait())
	w.end()
	if err != nil {
		return err
	}
	f.AtMost(what+"largest memory of sendmail's own", w.largest(), 25, "MB")
	return nil
}

func (o options) writeLarge(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "From: s@origin.test\nSubject: large\nMessage-ID: <1>\nBcc: ")
	for i := range o.recipients {
		switch {
		case i == 0:
		case i%10 == 0:
			b.WriteString(",\n ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(string(o.recipient(i)))
	}
	b.WriteString("\n\nHello.\n")
	return b.Flush()
}
