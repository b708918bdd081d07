package admin_test

import (
	"reflect"
	"testing"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
)

// A source that is warmed up is shown with its plan and its sites, and takes orders; another
// one takes none.
func TestWarmup(t *testing.T) {
	day := warmup.DayOn(2026, 3, 2)
	table := warmup.New(warmup.Config{Sources: []warmup.Source{{Name: "new", Start: day, Plan: warmup.Conservative()}}}, day.Start())
	key := warmup.Key{Source: "new", Site: "a.test"}
	for i := range 50 {
		table.Take(key, day.Start())
		table.Ended(key, []warmup.Result{{Accepted: 2}, {Deferred: 2}}[min(i/48, 1)], day.Start())
	}
	v, _ := table.View("new", 5, mail.Instant(day.Start()))
	q := admintest.New()
	q.SetSources(qmgr.SourceView{Name: "new", Configured: true, Warmup: &v}, qmgr.SourceView{Name: "old", Configured: true})
	a := serve(t, q, admin.Config{})
	want := &admin.SourceWarmup{Plan: "conservative", Start: "2026-03-02", First: 1, Known: 1, Spent: 1, Today: 50, Sites: []admin.WarmupSite{{Site: "a.test", State: "warming", Day: 1, Allowance: 50,
		Today: 50, Delivered: 48, Accepted: 96, Deferred: 4, Last: "not judged", Next: "advanced", Tomorrow: 65}}}
	if got := get[admin.SourcePage](a, "GET", "/v1/sources", ""); !reflect.DeepEqual(got.Sources[0].Warmup, want) || got.Sources[1].Warmup != nil {
		t.Errorf("got\n%+v, want\n%+v", got.Sources[0].Warmup, want)
	}
	for _, c := range []struct {
		path, body string
		code       int
	}{
		{"new", `{"order":"day","day":10}`, 200}, {"new", `{"order":"pause","site":"a.test"}`, 200}, {"new", `{"order":"resume"}`, 200}, {"new", `{"order":"reset","site":"smtp:a.test"}`, 200},
		{"new", `{"order":"reset","site":"b.test"}`, 404}, {"new", `{"order":"reset","site":"smtp:"}`, 404},
		{"new", `{"order":"day"}`, 422}, {"new", `{"order":"pause","day":3}`, 422}, {"new", `{"order":"stop"}`, 422}, {"new", `{}`, 422},
		{"old", `{"order":"pause"}`, 404}, {"none", `{"order":"pause"}`, 404},
	} {
		if w := a.do("POST", "/v1/sources/"+c.path+"/warmup", c.body); w.Code != c.code {
			t.Errorf("%s %s: %d %s", c.path, c.body, w.Code, w.Body)
		}
	}
	all := warmup.Key{Source: "new"}
	orders := []warmup.Order{{Key: all, Day: 10}, {Key: key, Kind: warmup.Pause}, {Key: all, Kind: warmup.Resume}, {Key: key, Kind: warmup.Reset}}
	if got := q.Warmups(); !reflect.DeepEqual(got, orders) {
		t.Errorf("orders %v, want %v", got, orders)
	}
}
