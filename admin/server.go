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
	"slices"
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
	// scheduler answers what mail waits for.
	scheduler Scheduler
	stopping  atomic.Bool // orders are refused
	counts    tally
	scans     chan struct{} // holds one element for each scan in progress
	streams   chan struct{} // likewise, for each live stream
	mux       *http.ServeMux
	api       huma.API
	streaming context.Context // ends when the server stops, and with it answers without an end
	endStream context.CancelFunc
}

// New returns a server for a spool and a core; control gives orders to the core,
// scheduler asks it for its state.
func New(cfg Config, store Store, control Control, scheduler Scheduler) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.WithDefaults()
	s := &Server{cfg: cfg, log: cfg.Logger, store: store, control: control, scheduler: scheduler,
		scans: make(chan struct{}, cfg.Scans), streams: make(chan struct{}, streamsMax), mux: http.NewServeMux()}
	s.streaming, s.endStream = context.WithCancel(context.Background())
	s.api = humago.New(s.mux, apiConfig())
	s.register()
	s.registerLive()
	s.registerDebug()
	s.registerMonitoring()
	return s, nil
}

// Handler returns the API as a handler, for a host that has its own server.
// Cross-origin requests from a browser are refused.
func (s *Server) Handler() http.Handler {
	sameOrigin := http.NewCrossOriginProtection()
	sameOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answerProblem(w, http.StatusForbidden, "cross-origin request refused")
	}))
	return unkept(sameOrigin.Handler(bodies(onlyOnce(s.lists(), known(s.mux)))))
}

