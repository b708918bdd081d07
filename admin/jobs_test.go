package admin_test

import (
	"context"
	"testing"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// Jobs are listed in their order, each with the message at whose expense it goes first, and what it has
// earned in whole slots.
func TestJobs(t *testing.T) {
	jobs := func(_ context.Context, transport string, lanes, most int) (qmgr.JobList, bool, error) {
		if transport != "smtp" {
			return qmgr.JobList{}, false, nil
		}
		return qmgr.JobList{Transport: transport, More: 3, Lanes: []qmgr.LaneView{{Flow: mail.Flow{Class: "bulk", Tenant: "t", Flow: "f"}, Waiting: 9, Busy: 1, SlotCost: 5, Known: 7, Jobs: []qmgr.JobView{
			{ID: id(2), Sender: "a@b", Recipients: 1, JobView: sched.JobView{Level: 1, Parent: id(1), Current: true, Read: 1}},
			{ID: id(1), Sender: "a@b", Recipients: 300, JobView: sched.JobView{Selected: 40, Read: 48, Available: 35}},
		}[:min(most, 2)]}}}, true, nil
	}
	a := serve(t, admintest.New(), admin.Config{Jobs: jobs})
	page := get[admin.JobPage](a, "GET", "/v1/transports/smtp/jobs", "")
	if len(page.Lanes) != 1 || len(page.Lanes[0].Jobs) != 2 || page.More != 3 || page.Lanes[0].Known != 7 {
		t.Fatalf("%+v", page)
	}
	if first, second := page.Lanes[0].Jobs[0], page.Lanes[0].Jobs[1]; first.Parent != id(1).String() || first.Level != 1 || !first.Current || second.Slots != 7 || second.Waiting != 8 || second.Parent != "" {
		t.Errorf("%+v", page.Lanes[0].Jobs)
	}
	if w := a.do("GET", "/v1/transports/none/jobs", ""); w.Code != 404 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
