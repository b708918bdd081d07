package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A Server answers the API's requests. Its methods may be called from any
// goroutine.
type Server struct {
	cfg     Config
	log     *slog.Logger
	store   Store
	control Control
	// scheduler is asked what mail waits for.
	scheduler Scheduler
	stopping  atomic.Bool // orders are refused
	counts    tally
	scans     chan struct{} // holds one element for each scan that goes on
	mux       *http.ServeMux
	api       huma.API
}

// New returns a server over a spool and a core, which takes orders and tells about
// itself.
func New(cfg Config, store Store, control Control, scheduler Scheduler) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.WithDefaults()
	s := &Server{cfg: cfg, log: cfg.Logger, store: store, control: control, scheduler: scheduler,
		scans: make(chan struct{}, cfg.Scans), mux: http.NewServeMux()}
	s.api = humago.New(s.mux, apiConfig())
	s.register()
	s.registerDebug()
	return s, nil
}

// Handler returns the API as a handler, for a host that has its own server.
// Requests that a web page on another site made a browser send are refused.
func (s *Server) Handler() http.Handler {
	sameOrigin := http.NewCrossOriginProtection()
	sameOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answerProblem(w, http.StatusForbidden, "a web page on another site has made a browser send this request")
	}))
	return sameOrigin.Handler(bodies(onlyOnce(known(s.mux))))
}

// onlyOnce refuses queries that give a parameter twice which takes one value: one of
// the values would be passed over.
func onlyOnce(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, values := range r.URL.Query() {
			if len(values) > 1 && name != "id" && name != "area" && name != "state" {
				answerProblem(w, http.StatusUnprocessableEntity, "validation failed",
					&huma.ErrorDetail{Location: "query." + name, Message: "it is given more than once, and takes one value", Value: clip(values[1])})
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// known answers requests for what there is not as the API answers others: the mux would
// say it in plain text.
func known(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		refused := refusal{header: w.Header(), status: http.StatusNotFound}
		answer.ServeHTTP(&refused, r)
		detail := "there is nothing at " + clip(r.URL.Path) + "; /openapi.json describes what there is"
		if allowed := w.Header().Get("Allow"); allowed != "" {
			detail = clip(r.URL.Path) + " takes " + allowed + ", and not " + clip(r.Method)
		}
		answerProblem(w, refused.status, detail)
	})
}

// A refusal takes the header and the status of an answer, and not its text.
type refusal struct {
	header http.Header
	status int
}

func (r *refusal) Header() http.Header         { return r.header }
func (r *refusal) WriteHeader(status int)      { r.status = status }
func (r *refusal) Write(p []byte) (int, error) { return len(p), nil }

const (
	bodyMax  = 256 << 10       // octets
	bodyTime = 5 * time.Second // for all of it
)

// bodies reads what comes with a request before it is handled: net/http and huma would
// wait for it without an end where it is not wanted, and in a handler the time for it
// would go on counting, and end an order that takes longer. A flush for which somebody
// gives conditions is no flush of everything.
func bodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close") // or the rest would be waited for
		if r.Method != http.MethodPost || r.URL.Path == "/v1/flush" {
			answerProblem(w, http.StatusUnprocessableEntity, "validation failed", &huma.ErrorDetail{Location: "body", Message: "this request takes none"})
			return
		}
		// The operation, which reads no body any more, ends this; a test's recorder has none.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
		body, err := io.ReadAll(io.LimitReader(r.Body, bodyMax+1))
		switch {
		case err != nil:
			answerProblem(w, http.StatusRequestTimeout, fmt.Sprintf("the body did not come to its end in %v", bodyTime))
			return
		case len(body) > bodyMax:
			answerProblem(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is too large: it has more than %d octets", bodyMax))
			return
		}
		w.Header().Del("Connection")
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// answerProblem refuses a request before the API sees it.
func answerProblem(w http.ResponseWriter, status int, detail string, errs ...*huma.ErrorDetail) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	// If the client is gone, nobody wants it.
	_ = json.NewEncoder(w).Encode(&huma.ErrorModel{Status: status, Title: http.StatusText(status), Detail: detail, Errors: errs})
}

// Serve answers requests on a listener until ctx ends; then requests under way
// may finish within Config.Grace. It closes the listener. The error is nil
// unless the listener fails.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	server := &http.Server{
		Handler:           notQuiet(s.Handler()),
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ConnContext:       withConn,
		MaxHeaderBytes:    128 << 10, // a page of IDs is 20 kB
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	ln = newBounded(ln, s.cfg.Connections)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(ln) }()
	select {
	case err := <-failed:
		return fmt.Errorf("admin: serve %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(s.cfg.Grace, 0))
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		server.Close()
	}
	<-failed
	return nil
}

