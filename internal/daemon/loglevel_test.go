package daemon

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/configuration"
	"github.com/posthaste-mta/posthaste/internal/sink"
)

// A level that was ordered ends at its time and at a reload, unless another order has followed; each change can be read in the log,
// whatever levels it is between.
func TestLogLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // of the text: a timer writes, too
		var text bytes.Buffer
		v := new(slog.LevelVar)
		l := &logLevel{level: v, log: slog.New(slog.NewTextHandler(lockedWriter{&mu, &text}, &slog.HandlerOptions{Level: v})), where: func() string { return "line 3" }}
		begun := time.Now()
		expect := func(step string, want admin.LogLevel, until time.Duration, logged ...string) {
			t.Helper()
			synctest.Wait()
			got := l.LogLevel()
			mu.Lock()
			defer mu.Unlock()
			switch {
			case got.Until == nil && until != 0, got.Until != nil && !got.Until.Equal(begun.Add(until)):
				t.Errorf("%s: until %v", step, got.Until)
			}
			got.Until = nil
			if got != want {
				t.Errorf("%s: got %+v, want %+v", step, got, want)
			}
			if n := strings.Count(text.String(), "\n"); n != len(logged) {
				t.Errorf("%s: logged %s", step, &text)
			}
			for _, words := range logged {
				if !strings.Contains(text.String(), words) {
					t.Errorf("%s: %q was not logged: %s", step, words, &text)
				}
			}
			text.Reset()
		}
		expect("the start", admin.LogLevel{Level: "info", Configured: "info", From: "line 3"}, 0)
		l.SetLogLevel(slog.LevelDebug, "uid 0", 10*time.Minute)
		expect("an order", admin.LogLevel{Level: "debug", Configured: "info", From: "uid 0", Ordered: true}, 10*time.Minute, `level=INFO msg="log level changed" to=debug was=info by="uid 0" for=10m`)
		time.Sleep(10*time.Minute - time.Nanosecond)
		expect("before its end", admin.LogLevel{Level: "debug", Configured: "info", From: "uid 0", Ordered: true}, 10*time.Minute)
		time.Sleep(time.Nanosecond)
		expect("its end", admin.LogLevel{Level: "info", Configured: "info", From: "line 3"}, 0, `level=INFO msg="log level changed" to=info was=debug by="the end of the time"`)

		l.SetLogLevel(slog.LevelWarn, "uid 0", time.Minute)
		expect("another", admin.LogLevel{Level: "warn", Configured: "info", From: "uid 0", Ordered: true}, 11*time.Minute, `level=INFO msg="log level changed" to=warn was=info`)
		l.SetLogLevel(slog.LevelError, "uid 1", 0)
		expect("one instead of it", admin.LogLevel{Level: "error", Configured: "info", From: "uid 1", Ordered: true}, 0, `level=WARN msg="log level changed" to=error was=warn by="uid 1"`)
		time.Sleep(time.Hour)
		expect("the end of the first", admin.LogLevel{Level: "error", Configured: "info", From: "uid 1", Ordered: true}, 0)
		l.ResetLogLevel("uid 2")
		expect("its return", admin.LogLevel{Level: "info", Configured: "info", From: "line 3"}, 0, `level=INFO msg="log level changed" to=info was=error by="uid 2"`)

		l.SetLogLevel(slog.LevelError, "uid 0", time.Minute)
		expect("an order before a reload", admin.LogLevel{Level: "error", Configured: "info", From: "uid 0", Ordered: true}, 71*time.Minute, "to=error")
		l.configure(slog.LevelWarn)
		expect("a reload", admin.LogLevel{Level: "warn", Configured: "warn", From: "line 3"}, 0, `level=WARN msg="log level changed" to=warn was=error by="the configuration"`)
		l.SetLogLevel(slog.LevelWarn, "uid 0", time.Minute)
		expect("the same level", admin.LogLevel{Level: "warn", Configured: "warn", From: "uid 0", Ordered: true}, 71*time.Minute)
		l.close() // or the bubble would not end
	})
}

// A lockedWriter writes under a lock.
type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// An operator changes the level of a running daemon's log by command.
func TestLogLevelByCommand(t *testing.T) {
	t.Parallel()
	box := receive(t, sink.Config{})
	dir := t.TempDir()
	level := new(slog.LevelVar)
	level.Set(slog.LevelWarn)
	r := startWith(t, dir, "log.level = \"warn\"\n"+routes("d.test", box.address), Options{Level: level})
	say := func(args ...string) (string, error) {
		out := new(transcript)
		err := command.Execute(context.Background(), configuration.NewLogCommand(), append(args, "--queue-directory", dir), command.Streams{In: strings.NewReader(""), Out: out, Err: out})
		return out.tail(4096), err
	}
	r.until("the daemon", func() bool { _, err := say("level"); return err == nil })
	for _, c := range []struct {
		args, want string
		level      slog.Level
	}{
		{"level", "warn (log.level: set in line ", slog.LevelWarn},
		{"level debug", "debug until a reload or restart, then warn (ordered by ", slog.LevelDebug},
		{"level info --for 10m", ", then warn (ordered by ", slog.LevelInfo},
		{"level --json", `{"level":"info","from":"`, slog.LevelInfo},
		{"level configured", "warn (log.level: set in line ", slog.LevelWarn},
	} {
		if out, err := say(strings.Fields(c.args)...); err != nil || !strings.Contains(out, c.want) || level.Level() != c.level {
			t.Errorf("%s: %q, %v; the level is %s", c.args, out, err, level.Level())
		}
	}
	for _, args := range []string{"level trace", "level --for 10m", "level configured --for 10m", "level debug --for x", "level debug --for 0s"} {
		if out, err := say(strings.Fields(args)...); err == nil || level.Level() != slog.LevelWarn {
			t.Errorf("%s: %q", args, out)
		}
	}
	r.until("the lines", func() bool {
		return r.log.count("order", `verb="log level"`, "value=debug", "by=") == 1 && r.log.count("order", `verb="log level"`, "value=info", "for=10m") == 1 && r.log.count("log level changed") == 3
	})
}
