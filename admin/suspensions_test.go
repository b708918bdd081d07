package admin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
	"github.com/posthaste-mta/posthaste/internal/event"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
	"github.com/posthaste-mta/posthaste/qmgr/suspend"
)

// A suspender keeps suspensions in memory.
type suspender struct {
	in    []qmgr.SuspensionView
	known bool
	fails error
	full  bool
}

const suspendedAt = mail.Instant(1_800_000_000e9)

func (s *suspender) take(scope measure.Scope, value string) (was qmgr.SuspensionView) {
	if i := slices.IndexFunc(s.in, func(v qmgr.SuspensionView) bool { return v.Scope == scope && v.Value == value }); i >= 0 {
		was = s.in[i]
		s.in = slices.Delete(s.in, i, i+1)
	}
	return was
}

func (s *suspender) Suspend(_ context.Context, o qmgr.Suspend) (c admin.SuspensionChange, err error) {
	if s.full {
		return c, nil
	}
	until := mail.Never
	if o.For > 0 {
		until = suspendedAt.Add(o.For)
	}
	c = admin.SuspensionChange{Was: s.take(o.Scope, o.Value), Known: s.known, Is: qmgr.SuspensionView{Scope: o.Scope, Value: o.Value, Order: measure.Order{By: o.By, Reason: o.Reason, Since: suspendedAt, Until: until}}}
	s.in = append(s.in, c.Is)
	return c, s.fails
}

func (s *suspender) Resume(_ context.Context, o qmgr.Resume) (admin.SuspensionChange, error) {
	return admin.SuspensionChange{Was: s.take(o.Scope, o.Value), Known: true}, s.fails
}

func (s *suspender) Suspensions(context.Context) ([]qmgr.SuspensionView, error) {
	return s.in, nil
}

// An operator suspends, lists and resumes. What cannot be suspended is refused, and what is
// not known is suspended with a warning.
func TestSuspensions(t *testing.T) {
	s := &suspender{}
	var log bytes.Buffer
	a := serve(t, admintest.New(), admin.Config{Suspender: s, Logger: event.NewStrict(&log, nil, nil)})
	for _, c := range []struct {
		path, body string
		code       int
		says       string
	}{
		{"", `{"scope":"domain","value":"a.test","for":"2h","reason":"complaints"}`, 200, `"warning":"domain a.test has no mail in core now`},
		{"", `{"scope":"domain","value":"a.test","reason":"more complaints"}`, 200, `"before":{`},
		{"", `{"scope":"transport","value":"smtp","for":"10m","reason":"x"}`, 200, "is not configured"},
		{"", `{"scope":"tenant","value":"jo","for":"","reason":"x"}`, 200, `shows tenants`},
		{"", `{"scope":"transport","value":"retry","reason":"x"}`, 422, "cannot be suspended"},
		{"", `{"scope":"transport","value":"error","reason":"x"}`, 422, "cannot be suspended"},
		{"", `{"scope":"domain","value":"*.a.test","reason":"x"}`, 422, "subdomains are domains of their own"},
		{"", `{"scope":"domain","value":"u@a.test","reason":"x"}`, 422, "without @"},
		{"", `{"scope":"domain","value":"a.test.","reason":"x"}`, 422, "without a dot at its end"},
		{"", `{"scope":"domain","value":".x.test","reason":"x"}`, 422, "a leading dot"},
		{"", `{"scope":"domain","value":"/x/","reason":"x"}`, 422, "a leading dot"},
		{"", `{"scope":"site","value":"{a;b","reason":"x"}`, 422, "a site as"},
		{"", `{"scope":"site","value":"/x/","reason":"x"}`, 422, "a site as"},
		{"", `{"scope":"tenant","value":"` + strings.Repeat("𝔘", 1000) + `","reason":"x"}`, 422, "longer than 1024 bytes"},
		{"", `{"scope":"domain","value":"b.test","for":"-1h","reason":"x"}`, 422, "a time such as"},
		{"", `{"scope":"domain","value":"b.test","for":"soon","reason":"x"}`, 422, "a time such as"},
		{"", `{"scope":"domain","value":"b.test","for":"0s","reason":"x"}`, 422, "a time such as"},
		{"", `{"scope":"domain","value":"b.test"}`, 422, "reason"},
		{"", `{"scope":"domain","value":"b.test","reason":""}`, 422, "reason"},
		{"", `{"scope":"domain","value":" b.test","reason":"x"}`, 422, "a space"},
		{"", `{"scope":"domain","value":"b\n.test","reason":"x"}`, 422, "control characters"},
		{"", `{"scope":"domain","value":"b.test","reason":"x\u0000"}`, 422, "control characters"},
		{"", `{"scope":"resumed","value":"b.test","reason":"x"}`, 422, "scope"},
		{"", `{"scope":"domain","value":"","reason":"x"}`, 422, "value"},
		{"", `{"scope":"domain","value":"b.test","reason":"` + strings.Repeat("x", 401) + `"}`, 422, "reason"},
		{"/resume", `{"scope":"site","value":"a.test"}`, 404, "site a.test is not suspended"},
		{"/resume", `{"scope":"transport","value":"smtp"}`, 200, `"suspension":{`},
	} {
		if w := a.do("POST", "/v1/suspensions"+c.path, c.body); w.Code != c.code || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s %s: %d %s, want %d and %q", c.path, c.body, w.Code, w.Body, c.code, c.says)
		}
	}
	got := get[admin.SuspensionPage](a, "GET", "/v1/suspensions", "")
	if len(got.Suspensions) != 2 || got.Suspensions[0].Value != "a.test" || got.Suspensions[0].Reason != "more complaints" || got.Suspensions[0].Until != nil || got.Suspensions[0].By == "" {
		t.Errorf("in force are %+v", got.Suspensions)
	}
	for _, line := range []string{"verb=suspend scope=domain value=a.test for=2h reason=complaints by=", "verb=resume scope=transport value=smtp"} {
		if !strings.Contains(log.String(), line) {
			t.Errorf("the log has no line with %q:\n%s", line, log.String())
		}
	}
}

