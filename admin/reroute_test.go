package admin_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
	"github.com/posthaste-mta/posthaste/internal/event"
	"github.com/posthaste-mta/posthaste/mail"
)

// parseRoute stands for the configuration: it knows one transport.
func parseRoute(text string) (string, error) {
	if rest, is := strings.CutPrefix(text, "smtp:"); is && rest != "" {
		return "smtp:" + strings.ToLower(rest), nil
	}
	if text == "discard" || strings.HasPrefix(text, "error:") || text == "retry:" {
		return strings.TrimSuffix(text, ":") + ":", nil
	}
	return "", errors.New("there is no such transport; it may be smtp")
}

func (a api) reroute(o admin.RerouteOrder) admin.Ordered {
	a.t.Helper()
	return a.order("reroute", o)
}

// targets returns where the recipients of a message go, "-" for where the configuration says.
func targets(q *admintest.Queue, n int) (all string) {
	for _, r := range q.Outcomes(id(n)) {
		to := "-"
		if r.Outcome.Ordered != nil {
			to = r.Outcome.Ordered.Target
		}
		all += to + " "
	}
	return all
}

// Recipients at one domain go elsewhere, and those at another do not; a dry run only counts; the log names the
// recipients and the route. Repeated, the order changes nothing and says so; with another route, it replaces the first.
// Cleared, the recipients go where the configuration says.
func TestReroute(t *testing.T) {
	q := admintest.New(message(1, mail.AreaDeferred, "a@b", "j@c", "j@d", "k@c"), message(2, mail.AreaDeferred, "a@b", "j@d"), message(3, mail.AreaHold, "a@b", "j@c"),
		message(4, mail.AreaCorrupt, "a@b", "j@c"))
	var log bytes.Buffer
	a := serve(t, q, admin.Config{Logger: event.NewStrict(&log, nil, nil), ParseRoute: parseRoute})
	o := admin.RerouteOrder{To: "smtp:[Relay]:587"}
	o.Filter, o.Reason, o.DryRun = &admin.Filter{Domain: []string{"c"}}, "their MX is down", true
	if diff := cmp.Diff(admin.Ordered{Matched: 2, Recipients: 3, Scanned: 4}, a.reroute(o)); diff != "" {
		t.Errorf("a dry run: %s", diff)
	}
	if got := targets(q, 1); got != "- - - " || log.Len() > 0 {
		t.Errorf("after a dry run: %s; log %s", got, log.String())
	}
	o.DryRun = false
	if diff := cmp.Diff(admin.Ordered{Matched: 2, Done: 2, Recipients: 3, Scanned: 4}, a.reroute(o)); diff != "" {
		t.Error(diff)
	}
	check := func(want ...string) {
		t.Helper()
		for i, w := range want {
			if got := targets(q, i+1); got != w {
				t.Errorf("message %d: %s, want %s", i+1, got, w)
			}
		}
	}
	check("smtp:[relay]:587 - smtp:[relay]:587 ", "- ", "smtp:[relay]:587 ", "- ")
	if to := q.Outcomes(id(1))[0].Outcome.Ordered; to.By == "" || to.Reason != "their MX is down" {
		t.Errorf("%+v", to)
	}
	for _, want := range []string{"verb=reroute id=" + id(1).String() + " from=a@b to=j@c,k@c route=smtp:[relay]:587", "verb=reroute messages=2"} {
		if strings.Count(log.String(), want) != 1 {
			t.Errorf("no line has %q:\n%s", want, log.String())
		}
	}
	again := o
	again.Reason = "still"
	if diff := cmp.Diff(admin.Ordered{Unchanged: 2, Scanned: 4}, a.reroute(again)); diff != "" {
		t.Errorf("again: %s", diff)
	}
	if to := q.Outcomes(id(1))[0].Outcome.Ordered; to.Reason != "their MX is down" {
		t.Errorf("again: %+v", to)
	}
	other := o
	other.To, other.Filter = "smtp:[two]", &admin.Filter{IDs: []string{id(1).String()}, Recipient: []string{"k@*"}}
	if got := a.reroute(other); got.Matched != 1 || got.Recipients != 1 {
		t.Errorf("%+v", got)
	}
	check("smtp:[relay]:587 - smtp:[two] ")
	clear := admin.RerouteOrder{Clear: true}
	clear.All = true
	if got := a.reroute(clear); got.Matched != 2 || got.Recipients != 3 || got.Unchanged != 1 || got.Done != 2 {
		t.Errorf("%+v", got)
	}
	check("- - - ", "- ", "- ")
	if strings.Count(log.String(), "to=j@c,k@c reason") != 1 {
		t.Errorf("the log of what was cleared:\n%s", log.String())
	}
}

