package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/posthaste-mta/posthaste/internal/event"
	"github.com/posthaste-mta/posthaste/mail"
)

// An EventFilter selects events. Conditions of different kinds must all be met, of those of one kind any. An event that lacks a
// field does not meet a condition on it.
type EventFilter struct {
	Kind      []string `query:"kind,explode" maxItems:"100" doc:"The name of the event, such as accepted, delivery, deferred, expired or feedback: the msg of its line in the log."`
	Status    []string `query:"status,explode" maxItems:"100" doc:"Of delivery: sent, deferred or bounced; of callout and feedback, theirs."`
	ID        []string `query:"id,explode" maxItems:"100" doc:"The queue ID of a message, of a report about it, or of the message that a report is about."`
	Class     []string `query:"class,explode" maxItems:"100" doc:"The class of the message. Here and below: * is any text, /…/ a regular expression (RE2), and case does not matter."`
	Tenant    []string `query:"tenant,explode" maxItems:"100" doc:"Its tenant."`
	Flow      []string `query:"flow,explode" maxItems:"100" doc:"Its flow."`
	Transport []string `query:"transport,explode" maxItems:"100" doc:"The transport."`
	Site      []string `query:"site,explode" maxItems:"100" doc:"The nexthop, as in /v1/destinations; braces and brackets around it may be left out; or a host of a site."`
	Source    []string `query:"source,explode" maxItems:"100" doc:"The source that the mail leaves from."`
	Sender    []string `query:"sender,explode" maxItems:"100" doc:"An address, @domain for a domain, or <> for the null sender."`
	Recipient []string `query:"recipient,explode" maxItems:"100" doc:"An address, or @domain for a domain."`
	Domain    []string `query:"domain,explode" maxItems:"100" doc:"The domain of a recipient; .example.net for one and its subdomains."`
}

type eventsInput struct {
	EventFilter
	Accept string `header:"Accept" doc:"With text/event-stream: as server-sent events."`
}

// eventStatuses are the words that the field status of an event may have. In feedback it has an enhanced status code.
var eventStatuses = []string{"sent", "deferred", "bounced", "deliverable", "undeliverable", "unsure", "not asked"}

// statusLetters are what these words consist of; a pattern or a code has others.
const statusLetters = " abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// A condition on an event is met if one of some fields matches.
type eventCondition struct {
	fields []string
	is     patterns
	match  func(patterns, string) bool
}

