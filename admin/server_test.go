package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// noon is when the test messages arrive, in the past of any clock.
const noon = mail.Instant(1_750_000_000_000_000_000)

func id(n int) mail.QueueID {
	return mail.NewQueueID(noon.Add(time.Duration(n)*time.Second), uint16(n))
}

// message returns message n from a sender to some recipients, none of whom was
// tried.
func message(n int, area mail.Area, sender string, recipients ...string) admintest.Message {
	m := admintest.Message{Content: "Subject: test\r\n\r\nHello.\r\n"}
	m.Envelope = mail.Envelope{ID: id(n), Sender: mail.Address(sender), Arrived: noon.Add(time.Duration(n) * time.Second)}
	m.Place = mail.Place{Area: area}
	if area == mail.AreaDeferred {
		m.Place.Due = noon.Add(time.Hour)
	}
	for _, r := range recipients {
		m.Recipients = append(m.Recipients, mail.RecipientOutcome{Recipient: mail.Recipient{Address: mail.Address(r)}})
	}
	return m
}

// deferredFor gives all recipients of a message an outcome.
func deferredFor(m admintest.Message, reply mail.Reply) admintest.Message {
	for i := range m.Recipients {
		m.Recipients[i].Outcome = mail.Outcome{Result: mail.Deferred, Reply: reply, At: m.Envelope.Arrived.Add(time.Minute)}
	}
	return m
}

// an api is a server without a socket.
type api struct {
	t       *testing.T
	handler http.Handler
}

func serve(t *testing.T, q *admintest.Queue, cfg admin.Config) api {
	t.Helper()
	s, err := admin.New(cfg, q, q, q)
	if err != nil {
		t.Fatal(err)
	}
	return api{t, s.Handler()}
}

func (a api) do(method, target, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, r)
	return w
}