// An order that could not be saved is in force, and the operator hears that it may not last. One beyond the
// limit is refused, and a program without suspensions says so.
func TestSuspensionsThatFail(t *testing.T) {
	s := &suspender{fails: fmt.Errorf("%w: %w", admin.ErrUnsaved, errors.New("disk full"))}
	a := serve(t, admintest.New(), admin.Config{Suspender: s})
	const order = `{"scope":"domain","value":"a.test","reason":"x"}`
	if w := a.do("POST", "/v1/suspensions", order); w.Code != 500 || !strings.Contains(w.Body.String(), "in force, but could not be saved") {
		t.Errorf("not saved: %d %s", w.Code, w.Body)
	}
	s.fails, s.full = nil, true
	if w := a.do("POST", "/v1/suspensions", order); w.Code != 409 || !strings.Contains(w.Body.String(), "1000 suspensions are in force") {
		t.Errorf("too many: %d %s", w.Code, w.Body)
	}
	a = serve(t, admintest.New(), admin.Config{})
	for _, r := range [][3]string{{"GET", "/v1/suspensions", ""}, {"POST", "/v1/suspensions", order}, {"POST", "/v1/suspensions/resume", `{"scope":"domain","value":"a.test"}`}} {
		if w := a.do(r[0], r[1], r[2]); w.Code != 501 {
			t.Errorf("%s without suspensions: %d %s", r[1], w.Code, w.Body)
		}
	}
}

