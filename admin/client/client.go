package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/live"
	"github.com/posthaste-mta/posthaste/mail"
)

// A Client talks to one server. Its methods may be called from any goroutine.
type Client struct {
	server       string // the path of its socket, or its URL
	scheme, host string // of requests
	token        string // "" on a socket
	http         http.Client
}

// New returns a client for the server that listens on a Unix socket. It does not
// connect before the first request.
func New(socket string) *Client {
	var d net.Dialer
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", socket) }
	return &Client{server: socket, scheme: "http", host: "posthaste", http: http.Client{Transport: &http.Transport{DialContext: dial}}}
}

// Server returns the path of the server's socket, or its URL.
func (c *Client) Server() string { return c.server }

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// An Unreachable is the error of a request that reached no server.
type Unreachable struct {
	Server string // the path of its socket, or its URL
	Err    error
}

func (e *Unreachable) Error() string { return fmt.Sprintf("connect to %s: %v", e.Server, e.Err) }

// Unwrap returns why.
func (e *Unreachable) Unwrap() error { return e.Err }

// A Problem is the error of a request that the server refused (RFC 9457).
type Problem struct {
	Status int             `json:"status"`
	Title  string          `json:"title"`
	Detail string          `json:"detail"`
	Errors []ProblemDetail `json:"errors"`
}

// A ProblemDetail says what is wrong with one part of a request.
type ProblemDetail struct {
	Location string `json:"location"`
	Message  string `json:"message"`
}

func (p *Problem) Error() string {
	if len(p.Errors) == 0 {
		return p.Detail
	}
	var all []string
	for _, d := range p.Errors {
		where := d.Location[strings.LastIndexByte(d.Location, '.')+1:]
		all = append(all, strings.TrimPrefix(where+": "+d.Message, ": "))
	}
	return strings.Join(all, "; ")
}

// unreadMax is the maximum number of unreadable messages kept in a Partial.
const unreadMax = 100

// A Partial is the error of a list or an order that left messages out because they could
// not be read. The others were listed, or the order was carried out for them.
type Partial struct {
	Unread []admin.Unread // the first of them
	More   int            // number of others
}

func (p *Partial) Error() string {
	const most = 10
	var all []string
	for i := range p.Unread[:min(len(p.Unread), most)] {
		all = append(all, p.Unread[i].ID+": "+p.Unread[i].Error)
	}
	if more := len(p.Unread) - most + p.More; more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	return "some messages could not be read: " + strings.Join(all, "; ")
}

// Add adds unreadable messages.
func (p *Partial) Add(more ...admin.Unread) {
	n := min(len(more), unreadMax-len(p.Unread))
	p.Unread, p.More = append(p.Unread, more[:n]...), p.More+len(more)-n
}

// OrNil returns p, or nil if nothing was left out.
func (p *Partial) OrNil() error {
	if len(p.Unread) == 0 {
		return nil
	}
	return p
}

// Status returns an overview of the core and the spool, with at most destinations
// destinations of each transport.
func (c *Client) Status(ctx context.Context, destinations int) (admin.Status, error) {
	var s admin.Status
	return s, c.get(ctx, "/v1/status", url.Values{"destinations": {strconv.Itoa(destinations)}}, &s)
}

// Live returns the totals, transports, sites and flows at the last sample with their rates,
// with at most sites sites and flows flows; with trend, each site has the last minutes of
// its window.
func (c *Client) Live(ctx context.Context, sites, flows int, trend bool) (live.Sample, error) {
	values := url.Values{"sites": {strconv.Itoa(sites)}, "flows": {strconv.Itoa(flows)}}
	if trend {
		values.Set("trend", "true")
	}
	var s live.Sample
	return s, c.get(ctx, "/v1/live", values, &s)
}

// Destinations calls visit for each destination whose name matches and that is in one
// of states, or in any state if there are none; at most limit, unless that is 0. It
// returns the last page without its destinations. With eachSource there is one for each
// source of a destination.
func (c *Client) Destinations(ctx context.Context, name string, states []string, eachSource bool, limit int, visit func(*admin.Destination) error) (admin.DestinationPage, error) {
	values := url.Values{}
	if name != "" {
		values.Set("name", name)
	}
	if len(states) > 0 {
		values["state"] = states
	}
	if eachSource {
		values.Set("each_source", "true")
	}
	for left := limit; ; {
		values.Set("limit", pageSize(left, admin.DestinationsMax))
		var page admin.DestinationPage
		if err := c.get(ctx, "/v1/destinations", values, &page); err != nil {
			return page, err
		}
		for i := range page.Destinations {
			if err := visit(&page.Destinations[i]); err != nil {
				return page, err
			}
		}
		left -= len(page.Destinations)
		page.Destinations = nil
		if page.Next == "" || limit > 0 && left <= 0 {
			return page, nil
		}
		values.Set("cursor", page.Next)
	}
}

