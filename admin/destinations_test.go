package admin_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
)

func summaryOf(transport, nexthop string, todo int, c qmgr.Condition, o qmgr.WaitReason) qmgr.DestinationView {
	return qmgr.DestinationView{DestinationSummary: qmgr.DestinationSummary{Transport: transport, Condition: c, Messages: todo, Recipients: 2 * todo,
		Oldest: noon, Queue: qmgr.QueueView{Nexthop: nexthop, Window: 5, Todo: todo, WaitReason: o}}}
}

// known returns a queue with three destinations: one at its rate limit, one dead,
// one a path.
func known() *admintest.Queue {
	q := admintest.New()
	q.SetDestinations(
		summaryOf("smtp", "example.net", 9, qmgr.ConditionLimited, qmgr.WaitReason{Kind: qmgr.WaitDestinationRate,
			Rate: rate.Limit{N: 30, Per: time.Minute}, Until: noon.Add(41 * time.Second)}),
		summaryOf("smtp", "{a.mx.example;b.mx.example}", 3, qmgr.ConditionReady, qmgr.WaitReason{Kind: qmgr.WaitTurn}),
		summaryOf("relay", "example.net", 0, qmgr.ConditionDead, qmgr.WaitReason{}),
		summaryOf("lmtp", "unix:/run/lmtp 1%.sock", 0, qmgr.ConditionReady, qmgr.WaitReason{}))
	return q
}

func names(page admin.DestinationPage) (all []string) {
	for _, d := range page.Destinations {
		all = append(all, d.Name)
	}
	return all
}

// Filters that match too much or too little hide the destination in question; a list
// of any length is read in pages.
func TestDestinations(t *testing.T) {
	a := serve(t, known(), admin.Config{})
	for query, want := range map[string]string{
		"":                                 "smtp:example.net smtp:{a.mx.example;b.mx.example} relay:example.net lmtp:unix:/run/lmtp 1%.sock",
		"?name=EXAMPLE.net":                "smtp:example.net relay:example.net",
		"?name=smtp:":                      "smtp:example.net smtp:{a.mx.example;b.mx.example}",
		"?name=example*":                   "smtp:example.net relay:example.net",
		"?name=*mx*":                       "smtp:{a.mx.example;b.mx.example}",
		"?state=dead&state=ready":          "smtp:{a.mx.example;b.mx.example} relay:example.net lmtp:unix:/run/lmtp 1%.sock",
		"?state=rate-limited&name=mx":      "",
		"?state=dead&name=example&limit=1": "relay:example.net",
	} {
		page := get[admin.DestinationPage](a, "GET", "/v1/destinations"+query, "")
		if got := strings.Join(names(page), " "); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	var seen []string
	for next := ""; ; {
		page := get[admin.DestinationPage](a, "GET", "/v1/destinations?limit=1&cursor="+next, "")
		if seen = append(seen, names(page)...); page.Matched != 4 || page.States["ready"] != 2 || page.States["full"] != 0 {
			t.Errorf("%+v", page)
		}
		if next = page.Next; next == "" {
			break
		}
	}
	if len(seen) != 4 || len(slices.Compact(slices.Sorted(slices.Values(seen)))) != 4 {
		t.Errorf("page by page: %v", seen)
	}
	for _, bad := range []string{"?cursor=x", "?cursor=eCB5", "?state=asleep", "?limit=0", "?nmae=x"} {
		if w := a.do("GET", "/v1/destinations"+bad, ""); w.Code != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", bad, w.Code, w.Body)
		}
	}
}

// The name of a destination is typed by people: in full, without transport, or wrong.
func TestDestinationNames(t *testing.T) {
	a := serve(t, known(), admin.Config{})
	for name, want := range map[string]string{"smtp:example.net": "smtp:example.net", "SMTP:Example.Net": "smtp:example.net",
		"unix:/run/lmtp 1%.sock": "lmtp:unix:/run/lmtp 1%.sock", "B.mx": "smtp:{a.mx.example;b.mx.example}", "relay:": "relay:example.net", "{a.mx.example;b.mx.example}": "smtp:{a.mx.example;b.mx.example}"} {
		if d := get[admin.DestinationDetail](a, "GET", "/v1/destinations/"+url.PathEscape(name), ""); d.Name != want {
			t.Errorf("%s: %+v", name, d)
		}
	}
	for _, c := range []struct {
		name string
		code int
		want string
	}{
		{"example.net", http.StatusUnprocessableEntity, "ambiguous, several transports have it: smtp:example.net, relay:example.net"},
		{"example.nte", http.StatusNotFound, "did you mean smtp:example.net"},
		{"example", http.StatusNotFound, "did you mean smtp:example.net or smtp:{a.mx.example;b.mx.example} or relay:example.net?"},
		{"somewhere.test", http.StatusNotFound, "unknown destination somewhere.test: no mail in core and no connections"},
	} {
		if w := a.do("GET", "/v1/destinations/"+c.name, ""); w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d %s", c.name, w.Code, w.Body)
		}
	}
}

