package admin_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
)

// Quotas are sorted by how full they are, and filtered by kind and name.
func TestQuotas(t *testing.T) {
	quota := func(kind, name string, used, of int64) admin.Quota {
		return admin.Quota{Kind: kind, Name: name, Uses: []admin.QuotaUsage{{Limit: "queue_message_limit", Used: used, Of: of}, {Limit: "message_rate", Used: 1, Of: 1000, Per: 3_600_000}}}
	}
	var fails error
	a := serve(t, admintest.New(), admin.Config{Quotas: func(context.Context) (admin.QuotaPage, error) {
		return admin.QuotaPage{Counting: true, Counted: 7, Refused: []admin.QuotaRefusal{{Kind: "tenant", Limit: "message_rate", Count: 3}},
			Quotas: []admin.Quota{quota("tenant", "acme", 5, 10), quota("tenant", "zoo", 9, 10), quota("class", "bulk", 7, 10)}}, fails
	}})
	page := get[admin.QuotaPage](a, "GET", "/v1/quotas", "")
	if page.Matched != 3 || !page.Counting || page.Counted != 7 || len(page.Refused) != 1 || page.Quotas[0].Name != "zoo" || page.Quotas[1].Name != "bulk" || page.Quotas[2].Name != "acme" {
		t.Fatalf("%+v", page)
	}
	for query, want := range map[string]string{"?kind=class": "bulk", "?name=A*": "acme", "?kind=tenant&limit=1": "zoo"} {
		if page := get[admin.QuotaPage](a, "GET", "/v1/quotas"+query, ""); len(page.Quotas) != 1 || page.Quotas[0].Name != want {
			t.Errorf("%s: %+v", query, page)
		}
	}
	if page := get[admin.QuotaPage](a, "GET", "/v1/quotas?kind=tenant&limit=1", ""); page.Matched != 2 {
		t.Errorf("%d match", page.Matched)
	}
	for _, bad := range []string{"?limit=0", "?kind=x", "?tenant=x"} {
		if w := a.do("GET", "/v1/quotas"+bad, ""); w.Code != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", bad, w.Code)
		}
	}
	fails = errors.New("the disk is gone")
	if w := a.do("GET", "/v1/quotas", ""); w.Code != http.StatusInternalServerError {
		t.Errorf("%d", w.Code)
	}
	none := serve(t, admintest.New(), admin.Config{})
	if page := get[admin.QuotaPage](none, "GET", "/v1/quotas", ""); page.Matched != 0 || page.Quotas == nil || page.Refused == nil {
		t.Errorf("%+v", page)
	}
}