// Destination returns the details of a destination, with at most most hosts and
// connections.
func (c *Client) Destination(ctx context.Context, name string, most int) (admin.DestinationDetail, error) {
	var d admin.DestinationDetail
	return d, c.get(ctx, "/v1/destinations/"+url.PathEscape(name), url.Values{"limit": {strconv.Itoa(most)}}, &d)
}

// Flows returns the flows that match, those with the most waiting first, at most limit.
func (c *Client) Flows(ctx context.Context, of admin.FlowFilter, limit int) (admin.FlowPage, error) {
	values := url.Values{"limit": {strconv.Itoa(limit)}}
	addLists(values, map[string][]string{"class": of.Class, "tenant": of.Tenant, "flow": of.Flow})
	var page admin.FlowPage
	return page, c.get(ctx, "/v1/flows", values, &page)
}

// Quotas returns the quotas of a kind, or of all kinds for "", whose name matches one of the
// patterns, those of which the largest part is used first, at most limit. The patterns are
// those of admin.Filter; none matches all.
func (c *Client) Quotas(ctx context.Context, kind string, names []string, limit int) (admin.QuotaPage, error) {
	values := url.Values{"limit": {strconv.Itoa(limit)}}
	if kind != "" {
		values.Set("kind", kind)
	}
	addLists(values, map[string][]string{"name": names})
	var page admin.QuotaPage
	return page, c.get(ctx, "/v1/quotas", values, &page)
}

// TLSReports returns the domains of which a day ("2026-11-23", in UTC) has a report on TLS, and
// the report on one of them if domain is not "".
func (c *Client) TLSReports(ctx context.Context, day, domain string) (admin.TLSReportPage, error) {
	values := url.Values{"day": {day}}
	if domain != "" {
		values.Set("domain", domain)
	}
	var page admin.TLSReportPage
	return page, c.get(ctx, "/v1/tls-reports", values, &page)
}

// Feedback returns counts of reports since a day ("2026-11-23", in UTC; "" for all), gathered by
// class, tenant, sender, receiver or day, at most limit of them.
func (c *Client) Feedback(ctx context.Context, since, by string, limit int) (admin.FeedbackPage, error) {
	values := url.Values{"by": {by}, "limit": {strconv.Itoa(limit)}}
	if since != "" {
		values.Set("since", since)
	}
	var page admin.FeedbackPage
	return page, c.get(ctx, "/v1/feedback", values, &page)
}

// Sources returns the addresses that mail leaves from, with at most sites destinations of
// each.
func (c *Client) Sources(ctx context.Context, sites int) (admin.SourcePage, error) {
	var page admin.SourcePage
	return page, c.get(ctx, "/v1/sources", url.Values{"sites": {strconv.Itoa(sites)}}, &page)
}

// Warmup changes where a source is in its warm-up, and returns the source.
func (c *Client) Warmup(ctx context.Context, source string, o admin.WarmupOrder) (admin.Source, error) {
	var s admin.Source
	return s, c.post(ctx, "/v1/sources/"+url.PathEscape(source)+"/warmup", o, &s)
}

// Suspensions calls visit for each suspension that matches, at most limit unless that is 0. It returns the last page without its
// suspensions.
func (c *Client) Suspensions(ctx context.Context, of admin.SuspensionFilter, limit int, visit func(*admin.Suspension) error) (admin.SuspensionPage, error) {
	values := url.Values{}
	addLists(values, map[string][]string{"scope": of.Scope, "value": of.Value, "by": of.By, "rule": of.Rule, "reason": of.Reason})
	for left := limit; ; {
		values.Set("limit", pageSize(left, suspensionsAtOnce))
		var page admin.SuspensionPage
		if err := c.get(ctx, "/v1/suspensions", values, &page); err != nil {
			return page, err
		}
		for i := range page.Suspensions {
			if err := visit(&page.Suspensions[i]); err != nil {
				return page, err
			}
		}
		left -= len(page.Suspensions)
		page.Suspensions = nil
		if page.Next == "" || limit > 0 && left <= 0 {
			return page, nil
		}
		values.Set("cursor", page.Next)
	}
}

