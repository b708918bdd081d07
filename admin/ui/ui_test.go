package ui

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"
)

func get(h http.Handler, method, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Each answer, whatever it is, has the policy that allows only what comes with the program.
func TestHeaders(t *testing.T) {
	h := NewHandler()
	for target, want := range map[string]int{"/": 303, "/ui": 303, "/ui/": 200, "/ui/app.js": 200, "/ui/style.css": 200, "/ui/icon.svg": 200,
		"/ui/none.js": 404, "/ui/../ui.go": 404, "/ui/static/app.js": 404, "/ui/%2e%2e/ui.go": 404, "/ui//": 404} {
		w := get(h, "GET", target)
		if w.Code != want {
			t.Errorf("%s: %d, want %d", target, w.Code, want)
		}
		policy := w.Header().Get("Content-Security-Policy")
		for _, directive := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "form-action 'none'", "base-uri 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(policy, directive) {
				t.Errorf("%s: the policy lacks %s: %s", target, directive, policy)
			}
		}
		if strings.Contains(policy, "unsafe") || w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: %v", target, w.Header())
		}
	}
	first := get(h, "GET", "/ui/app.js")
	if kind := first.Header().Get("Content-Type"); kind != "text/javascript; charset=utf-8" {
		t.Error(kind)
	}
	if again := get(h, "GET", "/ui/app.js", "If-None-Match", first.Header().Get("ETag")); again.Code != 304 || again.Body.Len() > 0 {
		t.Errorf("unchanged: %d with %d bytes", again.Code, again.Body.Len())
	}
}

// Only the pages go without a token.
func TestServes(t *testing.T) {
	for target, want := range map[string]bool{"GET /": true, "GET /ui": true, "HEAD /ui/": true, "GET /ui/app.js": true, "POST /ui/": false, "GET /v1/status": false, "GET /uix": false, "GET /metrics": false} {
		method, path, _ := strings.Cut(target, " ")
		if got := Serves(httptest.NewRequest(method, path, nil)); got != want {
			t.Errorf("%s: %v", target, got)
		}
	}
}

var (
	imported = regexp.MustCompile(`(?m)(?:from|import) "(\./[^"]+)"`)
	referred = regexp.MustCompile(`(?:href|src)="([^"#]+)"`)
	foreign  = regexp.MustCompile(`(?:https?:)?//[a-z0-9-]+\.[a-z]`)
	markup   = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|setAttribute\("style"`)
)

// The pages consist of the files here alone: what they refer to exists, nothing comes from elsewhere, and no
// markup is made from text.
func TestFilesAreComplete(t *testing.T) {
	used := map[string]bool{"index.html": true}
	err := fs.WalkDir(static, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := static.ReadFile(name)
		text := strings.ReplaceAll(string(content), "http://www.w3.org/2000/svg", "")
		for _, pattern := range []*regexp.Regexp{imported, referred} {
			for _, m := range pattern.FindAllStringSubmatch(text, -1) {
				if path.Ext(name) != ".html" && pattern == referred {
					continue
				}
				to := path.Join(path.Dir(name), m[1])
				if _, err := fs.Stat(static, to); err != nil {
					t.Errorf("%s refers to %s, which does not exist", name, m[1])
				}
				used[strings.TrimPrefix(to, "static/")] = true
			}
		}
		if found := foreign.FindString(text); found != "" {
			t.Errorf("%s refers to %q", name, found)
		}
		if found := markup.FindString(text); found != "" && path.Ext(name) == ".js" {
			t.Errorf("%s uses %s", name, found)
		}
		if path.Ext(name) == ".html" && regexp.MustCompile(`<script(?: type="module")?>|<style| style=| on[a-z]+=`).MatchString(text) {
			t.Errorf("%s has a script or a style of its own, which the policy forbids", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range NewHandler().(*handler).files {
		if !used[name] {
			t.Errorf("nothing uses %s", name)
		}
	}
}