// unkept forbids caching of answers, in proxies and in browsers, where they would outlive the token, and their use as anything other than
// what they are.
func unkept(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// lists returns the names of the query parameters that take several values, in whatever
// request.
func (s *Server) lists() map[string]bool {
	lists := make(map[string]bool)
	for _, path := range s.api.OpenAPI().Paths {
		for _, op := range []*huma.Operation{path.Get, path.Post} {
			if op == nil {
				continue
			}
			for _, p := range op.Parameters {
				if p.In == "query" && p.Schema.Type == huma.TypeArray {
					lists[p.Name] = true
				}
			}
		}
	}
	return lists
}

// onlyOnce refuses queries that repeat a parameter that takes one value: one of the
// values would be ignored.
func onlyOnce(lists map[string]bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, values := range r.URL.Query() {
			if lists[name] && slices.Contains(values, "") { // which would be passed over, as if the condition were not there
				answerProblem(w, http.StatusUnprocessableEntity, "validation failed",
					&huma.ErrorDetail{Location: "query." + name, Message: "given with an empty value"})
				return
			}
			if len(values) > 1 && !lists[name] {
				answerProblem(w, http.StatusUnprocessableEntity, "validation failed",
					&huma.ErrorDetail{Location: "query." + name, Message: "given more than once, but takes a single value", Value: clip(values[1])})
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// known answers requests for unknown paths and methods with problem details, as the API
// does; the mux would answer in plain text.
func known(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		refused := refusal{header: w.Header(), status: http.StatusNotFound}
		answer.ServeHTTP(&refused, r)
		detail := "unknown path " + clip(r.URL.Path) + "; see /openapi.json"
		if allowed := w.Header().Get("Allow"); allowed != "" {
			detail = clip(r.URL.Path) + " allows " + allowed + ", not " + clip(r.Method)
		}
		answerProblem(w, refused.status, detail)
	})
}

// A refusal records the header and the status of an answer and discards its body.
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

// bodies reads the body of a request before it is handled: net/http and huma would
// wait forever for a body that the operation does not take, and a read deadline set in
// a handler would still run while an order is carried out, and end it. A flush with a
// body is refused: a client that sends conditions does not mean to flush everything.
func bodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close") // or the server would wait for the rest of the body
		if r.Method != http.MethodPost || r.URL.Path == "/v1/flush" {
			answerProblem(w, http.StatusUnprocessableEntity, "validation failed", &huma.ErrorDetail{Location: "body", Message: "this request takes no body"})
			return
		}
		// huma's operation resets the deadline although it reads no body; a test's recorder
		// has no deadlines.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
		body, err := io.ReadAll(io.LimitReader(r.Body, bodyMax+1))
		switch {
		case err != nil:
			answerProblem(w, http.StatusRequestTimeout, fmt.Sprintf("the body was not complete within %v", bodyTime))
			return
		case len(body) > bodyMax:
			answerProblem(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than the limit of %d bytes", bodyMax))
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
	// An error means that the client is gone.
	_ = json.NewEncoder(w).Encode(&huma.ErrorModel{Status: status, Title: http.StatusText(status), Detail: detail, Errors: errs})
}

// Serve answers requests on a listener until ctx ends; then requests under way
// may finish within Config.Grace. It closes the listener. The error is nil
// unless the listener fails.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	return s.serve(ctx, newBounded(ln, s.cfg.Connections), s.server(notQuiet(s.Handler())))
}

// server returns a server with limits on its requests.
func (s *Server) server(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ConnContext:       withConn,
		MaxHeaderBytes:    128 << 10, // a page of IDs is 20 kB
		// Or OPTIONS * would be answered without a token.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
}

// serve runs a server until ctx ends.
func (s *Server) serve(ctx context.Context, ln *bounded, server *http.Server) error {
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(ln) }()
	select {
	case err := <-failed:
		return fmt.Errorf("admin: serve %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	s.endStream()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(s.cfg.Grace, 0))
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		server.Close()
	}
	<-failed
	return nil
}

// Stopping makes the server refuse orders from now on, since the core starts no new
// deliveries. Queries are still answered.
func (s *Server) Stopping() { s.stopping.Store(true) }

// refuse returns why orders are refused, nil if they are not.
func (s *Server) refuse() error {
	if !s.stopping.Load() {
		return nil
	}
	return huma.Error503ServiceUnavailable("Posthaste is stopping; repeat the order after the restart")
}

// OpenAPI returns the API's description, as in openapi.json.
func (s *Server) OpenAPI() *huma.OpenAPI { return s.api.OpenAPI() }

// apiConfig disables what huma adds by default: a documentation page that loads
// scripts from other sites, and $schema fields in answers. Unknown query parameters
// are refused, since a misspelled filter must not match everything.
func apiConfig() huma.Config {
	c := huma.DefaultConfig("Posthaste", "1")
	c.Info.Description = "Shows and changes the mail queue. Errors are problem details (RFC 9457)."
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
	huma.Register(s.api, operation("status", http.MethodGet, "/v1/status", "Overview of the core and the spool"), s.status)
	huma.Register(s.api, operation("identity", http.MethodGet, "/v1/identity", "Who the client is, and what it may do"), s.identity)
	huma.Register(s.api, operation("list", http.MethodGet, "/v1/messages", "Messages that meet a filter",
		"Incoming and held messages are sorted by age, deferred ones by their next attempt."), s.list)
	huma.Register(s.api, operation("show", http.MethodGet, "/v1/messages/{id}", "All about one message"), s.show)
	huma.Register(s.api, contentOperation(), s.content)
	huma.Register(s.api, operation("destinations", http.MethodGet, "/v1/destinations", "Destinations in core, and why their mail waits",
		"Those with the most waiting come first. A destination is known while mail for it is in core, while it is dead, and for some time after it had connections."), s.destinations)
	huma.Register(s.api, operation("destination", http.MethodGet, "/v1/destinations/{name}", "One destination with its hosts and connections"), s.destination)
	huma.Register(s.api, operation("flows", http.MethodGet, "/v1/flows", "Flows that have mail in core or had some lately, and what they share",
		"Those with the most waiting come first. Mail that was not classified is in no flow."), s.flows)
	jobs := operation("jobs", http.MethodGet, "/v1/transports/{name}/jobs", "The jobs of a transport in the order in which they are scheduled, and which of them has preempted which",
		"Each flow has a list of its own. Of transports that are not scheduled by preemption there are no jobs.")
	jobs.Errors = append(jobs.Errors, http.StatusNotFound, http.StatusNotImplemented)
	huma.Register(s.api, jobs, s.jobs)
	huma.Register(s.api, operation("quotas", http.MethodGet, "/v1/quotas", "Quotas of classes, tenants and flows, and how much of them is used",
		"Those closest to a limit come first."), s.quotas)
	huma.Register(s.api, operation("tls-reports", http.MethodGet, "/v1/tls-reports", "Reports on TLS (TLSRPT) as they would be sent now",
		"Counts are kept until their report has been sent, or was dropped."), s.tlsReports)
	huma.Register(s.api, operation("feedback", http.MethodGet, "/v1/feedback", "Counts of reports that came back about mail",
		"Each report counts once for each recipient. Counts change nothing in the queue."), s.feedback)
	huma.Register(s.api, operation("sources", http.MethodGet, "/v1/sources", "The addresses that mail leaves from, and what they send"), s.sources)
	huma.Register(s.api, operation("warmup", http.MethodPost, "/v1/sources/{name}/warmup", "Change the progress of a source's warm-up"), s.adjustWarmup)
	huma.Register(s.api, operation("hold", http.MethodPost, "/v1/messages/hold", "Hold messages until they are released",
		"A message that is already held but would expire is then kept. "+pageNote), s.order(verbHold))
	huma.Register(s.api, operation("release", http.MethodPost, "/v1/messages/release", "Release held messages, due at once",
		pageNote), s.order(verbRelease))
	huma.Register(s.api, operation("drop", http.MethodPost, "/v1/messages/drop", "Remove messages without a report to the sender",
		pageNote+" With conditions on recipients, only matching recipients are dropped. Damaged messages are dropped only if named by ID or area."), s.order(verbDrop))
	huma.Register(s.api, operation("bounce", http.MethodPost, "/v1/messages/bounce", "Fail recipients and return the message to its sender",
		pageNote+" Only matching recipients are failed; no report is sent if the sender requested none."), s.order(verbBounce))
	huma.Register(s.api, operation("expire", http.MethodPost, "/v1/messages/expire", "Fail recipients as if the message's lifetime had ended",
		pageNote+" Only matching recipients are failed. The report to the sender quotes the last reply."), s.order(verbExpire))
	huma.Register(s.api, operation("retry", http.MethodPost, "/v1/messages/retry", "Try messages now", pageNote), s.order(verbRetry))
	reroute := operation("reroute", http.MethodPost, "/v1/messages/reroute", "Have recipients go where the configuration would not send them, or take that back",
		pageNote+" Only matching recipients are rerouted, and tried at once if they wait. The route is kept over restarts and reloads. To the transports discard and error, confirm is needed as for drop. What connections must fulfill, such as TLS, is what the configuration demands of the new nexthop, and what the sender asks for.")
	reroute.Errors = append(reroute.Errors, http.StatusNotImplemented)
	huma.Register(s.api, reroute, s.reroute)
	requeue := operation("requeue", http.MethodPost, "/v1/messages/requeue", "Have messages go through what is decided when mail is accepted once more",
		pageNote+" Sender, recipients, class, tenant and flow are decided by the rules of today. The matching recipients of a message get a new queue ID, and are tried at once unless the message is held; its age and content stay, its attempts begin anew.")
	requeue.Errors = append(requeue.Errors, http.StatusNotImplemented, http.StatusInsufficientStorage)
	huma.Register(s.api, requeue, s.requeue)
	huma.Register(s.api, operation("count", http.MethodGet, "/v1/counts", "Count messages and recipients, in groups",
		pageNote+" The counts of all pages have to be added."), s.count)
	huma.Register(s.api, operation("explain", http.MethodGet, "/v1/explain", "Why a message, a destination or a flow waits",
		"For a message in core there is one part for each of its destinations."), s.why)
	huma.Register(s.api, operation("configuration", http.MethodGet, "/v1/configuration", "The configuration in force"), s.running)
	huma.Register(s.api, operation("parameters", http.MethodGet, "/v1/configuration/parameters", "Parameters in force, and where each is set"), s.parameters)
	huma.Register(s.api, operation("reload", http.MethodPost, "/v1/configuration/reload", "Put the configuration file into force",
		"The answer comes when that is done, or could not be: then the old configuration stays in force as a whole."), s.reload)
	huma.Register(s.api, operation("suspensions", http.MethodGet, "/v1/suspensions", "What operators and rules on replies have suspended"), s.suspensions)
	huma.Register(s.api, operation("suspension", http.MethodGet, "/v1/suspensions/{id}", "One suspension"), s.suspension)
	huma.Register(s.api, operation("suspend", http.MethodPost, "/v1/suspensions", "Suspend a site, domain, destination, transport, source, tenant or class",
		"No delivery starts for it until the time is over or it is resumed; deliveries under way go on. The order is on disk when it is answered."), s.suspend)
	huma.Register(s.api, operation("resume", http.MethodPost, "/v1/suspensions/resume", "End a suspension",
		"The mail that it kept waiting is tried at once. The order is on disk when it is answered."), s.resume)
	huma.Register(s.api, operation("log-level", http.MethodGet, "/v1/log/level", "The level of the log, and where it comes from"), s.logLevel)
	huma.Register(s.api, operation("set-log-level", http.MethodPost, "/v1/log/level", "Set the level of the log",
		"It is in force at once, until the time is over, the configuration is read again, or the daemon is restarted."), s.setLogLevel)
	huma.Register(s.api, eventsOperation(), s.events)
	huma.Register(s.api, wiretapOperation(), s.watch)
	huma.Register(s.api, visitOperation(), s.watchVisits)
	huma.Register(s.api, operation("flush", http.MethodPost, "/v1/flush", "Try all deferred mail now"), s.flush)
}

const pageNote = "One request handles one page of messages: repeat it with cursor set to next until next is absent. " +
	"Requests may be repeated safely."

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
	if path == "/v1/suspensions" && method == http.MethodPost {
		o.Errors = append(o.Errors, http.StatusConflict)
	}
	if path == "/v1/suspensions/resume" || path == "/v1/suspensions/{id}" || path == "/v1/destinations/{name}" || path == "/v1/sources/{name}/warmup" {
		o.Errors = append(o.Errors, http.StatusNotFound)
	}
	if path == "/v1/messages/{id}" || path == "/v1/messages/{id}/content" {
		o.Errors = append(o.Errors, http.StatusBadRequest, http.StatusNotFound)
	}
	return o
}

func contentOperation() huma.Operation {
	o := operation("content", http.MethodGet, "/v1/messages/{id}/content", "Content of one message")
	o.Responses = map[string]*huma.Response{"200": {
		Description: "The message with CRLF line endings.",
		Content:     map[string]*huma.MediaType{"message/rfc822": {Schema: &huma.Schema{Type: "string"}}},
	}}
	return o
}

// admit lets a scan begin unless the limit of concurrent scans is reached.
func (s *Server) admit() (release func(), err error) {
	select {
	case s.scans <- struct{}{}:
		return func() { <-s.scans }, nil
	default:
		busy := huma.Error429TooManyRequests("too many queue scans in progress; try again in a second")
		return nil, huma.ErrorWithHeaders(busy, http.Header{"Retry-After": {"1"}})
	}
}

// viewTimeout limits how long a request waits for the core, which answers within
// milliseconds while it runs.
const viewTimeout = 5 * time.Second

// errCore means that the core did not answer.
var errCore = errors.New("the scheduler does not answer")

// ask asks the core, for viewTimeout at most.
func ask[T any](ctx context.Context, question func(context.Context) (T, error)) (T, error) {
	limited, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	answer, err := question(limited)
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", errCore, err)
	}
	return answer, err
}