// suspensionsAtOnce is the number of suspensions on a page, each of which may have a reply of 4 KB.
const suspensionsAtOnce = 200

// Suspension returns the suspension with an ID.
func (c *Client) Suspension(ctx context.Context, id string) (admin.Suspension, error) {
	var s admin.Suspension
	return s, c.get(ctx, "/v1/suspensions/"+url.PathEscape(id), nil, &s)
}

// Suspend suspends something. When it returns nil, the order is in force and on disk.
func (c *Client) Suspend(ctx context.Context, o admin.SuspendOrder) (admin.SuspensionOrdered, error) {
	var done admin.SuspensionOrdered
	return done, c.post(ctx, "/v1/suspensions", o, &done)
}

// Resume ends a suspension.
func (c *Client) Resume(ctx context.Context, o admin.ResumeOrder) (admin.SuspensionOrdered, error) {
	var done admin.SuspensionOrdered
	return done, c.post(ctx, "/v1/suspensions/resume", o, &done)
}

// LogLevel returns the level of the log.
func (c *Client) LogLevel(ctx context.Context) (admin.LogLevel, error) {
	var level admin.LogLevel
	return level, c.get(ctx, "/v1/log/level", nil, &level)
}

// SetLogLevel sets the level of the log, and returns it.
func (c *Client) SetLogLevel(ctx context.Context, o admin.LogLevelOrder) (admin.LogLevel, error) {
	var level admin.LogLevel
	return level, c.post(ctx, "/v1/log/level", o, &level)
}

// A Query selects the messages of a list.
type Query struct {
	admin.Filter
	Recipients int // maximum number of waiting recipients shown for each message
	Limit      int // maximum number of messages; 0 means no limit
}

// List calls visit for each message that meets a query, at most once for each: a message that moves while the list is read, such
// as one that is tried and deferred again, may be on a later page again. An error of visit ends the
// list and is returned. Of what was listed only the IDs are kept, 38 MB for a million. If some messages cannot
// be read, the others are listed and the error is a Partial.
func (c *Client) List(ctx context.Context, q Query, visit func(*admin.Summary) error) error {
	var partial Partial
	values := filterValues(&q.Filter)
	values.Set("recipients", strconv.Itoa(q.Recipients))
	listed := make(map[mail.QueueID]struct{})
	for left := q.Limit; ; {
		values.Set("limit", pageSize(left, admin.MessagesMax))
		var page admin.Page
		if err := c.get(ctx, "/v1/messages", values, &page); err != nil {
			return err
		}
		for i := range page.Messages {
			m := &page.Messages[i]
			if id, err := mail.ParseQueueID(m.ID); err == nil {
				if _, again := listed[id]; again {
					continue
				}
				listed[id] = struct{}{}
			}
			if err := visit(m); err != nil {
				return err
			}
			left--
		}
		partial.Add(page.Unread...)
		if page.Next == "" || q.Limit > 0 && left <= 0 {
			return partial.OrNil()
		}
		values.Set("cursor", page.Next)
	}
}

// pageSize returns the size of the next page if left more items are wanted, or all if
// that is 0.
func pageSize(left, most int) string {
	if left > 0 {
		most = min(most, left)
	}
	return strconv.Itoa(most)
}

func filterValues(f *admin.Filter) url.Values {
	v := url.Values{}
	addLists(v, map[string][]string{"id": f.IDs, "area": f.Areas, "class": f.Class, "tenant": f.Tenant, "flow": f.Flow, "sender": f.Sender,
		"recipient": f.Recipient, "domain": f.Domain, "error": f.Error, "reply_class": f.ReplyClass, "site": f.Site, "host": f.Host, "source": f.Source})
	for name, value := range map[string]string{"older": f.Older, "younger": f.Younger, "larger": f.Larger, "smaller": f.Smaller} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if f.Damaged {
		v.Set("damaged", "true")
	}
	return v
}

// addLists adds the lists that are not empty to the values of a query.
func addLists(v url.Values, lists map[string][]string) {
	for name, values := range lists {
		if len(values) > 0 {
			v[name] = values
		}
	}
}

// Show returns the details of a message, with at most max recipients from index
// from on.
func (c *Client) Show(ctx context.Context, id string, from uint32, max int) (admin.Detail, error) {
	var d admin.Detail
	values := url.Values{"from": {strconv.FormatUint(uint64(from), 10)}, "limit": {strconv.Itoa(max)}}
	return d, c.get(ctx, "/v1/messages/"+url.PathEscape(id), values, &d)
}