// A message of which deliveries are under way is rerouted when they end; until then, the order is pending.
func TestReroutePending(t *testing.T) {
	m := message(1, mail.AreaDeferred, "a@b", "j@c")
	m.Busy = true
	q := admintest.New(m)
	a := serve(t, q, admin.Config{ParseRoute: parseRoute, Settle: -1})
	o := admin.RerouteOrder{To: "smtp:x"}
	o.Filter = named(1)
	if diff := cmp.Diff(admin.Ordered{Matched: 1, Pending: 1, Recipients: 1, Scanned: 1}, a.reroute(o)); diff != "" {
		t.Error(diff)
	}
}

// An order that discards or returns mail is confirmed like a drop or a bounce, and reaches no more than was confirmed; to name
// the messages by ID is a confirmation, too. Another target needs none, nor does a dry run.
func TestRerouteHarmful(t *testing.T) {
	for _, to := range []string{"discard", "error:5.1.1 gone", "error:"} {
		q := admintest.New(message(1, mail.AreaDeferred, "a@b", "j@c"), message(2, mail.AreaDeferred, "a@b", "j@c"), message(3, mail.AreaDeferred, "a@b", "j@c"))
		a := serve(t, q, admin.Config{ParseRoute: parseRoute})
		for _, selected := range []string{`"all":true`, `"filter":{"domain":["c"]}`} {
			if w := a.do("POST", "/v1/messages/reroute", fmt.Sprintf(`{%s,"to":%q}`, selected, to)); w.Code != 422 || !strings.Contains(w.Body.String(), "body.confirm") {
				t.Errorf("%s: %d %s", to, w.Code, w.Body)
			}
		}
		if got := targets(q, 1) + targets(q, 2) + targets(q, 3); got != "- - - " {
			t.Fatalf("%s: not confirmed, and done: %s", to, got)
		}
		o := admin.RerouteOrder{To: to}
		o.All, o.DryRun = true, true
		if got := a.reroute(o); got.Matched != 3 {
			t.Errorf("%+v", got)
		}
		o.DryRun, o.Confirm = false, 2
		if got := a.reroute(o); got.Matched != 2 || got.Done != 2 {
			t.Errorf("2 were confirmed: %+v", got)
		}
		o = admin.RerouteOrder{To: to}
		o.Filter = named(3)
		if got := a.reroute(o); got.Done != 1 {
			t.Errorf("named by ID: %+v", got)
		}
		o = admin.RerouteOrder{To: "retry:"}
		o.All = true
		if got := a.reroute(o); got.Done != 3 {
			t.Errorf("%+v", got)
		}
	}
}

// A message that is in core since it is tried by its new route is not pending.
func TestRerouteInCore(t *testing.T) {
	m := message(1, mail.AreaDeferred, "a@b", "j@c")
	m.InCore = true
	a := serve(t, admintest.New(m), admin.Config{ParseRoute: parseRoute, Settle: -1})
	o := admin.RerouteOrder{To: "smtp:x"}
	o.Filter = named(1)
	if diff := cmp.Diff(admin.Ordered{Matched: 1, Done: 1, Recipients: 1, Scanned: 1}, a.reroute(o)); diff != "" {
		t.Error(diff)
	}
}