// Stopping has the server refuse orders from now on, since the core starts nothing
// any more. It goes on telling what there is.
func (s *Server) Stopping() { s.stopping.Store(true) }

// refuse tells why an order is not taken, nil if it is.
func (s *Server) refuse() error {
	if !s.stopping.Load() {
		return nil
	}
	return huma.Error503ServiceUnavailable("Posthaste is stopping; give the order again when it has started")
}

// OpenAPI returns the API's description, as in openapi.json.
func (s *Server) OpenAPI() *huma.OpenAPI { return s.api.OpenAPI() }

// apiConfig leaves out what huma adds by default: a documentation page that
// loads scripts from elsewhere, and $schema fields in answers. Query parameters
// that are not known are refused, since a filter with a slip of the pen must
// not match everything.
func apiConfig() huma.Config {
	c := huma.DefaultConfig("Posthaste", "1")
	c.Info.Description = "Looks at the mail queue and changes it. Errors are problem details (RFC 9457)."
	c.CreateHooks = nil
	c.DocsPath, c.SchemasPath = "", ""
	c.RejectUnknownQueryParameters = true
	c.Formats = map[string]huma.Format{
		"application/json": {Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: unmarshalStrict},
		"json":             {Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: unmarshalStrict},
	}
	return c
}

func (s *Server) register() {
	huma.Register(s.api, operation("status", http.MethodGet, "/v1/status", "The core and the spool at a glance"), s.status)
	huma.Register(s.api, operation("list", http.MethodGet, "/v1/messages", "Messages that meet a filter",
		"Incoming and held messages are in the order of their age, deferred ones in that of their next attempt."), s.list)
	huma.Register(s.api, operation("show", http.MethodGet, "/v1/messages/{id}", "All about one message"), s.show)
	huma.Register(s.api, contentOperation(), s.content)
	huma.Register(s.api, operation("destinations", http.MethodGet, "/v1/destinations", "Destinations that the core holds, and what their mail waits for",
		"Those with the most waiting come first. A destination is known while mail for it is in core, while it is dead, and for some time after it had connections."), s.destinations)
	huma.Register(s.api, operation("destination", http.MethodGet, "/v1/destinations/{name}", "One destination with its hosts and connections"), s.destination)
	huma.Register(s.api, operation("hold", http.MethodPost, "/v1/messages/hold", "Set messages aside until they are released",
		"What is held already, but would be removed some day, is kept then. "+pageNote), s.order(verbHold))
	huma.Register(s.api, operation("release", http.MethodPost, "/v1/messages/release", "Put held messages back, due at once",
		pageNote), s.order(verbRelease))
	huma.Register(s.api, operation("drop", http.MethodPost, "/v1/messages/drop", "Remove messages without telling their senders",
		pageNote+" With conditions on recipients, only those that meet them are given up. Damaged messages are dropped only if named by ID or area."), s.order(verbDrop))
	huma.Register(s.api, operation("bounce", http.MethodPost, "/v1/messages/bounce", "Give up recipients and return the message to its sender",
		pageNote+" Only the recipients that meet the conditions are given up; a sender who asked for no reports gets none."), s.order(verbBounce))
	huma.Register(s.api, operation("retry", http.MethodPost, "/v1/messages/retry", "Try messages now", pageNote), s.order(verbRetry))
	huma.Register(s.api, operation("flush", http.MethodPost, "/v1/flush", "Try all deferred mail now"), s.flush)
}

const pageNote = "One request handles one page of messages: repeat it with cursor set to next until there is no next. " +
	"It may be repeated without harm."