func (s *Server) view(ctx context.Context, queues int) (qmgr.View, error) {
	return ask(ctx, func(ctx context.Context) (qmgr.View, error) { return s.control.View(ctx, queues) })
}

// problem converts an error to the client's answer. Details that only concern the
// operator are logged.
func (s *Server) problem(ctx context.Context, err error) error {
	var field *fieldError
	switch {
	case ctx.Err() != nil:
		return huma.Error503ServiceUnavailable("the request was canceled")
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
	return huma.Error500InternalServerError("cannot read the spool; see the log for the reason")
}

// parseQuery reads a filter and a cursor; where is the filter's place in the
// request.
func (s *Server) parseQuery(f *Filter, cursor, where string) (selector, position, error) {
	sel, err := f.parse(mail.Instant(time.Now().UnixNano()))
	sel.classify = s.cfg.ReplyClass
	from, cursorErr := parsePosition(cursor)
	if cursorErr != nil {
		cursorErr = &fieldError{"cursor", cursor, cursorErr}
	}
	err = errors.Join(err, cursorErr)
	if err == nil {
		return sel, from, nil
	}
	return sel, from, invalid(where, err)
}

// invalid is the answer to a request with the fieldErrors that err joins; where is the place
// of the fields.
func invalid(where string, err error) error {
	return huma.Error422UnprocessableEntity("validation failed", details(err, where)...)
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
