package admin_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
	"github.com/posthaste-mta/posthaste/mail"
)

// Recipients are counted one by one, a message once in each group that it has recipients in,
// and in the total once.
func TestCount(t *testing.T) {
	full := mail.Reply{Code: 452, Text: "full", By: "mx.c"}
	first := message(1, mail.AreaDeferred, "A@B", "j@c", "k@C", "l@d", "m@d")
	first.Envelope.Flow = mail.Flow{Class: "bulk", Tenant: "shop", Flow: "a@b"}
	first.Recipients[0].Outcome.Reply, first.Recipients[2].Outcome.Reply = full, full
	first.Recipients[3].Outcome = mail.Outcome{Result: mail.Delivered}
	first.Recipients[0].Outcome.Via = mail.Via{Nexthop: "mx.c", Source: "s1"}
	second := message(2, mail.AreaHold, "", "j@c")
	third := message(3, mail.AreaIncoming, "x@b", "j@e")
	a := serve(t, admintest.New(first, second, third), admin.Config{ReplyClass: func(r mail.Reply) string {
		return strings.TrimPrefix(r.Text, "no")
	}})
	for _, c := range []struct{ query, want string }{
		{"", "3 5: "},
		{"by=area", "3 5: deferred=1/3 hold=1/1 incoming=1/1 "},
		{"by=sender", "3 5: A@B=1/3 =1/1 x@b=1/1 "},
		{"by=sender-domain", "3 5: b=2/4 =1/1 "},
		{"by=class", "3 5: bulk=1/3 =2/2 "},
		{"by=tenant&class=bulk", "1 3: shop=1/3 "},
		{"by=flow&domain=d", "1 1: a@b=1/1 "},
		{"by=domain", "3 5: c=2/3 d=1/1 e=1/1 "},
		{"by=domain&recipient=k@*&recipient=l@*", "1 2: c=1/1 d=1/1 "},
		{"by=reply-class", "3 5: =3/3 full=1/2 "},
		{"by=error&error=full", "1 2: 452 full=1/2 "},
		{"by=host&domain=c", "2 3: =2/2 mx.c=1/1 "},
		{"by=site", "3 5: =3/4 mx.c=1/1 "},
		{"by=source", "3 5: =3/4 s1=1/1 "},
		{"domain=nowhere", "0 0: "},
	} {
		got := get[admin.Count](a, "GET", "/v1/counts?"+c.query, "")
		text := fmt.Sprintf("%d %d: ", got.Messages, got.Recipients)
		for _, g := range got.Groups {
			text += fmt.Sprintf("%s=%d/%d ", g.Value, g.Messages, g.Recipients)
		}
		if text != c.want || got.Other != nil {
			t.Errorf("%s: %s%v, want %s", c.query, text, got.Other, c.want)
		}
	}
	b := serve(t, admintest.New(message(1, mail.AreaDeferred, "x@bücher.test", "ä@bücher.test", "u@xn--bcher-kva.test"), message(2, mail.AreaDeferred, "x@XN--bcher-kva.test", "j@Bücher.test")), admin.Config{})
	for _, by := range []string{"domain", "sender-domain"} { // one domain, however it is written
		if got := get[admin.Count](b, "GET", "/v1/counts?by="+by, ""); len(got.Groups) != 1 || got.Groups[0] != (admin.Group{Value: "xn--bcher-kva.test", Messages: 2, Recipients: 3}) {
			t.Errorf("by %s: %+v", by, got.Groups)
		}
	}
	if w := a.do("GET", "/v1/counts?by=size", ""); w.Code != 422 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// A message with more domains than an answer has groups is counted all the same, in bounded
// memory; and pages add up to the whole.
func TestCountIsBounded(t *testing.T) {
	var many []string
	for i := range admin.GroupsMax + 500 {
		many = append(many, fmt.Sprintf("a@d%d.example", i))
	}
	messages := []admintest.Message{message(1, mail.AreaDeferred, "a@b", many...)}
	for n := 2; n <= 12; n++ {
		messages = append(messages, message(n, mail.AreaDeferred, "a@b", "x@d1.example"))
	}
	a := serve(t, admintest.New(messages...), admin.Config{SweepMessages: 5, ScanRecipients: 1 << 30})
	var all admin.Count
	pages, groups, other := 0, make(map[string]int), admin.Group{}
	for cursor := ""; ; pages++ {
		page := get[admin.Count](a, "GET", "/v1/counts?by=domain&cursor="+url.QueryEscape(cursor), "")
		all.Messages, all.Recipients, all.Scanned = all.Messages+page.Messages, all.Recipients+page.Recipients, all.Scanned+page.Scanned
		if len(page.Groups) > admin.GroupsMax {
			t.Fatalf("%d groups", len(page.Groups))
		}
		for _, g := range page.Groups {
			groups[g.Value] += g.Recipients
		}
		if page.Other != nil {
			other.Add(*page.Other)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if diff := cmp.Diff(admin.Count{Messages: 12, Recipients: len(many) + 11, Scanned: 12}, all); diff != "" || pages < 2 {
		t.Errorf("%d pages: %s", pages, diff)
	}
	if groups["d1.example"] != 12 || other.Recipients != 500 {
		t.Errorf("d1.example: %d, others: %+v", groups["d1.example"], other)
	}
}