// parse returns a function that reports whether an event meets the conditions. The error joins fieldErrors.
func (f *EventFilter) parse() (func(*event.Event) bool, error) {
	var errs []error
	kinds := make(map[string]bool)
	for _, k := range f.Kind {
		if !event.Declared(k) {
			errs = append(errs, &fieldError{"kind", clip(k), errors.New("there is no such event; there are " + strings.Join(event.Names(), ", "))})
		}
		kinds[k] = true
	}
	for _, status := range f.Status {
		if word := strings.Trim(status, statusLetters) == ""; word && !slices.Contains(eventStatuses, strings.ToLower(status)) {
			errs = append(errs, &fieldError{"status", clip(status), errors.New("there is no such status; there are " + strings.Join(eventStatuses, ", "))})
		}
	}
	matchAddress := func(p patterns, address string) bool { return p.matchAddress(mail.Address(address)) }
	var all []eventCondition
	for _, c := range []struct {
		name   string
		texts  []string
		parse  func(string) (pattern, error)
		fields []string
		match  func(patterns, string) bool // nil: patterns.match
	}{
		{"status", f.Status, parseGlob, []string{"status"}, nil},
		{"id", f.ID, parseID, []string{"id", "report", "original_id"}, nil},
		{"class", f.Class, parseGlob, []string{"class"}, nil},
		{"tenant", f.Tenant, parseGlob, []string{"tenant"}, nil},
		{"flow", f.Flow, parseGlob, []string{"flow"}, nil},
		{"transport", f.Transport, parseGlob, []string{"transport"}, nil},
		{"site", f.Site, parseSite, []string{"nexthop", "site"}, patterns.matchSite},
		{"source", f.Source, parseGlob, []string{"source"}, nil},
		{"sender", f.Sender, parseSender, []string{"from", "sender"}, matchAddress},
		{"recipient", f.Recipient, parseRecipient, []string{"to", "recipient"}, matchAddress},
		{"domain", f.Domain, parseDomain, []string{"to", "recipient"}, func(p patterns, address string) bool { return p.matchDomain(mail.Address(address).Domain()) }},
	} {
		is, err := parsePatterns(c.name, c.texts, c.parse)
		if err != nil {
			errs = append(errs, err)
		}
		if len(is) > 0 {
			all = append(all, eventCondition{c.fields, is, c.match})
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return func(e *event.Event) bool {
		if len(kinds) > 0 && !kinds[e.Name] {
			return false
		}
		for i := range all {
			if !all[i].met(e) {
				return false
			}
		}
		return true
	}, nil
}

// parseID reads a queue ID, in upper or lower case, or a pattern with stars. What is neither would match nothing for ever.
func parseID(text string) (pattern, error) {
	if _, err := mail.ParseQueueID(strings.ToUpper(text)); err != nil && !strings.Contains(text, "*") {
		return pattern{}, fmt.Errorf("not a queue ID: %w", err)
	}
	return newGlob(text), nil
}

func (c *eventCondition) met(e *event.Event) bool {
	for _, name := range c.fields {
		value, has := e.Field(name)
		if !has {
			continue
		}
		if c.match == nil && c.is.match(value) || c.match != nil && c.match(c.is, value) {
			return true
		}
	}
	return false
}

const (
	// streamPatience is the time that a client has to read what it was sent, before the connection is closed.
	streamPatience = 30 * time.Second
	// streamPulse is the pause after which a stream of server-sent events has a comment, so that no proxy ends it as idle.
	streamPulse = 15 * time.Second
)

// events streams the events that meet a filter, from now on until the client goes or the server stops. Each is a line of JSON as the
// log has it ([event.Kinds]), whatever the level and the format of the log; docs/log.md lists them. With the header
// Accept: text/event-stream each of them is the data of one server-sent event (of the type "message", so that onmessage of an EventSource
// receives it), otherwise the stream is newline-delimited JSON. The first line is {"msg":"subscribed","log_schema":1,…}. A client that does not
// read as fast as events come finds {"msg":"lost","events":N,…} in their place.
func (s *Server) events(ctx context.Context, in *eventsInput) (*huma.StreamResponse, error) {
	if s.cfg.Events == nil {
		return nil, huma.Error404NotFound("there are no events here")
	}
	wants, err := in.parse()
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	first := streamLine("INFO", "subscribed", "log_schema", event.Version)
	return s.streamLines(ctx, in.Accept, first, func() (*event.Buffer, func(), error) {
		f, err := s.cfg.Events.Follow(wants)
		if err != nil {
			return nil, nil, err
		}
		return f.Buffer, f.Close, nil
	})
}

// streamLines is an answer that begins with a line, and goes on with those of the buffer that follow returns until the client goes or the
// server stops. Then the function that comes with the buffer is called. It is an error if too many clients have streams.
func (s *Server) streamLines(ctx context.Context, accept string, first []byte, follow func() (*event.Buffer, func(), error)) (*huma.StreamResponse, error) {
	release, err := s.occupy(ctx)
	if err != nil {
		return nil, err
	}
	from, end, err := follow()
	if err != nil {
		release()
		return nil, tooManyStreams()
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer release()
		defer end()
		r, w := humago.Unwrap(hc)
		out := newLineStream(w, strings.Contains(accept, "text/event-stream"))
		out.line(first)
		ctx, cancel := s.untilStop(r.Context())
		defer cancel()
		for out.flush() {
			pulse, cancel := context.WithTimeout(ctx, streamPulse)
			lines, err := from.Next(pulse)
			cancel()
			if err != nil && ctx.Err() != nil {
				return
			}
			if err != nil {
				out.pulse()
			}
			for _, l := range lines {
				if l.Lost > 0 {
					out.line(streamLine("WARN", "lost", "events", l.Lost))
				}
				out.line(l.JSON)
			}
		}
	}}, nil
}

// streamLine returns a line about a stream itself.
func streamLine(level, name, field string, value int) []byte {
	return fmt.Appendf(nil, `{"time":"%s","level":"%s","msg":"%s","%s":%d}`+"\n", time.Now().Format(time.RFC3339Nano), level, name, field, value)
}

// tooManyStreams is the error while too many clients follow something.
func tooManyStreams() error {
	busy := huma.Error429TooManyRequests("too many programs follow events or conversations; end one of them")
	return huma.ErrorWithHeaders(busy, http.Header{"Retry-After": {"10"}})
}

// occupy lets a request keep its connection for long, unless a quarter of the connections that its listener may have are used in this way:
// live streams may have half of those on the network.
func (s *Server) occupy(ctx context.Context) (release func(), err error) {
	c, ok := ctx.Value(connKey{}).(*slotted)
	if !ok {
		return func() {}, nil
	}
	b := c.of
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.streams >= max(b.most/4, 1) {
		return nil, tooManyStreams()
	}
	b.streams++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.streams--
	}, nil
}