func operation(id, method, path, summary string, description ...string) huma.Operation {
	o := huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary,
		MaxBodyBytes: bodyMax, BodyReadTimeout: -1, // which also ends the deadline of bodies
		Errors: []int{http.StatusUnprocessableEntity, http.StatusServiceUnavailable}}
	for _, d := range description {
		o.Description += d
	}
	if method == http.MethodPost && path != "/v1/flush" || path == "/v1/messages" {
		o.Errors = append(o.Errors, http.StatusTooManyRequests)
	}
	if path == "/v1/destinations/{name}" {
		o.Errors = append(o.Errors, http.StatusNotFound)
	}
	if path == "/v1/messages/{id}" || path == "/v1/messages/{id}/content" {
		o.Errors = append(o.Errors, http.StatusBadRequest, http.StatusNotFound)
	}
	return o
}

func contentOperation() huma.Operation {
	o := operation("content", http.MethodGet, "/v1/messages/{id}/content", "The message itself")
	o.Responses = map[string]*huma.Response{"200": {
		Description: "The message with CRLF line ends.",
		Content:     map[string]*huma.MediaType{"message/rfc822": {Schema: &huma.Schema{Type: "string"}}},
	}}
	return o
}

// admit lets a scan begin unless too many are going on.
func (s *Server) admit() (release func(), err error) {
	select {
	case s.scans <- struct{}{}:
		return func() { <-s.scans }, nil
	default:
		busy := huma.Error429TooManyRequests("others are looking through the queue; try again in a second")
		return nil, huma.ErrorWithHeaders(busy, http.Header{"Retry-After": {"1"}})
	}
}

// viewTimeout is how long a request waits for the core. It answers within
// milliseconds unless it is not running.
const viewTimeout = 5 * time.Second

// errCore tells that the core did not answer.
var errCore = errors.New("the scheduler does not answer")

func (s *Server) view(ctx context.Context, queues int) (qmgr.View, error) {
	limited, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	v, err := s.control.View(limited, queues)
	if err != nil && ctx.Err() == nil {
		return v, fmt.Errorf("%w: %w", errCore, err)
	}
	return v, err
}

// problem turns an error into what the client is told. What is nobody's
// business but the operator's is logged.
func (s *Server) problem(ctx context.Context, err error) error {
	var field *fieldError
	switch {
	case ctx.Err() != nil:
		return huma.Error503ServiceUnavailable("the request was given up")
	case errors.As(err, &field):
		return unprocessable(field.field, clip(field.value), field.err.Error())
	case errors.Is(err, ErrGone):
		return huma.Error404NotFound(ErrGone.Error())
	case errors.Is(err, ErrFull):
		return huma.NewError(http.StatusInsufficientStorage, err.Error())
	case errors.Is(err, ErrDamaged):
		return huma.Error503ServiceUnavailable(err.Error())
	case errors.Is(err, errCore):
		s.log.Error("admin: the scheduler does not answer", "error", err)
		return huma.Error503ServiceUnavailable(errCore.Error())
	}
	s.log.Error("admin: request failed", "error", err)
	return huma.Error500InternalServerError("the spool cannot be read; the log says why")
}

// parseQuery reads a filter and a cursor; where is the filter's place in the
// request.
func parseQuery(f *Filter, cursor, where string) (selector, position, error) {
	sel, err := f.parse(mail.Instant(time.Now().UnixNano()))
	from, cursorErr := parsePosition(cursor)
	if cursorErr != nil {
		cursorErr = &fieldError{"cursor", cursor, cursorErr}
	}
	err = errors.Join(err, cursorErr)
	if err == nil {
		return sel, from, nil
	}
	return sel, from, huma.Error422UnprocessableEntity("validation failed", details(err, where)...)
}

// details lists the fieldErrors that an error joins.
func details(err error, where string) []error {
	var field *fieldError
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range joined.Unwrap() {
			all = append(all, details(e, where)...)
		}
		return all
	}
	if !errors.As(err, &field) {
		return []error{err}
	}
	return []error{&huma.ErrorDetail{Location: where + "." + field.field, Message: field.err.Error(), Value: clip(field.value)}}
}