// get decodes a successful answer.
func get[T any](a api, method, target, body string) T {
	a.t.Helper()
	w := a.do(method, target, body)
	var answer T
	if w.Code != http.StatusOK {
		a.t.Fatalf("%s %s %s: %d %s", method, target, body, w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		a.t.Fatalf("%s %s: %v in %s", method, target, err, w.Body)
	}
	return answer
}

func ids(page admin.Page) []string {
	var all []string
	for _, m := range page.Messages {
		all = append(all, m.ID)
	}
	return all
}

// Clients are built from the description, so a change of the API must show up in a
// review. UPDATE=1 rewrites it.
func TestDescriptionIsUpToDate(t *testing.T) {
	q := admintest.New()
	s, err := admin.New(admin.Config{}, q, q, q)
	if err != nil {
		t.Fatal(err)
	}
	octets, err := json.MarshalIndent(s.OpenAPI(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	octets = append(octets, '\n')
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile("openapi.json", octets, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("openapi.json")
	if err != nil || !bytes.Equal(octets, want) {
		t.Errorf("openapi.json does not describe the API (%v); run UPDATE=1 go test ./admin", err)
	}
}

// An operator who asks about a message wants to know where it is, why it is still
// there and when it is tried next; each state must say so.
func TestShowSaysWhatAMessageWaitsFor(t *testing.T) {
	refused := mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 7, Detail: 1}, Text: "greylisted", By: "mx.example.net[192.0.2.1]"}
	far := deferredFor(message(3, mail.AreaDeferred, "a@example.com", "j@example.net"), refused)
	far.Place.Due = mail.Instant(time.Now().Add(time.Hour).UnixNano())
	far.Envelope.Attempts, far.Envelope.LastAttempt = 2, noon.Add(time.Minute)
	core := message(4, mail.AreaDeferred, "a@example.com", "j@example.net")
	core.InCore, core.Ordered = true, qmgr.OrderedDrop
	held := message(5, mail.AreaHold, "", "j@example.net")
	held.Reason = "looks like a loop"
	broken := message(6, mail.AreaCorrupt, "")
	broken.Damaged, broken.Reason = true, "checksum"
	a := serve(t, admintest.New(message(1, mail.AreaIncoming, "a@example.com", "j@example.net"),
		deferredFor(message(2, mail.AreaDeferred, "a@example.com", "j@example.net"), refused), far, core, held, broken), admin.Config{})
	for n, want := range map[int]admin.Summary{
		1: {State: "incoming", Area: "incoming", Wait: "room"},
		2: {State: "deferred", Area: "deferred", Wait: "room", Reason: "451 4.7.1 greylisted"},
		3: {State: "deferred", Area: "deferred", Wait: "backoff", Reason: "451 4.7.1 greylisted"},
		4: {State: "active", Area: "deferred", Wait: "core"},
		5: {State: "hold", Area: "hold", Wait: "release", Reason: "looks like a loop"},
		6: {State: "corrupt", Area: "corrupt", Wait: "repair", Reason: "checksum"},
	} {
		d := get[admin.Detail](a, "GET", "/v1/messages/"+id(n).String(), "")
		got := admin.Summary{State: d.State, Area: d.Area, Wait: d.Wait, Reason: d.Reason}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("message %d: %s", n, diff)
		}
		if d.InCore == nil || *d.InCore != (n == 4) {
			t.Errorf("message %d: in_core is %v", n, d.InCore)
		}
		if d.Ordered != map[int]string{4: "drop"}[n] {
			t.Errorf("message %d: %q is ordered", n, d.Ordered)
		}
		if x := get[admin.Explanation](a, "GET", "/v1/explain?id="+id(n).String(), ""); x.Ordered != d.Ordered {
			t.Errorf("message %d: %q is ordered by the explanation", n, x.Ordered)
		}
	}
	d := get[admin.Detail](a, "GET", "/v1/messages/"+id(3).String(), "")
	if len(d.All) != 1 || d.All[0].By != "mx.example.net[192.0.2.1]" || d.All[0].Result != "deferred" || d.Attempts != 2 || d.Due == nil {
		t.Errorf("detail lacks something: %+v", d)
	}
}

// A deadline is part of the detail; mail without one has none of these fields.
func TestShowDeadline(t *testing.T) {
	late := message(1, mail.AreaDeferred, "a@example.com", "j@example.net")
	late.Envelope.By, late.Envelope.Late = mail.DeliverBy{At: noon, Mode: mail.ByNotify, Trace: true}, true
	a := serve(t, admintest.New(late, message(2, mail.AreaIncoming, "a@example.com", "j@example.net")), admin.Config{})
	d := get[admin.Detail](a, "GET", "/v1/messages/"+id(1).String(), "")
	if d.DeliverBy == nil || d.DeliverBy.UnixNano() != int64(noon) || d.ByMode != "notify" || !d.ByTrace || !d.Late {
		t.Errorf("%+v", d)
	}
	if d = get[admin.Detail](a, "GET", "/v1/messages/"+id(2).String(), ""); d.DeliverBy != nil || d.ByMode != "" || d.ByTrace || d.Late {
		t.Errorf("%+v", d)
	}
}

// Mail to many people has more recipients than fit into an answer; they are read
// page by page, including settled ones.
func TestShowPagesRecipients(t *testing.T) {
	var all []string
	for i := range 250 {
		all = append(all, fmt.Sprintf("r%d@example.net", i))
	}
	m := message(1, mail.AreaDeferred, "a@example.com", all...)
	m.Recipients[7].Outcome.Result = mail.Delivered
	a := serve(t, admintest.New(m), admin.Config{})
	var got []string
	for from, pages := uint32(0), 0; ; pages++ {
		d := get[admin.Detail](a, "GET", fmt.Sprintf("/v1/messages/%s?limit=100&from=%d", id(1), from), "")
		for _, r := range d.All {
			got = append(got, r.Address)
		}
		if d.Total != 250 || d.Waiting != 249 {
			t.Fatalf("%d recipients, %d waiting", d.Total, d.Waiting)
		}
		if d.Next == nil {
			if pages != 2 {
				t.Errorf("read in %d pages", pages+1)
			}
			break
		}
		from = *d.Next
	}
	if diff := cmp.Diff(all, got); diff != "" {
		t.Error(diff)
	}
}

// The content shown is exactly the bytes that will be sent.
func TestContent(t *testing.T) {
	m := message(1, mail.AreaDeferred, "a@example.com", "j@example.net")
	m.Content = "Subject: \xe9\r\n\r\n.\r\n\x00\r\n"
	a := serve(t, admintest.New(m), admin.Config{})
	w := a.do("GET", "/v1/messages/"+id(1).String()+"/content", "")
	if w.Code != 200 || w.Body.String() != m.Content || w.Header().Get("Content-Type") != "message/rfc822" ||
		w.Header().Get("Content-Length") != fmt.Sprint(len(m.Content)) {
		t.Errorf("%d %v %q", w.Code, w.Header(), w.Body)
	}
}

// Queue IDs come from outside: nothing but an ID may reach the spool, and errors
// are problem details.
func TestBadIDs(t *testing.T) {
	a := serve(t, admintest.New(), admin.Config{})
	for path, want := range map[string]int{
		id(1).String():             http.StatusNotFound,
		"..%2f..%2fetc%2fpasswd":   http.StatusBadRequest,
		"%00":                      http.StatusBadRequest,
		strings.Repeat("A", 1<<16): http.StatusBadRequest,
		"OOOOOOOOOOOOO":            http.StatusBadRequest,
	} {
		for _, suffix := range []string{"", "/content"} {
			w := a.do("GET", "/v1/messages/"+path+suffix, "")
			if w.Code != want || w.Header().Get("Content-Type") != "application/problem+json" || w.Body.Len() > 1000 {
				t.Errorf("%.30s: %d %s, want %d\n%.300s", path+suffix, w.Code, w.Header().Get("Content-Type"), want, w.Body)
			}
		}
	}
}

// A malformed request must change nothing and must be cheap; these are requests
// that other servers are known to mishandle.
func TestBadRequests(t *testing.T) {
	q := admintest.New(message(1, mail.AreaIncoming, "a@example.com", "j@example.net"))
	a := serve(t, q, admin.Config{})
	deep := strings.Repeat("[", 100_000)
	for _, c := range []struct {
		method, target, body string
		want                 int
		says                 string
	}{
		{"POST", "/v1/messages/drop", `{}`, 422, "give a filter with conditions"},
		{"POST", "/v1/messages/drop", `{"filter":{}}`, 422, "give a filter with conditions"},
		{"POST", "/v1/messages/drop", `{"filter":{"areas":["incoming"]}}`, 422, "give a filter with conditions"},
		{"POST", "/v1/messages/drop", `{"all":true}`, 422, "set confirm to their number"},
		{"POST", "/v1/messages/drop", `{"all":true,"confirm":1,"filter":{"sender":["a@example.com"]}}`, 422, "cannot be combined"},
		{"POST", "/v1/messages/drop", `{"all":true,"confirm":-1}`, 422, "body.confirm"},
		{"POST", "/v1/messages/drop", `{"all":true,"confirm":1e99}`, 422, "confirm"},
		{"POST", "/v1/messages/drop", `{"all":true,"confirm":1,"fitler":{}}`, 422, "unexpected property"},
		{"POST", "/v1/messages/drop", `{"all":true,"all":true,"confirm":1}`, 400, "duplicate key"},
		{"POST", "/v1/messages/drop", "{\"reason\":\"\xff\"}", 400, "UTF-8"},
		{"POST", "/v1/messages/drop", "\xff\xfe{\x00}\x00", 400, "UTF-8"},
		{"POST", "/v1/messages/drop", "\ufeff{}", 400, "JSON"},
		{"POST", "/v1/messages/drop", `{} {}`, 400, "after the JSON value"},
		{"POST", "/v1/messages/drop", deep, 400, "deep"},
		{"POST", "/v1/messages/drop", `{"reason":"` + strings.Repeat("x", 300<<10) + `"}`, 413, "larger than"},
		{"POST", "/v1/messages/drop", `{"reason":"` + strings.Repeat("x", 513) + `"}`, 422, "body.reason"},
		{"POST", "/v1/messages/drop", `{"filter":{"ids":["../x"]}}`, 422, "body.filter.ids"},
		{"POST", "/v1/messages/hold", `{"filter":{"older":"2 parsecs"}}`, 422, "body.filter.older"},
		{"POST", "/v1/messages/hold", `{"all":true,"filter":{"areas":["corrupt"]}}`, 422, "nothing to hold"},
		{"POST", "/v1/messages/release", `{"all":true,"filter":{"areas":["incoming"]}}`, 422, "nothing to release"},
		{"GET", "/v1/messages?sendr=a", "", 422, "sendr"},
		{"GET", "/v1/messages?limit=0", "", 422, "query.limit"},
		{"GET", "/v1/messages?limit=1001", "", 422, "query.limit"},
		{"GET", "/v1/messages?limit=NaN", "", 422, "query.limit"},
		{"GET", "/v1/messages?area=active", "", 422, "query.area"},
		{"GET", "/v1/messages?cursor=zz", "", 422, "query.cursor"},
		{"GET", "/v1/messages?area=hold&cursor=incoming-0-" + id(1).String() + "-0", "", 422, "not among"},
		{"GET", "/v1/messages?sender=" + strings.Repeat("x", 600), "", 422, "query.sender"},
		{"DELETE", "/v1/messages", "", 405, "/v1/messages allows GET, HEAD, not DELETE"},
		{"GET", "/v1/flush", "", 405, "/v1/flush allows POST, not GET"},
		{"GET", "/v2/messages", "", 404, "unknown path /v2/messages; see /openapi.json"},
		{"GET", "/", "", 404, "unknown path /"},
	} {
		w := a.do(c.method, c.target, c.body)
		if w.Code != c.want || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s %.60s %.60s: %d, want %d with %q\n%.400s", c.method, c.target, c.body, w.Code, c.want, c.says, w.Body)
		}
		var problem struct{ Status int }
		if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil || problem.Status != c.want || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %.60s: no problem details, but %s %.100s", c.method, c.target, w.Header().Get("Content-Type"), w.Body)
		}
	}
	if q.Place(id(1)) != mail.AreaIncoming {
		t.Error("a bad request dropped the message")
	}
}

