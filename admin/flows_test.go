package admin_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

func TestFlows(t *testing.T) {
	q := admintest.New()
	q.SetFlows(
		qmgr.FlowView{Flow: mail.Flow{Class: "bulk", Tenant: "shop", Flow: "news@example.com"}, Messages: 8000, Waiting: 7980, Busy: 20, Started: 100,
			Half: 8 * time.Second, NinetyNine: 16 * time.Second, More: 2,
			Places: []qmgr.FlowPlace{{Transport: "smtp", Nexthop: "example.net", Waiting: 7980, Busy: 20, Sharing: qmgr.Sharing{Flows: 3, Share: 333, Turns: 2}}}},
		qmgr.FlowView{Flow: mail.Flow{Class: "normal", Tenant: "shop", Flow: "otp@example.com"}})
	a := serve(t, q, admin.Config{})
	page := get[admin.FlowPage](a, "GET", "/v1/flows", "")
	if page.Matched != 2 || len(page.Flows) != 2 {
		t.Fatalf("%+v", page)
	}
	f := page.Flows[0]
	want := admin.FlowDestination{Name: "smtp:example.net", Waiting: 7980, Busy: 20, Sharing: admin.Sharing{Flows: 3, Share: 333, Turns: 2}}
	if f.Flow != "news@example.com" || f.Class != "bulk" || f.Tenant != "shop" || f.Messages != 8000 || f.Waiting != 7980 || f.Busy != 20 || f.Started != 100 ||
		f.WaitMedianMS != 8000 || f.WaitP99MS != 16000 || f.MoreDestinations != 2 || len(f.Destinations) != 1 || f.Destinations[0] != want {
		t.Errorf("%+v", f)
	}
	for query, flow := range map[string]string{"?class=BULK": "news@example.com", "?flow=otp*&tenant=shop": "otp@example.com", "?limit=1": "news@example.com"} {
		if page := get[admin.FlowPage](a, "GET", "/v1/flows"+query, ""); len(page.Flows) != 1 || page.Flows[0].Flow != flow {
			t.Errorf("%s: %+v, want %s", query, page, flow)
		}
	}
	if page := get[admin.FlowPage](a, "GET", "/v1/flows?tenant=nobody", ""); page.Matched != 0 || page.Flows == nil {
		t.Errorf("none match: %+v", page)
	}
	for _, bad := range []string{"?limit=0", "?clas=x"} {
		if w := a.do("GET", "/v1/flows"+bad, ""); w.Code != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", bad, w.Code)
		}
	}
}
