package admin_test

import (
	"net/http"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

func TestSources(t *testing.T) {
	q := admintest.New()
	at := time.Date(2026, 11, 23, 4, 0, 0, 0, time.UTC)
	instant := func(d time.Duration) mail.Instant { return mail.Instant(at.Add(d).UnixNano()) }
	site := qmgr.DestinationSummary{Transport: "smtp", Condition: qmgr.ConditionDead}
	site.Queue = qmgr.QueueView{Nexthop: "example.net", Source: "a", State: window.Dead, Todo: 3, Reason: mail.Reply{Code: 421, Text: "not from there"}, Until: instant(time.Hour)}
	site.Queue.Connections.Ready, site.Queue.Connections.Connecting = 1, 2
	lost := qmgr.AddressView{Addr: netip.MustParseAddr("2001:db8::1"), State: "withdrawn", Why: mail.Reply{Code: 451, Text: "cannot assign requested address"}, Since: instant(0), Until: instant(time.Minute)}
	used := qmgr.AddressView{Addr: netip.MustParseAddr("192.0.2.1"), State: "in use"}
	q.SetSources(
		qmgr.SourceView{Name: "a", Hello: "a.example", Configured: true, Addresses: []qmgr.AddressView{used, lost}, Pools: []qmgr.SourcePool{{Pool: "main", Weight: 1, Of: 4}},
			Connections: 5, Waiting: 6, Busy: 7, Delivered: 8, Deferred: 9, Bounced: 10, Since: instant(-time.Hour), Destinations: 2, Sites: []qmgr.DestinationSummary{site, site}},
		qmgr.SourceView{Name: "b", Configured: true, Addresses: []qmgr.AddressView{lost}},
		qmgr.SourceView{Name: "c", Addresses: []qmgr.AddressView{used}})
	a := serve(t, q, admin.Config{})
	page := get[admin.SourcePage](a, "GET", "/v1/sources?sites=1", "")
	if len(page.Sources) != 3 {
		t.Fatalf("%+v", page)
	}
	hour := func(d time.Duration) *time.Time { t := at.Add(d); return &t }
	want := admin.Source{Name: "a", State: "in use", Ehlo: "a.example", Pools: []admin.SourcePool{{Name: "main", Weight: 1, Of: 4}},
		Addresses:   []admin.SourceAddress{{Address: "192.0.2.1", State: "in use"}, {Address: "2001:db8::1", State: "withdrawn", Reason: "cannot assign requested address", Since: hour(0), Until: hour(time.Minute)}},
		Connections: 5, Waiting: 6, Busy: 7, Delivered: 8, Deferred: 9, Bounced: 10, Since: hour(-time.Hour), Destinations: 2,
		Sites: []admin.SourceSite{{Name: "smtp:example.net", State: "dead", Waiting: 3, Connections: 3, Reason: "421 not from there", Until: hour(time.Hour)}}}
	got := page.Sources[0]
	if len(got.Sites) == 1 {
		got.Sites[0].WaitReason = nil
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
	if page.Sources[1].State != "withdrawn" || page.Sources[2].State != "removed" {
		t.Errorf("the others are %s and %s", page.Sources[1].State, page.Sources[2].State)
	}
	if page := get[admin.SourcePage](a, "GET", "/v1/sources", ""); len(page.Sources[0].Sites) != 0 {
		t.Errorf("without being asked: %+v", page.Sources[0].Sites)
	}
	if w := a.do("GET", "/v1/sources?sites=-1", ""); w.Code != http.StatusUnprocessableEntity {
		t.Errorf("sites=-1: %d", w.Code)
	}
}
