package admin_test

import (
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"reflect"
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
	"github.com/posthaste-mta/posthaste/qmgr/views"
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

// The description of the API has each reason and each state of a destination that the core knows: a client that is
// generated from it refuses an answer with another.
func TestDescriptionHasEveryReason(t *testing.T) {
	described := func(of any, field string) []string {
		f, _ := reflect.TypeOf(of).FieldByName(field)
		return slices.Sorted(slices.Values(strings.Split(f.Tag.Get("enum"), ",")))
	}
	reasons := []string{"suspended"} // what the spool knows, not the core
	for _, kind := range qmgr.WaitKinds()[1:] {
		reasons = append(reasons, kind.String())
	}
	slices.Sort(reasons)
	if got := described(admin.WaitReason{}, "Kind"); !slices.Equal(got, reasons) {
		t.Errorf("the API describes the reasons\n%v, the core has\n%v", got, reasons)
	}
	var states []string
	for _, c := range views.Conditions() {
		states = append(states, c.String())
	}
	slices.Sort(states)
	if got := described(admin.Destination{}, "State"); !slices.Equal(got, states) {
		t.Errorf("the API describes the states\n%v, the core has\n%v", got, states)
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
		{qmgr.WaitReason{Kind: qmgr.WaitDestinationDelay, Pause: 5 * time.Second}, nil, 1, 600 * time.Second, "120 deliveries, 5s apart"},
		{qmgr.WaitReason{Kind: qmgr.WaitWindow, Limit: 4}, []conns.HostView{host, {}}, 4, 6 * time.Second, "120 deliveries over 4 connections, each of which takes about 200ms"},
		{qmgr.WaitReason{Kind: qmgr.WaitWindow, Limit: 4}, []conns.HostView{{}}, 4, 0, ""},
		{qmgr.WaitReason{Kind: qmgr.WaitConnecting}, []conns.HostView{host}, 0, 0, ""},
		// Connections are limited, each of which carries any number of deliveries.
		{qmgr.WaitReason{Kind: qmgr.WaitConnectionRate, Rate: rate.Limit{N: 2, Per: time.Minute}}, []conns.HostView{host}, 4, 6 * time.Second, "120 deliveries over 4 connections, each of which takes about 200ms"},
		{qmgr.WaitReason{Kind: qmgr.WaitConnectionRate, Rate: rate.Limit{N: 2, Per: time.Minute}}, nil, 4, 0, ""},
		// The transport's other mail uses up the same limit, so there is no telling when all has gone.
		{qmgr.WaitReason{Kind: qmgr.WaitTransportRate, Rate: rate.Limit{N: 30, Per: time.Minute}}, nil, 1, 0, ""},
		{qmgr.WaitReason{Kind: qmgr.WaitTransportDelay, Pause: 5 * time.Second}, nil, 1, 0, ""},
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

// The explanation of a destination names what else is known about it, and only what would change
// its wait.
func TestExplainDestination(t *testing.T) {
	at := func(kind qmgr.WaitKind, change func(*qmgr.DestinationView)) qmgr.DestinationView {
		v := summaryOf("smtp", "example.net", 120, qmgr.ConditionFull, qmgr.WaitReason{Kind: kind, Limit: 5, Most: 20, Rate: rate.Limit{N: 30, Per: time.Minute}})
		change(&v)
		return v
	}
	for name, c := range map[string]struct {
		v           qmgr.DestinationView
		want, never string // parts of the answer as JSON
	}{
		"below the limit of the window": {at(qmgr.WaitWindow, func(*qmgr.DestinationView) {}),
			`"remedies":["successful deliveries, with which the window grows up to destination_concurrency_limit"]`, "raise"},
		"at the limit of the window": {at(qmgr.WaitWindow, func(v *qmgr.DestinationView) { v.Queue.WaitReason.Most = 5 }),
			`"remedies":["raise transport.smtp.destination_concurrency_limit if the receiver takes more at once"]`, "grows"},
		"no host answers": {at(qmgr.WaitWindow, func(v *qmgr.DestinationView) { v.Queue.Connections.Connecting = 5 }),
			"no connection is open; of the 5 that are being opened no host has answered yet", ""},
		"one connection, which no host answers": {at(qmgr.WaitConnecting, func(v *qmgr.DestinationView) { v.Queue.Connections.Connecting = 1 }),
			"of the one that is being opened no host has", ""},
		"a host answers": {at(qmgr.WaitWindow, func(v *qmgr.DestinationView) { v.Queue.Connections.Connecting, v.Queue.Connections.Ready = 4, 1 }),
			"", "no connection is open"},
		"lowered": {at(qmgr.WaitWindow, func(v *qmgr.DestinationView) { v.Queue.Lowered, v.Queue.LoweredUntil = "slow", noon }),
			"the rule [reply_rule.slow] has lowered its limits until 2", ""},
		"dead": {at(qmgr.WaitDead, func(v *qmgr.DestinationView) {
			v.Queue.Reason, v.Queue.Until = mail.Reply{Code: 451, Text: "down"}, noon
		}),
			"posthaste queue flush tries all deferred mail and all dead destinations now", "queue flush  tries"},
		"one of each": {at(qmgr.WaitWindow, func(v *qmgr.DestinationView) {
			v.Queue.WaitReason.Limit, v.Queue.WaitReason.Most, v.Queue.Todo, v.Messages = 1, 1, 1, 1
		}), `1 delivery of 1 message waits for this destination`, "of 1 connections"},
		"it rests": {at(qmgr.WaitDead, func(v *qmgr.DestinationView) {
			v.Queue.Reason, v.Queue.Rule = mail.Reply{Code: 451, Text: "down"}, "pause"
		}),
			"it rests by the rule [reply_rule.pause]", ""},
		"the transport's rate": {at(qmgr.WaitTransportRate, func(*qmgr.DestinationView) {}),
			"they take at least 4m in all, and longer if the transport has other mail: 120 deliveries at 30/min", ""},
		"fewer connections than configured": {at(qmgr.WaitConnectionLimit, func(*qmgr.DestinationView) {}),
			"set in line 7; 5 are in force, because there are no more file descriptors or no more memory", ""},
		"as many as configured": {at(qmgr.WaitConnectionLimit, func(v *qmgr.DestinationView) { v.Queue.WaitReason.Limit = 2000 }), "set in line 7", "in force"},
	} {
		q := admintest.New()
		q.SetDestinations(c.v)
		w := serve(t, q, admin.Config{Configuration: &file{value: "2000"}}).do("GET", "/v1/explain?destination=example.net", "")
		if text := w.Body.String(); w.Code != 200 || !strings.Contains(text, c.want) || c.never != "" && strings.Contains(text, c.never) {
			t.Errorf("%s: %d %s\nwant %q, and not %q", name, w.Code, text, c.want, c.never)
		}
	}
}

// One recipient is explained by where it is itself, whatever others of its message wait for, and
// with its own reply, which may not be on disk yet.
func TestExplainRecipient(t *testing.T) {
	m := message(1, mail.AreaIncoming, "a@b", "wait@d", "busy@d", "route@d", "read@d", "tried@d", "later@d", "sent@d", "twice@d", "twice@d")
	m.InCore = true
	m.Places = []qmgr.PlaceView{{Transport: "smtp", Nexthop: "other", Waiting: 1, WaitReason: qmgr.WaitReason{Kind: qmgr.WaitDead}}, {Transport: "smtp", Nexthop: "d", Busy: 1}}
	soft := mail.Reply{Code: 450, Text: "greylisted"}
	m.Recipients[5].Outcome = mail.Outcome{Result: mail.Deferred, Reply: soft}
	m.Recipients[7].Outcome = mail.Outcome{Result: mail.Delivered, Reply: mail.Reply{Code: 250, Text: "Ok"}}
	m.Where = map[uint32]qmgr.RecipientView{
		0: {Place: &qmgr.PlaceView{Transport: "smtp", Nexthop: "d", Waiting: 1, WaitReason: qmgr.WaitReason{Kind: qmgr.WaitTurn}, Sharing: qmgr.Sharing{Flows: 2, Share: 500}}},
		1: {Place: &qmgr.PlaceView{Transport: "smtp", Nexthop: "d", Busy: 1}},
		2: {Routing: true},
		3: {Unread: true},
		4: {Outcome: mail.Outcome{Index: 4, Result: mail.Deferred, Reply: soft}},
		6: {Outcome: mail.Outcome{Index: 6, Result: mail.Delivered, Reply: mail.Reply{Code: 250, Text: "Ok"}}},
		8: {Place: &qmgr.PlaceView{Transport: "smtp", Nexthop: "d", Busy: 1}},
	}
	q := admintest.New(m)
	a := serve(t, q, admin.Config{})
	for to, want := range map[string][2]string{ // code and reply
		"wait@d": {"turn", ""}, "busy@d": {"delivering", ""}, "route@d": {"routing", ""}, "read@d": {"reading", ""},
		"tried@d": {"backoff", "450 greylisted"}, "later@d": {"backoff", "450 greylisted"}, "sent@d": {"settled", "250 Ok"}, "twice@d": {"delivering", ""},
	} {
		x := get[admin.Explanation](a, "GET", "/v1/explain?id="+id(1).String()+"&recipient="+to, "")
		if len(x.Parts) != 1 || x.Parts[0].Code != want[0] || len(x.Parts[0].Remedies) == 0 {
			t.Errorf("%s: %+v, want %v", to, x, want)
			continue
		}
		p := &x.Parts[0]
		if reply := ""; len(p.Replies) > 1 || len(p.Replies) == 1 && p.Replies[0].Reply != want[1] || len(p.Replies) == 0 && want[1] != reply {
			t.Errorf("%s: %+v, want %v", to, p.Replies, want)
		}
		if to == "wait@d" && (p.Place != "smtp:d" || !strings.HasSuffix(p.Ahead[len(p.Ahead)-1], "2 flows share the destination; its flow has 50.0 %, and its next delivery starts first")) {
			t.Errorf("%+v", p)
		}
	}
}

// Mail that is not in core waits for room only if there is none, and what an operator holds
// before its sender's date is not sent by its release.
func TestExplainWhatIsNotInCore(t *testing.T) {
	dated := message(1, mail.AreaHold, "a@b", "c@d")
	dated.Envelope.Release = mail.Instant(time.Now().Add(time.Hour).UnixNano())
	fresh := message(2, mail.AreaIncoming, "a@b", "c@d")
	q := admintest.New(dated, fresh)
	a := serve(t, q, admin.Config{})
	explain := func(n int) admin.ExplanationPart {
		return get[admin.Explanation](a, "GET", "/v1/explain?id="+id(n).String(), "").Parts[0]
	}
	if p := explain(1); p.Code != "release" || len(p.Ahead) != 1 || !strings.HasPrefix(p.Ahead[0], "after its release it waits until 20") {
		t.Errorf("%+v", p)
	}
	if p := explain(2); p.Code != "room" || !strings.Contains(p.Text, "its part of the room") {
		t.Errorf("the core has room: %+v", p)
	}
	q.SetCore(qmgr.View{Behind: true})
	if p := explain(2); p.Code != "room" || !strings.Contains(p.Text, "as much mail as it may") {
		t.Errorf("the core is full: %+v", p)
	}
	for query, want := range map[string]string{"destination=c.d": "queue list --domain", "flow=none": "queue list --flow"} {
		if w := a.do("GET", "/v1/explain?"+query, ""); w.Code != 404 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}

// An explanation has at most five different replies, and says of a message that is held until an
// instant what happens then.
func TestExplainReplies(t *testing.T) {
	m := message(1, mail.AreaDeferred, "a@b", "1@d", "2@d", "3@d", "4@d", "5@d", "6@d", "7@d")
	for i := range m.Recipients {
		m.Recipients[i].Outcome = mail.Outcome{Result: mail.Deferred, Reply: mail.Reply{Code: 450, Text: string(m.Recipients[i].Recipient.Address)}}
	}
	lapsing := message(2, mail.AreaHold, "", "c@d")
	lapsing.Place.Due = mail.Instant(time.Now().Add(time.Hour).UnixNano())
	a := serve(t, admintest.New(m, lapsing), admin.Config{})
	p := get[admin.Explanation](a, "GET", "/v1/explain?id="+id(1).String(), "").Parts[0]
	if len(p.Replies) != 5 || p.Replies[4].Recipient != "5@d" {
		t.Errorf("%+v", p.Replies)
	}
	if p = get[admin.Explanation](a, "GET", "/v1/explain?id="+id(2).String(), "").Parts[0]; p.At == nil || !strings.Contains(p.Basis, "it is removed then") {
		t.Errorf("%+v", p)
	}
}

// An explanation names the hosts that may have the message, of the recipients that wait, each with the most attempts; from three
// attempts on it says that other hosts come first. What is in core is not on disk yet.
func TestExplainDoubts(t *testing.T) {
	host := func(n byte) netip.AddrPort { return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, n}), 25) }
	doubts := func(times ...int) (d *mail.Doubts) {
		for i, n := range times {
			for range n {
				d = d.With(host(byte(i + 1)))
			}
		}
		return d
	}
	m := message(1, mail.AreaDeferred, "a@b", "once@d", "often@d", "sent@d", "none@d")
	for i, d := range []*mail.Doubts{doubts(1, 1), doubts(3, 1, 2), doubts(4), nil} {
		m.Recipients[i].Outcome = mail.Outcome{Result: mail.Deferred, Doubts: d}
	}
	m.Recipients[2].Outcome.Result = mail.Delivered
	held := message(2, mail.AreaIncoming, "a@b", "now@d", "same@d")
	held.InCore = true
	held.Recipients[0].Outcome = mail.Outcome{Result: mail.Deferred, Doubts: doubts(2)}
	held.Recipients[1].Outcome = mail.Outcome{Result: mail.Deferred, Doubts: doubts(2)}
	held.Where = map[uint32]qmgr.RecipientView{
		0: {Outcome: mail.Outcome{Index: 0, Result: mail.Deferred, Doubts: doubts(3)}},
		1: {Outcome: mail.Outcome{Index: 1, Result: mail.Deferred}},
	}
	a := serve(t, admintest.New(m, held), admin.Config{})
	for query, want := range map[string]string{
		id(1).String():                        "1 3 often@d avoided, 2 1 once@d, 3 2 often@d",
		id(1).String() + "&recipient=once@d":  "1 1 once@d, 2 1 once@d",
		id(1).String() + "&recipient=often@d": "1 3 often@d avoided, 2 1 often@d, 3 2 often@d",
		id(1).String() + "&recipient=sent@d":  "",
		id(1).String() + "&recipient=none@d":  "",
		id(2).String() + "&recipient=now@d":   "1 3 now@d avoided",
		id(2).String() + "&recipient=same@d":  "1 2 same@d",
	} {
		var got []string
		for _, d := range get[admin.Explanation](a, "GET", "/v1/explain?id="+query, "").Doubtful {
			text := fmt.Sprintf("%s %d %s", strings.TrimSuffix(strings.TrimPrefix(d.Host, "192.0.2."), ":25"), d.Times, d.Recipient)
			switch avoided := strings.HasPrefix(d.Next, "other hosts of the destination come first"); {
			case avoided:
				text += " avoided"
			case !strings.HasPrefix(d.Next, "after 3 such attempts, other hosts"):
				t.Errorf("%s: next %q", query, d.Next)
			}
			got = append(got, text)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

// A flow is explained destination by destination where something of it waits; what is under way
// is said where nothing waits. No end is foretold that is a year away.
func TestExplainFlow(t *testing.T) {
	full := summaryOf("smtp", "example.net", 120, qmgr.ConditionFull, qmgr.WaitReason{Kind: qmgr.WaitWindow, Limit: 5, Most: 20})
	full.DestinationSummary.Hosts.Failure, full.DestinationSummary.Hosts.FailedAt = mail.Reply{Code: 421, Text: "busy"}, noon
	full.Queue.Busy, full.Queue.Window = 8, 4
	full.Hosts = []conns.HostView{{Known: destdb.View{Service: 150 * time.Millisecond}}}
	slow := summaryOf("smtp", "slow.example", 120, qmgr.ConditionFull, qmgr.WaitReason{Kind: qmgr.WaitDestinationDelay, Pause: 100 * 24 * time.Hour})
	idle := summaryOf("smtp", "idle.example", 0, qmgr.ConditionReady, qmgr.WaitReason{})
	idle.Queue.Busy = 3
	q := admintest.New()
	q.SetDestinations(full, slow, idle)
	q.SetFlows(qmgr.FlowView{Flow: mail.Flow{Class: "bulk", Tenant: "shop", Flow: "news@b"}, Busy: 3, Places: []qmgr.FlowPlace{
		{Transport: "smtp", Nexthop: "example.net", Waiting: 9, Sharing: qmgr.Sharing{Flows: 3, Share: 333, Turns: 1}},
		{Transport: "smtp", Nexthop: "idle.example", Busy: 3}}},
		qmgr.FlowView{Flow: mail.Flow{Class: "bulk", Tenant: "shop", Flow: "done@b"}, Busy: 2})
	a := serve(t, q, admin.Config{})
	explain := func(query string) admin.Explanation {
		return get[admin.Explanation](a, "GET", "/v1/explain?"+query, "")
	}
	x := explain("flow=news*")
	if len(x.Parts) != 1 || x.Parts[0].Place != "smtp:example.net" || x.Parts[0].Code != "window" || !strings.HasSuffix(x.Parts[0].Ahead[1], "at most one delivery of another starts before its next one") {
		t.Errorf("%+v", x)
	}
	if !strings.HasSuffix(x.Parts[0].Basis, "120 deliveries over 4 connections, each of which takes about 150ms") {
		t.Errorf("%+v", x.Parts[0])
	}
	if x = explain("flow=done@b"); len(x.Parts) != 1 || x.Parts[0].Text != "nothing of it waits; 2 transactions are under way" {
		t.Errorf("%+v", x)
	}
	if x = explain("destination=idle.example"); x.Parts[0].Code != "delivering" || x.Parts[0].Text != "nothing waits for it; 3 transactions are under way" {
		t.Errorf("%+v", x)
	}
	if p := explain("destination=example.net").Parts[0]; len(p.Replies) != 1 || p.Replies[0].Reply != "421 busy" {
		t.Errorf("%+v", p)
	}
	if p := explain("destination=slow.example").Parts[0]; p.At != nil || len(p.Ahead) != 1 {
		t.Errorf("an end in 30 years: %+v", p)
	}
}
