package admin_test

import (
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
)

// Every reason for which the core lets mail wait has a sentence, something that would change
// it, and a section in the document; the document has no others but those of mail outside.
func TestEveryWaitIsExplained(t *testing.T) {
	text, err := os.ReadFile("../docs/diagnosing.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := make(map[string]int)
	for _, section := range strings.Split(string(text), "\n### ")[1:] {
		code, body, _ := strings.Cut(section, "\n")
		body, _, _ = strings.Cut(body, "\n## ")
		sections[code] = len(strings.TrimSpace(body))
	}
	known := []string{"room", "backoff", "suspended", "release", "date", "repair", "settled", "reading", "routing", "delivering", "deferring"}
	for _, kind := range qmgr.WaitKinds()[1:] {
		known = append(known, kind.String())
		o := qmgr.WaitReason{Kind: kind, Limit: 3, Rate: rate.Limit{N: 5, Per: time.Second}, Pause: time.Second, Hosts: conns.TierView{Hosts: 1, Full: 1}}
		q := admintest.New()
		q.SetDestinations(summaryOf("smtp", "example.net", 1, qmgr.ConditionFull, o))
		x := get[admin.Explanation](serve(t, q, admin.Config{Configuration: &file{}}), "GET", "/v1/explain?destination=example.net", "")
		if len(x.Parts) != 1 || x.Parts[0].Code != kind.String() || x.Parts[0].Text == "" || len(x.Parts[0].Remedies) == 0 {
			t.Errorf("%v: %+v", kind, x)
			continue
		}
		for _, remedy := range x.Parts[0].Remedies {
			if strings.Contains(remedy, "KEY") || strings.Contains(remedy, "PLACE") {
				t.Errorf("%v: %q", kind, remedy)
			}
		}
	}
	for _, code := range known {
		if sections[code] < 40 {
			t.Errorf("docs/diagnosing.md: the section %q has %d octets", code, sections[code])
		}
	}
	for code := range sections {
		if !slices.Contains(known, code) {
			t.Errorf("docs/diagnosing.md: no wait has the code %q", code)
		}
	}
}

// A message is explained by where it is, with the parameter that binds and where it is set,
// the last replies, and what would change it.
func TestExplainMessage(t *testing.T) {
	later := mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 7, Detail: 1}, Text: "Greylisted,\ncome back", By: "mx.d[192.0.2.1]"}
	deferred := message(1, mail.AreaDeferred, "a@b", "c@d", "e@d", "done@d")
	due := time.Now().Add(time.Hour).Truncate(time.Second).UTC()
	deferred.Place.Due = mail.Instant(due.UnixNano())
	deferred.Recipients[0].Outcome = mail.Outcome{Result: mail.Deferred, Reply: later}
	deferred.Recipients[1].Outcome = mail.Outcome{Result: mail.Deferred, Reply: later}
	deferred.Recipients[2].Outcome = mail.Outcome{Result: mail.Delivered, Reply: mail.Reply{Code: 250, Text: "Ok"}}
	held := message(2, mail.AreaHold, "a@b", "c@d")
	held.Reason = "phish?"
	incoming := message(3, mail.AreaIncoming, "a@b", "c@d")
	parked := message(4, mail.AreaIncoming, "a@b", "c@d")
	parked.Parked = qmgr.WaitLookups
	damaged := message(5, mail.AreaCorrupt, "")
	damaged.Damaged, damaged.Reason = true, "checksum"
	a := serve(t, admintest.New(deferred, held, incoming, parked, damaged), admin.Config{Configuration: &file{}})
	reply := admin.LastReply{Recipient: "c@d", Reply: "451 4.7.1 Greylisted,\n451 4.7.1 come back", By: "mx.d[192.0.2.1]"}
	for _, c := range []struct {
		n     int
		query string
		code  string
		want  func(*admin.ExplanationPart) bool
	}{
		{1, "", "backoff", func(p *admin.ExplanationPart) bool {
			return p.At != nil && p.At.Equal(due) && len(p.Replies) == 1 && strings.Contains(strings.Join(p.Remedies, " "), "queue flush "+id(1).String())
		}},
		{1, "&recipient=E@d", "backoff", func(p *admin.ExplanationPart) bool { return len(p.Replies) == 1 && p.Replies[0].Recipient == "e@d" }},
		{1, "&recipient=done@d", "settled", func(p *admin.ExplanationPart) bool {
			return strings.Contains(p.Text, "sent") && p.Replies[0].Reply == "250 Ok"
		}},
		{2, "", "release", func(p *admin.ExplanationPart) bool { return strings.Contains(p.Text, "phish?") && p.At == nil }},
		{3, "", "room", func(p *admin.ExplanationPart) bool { return p.Replies == nil }},
		{4, "", "lookups", func(p *admin.ExplanationPart) bool { return p.Rule == nil }},
		{5, "", "repair", func(p *admin.ExplanationPart) bool { return true }},
	} {
		x := get[admin.Explanation](a, "GET", "/v1/explain?id="+id(c.n).String()+c.query, "")
		if len(x.Parts) != 1 || x.Parts[0].Code != c.code || x.Parts[0].Text == "" || len(x.Parts[0].Remedies) == 0 || !c.want(&x.Parts[0]) {
			t.Errorf("message %d%s: %+v", c.n, c.query, x)
		}
	}
	x := get[admin.Explanation](a, "GET", "/v1/explain?id="+id(1).String(), "")
	got := x.Parts[0].Replies[0]
	got.Reply = strings.ReplaceAll(got.Reply, "\r", "")
	if diff := cmp.Diff(reply.By, got.By); diff != "" || !strings.Contains(got.Reply, "Greylisted,") {
		t.Errorf("%+v", got)
	}
	for query, code := range map[string]int{"": 422, "id=" + id(1).String() + "&flow=x": 422, "recipient=c@d": 422, "id=" + id(1).String() + "&recipient=x@y": 404,
		"id=" + id(9).String(): 404, "id=zzz": 400, "destination=nowhere": 404, "flow=none": 404, "flow=" + url.QueryEscape("/(/"): 422} {
		if w := a.do("GET", "/v1/explain?"+query, ""); w.Code != code {
			t.Errorf("%q: %d %s, want %d", query, w.Code, w.Body, code)
		}
	}
}

