package queue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/human"
)

// An order that is interrupted, or whose daemon stops, says how much was done, and with which command it goes on.
//
// Seen failing: a signal ended the program without a word, and a lost connection said nothing about the messages before.
func TestUnfinishedOrder(t *testing.T) {
	const page = 20_000
	for _, c := range []struct {
		name string
		end  func(http.ResponseWriter) // in the third request
		want []string
	}{
		{"interrupted", func(w http.ResponseWriter) {
			_ = syscall.Kill(syscall.Getpid(), syscall.SIGINT)
			answer(w, page)
		}, []string{"stopped before the end"}},
		{"connection lost", func(w http.ResponseWriter) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close()
			}
		}, []string{"looked at 40,000 messages; those of the last request may have been changed, too"}},
		{"daemon stops", func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) },
			[]string{"looked at 40,000 messages; those of the last request may have been changed, too"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked atomic.Int32
			path := serveOrders(t, func(w http.ResponseWriter) {
				if asked.Add(1) == 3 {
					c.end(w)
				} else {
					answer(w, page)
				}
			})
			var out bytes.Buffer
			args := []string{"hold", "--socket", path, "--sender", "news o'neill@*", "--class=bulk", "--reason", "a test"}
			err := Call(context.Background(), command.Streams{In: strings.NewReader(""), Out: &out, Err: io.Discard}, &socket.Finder{}, args...)
			var coded *exit.Error
			if !errors.As(err, &coded) || coded.Code != exit.TempFail {
				t.Fatalf("got %v", err)
			}
			held := "Held " + human.Count(page*(int(asked.Load())-1), "message") + "."
			if c.name == "interrupted" {
				held = "Held " + human.Count(page*int(asked.Load()), "message") + "."
			}
			if !strings.Contains(out.String(), held) {
				t.Errorf("it says %q, want %q", out.String(), held)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want %q in it", err, want)
				}
			}
			for _, want := range []string{"queue hold ", `'--sender=news o'\''neill@*'`, " --class=bulk ", "'--reason=a test'"} {
				if !strings.Contains(coded.Hint+" ", want) {
					t.Errorf("got %q, want %q in it", coded.Hint, want)
				}
			}
		})
	}
}

func answer(w http.ResponseWriter, n int) {
	_ = json.NewEncoder(w).Encode(admin.Ordered{Matched: n, Done: n, Scanned: n, Next: "all-0-0000000000001-0"})
}

// serveOrders answers each request, and returns the path of the socket.
func serveOrders(t *testing.T, answer func(http.ResponseWriter)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "admin.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		answer(w)
	}))
	_ = s.Listener.Close()
	s.Listener = listener
	s.Start()
	t.Cleanup(s.Close)
	return path
}
