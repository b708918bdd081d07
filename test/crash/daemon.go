package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	binary  string
	dir     string // of configuration, queue and log
	address string

	process *exec.Cmd
	ended   chan struct{} // closed when the process was waited for
	log     *os.File
}

// config is the file that the daemon reads. Times are short, because a run is;
// the small memtable makes the store write tables and clean up all the time.
func (d *daemon) config(routes string) string {
	return fmt.Sprintf(`
myhostname = "crash.test"
queue_directory = %q
listen = [%q]
minimal_backoff_time = "1s"
maximal_backoff_time = "2s"
in_flow_delay = 0
qmgr_message_active_limit = 500
qmgr_message_recipient_limit = 2000

[transport.smtp]
connection_cache_time_limit = "1s"

[spool]
memtable_size = "1M"
ballast_size = "1M"
maintenance_interval = "1s"

[routes]
%s`, d.queue(), d.address, routes)
}

func (d *daemon) queue() string      { return filepath.Join(d.dir, "queue") }
func (d *daemon) configFile() string { return filepath.Join(d.dir, "posthaste.toml") }

// newDaemon prepares a directory. Nothing runs yet.
func newDaemon(binary, dir, routes string) (*daemon, error) {
	port, err := quietPort()
	if err != nil {
		return nil, err
	}
	d := &daemon{binary: binary, dir: dir, address: fmt.Sprintf("127.0.0.1:%d", port)}
	if err := os.WriteFile(d.configFile(), []byte(d.config(routes)), 0o600); err != nil {
		return nil, err
	}
	d.log, err = os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	return d, err
}

// quietPort finds a port that is free and below those that systems give to
// outgoing connections, so that it is still free after each kill.
func quietPort() (int, error) {
	for port := 21000 + os.Getpid()%1000; port < 32000; port++ {
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, ln.Close()
		}
	}
	return 0, errors.New("no free port from 21000 to 32000")
}

func (d *daemon) start() error {
	d.process = exec.Command(d.binary, "serve", "--config", d.configFile())
	d.process.Stdout, d.process.Stderr = d.log, d.log
	if err := d.process.Start(); err != nil {
		return err
	}
	d.ended = make(chan struct{})
	go func(p *exec.Cmd, ended chan struct{}) {
		p.Wait() //nolint:errcheck // whoever waits for ended looks at ProcessState
		close(ended)
	}(d.process, d.ended)
	return nil
}

// readyMax is how long a start may take before it counts as failed.
const readyMax = 20 * time.Second

// ready waits until the daemon takes connections.
func (d *daemon) ready(ctx context.Context) error {
	for deadline := time.Now().Add(readyMax); ; {
		conn, err := net.DialTimeout("tcp", d.address, time.Second)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-d.ended:
			return d.endedByItself()
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the daemon does not listen %s after its start", readyMax)
		}
		if !pause(ctx, time.Millisecond) {
			return ctx.Err()
		}
	}
}

func (d *daemon) endedByItself() error {
	return fmt.Errorf("the daemon ended by itself: %s; its last words:\n%s", d.process.ProcessState, d.lastWords())
}

// kill kills the process, as nothing can prevent, and tells when.
func (d *daemon) kill() (time.Time, error) {
	select {
	case <-d.ended:
		return time.Time{}, d.endedByItself()
	default:
	}
	at := time.Now()
	if err := d.process.Process.Kill(); err != nil {
		return at, err
	}
	<-d.ended
	if status, ok := d.process.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		return at, d.endedByItself()
	}
	return at, nil
}

// stop asks the daemon to end, as an administrator does.
func (d *daemon) stop() error {
	if err := d.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-d.ended:
	case <-time.After(time.Minute):
		return errors.New("the daemon does not stop")
	}
	if !d.process.ProcessState.Success() {
		return d.endedByItself()
	}
	return nil
}

// abandon ends a process that may be left when the run is given up.
func (d *daemon) abandon() {
	if d.process != nil {
		d.process.Process.Kill() //nolint:errcheck // it may have ended
		<-d.ended
	}
	d.log.Close() //nolint:errcheck // nothing more is written
}

// flush makes the daemon try all deferred mail now.
func (d *daemon) flush() error {
	out, err := exec.Command(d.binary, "queue", "flush", "--config", d.configFile()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("queue flush: %w: %s", err, out)
	}
	return nil
}

// status asks the daemon what it holds.
func (d *daemon) status(ctx context.Context) (admin.Status, error) {
	c := client.New(filepath.Join(d.queue(), "admin.sock"))
	defer c.Close()
	return c.Status(ctx, 0)
}

// files counts the content files that are left in the queue directory.
func (d *daemon) files() (n int, err error) {
	err = filepath.WalkDir(filepath.Join(d.queue(), "body"), func(_ string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			n++
		}
		return err
	})
	return n, err
}

// lastWords returns the end of the log.
func (d *daemon) lastWords() string {
	const most = 4 << 10
	text, err := os.ReadFile(d.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// errors returns the first lines of the log that tell of errors, panics, races
// or corruption.
func (d *daemon) errors() ([]string, error) {
	text, err := os.ReadFile(d.log.Name())
	if err != nil {
		return nil, err
	}
	var found []string
	for line := range bytes.Lines(text) {
		if len(found) < 10 && (bytes.Contains(line, []byte("level=ERROR")) || bytes.HasPrefix(line, []byte("panic:")) ||
			bytes.HasPrefix(line, []byte("fatal error:")) || bytes.Contains(line, []byte("DATA RACE")) || bytes.Contains(line, []byte("corrupt"))) {
			found = append(found, strings.TrimSpace(string(line)))
		}
	}
	return found, nil
}
