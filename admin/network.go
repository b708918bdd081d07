package admin

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// NetworkConnections is the maximum number of open connections of one listener on the
// network. One more takes the place of the oldest that has no request under way.
const NetworkConnections = 16

// A Permission is what a client on the network may do.
type Permission uint8

const (
	PermissionNone    Permission = iota // nothing
	PermissionRead                      // look at everything
	PermissionOperate                   // and give orders
)

// ServeNetwork is Serve for a listener that others than the operators of this machine can
// reach. Each request needs a bearer token (RFC 6750), except those for /healthz and
// /readyz; authorize returns the name of a token's owner, which orders are logged with, and
// what the token allows. It is called from several goroutines. The listener has to see to
// TLS.
func (s *Server) ServeNetwork(ctx context.Context, ln net.Listener, authorize func(token string) (name string, may Permission)) error {
	d := &door{authorize: authorize, tell: func(client string, refused int64) {
		s.log.Warn("administration: a client has no valid token", "client", client, "refused", refused)
	}}
	return s.serve(ctx, newBounded(ln, NetworkConnections), d.guard(s.Handler()))
}

// A door lets requests with tokens in.
type door struct {
	authorize func(string) (string, Permission)
	tell      func(client string, refused int64)

	refused atomic.Int64 // requests since told
	told    atomic.Int64 // when refusals were logged last, in Unix seconds
}

// tellInterval is the shortest time between two log lines about refusals, in seconds: anybody
// can cause them.
const tellInterval = 10

// guard passes on the requests that a token allows.
func (d *door) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		looks := r.Method == http.MethodGet || r.Method == http.MethodHead
		if looks && (r.URL.Path == "/healthz" || r.URL.Path == "/readyz") {
			next.ServeHTTP(w, r)
			return
		}
		needs := PermissionRead
		if !looks || strings.HasPrefix(r.URL.Path, "/debug/") { // a profile has parts of the memory
			needs = PermissionOperate
		}
		name, may := "", PermissionNone
		token, given := bearer(r.Header)
		if token != "" {
			name, may = d.authorize(token)
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
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), peerKey{}, by)))
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

// refuse counts a refusal, and logs refusals now and then.
func (d *door) refuse(client string) {
	n := d.refused.Add(1)
	now, told := time.Now().Unix(), d.told.Load()
	if now-told >= tellInterval && d.told.CompareAndSwap(told, now) {
		d.refused.Add(-n)
		d.tell(client, n)
	}
}