// untilStop returns a context that also ends when the server stops.
func (s *Server) untilStop(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.streaming, cancel)
	return ctx, func() { stop(); cancel() }
}

// A lineStream is an answer without an end, of lines.
type lineStream struct {
	w    http.ResponseWriter
	to   *http.ResponseController
	sse  bool
	text []byte
}

func newLineStream(w http.ResponseWriter, sse bool) *lineStream {
	kind := "application/x-ndjson"
	if sse {
		kind = "text/event-stream"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Accel-Buffering", "no") // of a proxy that would gather lines
	return &lineStream{w: w, to: http.NewResponseController(w), sse: sse}
}

// line adds a line with its end; nil: nothing.
func (s *lineStream) line(json []byte) {
	switch {
	case json == nil:
	case s.sse:
		s.text = append(append(append(s.text, "data: "...), json...), '\n')
	default:
		s.text = append(s.text, json...)
	}
}

func (s *lineStream) pulse() {
	if s.sse {
		s.text = append(s.text, ":\n\n"...)
	}
}

// flush sends what was added. It reports whether the client is still there.
func (s *lineStream) flush() bool {
	_ = s.to.SetWriteDeadline(time.Now().Add(streamPatience)) // a test's recorder has none
	_, err := s.w.Write(s.text)
	if cap(s.text) > 64<<10 {
		s.text = nil
	}
	s.text = s.text[:0]
	if err == nil {
		err = s.to.Flush()
	}
	return err == nil
}

func eventsOperation() huma.Operation {
	return streamOperation("events", "/v1/events", "Follow what happens to messages",
		"Each event from now on is one line of JSON as in the log, until the client ends the request; docs/log.md describes them. A client that does not read fast enough finds a line with msg = lost and the number of events that it has missed. With Accept: text/event-stream each line is a server-sent event.")
}

// streamOperation is an operation whose answer is lines without an end.
func streamOperation(id, path, summary, description string) huma.Operation {
	o := operation(id, http.MethodGet, path, summary, description)
	o.Responses = map[string]*huma.Response{"200": {
		Description: "A stream without an end.",
		Content: map[string]*huma.MediaType{"application/x-ndjson": {Schema: &huma.Schema{Type: "string"}},
			"text/event-stream": {Schema: &huma.Schema{Type: "string"}}},
	}}
	o.Errors = append(o.Errors, http.StatusNotFound, http.StatusTooManyRequests)
	return o
}