// Similar addresses are unrelated, so none is suggested.
func TestAddressesAreNotGuessed(t *testing.T) {
	q := admintest.New()
	var all []qmgr.DestinationView
	for _, nexthop := range []string{"[192.0.2.11]:25", "[192.0.2.12]", "192.0.2.13:25", "[2001:db8::1]:25", "192.0.2.test"} {
		all = append(all, summaryOf("smtp", nexthop, 1, qmgr.ConditionReady, qmgr.WaitReason{Kind: qmgr.WaitTurn}))
	}
	q.SetDestinations(all...)
	w := serve(t, q, admin.Config{}).do("GET", "/v1/destinations/"+url.PathEscape("[192.0.2.99]:25"), "")
	if w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), "did you mean smtp:[") || strings.Contains(w.Body.String(), "192.0.2.1") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// The details of one destination must show why its mail waits, the state of its
// hosts, and why its connections ended.
func TestDestination(t *testing.T) {
	at := func(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }
	v := summaryOf("smtp", "example.net", 9, qmgr.ConditionLimited, qmgr.WaitReason{Kind: qmgr.WaitConnectionRate, Table: "strict",
		Rate: rate.Limit{N: 2, Per: time.Hour}, Until: noon.Add(time.Hour)})
	refused := mail.Reply{Code: 421, Text: "too many"}
	v.DestinationSummary.Hosts = conns.Health{Up: 3, Busy: 1, Retry: 2, Failure: refused, FailedAt: noon}
	v.Rate = []rate.Use{{Limit: rate.Limit{N: 30, Per: time.Minute}, Used: 12}}
	v.Ceiling, v.Tables = 20, []string{"strict"}
	host := func(n string, h conns.HostView) conns.HostView {
		h.Host, h.Level, h.Configured = mail.Host{Name: n + ".example", Addr: at("192.0.2.1:25")}, mail.LevelOverlap, mail.LevelOverlap
		return h
	}
	fell := host("fell", conns.HostView{Known: destdb.View{Level: mail.LevelGroup, HeldUntil: noon.Add(time.Hour)}})
	fell.Level = mail.LevelGroup
	fell.Fell = conns.Ending{Conn: 3, Host: fell.Host, At: noon, Closing: mail.Closing{Why: mail.CloseStep, Level: mail.LevelOverlap, Reply: refused}}
	v.Hosts = []conns.HostView{
		host("active", conns.HostView{Connections: 3, Idle: 1, Known: destdb.View{State: destdb.InUse, RTT: 30 * time.Millisecond}}),
		host("idle", conns.HostView{Connections: 1, Idle: 1}),
		host("connecting", conns.HostView{Connections: 1, Connecting: 1}),
		host("probing", conns.HostView{Connections: 1, Connecting: 1, Probing: true}),
		host("closed", conns.HostView{Tier: 1, Known: destdb.View{State: destdb.Closed, MessagesMax: 10}}),
		host("retry", conns.HostView{Known: destdb.View{State: destdb.RetryLater, At: noon.Add(time.Minute), Failures: 2, FailedAt: noon, Reason: refused}}),
		fell,
	}
	v.Connections = []conns.ConnView{{ID: 4, Host: v.Hosts[0].Host, State: conns.Ready, Level: mail.LevelOverlap, Carried: 7, Made: noon, IdleFrom: noon.Add(time.Second)}}
	v.Ended = []conns.Ending{{Conn: 2, Host: v.Hosts[0].Host, Drained: conns.DrainIdle, Made: noon, At: noon.Add(time.Minute), Carried: 5},
		{Conn: 1, Host: v.Hosts[0].Host, Closing: mail.Closing{Why: mail.CloseLost, Reply: refused}, Made: noon, At: noon}}
	q := admintest.New()
	q.SetDestinations(v)
	got := get[admin.DestinationDetail](serve(t, q, admin.Config{}), "GET", "/v1/destinations/example.net", "")
	if o := got.WaitReason; o == nil || o.Kind != "connection-rate" || o.Key != "destination.strict.connection_rate" || o.Text != "at the connection rate limit of 2/h" ||
		o.Until == nil || got.State != "rate-limited" || got.Failure == nil || got.Failure.Reply != "421 too many" || *got.Hosts != (admin.HostCounts{Up: 3, Busy: 1, Retry: 2}) ||
		got.Limit != 20 || len(got.Rates) != 1 || got.Rates[0] != (admin.RateUse{Key: "destination_rate", Limit: "30/min", Used: 12}) {
		t.Errorf("%+v %+v", got.Destination, got.WaitReason)
	}
	for _, h := range got.HostList {
		name, _, _ := strings.Cut(h.Name, ".")
		want := name
		if name == "fell" {
			want = "unused"
			if h.Fell == nil || h.Fell.Text != "the server did not follow pipelining level overlap" || h.LevelUntil == nil || h.LevelFixed || h.Level != "group" {
				t.Errorf("%+v", h)
			}
		}
		if h.State != want || (h.Until != nil) != (name == "retry") || (h.Failure != nil) != (name == "retry") || (h.Tier == 2) != (name == "closed") ||
			(h.Mails == 10) != (name == "closed") || (h.RTT == 0.03) != (name == "active") {
			t.Errorf("%s is %+v", name, h)
		}
	}
	if c := got.Connections; len(c) != 1 || c[0].Host != "active.example[192.0.2.1]:25" || c[0].Idle == nil || c[0].Carried != 7 {
		t.Errorf("%+v", c)
	}
	if e := got.Ended; len(e) != 2 || e[0].DrainReason != "idle-time" || e[1].Why != "lost" || e[1].Reply != "421 too many" {
		t.Errorf("%+v", e)
	}
}