// Content writes a message as it is on disk.
func (c *Client) Content(ctx context.Context, id string, w io.Writer) error {
	resp, err := c.do(ctx, http.MethodGet, "/v1/messages/"+url.PathEscape(id)+"/content", nil, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(w, resp.Body); err != nil {
		return fmt.Errorf("read content of %s: %w", id, err)
	}
	return nil
}

// Events calls visit with each event from now on that meets a filter, a line of JSON without its end that is valid during the call. It returns
// when ctx ends or the server stops, without an error then, or with that of visit.
func (c *Client) Events(ctx context.Context, of admin.EventFilter, visit func(line []byte) error) error {
	values := url.Values{}
	addLists(values, map[string][]string{"kind": of.Kind, "status": of.Status, "id": of.ID, "class": of.Class, "tenant": of.Tenant, "flow": of.Flow,
		"transport": of.Transport, "site": of.Site, "source": of.Source, "sender": of.Sender, "recipient": of.Recipient, "domain": of.Domain})
	return c.follow(ctx, "/v1/events", values, visit)
}

// Watch calls visit with each line of what connections to receivers say that meet a filter (wiretap.Record as JSON); otherwise it is as Events.
func (c *Client) Watch(ctx context.Context, of admin.WiretapFilter, visit func(line []byte) error) error {
	values := url.Values{"count": {strconv.Itoa(of.Count)}, "lines": {strconv.Itoa(of.Lines)}}
	addLists(values, map[string][]string{"site": of.Site, "host": of.Host, "source": of.Source, "transport": of.Transport})
	return c.follow(ctx, "/v1/trace/smtp", values, visit)
}

// WatchVisits calls visit with each line of what clients' sessions say that meet a filter; otherwise it is as Watch.
func (c *Client) WatchVisits(ctx context.Context, of admin.VisitFilter, visit func(line []byte) error) error {
	values := url.Values{"count": {strconv.Itoa(of.Count)}, "lines": {strconv.Itoa(of.Lines)}}
	addLists(values, map[string][]string{"listener": of.Listener, "client": of.Client, "sender": of.Sender, "recipient": of.Recipient})
	return c.follow(ctx, "/v1/trace/smtp/incoming", values, visit)
}

// streamLineMax is the length of the longest line of a stream.
const streamLineMax = 4 << 20

// follow reads a stream of lines until it ends.
func (c *Client) follow(ctx context.Context, path string, query url.Values, visit func(line []byte) error) error {
	resp, err := c.do(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, streamLineMax)
	for lines.Scan() {
		if err := visit(lines.Bytes()); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil && ctx.Err() == nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("the daemon was killed, or the connection to it was lost: read %s: %w", path, err)
		}
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// A Verb is an order for messages.
type Verb string

// The verbs of the API.
const (
	Hold    Verb = "hold"
	Release Verb = "release"
	Drop    Verb = "drop"
	Bounce  Verb = "bounce"
	Expire  Verb = "expire"
	Retry   Verb = "retry"
	Reroute Verb = "reroute"
	Requeue Verb = "requeue"
)

// ErrStopped means that an order was stopped before its end.
var ErrStopped = errors.New("stopped before the end")

// Order gives an order for all messages that it applies to, page by page. After
// each page it calls progress, which may be nil, with the totals so far. On an
// error it returns what was done before.
func (c *Client) Order(ctx context.Context, v Verb, o admin.Order, progress func(*admin.Ordered)) (admin.Ordered, error) {
	return c.OrderUntil(ctx, nil, v, o, progress)
}

// OrderUntil is Order, which returns ErrStopped after the request under way when stop is closed. Unlike the end of the context, that
// leaves no doubt about what was done.
func (c *Client) OrderUntil(ctx context.Context, stop <-chan struct{}, v Verb, o admin.Order, progress func(*admin.Ordered)) (admin.Ordered, error) {
	return c.order(ctx, stop, v, o, func(o *admin.Order) any { return o }, progress)
}

// Reroute is OrderUntil for a reroute; stop may be nil.
func (c *Client) Reroute(ctx context.Context, stop <-chan struct{}, r admin.RerouteOrder, progress func(*admin.Ordered)) (admin.Ordered, error) {
	body := func(o *admin.Order) any {
		r.Order = *o
		return &r
	}
	return c.order(ctx, stop, Reroute, r.Order, body, progress)
}

// Requeue is OrderUntil for a requeue; stop may be nil.
func (c *Client) Requeue(ctx context.Context, stop <-chan struct{}, r admin.RequeueOrder, progress func(*admin.Ordered)) (admin.Ordered, error) {
	body := func(o *admin.Order) any {
		r.Order = *o
		return &r
	}
	return c.order(ctx, stop, Requeue, r.Order, body, progress)
}

// order gives an order; body returns the request for a page of it.
func (c *Client) order(ctx context.Context, stop <-chan struct{}, v Verb, o admin.Order, body func(*admin.Order) any, progress func(*admin.Ordered)) (admin.Ordered, error) {
	var total sum
	if o.Filter == nil || len(o.Filter.IDs) == 0 {
		err := c.orderPages(ctx, stop, v, o, body, &total, progress)
		return total.Ordered, cmp.Or(err, total.partial.OrNil())
	}
	filter := *o.Filter
	o.Filter = &filter
	for ids := range slices.Chunk(filter.IDs, admin.MessagesMax) {
		if err := stopped(stop); err != nil {
			return total.Ordered, err
		}
		filter.IDs = ids
		if err := c.orderPages(ctx, stop, v, o, body, &total, progress); err != nil {
			return total.Ordered, err
		}
	}
	return total.Ordered, total.partial.OrNil()
}

func stopped(stop <-chan struct{}) error {
	select {
	case <-stop:
		return ErrStopped
	default:
		return nil
	}
}

// orderPages gives an order page by page.
func (c *Client) orderPages(ctx context.Context, stop <-chan struct{}, v Verb, o admin.Order, body func(*admin.Order) any, total *sum, progress func(*admin.Ordered)) error {
	for {
		var page admin.Ordered
		if err := c.post(ctx, "/v1/messages/"+string(v), body(&o), &page); err != nil {
			return err
		}
		total.add(&page)
		if progress != nil {
			progress(&total.Ordered)
		}
		if page.Next == "" {
			return nil
		}
		o.Cursor = page.Next
		if o.Confirm > 0 {
			if o.Confirm -= page.Matched; o.Confirm <= 0 {
				return nil
			}
		}
		if err := stopped(stop); err != nil {
			return err
		}
	}
}

// Flush tries all deferred mail now.
func (c *Client) Flush(ctx context.Context) (admin.Flushed, error) {
	var f admin.Flushed
	return f, c.post(ctx, "/v1/flush", nil, &f)
}

// Count counts what meets the conditions, in groups by a property unless by is "", and calls
// progress, which may be nil, with the totals after each page. At most groupsKept groups are
// kept; the others are added up in Other.
func (c *Client) Count(ctx context.Context, f admin.Filter, by string, progress func(*admin.Count)) (admin.Count, error) {
	const groupsKept = 100_000
	var (
		all     admin.Count
		partial Partial
	)
	groups := make(map[string]*admin.Group)
	add := func(one admin.Group) {
		g := groups[one.Value]
		if g == nil && len(groups) < groupsKept {
			g = &admin.Group{Value: one.Value}
			groups[one.Value] = g
		}
		if g == nil {
			if all.Other == nil {
				all.Other = &admin.Group{}
			}
			g = all.Other
		}
		g.Add(one)
	}
	values := filterValues(&f)
	if by != "" {
		values.Set("by", by)
	}
	for {
		var page admin.Count
		if err := c.get(ctx, "/v1/counts", values, &page); err != nil {
			return all, err
		}
		all.Messages, all.Recipients, all.Scanned = all.Messages+page.Messages, all.Recipients+page.Recipients, all.Scanned+page.Scanned
		for _, g := range page.Groups {
			add(g)
		}
		if page.Other != nil {
			if all.Other == nil {
				all.Other = &admin.Group{}
			}
			all.Other.Add(*page.Other)
		}
		partial.Add(page.Unread...)
		if progress != nil {
			progress(&all)
		}
		if page.Next == "" {
			break
		}
		values.Set("cursor", page.Next)
	}
	for _, g := range groups {
		all.Groups = append(all.Groups, *g)
	}
	slices.SortFunc(all.Groups, admin.CompareGroups)
	return all, partial.OrNil()
}

// Explain says why a message waits, or one recipient of it; or a destination, or the first
// flow whose name matches. One of id, destination and flow is given.
func (c *Client) Explain(ctx context.Context, id, recipient, destination, flow string) (admin.Explanation, error) {
	values := url.Values{}
	for name, text := range map[string]string{"id": id, "recipient": recipient, "destination": destination, "flow": flow} {
		if text != "" {
			values.Set(name, text)
		}
	}
	var x admin.Explanation
	return x, c.get(ctx, "/v1/explain", values, &x)
}

// Configuration returns the configuration in force, as TOML or JSON; with changed, without
// parameters that have their defaults.
func (c *Client) Configuration(ctx context.Context, changed, asJSON bool) (admin.RunningConfiguration, error) {
	values := url.Values{}
	if changed {
		values.Set("changed", "true")
	}
	if asJSON {
		values.Set("format", "json")
	}
	var r admin.RunningConfiguration
	return r, c.get(ctx, "/v1/configuration", values, &r)
}

// Reload has the daemon read its configuration file again and waits for the result; with
// dryRun it only returns what would change.
func (c *Client) Reload(ctx context.Context, dryRun bool) (admin.Reloaded, error) {
	var done admin.Reloaded
	return done, c.post(ctx, "/v1/configuration/reload", map[string]bool{"dry_run": dryRun}, &done)
}

func (c *Client) get(ctx context.Context, path string, query url.Values, answer any) error {
	return c.call(ctx, http.MethodGet, path, query, nil, answer)
}

func (c *Client) post(ctx context.Context, path string, body, answer any) error {
	var octets []byte
	if body != nil {
		var err error
		if octets, err = json.Marshal(body); err != nil {
			return fmt.Errorf("encode the request: %w", err)
		}
	}
	return c.call(ctx, http.MethodPost, path, nil, octets, answer)
}

func (c *Client) call(ctx context.Context, method, path string, query url.Values, body []byte, answer any) error {
	resp, err := c.do(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(answer); err != nil {
		return fmt.Errorf("read the answer to %s %s: %w", method, path, err)
	}
	return nil
}

// busyMax is the maximum number of repetitions of a request that was refused with
// 429.
const busyMax = 30

// do returns the answer to a request if its status is 2xx.
func (c *Client) do(ctx context.Context, method, path string, query url.Values, body []byte) (*http.Response, error) {
	for busy := 0; ; busy++ {
		resp, err := c.once(ctx, method, path, query, body)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode < 300 {
			return resp, nil
		}
		problem := readProblem(resp)
		if problem.Status != http.StatusTooManyRequests || busy == busyMax {
			return nil, problem
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (c *Client) once(ctx context.Context, method, path string, query url.Values, body []byte) (*http.Response, error) {
	plain, err := url.PathUnescape(path)
	if err != nil {
		return nil, fmt.Errorf("create the request: %w", err)
	}
	u := url.URL{Scheme: c.scheme, Host: c.host, Path: plain, RawPath: path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("create the request: %w", err)
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err == nil {
		return resp, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return nil, &Unreachable{c.server, op.Err}
	}
	return nil, fmt.Errorf("%s %s on %s: %w", method, path, c.server, errors.Unwrap(err))
}

// readProblem reads the problem details of a refused request.
func readProblem(resp *http.Response) *Problem {
	defer resp.Body.Close()
	p := &Problem{}
	octets, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil || json.Unmarshal(octets, p) != nil || p.Detail == "" {
		p.Title, p.Detail = http.StatusText(resp.StatusCode), "the server answered "+resp.Status
	}
	p.Status = resp.StatusCode
	return p
}

// PartsMax is the maximum number of new messages, and of refused ones, that an order over many pages names: a million
// would take hundreds of megabytes. The log has them all.
const PartsMax = 10_000

// A sum adds up the results of pages.
type sum struct {
	admin.Ordered
	partial Partial
}

func (s *sum) add(page *admin.Ordered) {
	s.Matched += page.Matched
	s.Done += page.Done
	s.Pending += page.Pending
	s.Unchanged += page.Unchanged
	s.Dated += page.Dated
	s.Recipients += page.Recipients
	s.Rewritten += page.Rewritten
	s.Refused = append(s.Refused, page.Refused[:min(len(page.Refused), PartsMax-len(s.Refused))]...)
	s.Splits = append(s.Splits, page.Splits[:min(len(page.Splits), PartsMax-len(s.Splits))]...)
	s.Scanned += page.Scanned
	s.Missing = append(s.Missing, page.Missing...)
	s.partial.Add(page.Unread...)
}