// Mail that waits says which suspension keeps it, until when, and which command ends that; other views name
// it, too.
func TestSuspendedMail(t *testing.T) {
	at := suspendedAt.Add(time.Hour)
	s := &suspender{in: []qmgr.SuspensionView{
		{Scope: measure.Site, Value: "{mx1;mx2}", Order: measure.Order{By: "jo", Reason: "slow", Since: suspendedAt, Until: mail.Never}},
		{Scope: measure.Domain, Value: "a.test", Order: measure.Order{By: "jo", Reason: "complaints", Since: suspendedAt, Until: at}},
		{Scope: measure.Tenant, Value: "acme", Order: measure.Order{By: "ann", Reason: "taken over", Since: suspendedAt, Until: mail.Never}},
	}}
	q := admintest.New()
	put := func(n int, tenant, to string, last mail.Reply) {
		m := deferredFor(message(n, mail.AreaDeferred, "s@x.test", to), last)
		m.Place.Due = mail.Instant(time.Now().Add(time.Hour).UnixNano())
		m.Envelope.Flow = mail.Flow{Class: "normal", Tenant: tenant, Flow: "f"}
		q.Add(m)
	}
	put(1, "t", "x@a.test", mail.Reply{})
	put(2, "acme", "x@b.test", mail.Reply{Code: 450, Text: "busy", By: "mx"})
	put(3, "t", "x@b.test", mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 3, Detail: 2}, Text: suspend.Prefix + "site {mx1;mx2}"})
	put(4, "t", "x@b.test", mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 3, Detail: 2}, Text: suspend.Prefix + "site resumed.test"})
	q.SetFlows(qmgr.FlowView{Flow: mail.Flow{Class: "normal", Tenant: "acme", Flow: "news"}})
	a := serve(t, q, admin.Config{Suspender: s})
	for n, want := range map[int]string{
		1: "domain a.test is suspended by jo: complaints; until 2027-01-15 09:00:00; posthaste queue resume --domain a.test",
		2: "tenant acme is suspended by ann: taken over; posthaste queue resume --tenant acme",
		3: "site {mx1;mx2} is suspended by jo: slow; posthaste queue resume --site '{mx1;mx2}'",
		4: "",
	} {
		m := get[admin.Detail](a, "GET", "/v1/messages/"+id(n).String(), "")
		got := ""
		if r := m.WaitReason; r != nil {
			got = r.Text
			if r.Until != nil {
				got += r.Until.Format("; until 2006-01-02 15:04:05")
			}
			got += "; " + r.Command
		}
		if got != want || (m.Wait == admin.WaitSuspended) != (want != "") {
			t.Errorf("message %d waits for %s: %q, want %q", n, m.Wait, got, want)
		}
	}
	for query, want := range map[string]string{"id=" + id(1).String(): "domain a.test is suspended by jo: complaints; posthaste queue resume --domain a.test",
		"destination=A.test": "domain a.test is suspended by jo: complaints; posthaste queue resume --domain a.test", "destination=smtp:a.test": "domain a.test is suspended by jo: complaints; posthaste queue resume --domain a.test",
		"flow=news": "tenant acme is suspended by ann: taken over; posthaste queue resume --tenant acme"} {
		if p := get[admin.Explanation](a, "GET", "/v1/explain?"+query, "").Parts[0]; p.Code != "suspended" || p.Text+"; "+p.Remedies[0] != want || (p.At != nil) != strings.Contains(want, "a.test") {
			t.Errorf("explain %s: %+v, want %s", query, p, want)
		}
	}
	if page := get[admin.Page](a, "GET", "/v1/messages", ""); page.Messages[0].Wait != admin.WaitSuspended {
		t.Errorf("a list shows %+v", page.Messages[0])
	}
	if page := get[admin.FlowPage](a, "GET", "/v1/flows", ""); page.Suspensions == nil || page.Suspensions.Total != 1 || page.Suspensions.Few[0].Value != "acme" {
		t.Errorf("flows show %+v", page.Suspensions)
	}
	if page := get[admin.DestinationPage](a, "GET", "/v1/destinations", ""); page.Suspensions == nil || page.Suspensions.Total != 3 {
		t.Errorf("destinations show %+v", page.Suspensions)
	}
	if status := get[admin.Status](a, "GET", "/v1/status", ""); status.Suspensions == nil || status.Suspensions.Total != 3 {
		t.Errorf("the status shows %+v", status.Suspensions)
	}
}
