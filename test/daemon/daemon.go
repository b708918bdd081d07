package daemon

import (
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

	"github.com/posthaste-mta/posthaste/admin/client"
)

// Config says what to run.
type Config struct {
	Binary   string // the program
	Dir      string // for its configuration, queue and log; it exists
	Hostname string
	// FirstPort is from where on a free port is looked for.
	FirstPort int
	// Descriptors is the limit of file descriptors, soft and hard; 0 is that of
	// this process.
	Descriptors int
	// Settings are lines for the top of the configuration file, and tables behind
	// them. The host name, the queue and where to listen are there already.
	Settings string
}

// A Daemon is used by one goroutine at a time.
type Daemon struct {
	// Address is where it takes mail, as host:port.
	Address string
	// Admin asks it over its socket.
	Admin *client.Client

	binary, dir string
	descriptors int
	process     *exec.Cmd
	ended       chan struct{} // closed when the process was waited for
	log         *os.File
}

// New writes the configuration. Nothing runs yet. The caller calls Abandon at the
// end.
func New(c Config) (*Daemon, error) {
	address, err := QuietAddress(c.FirstPort)
	if err != nil {
		return nil, err
	}
	d := &Daemon{binary: c.Binary, dir: c.Dir, descriptors: c.Descriptors, Address: address}
	text := fmt.Sprintf("myhostname = %q\nqueue_directory = %q\nlisten = [%q]\n%s\n", c.Hostname, d.Queue(), address, c.Settings)
	if err := os.WriteFile(d.Config(), []byte(text), 0o600); err != nil {
		return nil, err
	}
	if d.log, err = os.OpenFile(filepath.Join(c.Dir, "log"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600); err != nil {
		return nil, err
	}
	d.Admin = client.New(filepath.Join(d.Queue(), "admin.sock"))
	return d, nil
}

// QuietAddress finds a port that is free and below those that systems give to
// outgoing connections, so that it is still free after a kill.
func QuietAddress(from int) (string, error) {
	for port := from + os.Getpid()%1000; port < 32000; port++ {
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return ln.Addr().String(), ln.Close()
		}
	}
	return "", fmt.Errorf("no free port from %d to 32000", from)
}

// Queue returns the queue directory.
func (d *Daemon) Queue() string { return filepath.Join(d.dir, "queue") }

// Config returns the path of the configuration file.
func (d *Daemon) Config() string { return filepath.Join(d.dir, "posthaste.toml") }

// Submission returns the path of the socket for local programs.
func (d *Daemon) Submission() string { return filepath.Join(d.Queue(), "submit.sock") }

// Pid returns the process that was started last.
func (d *Daemon) Pid() int { return d.process.Process.Pid }

// Start starts a process and returns when it did.
func (d *Daemon) Start() (time.Time, error) {
	d.process = exec.Command(d.binary, "serve", "--config", d.Config())
	if d.descriptors > 0 {
		d.process = exec.Command("sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, d.descriptors), d.binary, "serve", "--config", d.Config())
	}
	d.process.Stdout, d.process.Stderr = d.log, d.log
	at := time.Now()
	if err := d.process.Start(); err != nil {
		return at, err
	}
	d.ended = make(chan struct{})
	go func(p *exec.Cmd, ended chan struct{}) {
		p.Wait() //nolint:errcheck // callers that wait for ended check ProcessState
		close(ended)
	}(d.process, d.ended)
	return at, nil
}

// Kill kills the process with SIGKILL and returns when. That it had ended before is
// an error.
func (d *Daemon) Kill() (time.Time, error) {
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

// stopMax is the longest time that a stop may take.
const stopMax = time.Minute

// Stop asks the process to end, as an administrator does.
func (d *Daemon) Stop() error {
	if err := d.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-d.ended:
	case <-time.After(stopMax):
		return errors.New("the daemon does not stop")
	}
	if !d.process.ProcessState.Success() {
		return d.endedByItself()
	}
	return nil
}

// StopClean stops the daemon, and returns an error if its log reports errors.
func (d *Daemon) StopClean() error {
	if err := d.Stop(); err != nil {
		return err
	}
	found, err := d.Errors()
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("its log has errors:\n%s", strings.Join(found, "\n"))
	}
	return err
}

// Abandon ends a process that may be left when the run is given up, and closes
// everything. It may be called at any time.
func (d *Daemon) Abandon() {
	if d.ended != nil {
		d.process.Process.Kill() //nolint:errcheck // it may have ended
		<-d.ended
	}
	d.Admin.Close()
	d.log.Close() //nolint:errcheck // nothing more is written
}

// Alive returns an error with the last words of the process if it has ended.
func (d *Daemon) Alive() error {
	select {
	case <-d.ended:
		return d.endedByItself()
	default:
		return nil
	}
}

func (d *Daemon) endedByItself() error {
	return fmt.Errorf("the daemon ended by itself: %s; its last words:\n%s", d.process.ProcessState, d.lastWords())
}

// lastWords returns the end of the log.
func (d *Daemon) lastWords() string {
	const most = 4 << 10
	text, err := os.ReadFile(d.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// Log returns all that the processes have logged.
func (d *Daemon) Log() (string, error) {
	text, err := os.ReadFile(d.log.Name())
	return string(text), err
}

// errorsMax bounds what Errors returns.
const errorsMax = 10

// Errors returns the first lines of the log that report errors, panics, races or
// corruption.
func (d *Daemon) Errors() ([]string, error) {
	text, err := os.ReadFile(d.log.Name())
	if err != nil {
		return nil, err
	}
	var found []string
	for line := range bytes.Lines(text) {
		if len(found) < errorsMax && alarming(line) {
			found = append(found, strings.TrimSpace(string(line)))
		}
	}
	return found, nil
}

func alarming(line []byte) bool {
	for _, sign := range []string{"level=ERROR", "DATA RACE", "corrupt"} {
		if bytes.Contains(line, []byte(sign)) {
			return true
		}
	}
	return bytes.HasPrefix(line, []byte("panic:")) || bytes.HasPrefix(line, []byte("fatal error:"))
}

// Used returns the disk space that the queue takes, without the ballast.
func (d *Daemon) Used() (octets int64, err error) {
	err = filepath.WalkDir(d.Queue(), func(_ string, e fs.DirEntry, err error) error {
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
			octets += onDisk(info)
		}
		return err
	})
	return octets, err
}

// Contents counts the content files in the queue directory.
func (d *Daemon) Contents() (n int, err error) {
	err = filepath.WalkDir(filepath.Join(d.Queue(), "body"), func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			n++
		}
		return err
	})
	return n, err
}

// Flush makes the daemon try all deferred mail now.
func (d *Daemon) Flush(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, d.binary, "queue", "flush", "--config", d.Config()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("queue flush: %w: %s", err, out)
	}
	return nil
}