// A page on some other site must not be able to make a person's browser drop
// the queue, should the API ever be reachable by one.
func TestCrossOriginRequestsAreRefused(t *testing.T) {
	q := admintest.New(message(1, mail.AreaIncoming, "a@example.com", "j@example.net"))
	a := serve(t, q, admin.Config{})
	w := a.do("POST", "/v1/flush", "", "Sec-Fetch-Site", "cross-site")
	if _, all := q.Retried(); w.Code != http.StatusForbidden || all != 0 || !strings.Contains(w.Body.String(), `"status":403`) {
		t.Errorf("answered %d; flushed %d times", w.Code, all)
	}
}

// If the core hangs, an operator must still see what is in the spool, and must
// learn that orders are not carried out.
func TestSilentCore(t *testing.T) {
	q := admintest.New(message(1, mail.AreaIncoming, "a@example.com", "j@example.net"))
	q.Silence()
	a := serve(t, q, admin.Config{})
	page := get[admin.Page](a, "GET", "/v1/messages", "")
	if len(page.Messages) != 1 || page.Messages[0].InCore != nil || page.Messages[0].State != admin.StateIncoming {
		t.Errorf("%+v", page)
	}
	for _, c := range [][2]string{{"GET", "/v1/status"}, {"POST", "/v1/flush"}} {
		if w := a.do(c[0], c[1], ""); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "does not answer") {
			t.Errorf("%v: %d %s", c, w.Code, w.Body)
		}
	}
	w := a.do("POST", "/v1/messages/hold", `{"all":true}`)
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("hold: %d %s", w.Code, w.Body)
	}
}

