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
	"syscall"
	"time"
)

// A process is a server that was started here.
type process struct {
	name  string
	cmd   *exec.Cmd
	ended chan struct{}
	log   string // path
}

// startProcess runs a command in the background, with its output in a file.
func startProcess(dir, name string, args ...string) (*process, error) {
	p := &process{name: name, cmd: exec.Command(args[0], args[1:]...), ended: make(chan struct{}), log: filepath.Join(dir, name+".out")}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p.cmd.Stdout, p.cmd.Stderr = out, out
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.cmd.Wait() //nolint:errcheck // callers that wait for ended check ProcessState
		close(p.ended)
	}()
	return p, nil
}

// startMax is the longest time that a server may take to listen, stopMax to stop: these are for
// machines that do ten other things.
const (
	startMax = time.Minute
	stopMax  = time.Minute
)

// listens waits until the process takes connections on an address.
func (p *process) listens(ctx context.Context, address string) error {
	for deadline := time.Now().Add(startMax); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		if conn, err := net.Dial("tcp", address); err == nil {
			return conn.Close()
		}
		select {
		case <-p.ended:
			return p.failed("ended: " + p.cmd.ProcessState.String())
		default:
		}
	}
	return p.failed("does not listen on " + address)
}

// stop ends the process as an administrator does, and reports whether it ended
// well.
func (p *process) stop() error {
	select {
	case <-p.ended:
		return p.failed("ended by itself: " + p.cmd.ProcessState.String())
	default:
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(stopMax):
		return errors.Join(p.failed("does not stop"), p.cmd.Process.Kill())
	}
}

func (p *process) failed(what string) error {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return fmt.Errorf("%s %s, and left no output: %w", p.name, what, err)
	}
	return fmt.Errorf("%s %s; its output ends with\n%s", p.name, what, text[max(0, len(text)-2000):])
}

// command runs a program to its end; its output is in the error if it fails.
func command(ctx context.Context, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin = bytes.NewBufferString(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", filepath.Base(args[0]), err, bytes.TrimSpace(out[max(0, len(out)-1000):]))
	}
	return string(out), nil
}
