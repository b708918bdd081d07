package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
)

// A daemon is the program under test, one process after the other on the same
// queue directory.
type daemon struct {
	binary, dir, address string
	admin                *client.Client

	process *exec.Cmd
	ended   chan struct{} // closed when the process was waited for
	log     *os.File
}

// newDaemon prepares a directory. The settings are for the top of the
// configuration; routes follow. Nothing runs yet.
func newDaemon(o options, dir, settings, routes string) (*daemon, error) {
	address, err := quietAddress(22000)
	if err != nil {
		return nil, err
	}
	d := &daemon{binary: o.binary, dir: dir, address: address}
	text := fmt.Sprintf("myhostname = \"backlog.test\"\nqueue_directory = %q\nlisten = [%q]\n%s\n%s\n[routes]\n%s",
		d.queue(), d.address, o.settings, settings, routes)
	if err := os.WriteFile(d.config(), []byte(text), 0o600); err != nil {
		return nil, err
	}
	d.admin = client.New(filepath.Join(d.queue(), "admin.sock"))
	d.log, err = os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	return d, err
}

func (d *daemon) queue() string      { return filepath.Join(d.dir, "queue") }
func (d *daemon) config() string     { return filepath.Join(d.dir, "posthaste.toml") }
func (d *daemon) submission() string { return filepath.Join(d.queue(), "submit.sock") }

// quietAddress finds a port from one on that is free and below those that
// systems give to outgoing connections, so that it is still free after a kill.
func quietAddress(from int) (string, error) {
	for port := from + os.Getpid()%1000; port < 32000; port++ {
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return ln.Addr().String(), ln.Close()
		}
	}
	return "", errors.New("no free port below 32000")
}

// start starts a process and tells when it did.
func (d *daemon) start() (time.Time, error) {
	d.process = exec.Command(d.binary, "serve", "--config", d.config())
	d.process.Stdout, d.process.Stderr = d.log, d.log
	at := time.Now()
	if err := d.process.Start(); err != nil {
		return at, err
	}
	d.ended = make(chan struct{})
	go func(p *exec.Cmd, ended chan struct{}) {
		p.Wait() //nolint:errcheck // whoever waits for ended looks at ProcessState
		close(ended)
	}(d.process, d.ended)
	return at, nil
}

// readyMax is how long a start may take before it counts as failed.
const readyMax = time.Minute

// until asks again and again until there is no error.
func (d *daemon) until(ctx context.Context, ask func() error) (time.Time, error) {
	for end := time.Now().Add(readyMax); ; {
		err := ask()
		now := time.Now()
		if err == nil {
			return now, nil
		}
		select {
		case <-d.ended:
			return now, fmt.Errorf("the program ended by itself: %s; its last words:\n%s", d.process.ProcessState, d.lastWords())
		default:
		}
		if now.After(end) {
			return now, fmt.Errorf("not within %s of the start: %w", readyMax, err)
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return now, err
		}
	}
}

// greeted waits for the first SMTP greeting.
func (d *daemon) greeted(ctx context.Context) (time.Time, error) {
	return d.until(ctx, func() error {
		conn, err := net.Dial("tcp", d.address)
		if err != nil {
			return err
		}
		defer conn.Close()
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err == nil && !strings.HasPrefix(line, "220 ") {
			return fmt.Errorf("greeted with %q", line)
		}
		return err
	})
}

// answered waits for the first answer of the administration.
func (d *daemon) answered(ctx context.Context) (time.Time, error) {
	return d.until(ctx, func() error {
		_, err := d.admin.Status(ctx, 0)
		return err
	})
}

// kill kills the process, as nothing can prevent.
func (d *daemon) kill() error {
	select {
	case <-d.ended:
		return fmt.Errorf("the program had ended by itself; its last words:\n%s", d.lastWords())
	default:
	}
	if err := d.process.Process.Kill(); err != nil {
		return err
	}
	<-d.ended
	return nil
}

// stop asks the daemon to end, as an administrator does, and looks into its
// log.
func (d *daemon) stop() error {
	if err := d.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-d.ended:
	case <-time.After(time.Minute):
		return errors.New("the program does not stop")
	}
	if !d.process.ProcessState.Success() {
		return fmt.Errorf("the program ended with %s; its last words:\n%s", d.process.ProcessState, d.lastWords())
	}
	return d.alarms()
}

// abandon ends a process that may be left when the run is given up.
func (d *daemon) abandon() {
	if d.process != nil {
		d.process.Process.Kill() //nolint:errcheck // it may have ended
		<-d.ended
	}
	d.admin.Close()
	d.log.Close() //nolint:errcheck // nothing more is written
}

// settled waits until so many messages are deferred, and there are no others.
func (d *daemon) settled(ctx context.Context, deferred int) (admin.Status, error) {
	for {
		s, err := d.admin.Status(ctx, 0)
		if err != nil {
			return s, err
		}
		if s.Core.Messages == 0 && s.Spool.Incoming == 0 && s.Spool.Deferred == int64(deferred) {
			return s, nil
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return s, err
		}
	}
}

// used returns the disk space that the queue takes.
func (d *daemon) used() (octets int64, err error) {
	err = filepath.WalkDir(d.queue(), func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || e != nil && e.Name() == "ballast" {
			return nil // gone since the directory was read
		}
		if err != nil {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			octets += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return err
	})
	return octets, err
}

func (d *daemon) lastWords() string {
	const most = 4 << 10
	text, err := os.ReadFile(d.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// alarms returns the first line of the log that tells of an error.
func (d *daemon) alarms() error {
	f, err := os.Open(d.log.Name())
	if err != nil {
		return err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Bytes()
		if bytes.Contains(line, []byte("level=ERROR")) || bytes.HasPrefix(line, []byte("panic:")) || bytes.HasPrefix(line, []byte("fatal error:")) {
			return fmt.Errorf("its log tells of an error: %s", line)
		}
	}
	return nil
}

// pause returns ctx's error if that ends first.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
