package admin_test

import (
	"net/http"
	"testing"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
)

// A report is in the answer as it would be sent; without counting the lists are empty, not null.
func TestTLSReports(t *testing.T) {
	a := serve(t, admintest.New(), admin.Config{TLSReports: func(day, domain string) (admin.TLSReportPage, error) {
		return admin.TLSReportPage{Counting: true, Domains: []string{"a.test"}, Report: []byte(`{"day":"` + day + `","of":"` + domain + `"}`)}, nil
	}})
	page := get[admin.TLSReportPage](a, "GET", "/v1/tls-reports?day=2026-11-23&domain=a.test", "")
	if !page.Counting || len(page.Domains) != 1 || page.Days == nil || string(page.Report) != `{"day":"2026-11-23","of":"a.test"}` {
		t.Errorf("%+v %s", page, page.Report)
	}
	for _, bad := range []string{"", "?day=today", "?day=2026-13-01"} {
		if w := a.do("GET", "/v1/tls-reports"+bad, ""); w.Code != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", bad, w.Code, w.Body)
		}
	}
	none := serve(t, admintest.New(), admin.Config{})
	if page := get[admin.TLSReportPage](none, "GET", "/v1/tls-reports?day=2026-11-23", ""); page.Counting || page.Domains == nil || page.Days == nil || page.Report != nil {
		t.Errorf("%+v", page)
	}
}
