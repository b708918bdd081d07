package admin_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
)

// manySuspensions are a thousand of rules, each with a reply of 4 KB, and some of operators, the oldest first.
func manySuspensions() *suspender {
	s := &suspender{}
	reply := "550 5.7.1 " + strings.Repeat("blocked ", 510)
	for i := range 1000 {
		s.in = append(s.in, qmgr.SuspensionView{Scope: measure.Destination, Value: fmt.Sprintf("smtp:d%04d.test", i),
			Order: measure.Order{Rule: "block-all", Reason: reply, Since: suspendedAt.Add(time.Duration(i) * time.Second), Until: mail.Never}})
	}
	for i := range 7 {
		s.in = append(s.in, qmgr.SuspensionView{Scope: measure.Tenant, Value: fmt.Sprintf("tenant%d", i),
			Order: measure.Order{By: "jo", Reason: "taken over", Since: suspendedAt.Add(time.Duration(i) * time.Second), Until: mail.Never}})
	}
	return s
}

// A receiver blocks an address, and rules suspend a thousand destinations. Answers about something else have the numbers and a few of
// them.
//
// Seen failing: each was 4.4 MB.
func TestSuspensionsElsewhere(t *testing.T) {
	a := serve(t, admintest.New(), admin.Config{Suspender: manySuspensions()})
	for _, path := range []string{"/v1/status", "/v1/destinations", "/v1/flows"} {
		if n := a.do("GET", path, "").Body.Len(); n > 64<<10 {
			t.Errorf("%s has %d octets", path, n)
		}
	}
	c := get[admin.Status](a, "GET", "/v1/status", "").Suspensions
	if c == nil || c.Total != 1007 || c.Rules != 1000 || c.Scopes["destination"] != 1000 || c.Scopes["tenant"] != 7 || len(c.Few) != 5 || c.More() != 1002 {
		t.Fatalf("the status has %+v", c)
	}
	if c.Few[0].Value != "tenant6" || c.Few[4].Value != "tenant2" {
		t.Errorf("the few are not the newest of operators: %+v", c.Few)
	}
}

// The list has pages: each suspension is on one of them, also if others end and begin between two.
func TestSuspensionPages(t *testing.T) {
	s := manySuspensions()
	a := serve(t, admintest.New(), admin.Config{Suspender: s})
	var values []string
	path, pages := "/v1/suspensions?limit=300", 0
	for cursor := ""; ; {
		page := get[admin.SuspensionPage](a, "GET", path+"&cursor="+url.QueryEscape(cursor), "")
		for i := range page.Suspensions {
			values = append(values, page.Suspensions[i].Value)
		}
		if pages++; pages == 1 {
			if page.Matched != 1007 || page.Scopes["tenant"] != 7 || page.Suspensions[0].Value != "tenant0" {
				t.Errorf("the first page begins with %+v of %d", page.Suspensions[0], page.Matched)
			}
			s.take(measure.Destination, "smtp:d0000.test") // shown already
			s.take(measure.Destination, values[299])       // the cursor is there
			s.in = append(s.in, qmgr.SuspensionView{Scope: measure.Class, Value: "a", Order: measure.Order{Until: mail.Never}})
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if slices.Sort(values); pages != 4 || len(values) != 1007 || len(slices.Compact(values)) != 1007 {
		t.Errorf("%d pages had %d suspensions, %d different", pages, len(values), len(slices.Compact(values)))
	}
	for _, cursor := range []string{"x", "!", "NSBzbXRw=", url.QueryEscape("5 x")} {
		if w := a.do("GET", "/v1/suspensions?cursor="+cursor, ""); w.Code != 422 {
			t.Errorf("the cursor %q is answered with %d", cursor, w.Code)
		}
	}
}

func TestSuspensionFilters(t *testing.T) {
	s := manySuspensions()
	s.in = append(s.in, qmgr.SuspensionView{Scope: measure.Domain, Value: "xn--bcher-kva.example", Order: measure.Order{By: "ann", Reason: "They asked", Until: mail.Never}})
	a := serve(t, admintest.New(), admin.Config{Suspender: s})
	for query, want := range map[string]int{
		"":                                  1008,
		"scope=tenant":                      7,
		"scope=tenant&scope=domain":         8,
		"value=tenant1":                     1,
		"value=SMTP:d00*":                   100,
		"value=/d000[12]/":                  2,
		"value=b%C3%BCcher.example":         1,
		"value=000":                         0, // the whole value
		"rule=-":                            8,
		"rule=block-*":                      1000,
		"by=jo&by=ann":                      8,
		"by=rule+block-all":                 1000,
		"reason=ASKED":                      1,
		"reason=*":                          0, // a star is a star
		"scope=tenant&value=tenant1&by=ann": 0,
	} {
		if page := get[admin.SuspensionPage](a, "GET", "/v1/suspensions?limit=1&"+query, ""); page.Matched != want {
			t.Errorf("%q matches %d, want %d", query, page.Matched, want)
		}
	}
	for query, says := range map[string]string{"scope=message": "one of", "value=": "empty", "reason=/(/": "RE2"} {
		if w := a.do("GET", "/v1/suspensions?"+query, ""); w.Code != 422 || !strings.Contains(w.Body.String(), says) {
			t.Errorf("%q is answered with %d %s, want 422 about %s", query, w.Code, w.Body, says)
		}
	}
}

// A suspension has an ID that does not change when it is suspended again.
func TestSuspensionByID(t *testing.T) {
	s := &suspender{}
	a := serve(t, admintest.New(), admin.Config{Suspender: s})
	done := get[admin.SuspensionOrdered](a, "POST", "/v1/suspensions", `{"scope":"tenant","value":"acme","reason":"x"}`)
	again := get[admin.SuspensionOrdered](a, "POST", "/v1/suspensions", `{"scope":"tenant","value":"acme","for":"2h","reason":"y"}`)
	other := get[admin.SuspensionOrdered](a, "POST", "/v1/suspensions", `{"scope":"class","value":"acme","reason":"z"}`)
	if id := done.Suspension.ID; id == "" || id != again.Suspension.ID || id == other.Suspension.ID {
		t.Fatalf("the IDs are %q, %q and %q", id, again.Suspension.ID, other.Suspension.ID)
	}
	if one := get[admin.Suspension](a, "GET", "/v1/suspensions/"+done.Suspension.ID, ""); one.Reason != "y" || one.Scope != "tenant" {
		t.Errorf("the ID has %+v", one)
	}
	get[admin.SuspensionOrdered](a, "POST", "/v1/suspensions/resume", `{"scope":"tenant","value":"acme"}`)
	if w := a.do("GET", "/v1/suspensions/"+done.Suspension.ID, ""); w.Code != 404 || !strings.Contains(w.Body.String(), "no suspension in force") {
		t.Errorf("what has ended is answered with %d %s", w.Code, w.Body)
	}
}
