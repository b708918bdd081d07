package logging

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

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
		log, closeLog := New(out, slog.LevelInfo, false)
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
		log, closeLog := New(out, slog.LevelInfo, false)
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

// Under load, lines are written ten times a second, or when 64 KiB have been gathered; a
// line after a quiet time, and the last ones, are written at once.
//
// Seen failing: with a write for each line, 1,001 instead of 11.
func TestLinesAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &countedLog{}
		log, closeLog := New(out, slog.LevelInfo, false)
		log.Info("first")
		synctest.Wait()
		if !out.has("first") {
			t.Error("a line on its own is not written at once")
		}
		for i := range 1000 {
			log.Info("next", "n", i)
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if text := fmt.Sprintf("n=%d\n", i-int(gatherTime/time.Millisecond)); i > 100 && !out.has(text) {
				t.Fatalf("%q is not written after %v", text, gatherTime)
			}
		}
		if n := out.writes.Load(); n < 10 || n > 12 {
			t.Errorf("%d writes for lines of a second", n)
		}
		time.Sleep(gatherTime)
		before := out.writes.Load()
		line := strings.Repeat("x", gatherSize/10)
		for range 100 {
			log.Info(line)
			synctest.Wait()
		}
		if n := out.writes.Load() - before; n < 10 || n > 12 {
			t.Errorf("%d writes of %d bytes at once", n, 100*len(line))
		}
		log.Info("last")
		closeLog()
		if !out.has("last") {
			t.Error("the last line is missing")
		}
	})
}

// A countedLog counts its writes.
type countedLog struct {
	slowLog
	writes atomic.Int64
}

func (l *countedLog) Write(p []byte) (int, error) {
	l.writes.Add(1)
	return l.slowLog.Write(p)
}
