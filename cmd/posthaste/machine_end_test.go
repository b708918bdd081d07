package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/config"
)

// The reason for which the program ends against its will is in its log: lines
// that are still in memory are written out first.
//
// Seen failing: end without lastWords: the log was empty.
func TestLastWords(t *testing.T) {
	const how = "POSTHASTE_TEST_LAST_WORDS"
	if os.Getenv(how) != "" {
		log, closeLog := newLog(config.Log{}, os.Stderr)
		for range 1000 {
			log.Info("the disk is on fire")
		}
		machine{lastWords: closeLog}.end(int(exitIO))
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestLastWords$")
	cmd.Env = append(os.Environ(), how+"=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != int(exitIO) {
		t.Errorf("ended with %v", err)
	}
	if n := strings.Count(stderr.String(), "the disk is on fire"); n != 1000 {
		t.Errorf("%d of 1000 lines", n)
	}
}

// lastWordsOf runs a function in a process of its own, which is to end by it, and
// returns how it ended and what it wrote.
func lastWordsOf(t *testing.T, how func(log *slog.Logger, m machine)) (code int, said string) {
	t.Helper()
	const name = "POSTHASTE_TEST_LAST_WORDS_OF"
	if os.Getenv(name) != "" {
		log, closeLog := newLog(config.Log{}, os.Stderr)
		for range 1000 {
			log.Info("the disk is on fire")
		}
		how(log, machine{lastWords: closeLog})
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
	code, said := lastWordsOf(t, func(log *slog.Logger, m machine) {
		signals := make(chan os.Signal, 3)
		signals <- syscall.SIGTERM
		signals <- syscall.SIGHUP // no signal to stop
		signals <- syscall.SIGTERM
		d := &daemon{log: log, machine: m}
		d.obey(context.Background(), signals, func() { log.Info("stop was called") }, "")
	})
	if code != 128+int(syscall.SIGTERM) || strings.Count(said, "the disk is on fire") != 1000 ||
		!strings.Contains(said, "stop was called") || !strings.Contains(said, "stopping at once") {
		t.Errorf("ended with %d, %d bytes: %.300s", code, len(said), said[max(0, len(said)-300):])
	}
}

// What is in the log is written before a panic of the core ends the process.
//
// Seen failing: atPanic without lastWords: nothing of the log was written.
func TestAtPanic(t *testing.T) {
	code, said := lastWordsOf(t, func(_ *slog.Logger, m machine) {
		defer m.atPanic()
		panic("the core is on fire")
	})
	at := strings.Index(said, "panic: the core is on fire")
	if code != 2 || strings.Count(said, "the disk is on fire") != 1000 || at < 0 || strings.LastIndex(said, "the disk is on fire") > at {
		t.Errorf("ended with %d, %d bytes: %.300s", code, len(said), said[max(0, len(said)-300):])
	}
}

// A slowLog is read slowly.
type slowLog struct {
	mu   sync.Mutex
	text strings.Builder
	wait time.Duration
}

func (l *slowLog) Write(p []byte) (int, error) {
	time.Sleep(l.wait)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *slowLog) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

// The runtime ends a program without asking when it finds that all is lost, and a
// library may panic on a goroutine of its own. An error that was logged before has been
// written by then. A reader of the log that hangs costs a tenth of a second, once.
//
// Seen failing: without promptHandler, nothing had been written.
func TestErrorsAreWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &slowLog{wait: 10 * time.Millisecond}
		log, closeLog := newLog(config.Log{}, out)
		for i := range 10 {
			log.Info("a message arrived")
			text := fmt.Sprintf("fire %d", i)
			log.With("where", "disk").Error(text)
			if !out.has(text) {
				t.Fatalf("%q is not written: %s", text, &out.text)
			}
		}
		closeLog()
	})
	synctest.Test(t, func(t *testing.T) {
		out := &slowLog{wait: time.Second}
		log, closeLog := newLog(config.Log{}, out)
		begin := time.Now()
		for range 100 {
			log.Error("fire")
		}
		if took := time.Since(begin); took != flushPatience {
			t.Errorf("100 errors took %v", took)
		}
		closeLog()
	})
}
