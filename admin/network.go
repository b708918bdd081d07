package admin

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/admin/ui"
)

// NetworkConnections is the maximum number of open connections of one listener on the
// network. A further one replaces one that has no request under way, of the client with the
// most connections.
const NetworkConnections = 16

// A Permission is what a client on the network may do.
type Permission uint8

const (
	PermissionNone    Permission = iota // nothing
	PermissionRead                      // look at everything
	PermissionOperate                   // and give orders
)

// String returns the scope of tokens that give the permission.
func (p Permission) String() string { return [...]string{"none", "read", "operate"}[p] }

// ServeNetwork is Serve for a listener that others than the operators of this machine can
// reach. Each request needs a bearer token (RFC 6750), except those for /healthz and
// /readyz, and for the files of the dashboard, which are no secrets; authorize returns the name of a token's owner, which orders are logged with, and
// what the token allows. It is called from several goroutines. The listener has to see to
// TLS.
func (s *Server) ServeNetwork(ctx context.Context, ln net.Listener, authorize func(token string) (name string, may Permission)) error {
	d := &door{authorize: authorize, pages: noBody(ui.NewHandler()), tell: func(client string, refused int64) {
		s.log.Warn("administration: a client has no valid token", "client", client, "refused", refused)
	}}
	defer d.close()
	return s.serve(ctx, newBounded(ln, NetworkConnections), s.server(d.guard(s.Handler())))
}

// A door lets requests with tokens in.
type door struct {
	authorize func(string) (string, Permission)
	tell      func(client string, refused int64)
	pages     http.Handler // the dashboard's, which need no token

	mu      sync.Mutex
	refused int64       // requests that were refused and are not logged yet
	client  string      // of the last of them
	resting *time.Timer // runs since the last line until the next one may come; nil: one may come now
}

// tellInterval is the shortest time between two log lines about refusals: anybody can cause
// them.
const tellInterval = 10 * time.Second

// guard passes on the requests that a token allows. Connections of others are not kept open for their requests: whoever does
// not read what needs no token, such as a style sheet, would keep out those with tokens.
func (d *door) guard(next http.Handler) http.Handler {
	allowed := notQuiet(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		looks := r.Method == http.MethodGet || r.Method == http.MethodHead
		if looks && (r.URL.Path == "/healthz" || r.URL.Path == "/readyz") {
			next.ServeHTTP(w, r)
			return
		}
		if ui.Serves(r) {
			d.pages.ServeHTTP(w, r)
			return
		}
		needs := PermissionRead
		if !looks || strings.HasPrefix(r.URL.Path, "/debug/") || strings.HasPrefix(r.URL.Path, "/v1/trace/") { // a profile has parts of the memory, a trace of mail
			needs = PermissionOperate
		}
		name, may := "", PermissionNone
		token, given := bearer(r.Header)
		if token != "" {
			name, may = d.authorize(token)
		}
		if may < needs && r.ContentLength != 0 {
			w.Header().Set("Connection", "close") // or the answer would wait for the body, which may never come
		}
		switch {
		case may == PermissionNone:
			challenge := `Bearer realm="posthaste"`
			if given {
				challenge += `, error="invalid_token"`
			}
			w.Header().Set("WWW-Authenticate", challenge)
			answerProblem(w, http.StatusUnauthorized, "this needs a valid token: Authorization: Bearer TOKEN")
			d.refuse(r.RemoteAddr)
		case may < needs:
			w.Header().Set("WWW-Authenticate", `Bearer realm="posthaste", error="insufficient_scope", scope="operate"`)
			answerProblem(w, http.StatusForbidden, "the token only allows to read")
		default:
			by := "token " + name + " at " + r.RemoteAddr
			ctx := context.WithValue(r.Context(), peerKey{}, by)
			allowed.ServeHTTP(w, r.WithContext(context.WithValue(ctx, ownerKey{}, Identity{name, may.String()})))
		}
	})
}

// bearer returns the token of a request; given reports whether it tries to authenticate.
func bearer(h http.Header) (token string, given bool) {
	values := h.Values("Authorization")
	if len(values) != 1 {
		return "", len(values) > 0
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", true
	}
	return strings.TrimLeft(token, " "), true
}

// refuse counts a refusal, and logs it now or together with those of the next seconds.
func (d *door) refuse(client string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refused, d.client = d.refused+1, client
	if d.resting == nil {
		d.log()
	}
}

// log logs the refusals that are not logged yet. The caller holds mu.
func (d *door) log() {
	d.tell(d.client, d.refused)
	d.refused, d.resting = 0, time.AfterFunc(tellInterval, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.resting = nil; d.refused > 0 {
			d.log()
		}
	})
}

// close logs what is left, after the last request.
func (d *door) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refused > 0 {
		d.tell(d.client, d.refused)
		d.refused = 0
	}
	if d.resting != nil {
		d.resting.Stop()
	}
}
