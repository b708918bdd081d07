package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/daemon/logging"
)

// The reason for which the program ends against its will is in its log: lines
// that are still in memory are written out first.
//
// Seen failing: end without LastWords: the log was empty.
func TestLastWords(t *testing.T) {
	const how = "POSTHASTE_TEST_LAST_WORDS"
	if os.Getenv(how) != "" {
		log, closeLog := logging.New(os.Stderr, slog.LevelInfo, false)
		for range 1000 {
			log.Info("the disk is on fire")
		}
		(&Options{LastWords: closeLog}).end(exitDisk)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestLastWords$")
	cmd.Env = append(os.Environ(), how+"=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != 74 {
		t.Errorf("ended with %v", err)
	}
	if n := strings.Count(stderr.String(), "the disk is on fire"); n != 1000 {
		t.Errorf("%d of 1000 lines", n)
	}
}

// lastWordsOf runs a function in a process of its own, which is to end by it, and
// returns how it ended and what it wrote.
func lastWordsOf(t *testing.T, how func(o Options)) (code int, said string) {
	t.Helper()
	const name = "POSTHASTE_TEST_LAST_WORDS_OF"
	if os.Getenv(name) != "" {
		log, closeLog := logging.New(os.Stderr, slog.LevelInfo, false)
		for range 1000 {
			log.Info("the disk is on fire")
		}
		how(Options{Log: log, LastWords: closeLog})
		os.Exit(0)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), name+"=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	var ended *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &ended) {
		t.Fatalf("ended with %v", err)
	}
	return ended.ExitCode(), stderr.String()
}

// The second signal ends the process at once, with all of its log.
//
// Seen failing: signal.Reset instead of endAtNext: nothing of the log was written.
func TestSecondSignal(t *testing.T) {
	code, said := lastWordsOf(t, func(o Options) {
		signals := make(chan os.Signal, 3)
		signals <- syscall.SIGTERM
		signals <- syscall.SIGHUP // no signal to stop
		signals <- syscall.SIGTERM
		d := &Daemon{log: o.Log, options: o}
		d.obey(context.Background(), signals, func() { o.Log.Info("stop was called") }, nil)
	})
	if code != 128+int(syscall.SIGTERM) || strings.Count(said, "the disk is on fire") != 1000 ||
		!strings.Contains(said, "stop was called") || !strings.Contains(said, "stopping at once") {
		t.Errorf("ended with %d, %d bytes: %.300s", code, len(said), said[max(0, len(said)-300):])
	}
}

// What is in the log is written before a panic of the core ends the process.
//
// Seen failing: atPanic without LastWords: nothing of the log was written.
func TestAtPanic(t *testing.T) {
	code, said := lastWordsOf(t, func(o Options) {
		defer o.atPanic()
		panic("the core is on fire")
	})
	at := strings.Index(said, "panic: the core is on fire")
	if code != 2 || strings.Count(said, "the disk is on fire") != 1000 || at < 0 || strings.LastIndex(said, "the disk is on fire") > at {
		t.Errorf("ended with %d, %d bytes: %.300s", code, len(said), said[max(0, len(said)-300):])
	}
}
