// Package ui is the dashboard: pages for a browser, which are a client of the administration API.
//
// # Procedure
//
// The files in static are in the program as they are here, without a build step: one page, one
// style sheet, and ES modules. They contain no secrets and are served to all clients. What the pages show
// they ask the API for, with the token that its user has entered.
//
// The token is kept in sessionStorage and sent in a header, not in a cookie. A cookie would be sent to
// every port of the same host, whoever listens there, and by requests that other sites cause; the header is
// sent by the page alone. So there are no sessions on the server, and a token that is removed
// ends at once. The price is that a script in the page could read the token: the content security
// policy allows no script but the files here, no evaluation of text, and no markup from text (trusted types).
package ui

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"
)

// Path is where the pages are.
const Path = "/ui/"

//go:embed static
var static embed.FS

// policy allows what the pages need and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// A file is one of static.
type file struct {
	content []byte
	kind    string
	tag     string // ETag
}

// A handler serves the files.
type handler struct{ files map[string]file }

// NewHandler returns a handler of the paths below Path, and of /, which leads there.
func NewHandler() http.Handler {
	h := &handler{files: make(map[string]file)}
	err := fs.WalkDir(static, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := static.ReadFile(name)
		sum := sha256.Sum256(content)
		h.files[strings.TrimPrefix(name, "static/")] = file{content, kindOf(name), `"` + hex.EncodeToString(sum[:16]) + `"`}
		return err
	})
	if err != nil {
		panic(err) // the files are in the program
	}
	return h
}

// kindOf returns the media type by the extension, whatever the system's table says.
func kindOf(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".html":
		return "text/html; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return mime.TypeByExtension(path.Ext(name))
}

// Serves reports whether a request is for the pages: they are served without a token.
func Serves(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && (r.URL.Path == "/" || r.URL.Path == "/ui" || strings.HasPrefix(r.URL.Path, Path))
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	head.Set("Cache-Control", "no-cache") // revalidated by ETag: all files are of one version
	if r.URL.Path == "/" || r.URL.Path == "/ui" {
		head.Set("Location", Path)
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, Path)
	if name == "" {
		name = "index.html"
	}
	f, known := h.files[name]
	if !known {
		http.Error(w, "there is no such page", http.StatusNotFound)
		return
	}
	head.Set("Content-Type", f.kind)
	head.Set("ETag", f.tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.content))
}
