package admin_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/event"
)

// A leveler notes what it is asked for.
type leveler struct{ calls []string }

func (l *leveler) LogLevel() admin.LogLevel {
	return admin.LogLevel{Level: "warn", From: "line 7", Configured: "info"}
}
func (l *leveler) SetLogLevel(level slog.Level, _ string, d time.Duration) {
	l.calls = append(l.calls, fmt.Sprint(level, " ", d))
}
func (l *leveler) ResetLogLevel(string) { l.calls = append(l.calls, "configured") }

// The level of the log is shown and set; an order that makes no sense changes nothing, and who gave one is logged.
func TestLogLevelOrders(t *testing.T) {
	l := new(leveler)
	var log strings.Builder
	a := serve(t, admintest.New(), admin.Config{LogLevel: l, Logger: event.NewStrict(&log, nil, nil)})
	if w := a.do(http.MethodGet, "/v1/log/level", ""); w.Code != http.StatusOK || strings.TrimSpace(w.Body.String()) != `{"level":"warn","from":"line 7","ordered":false,"configured":"info"}` {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for body, want := range map[string]string{`{"level":"debug","for":"1h30m"}`: "DEBUG 1h30m0s", `{"level":"info"}`: "INFO 0s", `{"level":"warn"}`: "WARN 0s", `{"level":"error"}`: "ERROR 0s", `{"level":"configured"}`: "configured",
		`{"level":"DEBUG"}`: "", `{"level":""}`: "", `{}`: "", `{"level":"debug","for":"0s"}`: "", `{"level":"debug","for":"soon"}`: "", `{"level":"configured","for":"1h"}`: ""} {
		l.calls = nil
		w := a.do(http.MethodPost, "/v1/log/level", body)
		if got := strings.Join(l.calls, ","); got != want || (w.Code == http.StatusOK) != (want != "") || want == "" && w.Code != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d, %q", body, w.Code, got)
		}
	}
	if got := log.String(); strings.Count(got, `msg=order verb="log level" by=`) != 5 || !strings.Contains(got, "value=debug for=1h30m\n") {
		t.Errorf("logged %s", got)
	}
	none := serve(t, admintest.New(), admin.Config{})
	if w := none.do(http.MethodGet, "/v1/log/level", ""); w.Code != http.StatusNotImplemented {
		t.Error(w.Code)
	}
	if w := none.do(http.MethodPost, "/v1/log/level", `{"level":"info"}`); w.Code != http.StatusNotImplemented {
		t.Error(w.Code)
	}
}

// The client passes orders on.
func TestClientSetsTheLogLevel(t *testing.T) {
	l := new(leveler)
	socket, _ := serveSocket(t, admin.Config{LogLevel: l})
	c := client.New(socket)
	defer c.Close()
	want := l.LogLevel()
	if got, err := c.LogLevel(t.Context()); err != nil || got != want {
		t.Error(got, err)
	}
	if got, err := c.SetLogLevel(t.Context(), admin.LogLevelOrder{Level: "debug", For: "1m"}); err != nil || got != want || len(l.calls) != 1 || l.calls[0] != "DEBUG 1m0s" {
		t.Error(got, err, l.calls)
	}
}
