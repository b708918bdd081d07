package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A reload that is asked for while the daemon starts, which takes seconds where there is
// something to recover, is done when it has started.
//
// Seen failing: SIGHUP ended the process then.
func TestReloadDuringStart(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "posthaste.toml")
	settings := fmt.Sprintf("myhostname = \"mail.example\"\nqueue_directory = %q\nlisten = [\"127.0.0.1:0\"]\n", filepath.Join(dir, "queue"))
	if err := os.WriteFile(path, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("posthaste", "serve", "--config", path)
	log, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	reloaded := false
	for lines := bufio.NewScanner(log); lines.Scan(); {
		said = append(said, lines.Text())
		switch {
		case len(said) == 1: // long before it takes mail
			_ = cmd.Process.Signal(syscall.SIGHUP)
		case strings.Contains(lines.Text(), "reload"):
			reloaded = true
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	if err := cmd.Wait(); err != nil || !reloaded {
		t.Errorf("%v; it said\n%s", err, strings.Join(said, "\n"))
	}
}
