//go:build unix

package pipe

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// doomedDir is the variable that makes a process of this test the one to be killed, with
// a directory for what it does.
const doomedDir = "POSTHASTE_PIPE_DOOMED"

// large is a message of which no pipe holds more than a part.
func large() string { return "Subject: x\r\n\r\n" + strings.Repeat("0123456789\r\n", 100000) }

// A daemon that is killed while a program runs loses the outcome, and nothing else: the
// program reads the whole message, and not the part that was written when the daemon died.
func TestKilled(t *testing.T) {
	if dir := os.Getenv(doomedDir); dir != "" {
		c := shell(`cd $DIR; echo >started; cat <go; cat >message; echo >ended`)
		c.Environment = []string{"DIR=" + dir}
		newAgent(t, c, contents{1: large()}).Deliver(context.Background(), delivery("b@x"))
		return
	}
	dir := t.TempDir()
	for _, name := range []string{"started", "go", "ended"} {
		if err := errors.Join(syscall.Mkfifo(filepath.Join(dir, name), 0o666), os.Chmod(filepath.Join(dir, name), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(dir, 0o777), os.Chmod(filepath.Dir(dir), 0o777)); err != nil {
		t.Fatal(err)
	}
	doomed := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	doomed.Env = append(os.Environ(), doomedDir+"="+dir)
	if err := doomed.Start(); err != nil {
		t.Fatal(err)
	}
	await := func(name string) { // that the program writes to a FIFO
		if _, err := os.ReadFile(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	await("started")
	doomed.Process.Kill()
	doomed.Wait() // it was killed
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0); err != nil {
		t.Fatal(err)
	}
	await("ended")
	got, err := os.ReadFile(filepath.Join(dir, "message"))
	if want := strings.ReplaceAll(large(), "\r\n", "\n"); err != nil || string(got) != want {
		t.Errorf("the program read %d octets of %d, %v", len(got), len(want), err)
	}
}
