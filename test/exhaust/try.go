package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/pause"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/test/daemon"
	"github.com/posthaste-mta/posthaste/test/measure"
)

// firstPort is from where on free ports are looked for.
const firstPort = 25000

// tryMax is the longest time that everything may take for one file system.
const tryMax = 90 * time.Second

// recoveryMax is how soon mail must be taken in again when there is room. The spool
// takes none for 5 s after a write that failed.
const recoveryMax = 10 * time.Second

type options struct {
	binary, dir       string
	clients, messages int
	hold              time.Duration
}

// onSmallDisk has a trial of the program with its queue on a small file system of its own.
func (o options) onSmallDisk(ctx context.Context, dir string, trial func(ctx context.Context, d *daemon.Daemon, receiver string) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, tryMax)
	defer cancel()
	queue := filepath.Join(dir, "queue")
	if err := mount(ctx, queue); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, exec.Command("umount", queue).Run()) }()
	d, receiver, err := o.daemon(ctx, dir)
	if err != nil {
		return err
	}
	defer d.Abandon()
	return trial(ctx, d, receiver)
}

// try runs the program on a file system of which everything is used up. Its mail is to go
// to the receiver.
func (o options) try(ctx context.Context, d *daemon.Daemon, name string, eat eater, receiver string) (err error) {
	l := &load{options: o, address: d.Address}
	fed := make(chan error, 1)
	go func() { fed <- l.run(ctx) }()
	total := int64(o.clients * o.messages)
	if err := l.reached(ctx, d, total/5); err != nil {
		return err
	}
	retried := make(chan error, 1)
	retrying, stopRetrying := context.WithCancel(ctx)
	defer stopRetrying()
	go func() { retried <- retry(retrying, d) }()
	eaten, err := exhaust(ctx, filepath.Join(d.Queue(), "eaten"), eat, o.hold)
	stopRetrying()
	if err := errors.Join(err, d.Alive(), <-retried); err != nil {
		return err
	}
	during, freed := l.accepted.Load(), time.Now()
	if during == total {
		return errors.New("all messages had been accepted before there was room again")
	}
	if err := l.reached(ctx, d, during+1); err != nil {
		return err
	}
	recovered := time.Since(freed)
	if err := <-fed; err != nil {
		return errors.Join(err, d.Alive())
	}
	if recovered > recoveryMax {
		err = fmt.Errorf("it took %s to take in mail again, want at most %s", recovered, recoveryMax)
	}
	taken, lost := o.deliver(ctx, d, receiver)
	fmt.Printf("%s: %d used up for %s; %d of %d messages accepted by then, the next one %s later; turned away %d times; %d delivered, %d of them more than once\n",
		name, eaten, o.hold, during, total, recovered.Round(time.Millisecond), l.again.Load(), taken.Keys(), taken.Twice())
	return errors.Join(err, lost, complaints(d))
}

// mount mounts a file system of its own for the queue.
func mount(ctx context.Context, queue string) error {
	if err := os.MkdirAll(queue, 0o700); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "mount", "-t", "tmpfs", "-o", mountOptions, "posthaste-test", queue).CombinedOutput(); err != nil {
		return fmt.Errorf("mount: %w: %s", err, out)
	}
	return nil
}

// daemon starts the program, and returns where its mail is to go.
func (o options) daemon(ctx context.Context, dir string) (d *daemon.Daemon, receiver string, err error) {
	receiver, err = daemon.QuietAddress(firstPort + 2000)
	if err != nil {
		return nil, "", err
	}
	d, err = daemon.Begin(ctx, daemon.Config{Binary: o.binary, Dir: dir, Hostname: "exhaust.test", FirstPort: firstPort,
		Settings: fmt.Sprintf("queue_minfree = \"1M\"\nspool = {ballast_size = \"1M\", memtable_size = \"64K\", memtables = 64}\n[routes]\n\"d.test\" = \"smtp:[127.0.0.1]:%s\"\n",
			receiver[strings.LastIndexByte(receiver, ':')+1:])})
	return d, receiver, err
}

