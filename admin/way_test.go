package admin_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// Conditions on site, host and source are about each recipient's last attempt; for a recipient that was not
// tried yet, site and source are those of the destination at which it waits in core.
func TestConditionsOnTheWay(t *testing.T) {
	tried := func(n int, to, by string, via mail.Via) admintest.Message {
		m := deferredFor(message(n, mail.AreaDeferred, "a@b", to), mail.Reply{Code: 450, Text: "later", By: by})
		m.Recipients[0].Outcome.Via = via
		return m
	}
	inCore := message(4, mail.AreaIncoming, "a@b", "x@four", "y@four")
	inCore.InCore = true
	inCore.Where = map[uint32]qmgr.RecipientView{
		0: {Held: true, Place: &qmgr.PlaceView{Transport: "smtp", Nexthop: "{mx.one,mx.two}", Source: "s2"}},
		1: {Held: true, Place: &qmgr.PlaceView{Transport: "retry", Nexthop: "it is dead", Instead: mail.Origin{Transport: "smtp", Nexthop: "dead.example"}}},
	}
	all := []admintest.Message{
		tried(1, "x@one", "mx.one[192.0.2.1]:25", mail.Via{Transport: "smtp", Nexthop: "{mx.one,mx.two}", Source: "s1"}),
		tried(2, "x@two", "", mail.Via{Transport: "smtp", Nexthop: "relay.example"}),
		tried(3, "x@three", "[192.0.2.3]", mail.Via{}), // by an earlier version
		inCore,
		message(5, mail.AreaIncoming, "a@b", "x@five"), // waits for room in core
	}
	a := serve(t, admintest.New(all...), admin.Config{})
	for query, want := range map[string]string{
		"site={mx.one,mx.two}":              "4 1",
		"site=MX.TWO":                       "4 1",
		"site=mx.tw":                        "",
		"site=relay.*":                      "2",
		"site=relay.example&site=mx.one":    "4 1 2",
		"site=/^relay/":                     "2",
		"site=dead.example":                 "4",
		"site=dead.example&source=s2":       "", // not the same recipient
		"site=mx.one&source=s2":             "4",
		"site=*":                            "4 1 2",
		"source=s1":                         "1",
		"source=s?":                         "",
		"source=/s[12]/":                    "4 1",
		"source=-":                          "4 2",
		"host=mx.one":                       "1",
		"host=192.0.2.*":                    "1 3",
		"host=mx.one[192.0.2.1]:25":         "1",
		"host=-":                            "4 5 2",
		"host=/^192/":                       "1 3",
		"host=mx.one&site=relay.example":    "",
		"host=mx.one&host=-&site=*.example": "4 2",
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		page := get[admin.Page](a, "GET", "/v1/messages?"+values.Encode(), "")
		var got []string
		for _, m := range page.Messages {
			for n := range all {
				if m.ID == all[n].Envelope.ID.String() {
					got = append(got, string(rune('1'+n)))
				}
			}
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: %s, want %s", query, text, want)
		}
	}
}

// An order by site touches only the recipients there.
func TestOrderBySite(t *testing.T) {
	for _, filter := range []string{`{"site":["one"]}`, `{"source":["s1"]}`, `{"host":["-"],"domain":["one"]}`} {
		m := deferredFor(message(1, mail.AreaDeferred, "a@b", "x@one", "x@two"), mail.Reply{Code: 450, Text: "later"})
		m.Recipients[0].Outcome.Via, m.Recipients[1].Outcome.Via = mail.Via{Nexthop: "one", Source: "s1"}, mail.Via{Nexthop: "two"}
		q := admintest.New(m)
		a := serve(t, q, admin.Config{})
		done := get[admin.Ordered](a, "POST", "/v1/messages/drop", `{"filter":`+filter+`,"confirm":1}`)
		if done.Matched != 1 || done.Recipients != 1 {
			t.Errorf("%s: %+v", filter, done)
		}
		if left := q.Outcomes(m.Envelope.ID); left[0].Outcome.Result != mail.Failed || left[1].Outcome.Result != mail.Deferred {
			t.Errorf("%s: %+v", filter, left)
		}
	}
}