// Operators look at the status first; every number must come from the right source.
func TestStatus(t *testing.T) {
	q := admintest.New(message(1, mail.AreaIncoming, "a@b"), message(2, mail.AreaDeferred, "a@b"), message(3, mail.AreaDeferred, "a@b"),
		message(4, mail.AreaHold, "a@b"), message(5, mail.AreaCorrupt, "a@b"))
	view := qmgr.View{Messages: 2, Recipients: 30, Busy: 4, Behind: true,
		Transports: []qmgr.TransportView{{Name: "smtp", Jobs: 2, Busy: 4, Queues: []qmgr.QueueView{
			{Nexthop: "example.net", State: window.Dead, Condition: qmgr.ConditionDead, Window: 5, Todo: 7,
				Reason: mail.Reply{Code: 421, Text: "go away"}, Until: noon.Add(time.Hour)},
			{Nexthop: "example.org", Window: 20, Busy: 4}}},
			{Name: "relay", Queues: []qmgr.QueueView{{Nexthop: "far.example", Source: "a", Window: 5, Busy: 2, Todo: 1,
				Connections: conns.SiteView{Connecting: 1, Ready: 2}, WaitReason: qmgr.WaitReason{Kind: qmgr.WaitHostLimit, Limit: 2, Table: "strict"}}}},
			{Name: "lmtp", State: qmgr.TransportDead, Reason: mail.Reply{Code: 451, Text: "no sockets"}, Until: noon.Add(time.Minute)},
			{Name: "retry", Jobs: 1, Queues: []qmgr.QueueView{
				{Nexthop: "4.4.1 no answer", Instead: mail.Origin{Transport: "smtp", Nexthop: "[::1]:25"}, Window: 5, Todo: 1}}}}}
	view.Counts.Arrived, view.Counts.Started = 9, 8
	view.Counts.Outcomes, view.Counts.Unknown = [4]uint64{0, 1, 2, 3}, 6
	view.Closings[mail.CloseAsked], view.Closings[mail.CloseMixed], view.Offline = 50, 1, noon.Add(time.Minute)
	view.Mixed = conns.Ending{Conn: 7, Host: mail.Host{Name: "mx.example", Addr: netip.MustParseAddrPort("192.0.2.1:25")}, At: noon.Add(time.Minute),
		Closing: mail.Closing{Why: mail.CloseMixed, Reply: mail.Reply{Code: 250, Text: "Ok"}}}
	q.SetCore(view)
	q.SetDamaged(admin.DamagedFile{Path: "/var/spool/damaged/2.log"})
	q.SetTrouble(3, time.Unix(0, int64(noon)), errors.New("the disk is tired"))
	a := serve(t, q, admin.Config{Version: "v1.2.3"})
	got := get[admin.Status](a, "GET", "/v1/status?destinations=1", "")
	until := time.Unix(0, int64(noon)).Add(time.Hour).UTC()
	soon := until.Add(-59 * time.Minute)
	want := admin.Status{Version: "v1.2.3", Now: got.Now,
		Core: admin.CoreStatus{Messages: 2, Recipients: 30, Busy: 4, Behind: true, Arrived: 9, Deliveries: 8, Sent: 1, Deferred: 2, Bounced: 3, Unknown: 6, Offline: &soon},
		Transports: []admin.TransportStatus{
			{Name: "smtp", Jobs: 2, Busy: 4, State: "alive", Destinations: []admin.DestinationStatus{
				{Nexthop: "example.net", State: "dead", Window: 5, Todo: 7, Reason: "421 go away", Until: &until}}},
			{Name: "relay", State: "alive", Destinations: []admin.DestinationStatus{
				{Nexthop: "far.example", Source: "a", State: "ready", Window: 5, Busy: 2, Todo: 1, Open: 2, Opening: 1, Waits: "host-limit",
					WaitReason: &admin.WaitReason{Kind: "host-limit", Text: "at the limit of 2 connections to each host", Key: "destination.strict.destination_host_concurrency_limit"}}}},
			{Name: "lmtp", State: "dead", Reason: "451 no sockets", Until: &soon, Destinations: []admin.DestinationStatus{}},
			{Name: "retry", Jobs: 1, State: "alive", Destinations: []admin.DestinationStatus{
				{Nexthop: "4.4.1 no answer", Instead: "smtp:[::1]:25", State: "ready", Window: 5, Todo: 1}}}},
		Spool:       admin.SpoolStatus{Incoming: 1, Deferred: 2, Hold: 1, Corrupt: 1, Used: 5 * 25, Free: 50 << 30},
		Connections: admin.ConnectionsStatus{Ended: map[string]uint64{"asked": 50, "mixed": 1}},
		Alarms:      got.Alarms,
	}
	if len(got.Alarms) != 3 || got.Alarms[1].Kind != "damaged" || !strings.HasSuffix(got.Alarms[1].Text, "/var/spool/damaged/2.log is removed.") {
		t.Errorf("alarms: %+v", got.Alarms)
	}
	if last := got.Alarms[len(got.Alarms)-1]; last.Kind != "unrecorded" || !last.At.Equal(time.Unix(0, int64(noon))) || !strings.Contains(last.Text, "3 messages") || !strings.Contains(last.Text, "the disk is tired") {
		t.Errorf("alarms: %+v", got.Alarms)
	}
	if len(got.Alarms) == 0 || got.Alarms[0].Kind != "mixed" || !got.Alarms[0].At.Equal(soon) || !strings.Contains(got.Alarms[0].Text, "mx.example[192.0.2.1]:25") {
		t.Errorf("alarms: %+v", got.Alarms)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// slow is a store whose reads block until the test lets them continue.
type slow struct {
	*admintest.Queue
	entered, leave chan struct{}
}

func (s slow) Find(ctx context.Context, area mail.Area, from mail.Cursor, max int) (mail.Found, error) {
	s.entered <- struct{}{}
	<-s.leave
	return s.Queue.Find(ctx, area, from, max)
}

// Many people with dashboards must not take the disk away from delivery: a scan
// over the limit is refused at once, with the time to retry.
func TestTooManyScans(t *testing.T) {
	q := admintest.New()
	store := slow{q, make(chan struct{}), make(chan struct{})}
	s, err := admin.New(admin.Config{Scans: 1}, store, q, q)
	if err != nil {
		t.Fatal(err)
	}
	a := api{t, s.Handler()}
	done := make(chan int)
	go func() { done <- a.do("GET", "/v1/messages?area=hold", "").Code }()
	<-store.entered
	w := a.do("GET", "/v1/messages", "")
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	close(store.leave)
	if code := <-done; code != http.StatusOK {
		t.Errorf("the first request got %d", code)
	}
}

// The server is stopped while a request is under way: the request is answered,
// and Serve returns without an error.
func TestServeStops(t *testing.T) {
	q := admintest.New()
	store := slow{q, make(chan struct{}), make(chan struct{})}
	s, err := admin.New(admin.Config{}, store, q, q)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	conn, err := net.Dial("unix", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET /v1/messages?area=hold HTTP/1.1\r\nHost: x\r\n\r\n")
	<-store.entered
	stop()
	close(store.leave)
	answer := make([]byte, 15)
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "HTTP/1.1 200 OK" {
		t.Errorf("%q, %v", answer, err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// With limits of zero every request would end before it began.
func TestConfigValidate(t *testing.T) {
	if err := (admin.Config{}).Validate(); err != nil {
		t.Error(err)
	}
	err := admin.Config{ScanMessages: -1, ScanRecipients: -1, ScanTime: -1, Scans: -1}.Validate()
	for _, name := range []string{"ScanMessages", "ScanRecipients", "ScanTime", "Scans"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("no complaint about %s in %v", name, err)
		}
	}
}

// A daemon that stalls or uses too much memory is examined through the admin
// socket.
func TestDebugProfiles(t *testing.T) {
	w := serve(t, admintest.New(), admin.Config{}).do(http.MethodGet, "/debug/pprof/goroutine?debug=1", "")
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "goroutine profile: total") {
		t.Errorf("%d: %.100s", w.Code, w.Body)
	}
}