// A list, a page and an explanation say that an operator has ordered the route, who and why, and how to take it back.
func TestRerouteShown(t *testing.T) {
	m := message(1, mail.AreaDeferred, "a@b", "j@c", "o'neil k@d", "x@e")
	to := &mail.OrderedRoute{Target: "smtp:[relay]:587", By: "bob", Reason: "their MX is down", At: 1e9}
	for i := range 2 {
		m.Recipients[i].Outcome.Ordered, m.Recipients[i].Recipient.Ordered = to, to
	}
	a := serve(t, admintest.New(m), admin.Config{ParseRoute: parseRoute})
	want := &admin.Reroute{To: to.Target, By: "bob", Reason: to.Reason}
	same := func(what string, got *admin.Reroute) {
		t.Helper()
		if got == nil || got.To != want.To || got.By != want.By || got.Reason != want.Reason || got.At.Unix() != 1 {
			t.Errorf("%s: %+v", what, got)
		}
	}
	page := get[admin.Page](a, "GET", "/v1/messages?recipients=3", "")
	same("list", page.Messages[0].Route)
	d := get[admin.Detail](a, "GET", "/v1/messages/"+id(1).String(), "")
	same("page", d.All[1].Route)
	if d.All[2].Route != nil {
		t.Errorf("%+v", d.All[2].Route)
	}
	x := get[admin.Explanation](a, "GET", "/v1/explain?id="+id(1).String(), "")
	if len(x.Routes) != 1 || x.Routes[0].Recipient != "j@c" || x.Routes[0].Clear != "posthaste queue reroute --clear "+id(1).String() {
		t.Fatalf("%+v", x.Routes)
	}
	same("explanation", &x.Routes[0].Reroute)
	if got := want.Text(); got != "bob has it go to smtp:[relay]:587: their MX is down" {
		t.Error(got)
	}
	if got := (&admin.Reroute{To: "discard:"}).Text(); got != "an operator has it go to discard:" {
		t.Error(got)
	}
	for recipient, want := range map[string]string{"j@c": "--recipient j@c", "o'neil%20k@d": `--recipient 'o'\''neil k@d'`, "x@e": ""} {
		x := get[admin.Explanation](a, "GET", "/v1/explain?id="+id(1).String()+"&recipient="+recipient, "")
		if (len(x.Routes) == 1) != (want != "") || want != "" && !strings.HasSuffix(x.Routes[0].Clear, want) {
			t.Errorf("%s: %+v", recipient, x.Routes)
		}
	}
}

// Routes that cannot be are refused before anything is done, and an answer does not repeat a long one.
func TestRerouteHostile(t *testing.T) {
	q := admintest.New(message(1, mail.AreaDeferred, "a@b", "j@c"))
	a := serve(t, q, admin.Config{ParseRoute: parseRoute})
	for body, want := range map[string]struct {
		status int
		text   string
	}{
		`{"all":true}`:                                              {422, "say where the mail goes"},
		`{"all":true,"to":"nowhere:[x]"}`:                           {422, "there is no such transport"},
		`{"all":true,"to":"smtp:x","clear":true}`:                   {422, "cannot be combined"},
		`{"to":"smtp:x"}`:                                           {422, "give a filter"},
		`{"to":"smtp:x","filter":{},"all":false}`:                   {422, "give a filter"},
		`{"all":true,"to":"smtp:x","filter":{"areas":["corrupt"]}}`: {422, "nothing to reroute"},
		`{"all":true,"to":"smtp:x","extra":1}`:                      {422, "extra"},
		`{"all":true,"to":"smtp:x","to":"smtp:y"}`:                  {400, ""},
		`{"all":true,"to":7}`:                                       {422, ""},
		`{"all":true,"to":"` + strings.Repeat("x", 513) + `"}`:      {422, "512"},
		`{"all":true,"to":"\u0000"}`:                                {422, "there is no such transport"},
	} {
		w := a.do("POST", "/v1/messages/reroute", body)
		if w.Code != want.status || !strings.Contains(w.Body.String(), want.text) || len(w.Body.String()) > 1200 {
			t.Errorf("%s: %d %s", body[:min(len(body), 80)], w.Code, w.Body)
		}
	}
	if got := targets(q, 1); got != "- " {
		t.Errorf("something was done: %s", got)
	}
	if w := serve(t, q, admin.Config{}).do("POST", "/v1/messages/reroute", `{"all":true,"to":"smtp:x"}`); w.Code != 501 {
		t.Errorf("without routes: %d", w.Code)
	}
}

// A message with very many recipients is rerouted in parts, each of at most a thousand.
func TestRerouteManyRecipients(t *testing.T) {
	var to []string
	for i := range 2500 {
		to = append(to, fmt.Sprintf("u%d@d%d", i, i%2))
	}
	q := admintest.New(message(1, mail.AreaDeferred, "a@b", to...))
	a := serve(t, q, admin.Config{ParseRoute: parseRoute})
	o := admin.RerouteOrder{To: "smtp:x"}
	o.Filter = &admin.Filter{Domain: []string{"d1"}}
	if got := a.reroute(o); got.Recipients != 1250 || got.Done != 1 {
		t.Errorf("%+v", got)
	}
	if n := strings.Count(targets(q, 1), "smtp:x"); n != 1250 {
		t.Errorf("%d recipients", n)
	}
	if most := q.MostRerouted(); most != 1000 {
		t.Errorf("%d recipients at once", most)
	}
}
