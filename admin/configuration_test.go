package admin_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
)

// A file is the configuration of a host that reloads end with an error, or change something.
type file struct {
	err     error
	reloads int
	value   string // of every parameter; "" is "5/s"
}

func (*file) Running(changed, asJSON bool) (admin.RunningConfiguration, error) {
	return admin.RunningConfiguration{Text: fmt.Sprint(changed, asJSON)}, nil
}

func (f *file) Where(key string) (value, origin string) {
	return cmp.Or(f.value, `"5/s"`), "set in line 7"
}

func (f *file) Reload(_ context.Context, dryRun bool) (admin.Reloaded, error) {
	if !dryRun {
		f.reloads++
	}
	return admin.Reloaded{Restart: []string{"listen"}}, f.err
}

// A reload answers with what it has done, or with every mistake of the file.
func TestConfiguration(t *testing.T) {
	f := &file{}
	a := serve(t, admintest.New(), admin.Config{Configuration: f})
	for _, c := range []struct {
		err                error
		method, path, body string
		code               int
		want               string
	}{
		{nil, "GET", "/v1/configuration", "", 200, `{"text":"false false","pending":[]}`},
		{nil, "GET", "/v1/configuration?changed=true&format=json", "", 200, `"true true"`},
		{nil, "GET", "/v1/configuration?format=yaml", "", 422, "query.format"},
		{nil, "POST", "/v1/configuration/reload", `{}`, 200, `{"changes":[],"restart":["listen"]}`},
		{nil, "POST", "/v1/configuration/reload", `{"dry_run":true}`, 200, `"changes":[]`},
		{nil, "POST", "/v1/configuration/reload", `{"dry":true}`, 422, "unexpected property"},
		{&admin.RefusedConfiguration{Mistakes: []string{"line 1: a", "line 2: b"}, More: 7}, "POST", "/v1/configuration/reload", `{}`, 422, `{"message":"line 1: a"},{"message":"line 2: b"},{"message":"and more mistakes","value":7}`},
		{errors.New("port in use"), "POST", "/v1/configuration/reload", `{}`, 422, "the old one stays: port in use"},
	} {
		f.err = c.err
		if w := a.do(c.method, c.path, c.body); w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s %s: %d %s, want %d %s", c.method, c.path, c.body, w.Code, w.Body, c.code, c.want)
		}
	}
	f.err = nil
	stopping, err := admin.New(admin.Config{Configuration: f}, admintest.New(), admintest.New(), admintest.New())
	if err != nil {
		t.Fatal(err)
	}
	stopping.Stopping()
	for body, want := range map[string]int{`{}`: 503, `{"dry_run":true}`: 200} {
		r := httptest.NewRequest("POST", "/v1/configuration/reload", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		if stopping.Handler().ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s while it stops: %d %s, want %d", body, w.Code, w.Body, want)
		}
	}
	if f.reloads != 3 {
		t.Errorf("%d reloads, want 3: a dry run is none", f.reloads)
	}
	none := serve(t, admintest.New(), admin.Config{})
	for _, request := range [][2]string{{"GET", "/v1/configuration"}, {"POST", "/v1/configuration/reload"}} {
		body := ""
		if request[0] == "POST" {
			body = "{}"
		}
		if w := none.do(request[0], request[1], body); w.Code != 501 {
			t.Errorf("%s without a configuration: %d %s", request[1], w.Code, w.Body)
		}
	}
}