// The estimate is a rate, a pause, or the time of a transaction, times what waits.
func TestEstimate(t *testing.T) {
	host := conns.HostView{Known: destdb.View{Service: 150 * time.Millisecond, RTT: 50 * time.Millisecond}}
	for _, c := range []struct {
		reason qmgr.WaitReason
		hosts  []conns.HostView
		open   int
		want   time.Duration // 0 for none
		basis  string
	}{
		{qmgr.WaitReason{Kind: qmgr.WaitDestinationRate, Rate: rate.Limit{N: 30, Per: time.Minute}}, nil, 1, 240 * time.Second, "120 deliveries at 30/min"},
		{qmgr.WaitReason{Kind: qmgr.WaitTransportDelay, Pause: 5 * time.Second}, nil, 1, 600 * time.Second, "120 deliveries, 5s apart"},
		{qmgr.WaitReason{Kind: qmgr.WaitWindow, Limit: 4}, []conns.HostView{host, {}}, 4, 6 * time.Second, "120 deliveries over 4 connections, each of which takes about 200ms"},
		{qmgr.WaitReason{Kind: qmgr.WaitWindow, Limit: 4}, []conns.HostView{{}}, 4, 0, ""},
		{qmgr.WaitReason{Kind: qmgr.WaitConnecting}, []conns.HostView{host}, 0, 0, ""},
	} {
		v := summaryOf("smtp", "example.net", 120, qmgr.ConditionFull, c.reason)
		v.Hosts, v.Queue.Connections.Ready, v.Queue.Busy, v.Queue.Window = c.hosts, c.open, 0, 0
		q := admintest.New()
		q.SetDestinations(v)
		before := time.Now()
		p := get[admin.Explanation](serve(t, q, admin.Config{}), "GET", "/v1/explain?destination=example.net", "").Parts[0]
		if c.want == 0 {
			if p.At != nil {
				t.Errorf("%+v: %v, %s", c.reason, p.At, p.Basis)
			}
			continue
		}
		if p.At == nil || p.At.Before(before.Add(c.want-time.Second)) || p.At.After(time.Now().Add(c.want+time.Second)) || !strings.HasSuffix(p.Basis, c.basis) || len(p.Ahead) != 1 {
			t.Errorf("%+v: %v in %v, %q, %q", c.reason, p.At, c.want, p.Basis, p.Ahead)
		}
	}
}