// retry has the mail in the queue tried again and again. No mail is taken in when
// nothing is left, but the store still has to record these attempts, and begins one
// log after the other.
func retry(ctx context.Context, d *daemon.Daemon) error {
	for pause.For(ctx, 20*time.Millisecond) {
		if err := d.Flush(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// deliver kills the program, starts it again, and takes all mail.
func (o options) deliver(ctx context.Context, d *daemon.Daemon, address string) (*measure.Mailbox, error) {
	box := new(measure.Mailbox)
	receiver, err := measure.Receive(sink.Config{Hostname: "sink.test", Taken: box.Take}, address)
	if err != nil {
		return box, err
	}
	defer receiver.Close() //nolint:errcheck // the mailbox has told
	if _, err := d.Kill(); err != nil {
		return box, err
	}
	if _, err := d.Start(); err != nil {
		return box, err
	}
	if _, err := d.Answered(ctx); err != nil {
		return box, err
	}
	if err := d.Flush(ctx); err != nil {
		return box, err
	}
	for want := o.clients * o.messages; box.Keys() < want; {
		if err := d.Alive(); err != nil {
			return box, err
		}
		if !pause.For(ctx, 50*time.Millisecond) {
			return box, fmt.Errorf("%d of %d messages were delivered: %w", box.Keys(), want, ctx.Err())
		}
	}
	return box, d.Stop()
}

// A load is clients that send messages.
type load struct {
	options
	address         string
	accepted, again atomic.Int64
}

// sizes of messages: most of a table is such; the last one is a file of its own.
var sizes = [...]int{2_000, 40_000, 78_000}

func (l *load) run(ctx context.Context) error {
	line := []byte("All work and no play makes Jack a dull boy. 1234567890123456\r\n")
	var all sync.WaitGroup
	for c := range l.clients {
		all.Go(func() {
			for i := range l.messages {
				m := feed.Message{Sender: "jack@origin.test", Recipients: []mail.Address{"jane@d.test"},
					Content: append(fmt.Appendf(nil, "Message-ID: <%d.%d@origin.test>\r\n\r\n", c, i), bytes.Repeat(line, sizes[(c+i)%len(sizes)]/len(line))...)}
				for !l.hand(ctx, m) {
					l.again.Add(1)
					if !pause.For(ctx, 100*time.Millisecond) {
						return
					}
				}
				l.accepted.Add(1)
			}
		})
	}
	all.Wait()
	if n, want := l.accepted.Load(), int64(l.clients*l.messages); n < want {
		return fmt.Errorf("%d of %d messages were accepted: %w", n, want, ctx.Err())
	}
	return nil
}

// hand tries to hand a message in, once. One whose fate is not known is sent again.
func (l *load) hand(ctx context.Context, m feed.Message) bool {
	c, err := feed.Dial(ctx, "tcp", l.address)
	if err != nil {
		return false
	}
	defer c.Abort()
	return c.Send(m).Fate == feed.Accepted
}

// reached waits until so many messages have been accepted.
func (l *load) reached(ctx context.Context, d *daemon.Daemon, n int64) error {
	for l.accepted.Load() < n {
		if err := d.Alive(); err != nil {
			return err
		}
		if !pause.For(ctx, time.Millisecond) {
			return fmt.Errorf("%d messages were accepted: %w", l.accepted.Load(), ctx.Err())
		}
	}
	return nil
}

// complaints looks for errors in the log that are not about the want of room.
func complaints(d *daemon.Daemon) error {
	text, err := d.Log()
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		wanting := strings.Contains(line, "no room") || strings.Contains(line, "no space left on device") || strings.Contains(line, "alarm=full")
		if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") || strings.Contains(line, "alarm=fatal") ||
			strings.Contains(line, "corrupt") || strings.Contains(line, "level=ERROR") && !wanting {
			return fmt.Errorf("the log has errors: %s", strings.TrimSpace(line))
		}
	}
	return nil
}