// Every kind of wait reason has a text of its own and names the parameter to change,
// which must exist.
func TestWaitReasonsInWords(t *testing.T) {
	all := map[string]bool{}
	q := admintest.New()
	a := serve(t, q, admin.Config{})
	for _, kind := range qmgr.WaitKinds()[1:] {
		q.SetDestinations(summaryOf("smtp", "example.net", 1, kind.Condition(), qmgr.WaitReason{Kind: kind, Limit: 20, Most: 20, Pause: 90 * time.Second}))
		got := get[admin.DestinationPage](a, "GET", "/v1/destinations", "").Destinations[0].WaitReason
		if got == nil || got.Kind != kind.String() || got.Text == "" || all[got.Text] {
			t.Fatalf("%v: %+v", kind, got)
		}
		all[got.Text] = true
		ours := kind != qmgr.WaitStop && kind != qmgr.WaitTransportDead && kind != qmgr.WaitDead && kind < qmgr.WaitHostBusy
		if ours != (got.Key != "") {
			t.Errorf("%v: key %q", kind, got.Key)
		}
	}
}

// A message in core shows which destinations it waits for, and why.
func TestMessagesSayWhatTheyWaitFor(t *testing.T) {
	m := message(1, mail.AreaIncoming, "a@example.com", "j@example.net", "k@example.org")
	m.InCore = true
	m.Places = []qmgr.PlaceView{
		{Transport: "smtp", Nexthop: "example.net", Waiting: 1, WaitReason: qmgr.WaitReason{Kind: qmgr.WaitTransportDelay, Pause: 10 * time.Second, Until: noon.Add(time.Second)}},
		{Transport: "retry", Nexthop: "451 dead", Instead: mail.Origin{Transport: "smtp", Nexthop: "example.org"}, Busy: 1},
	}
	q := admintest.New(m)
	a := serve(t, q, admin.Config{})
	if o := get[admin.Page](a, "GET", "/v1/messages", "").Messages[0].WaitReason; o == nil || o.Key != "transport.smtp.transport_rate_delay" || o.Until == nil {
		t.Errorf("list: %+v", o)
	}
	d := get[admin.Detail](a, "GET", "/v1/messages/"+id(1).String(), "")
	if len(d.Places) != 2 || d.Places[0].Name != "smtp:example.net" || d.Places[0].WaitReason == nil || d.Places[1].Name != "smtp:example.org" || !d.Places[1].Deferral {
		t.Errorf("show: %+v", d.Places)
	}
}

// A parked message is not in core and shows what it waits for; a held one waits for
// its release all the same.
func TestParkedMessagesSayWhatFor(t *testing.T) {
	owing, waiting, held := message(1, mail.AreaIncoming, "a@example.com", "j@example.net"), message(2, mail.AreaDeferred, "a@example.com", "j@example.net"),
		message(3, mail.AreaHold, "a@example.com", "j@example.net")
	owing.Parked, waiting.Parked, held.Parked = qmgr.WaitReportTurn, qmgr.WaitLookups, qmgr.WaitReportTurn
	a := serve(t, admintest.New(owing, waiting, held), admin.Config{})
	for n, want := range []string{1: "incoming parked report-turn", 2: "deferred parked lookups", 3: "hold release -"} {
		if n == 0 {
			continue
		}
		d := get[admin.Detail](a, "GET", "/v1/messages/"+id(n).String(), "")
		got := fmt.Sprint(d.State, " ", d.Wait, " -")
		if d.WaitReason != nil {
			got = fmt.Sprint(d.State, " ", d.Wait, " ", d.WaitReason.Kind)
		}
		if got != want || d.InCore == nil || *d.InCore {
			t.Errorf("message %d: %s, want %s", n, got, want)
		}
	}
}

// While the program stops, operators may query its state, but an order would be lost.
func TestStoppingTakesNoOrders(t *testing.T) {
	q := admintest.New(message(1, mail.AreaIncoming, "a@example.com", "j@example.net"))
	s, err := admin.New(admin.Config{}, q, q, q)
	if err != nil {
		t.Fatal(err)
	}
	a := api{t, s.Handler()}
	s.Stopping()
	get[admin.Status](a, "GET", "/v1/status", "")
	for _, path := range []string{"/v1/messages/drop", "/v1/messages/hold", "/v1/messages/retry", "/v1/messages/release", "/v1/sources/new/warmup", "/v1/flush"} {
		body := `{"filter":{"ids":["` + id(1).String() + `"]}}`
		switch path {
		case "/v1/flush":
			body = ""
		case "/v1/sources/new/warmup":
			body = `{"order":"pause"}`
		}
		if w := a.do("POST", path, body); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "stopping") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
