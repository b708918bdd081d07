package logging

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
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
