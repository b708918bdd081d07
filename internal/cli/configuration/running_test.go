package configuration

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
)

// A reload has changed what needs a restart, and the file has a new table and lacks another one: each is said in words, and what
// waits for the restart is not forgotten because the reload knows it already.
//
// Seen failing: "none -> {}", and nothing about the restart.
func TestDifference(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if strings.Contains(r.URL.Path, "reload") {
			_ = json.NewEncoder(w).Encode(admin.Reloaded{Changes: []admin.ConfigChange{{Key: "transport.slow", New: "{}"}, {Key: "transport.old", Old: "{}"}, {Key: "hostname", Old: `"a"`, New: `"b"`}}, Restart: []string{"admin_listen"}})
			return
		}
		_ = json.NewEncoder(w).Encode(admin.RunningConfiguration{Pending: []admin.ConfigChange{{Key: "admin_listen", Old: "[]", New: `["[::1]:8025"]`, Restart: true}}})
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	var out bytes.Buffer
	if err := command.Execute(t.Context(), newDiffCommand(), []string{"--socket", path}, command.Streams{In: strings.NewReader(""), Out: &out, Err: io.Discard}); err != nil {
		t.Fatal(err)
	}
	want := "  transport.slow  new\n  transport.old   removed\n  hostname        \"a\" -> \"b\"\nTakes effect when the daemon is started again: admin_listen\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
