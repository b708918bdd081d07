package admin_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
	"github.com/posthaste-mta/posthaste/internal/event"
	"github.com/posthaste-mta/posthaste/mail"
)

// someRules stand for those of the configuration: senders at b move to new, recipients at c become two at e, those at bad have
// no address, and mail of new is of its own class.
type someRules struct{}

func (someRules) Sender(a mail.Address) (mail.Address, error) {
	switch a {
	case "a@b":
		return "a@new", nil
	case "a@bad":
		return "", errors.New("it leads in a circle")
	}
	return a, nil
}

func (someRules) Recipient(r *mail.Recipient) ([]mail.Replacement, error) {
	switch r.Address.Domain() {
	case "c":
		local := r.Address.Local()
		return []mail.Replacement{{Of: r.Index, Address: mail.Address(local + "@e"), ORcpt: "rfc822;" + string(r.Address)}, {Of: r.Index, Address: mail.Address(local + "2@e")}}, nil
	case "bad":
		return nil, errors.New("nothing that it stands for is an address")
	}
	return nil, nil
}

func (someRules) Flow(e *mail.Envelope, content io.Reader) (mail.Flow, error) {
	octets, err := io.ReadAll(content)
	if e.Sender == "a@new" && strings.HasPrefix(string(octets), "Subject") {
		return mail.Flow{Class: "news", Tenant: "t", Flow: string(e.Sender)}, err
	}
	return e.Flow, err
}

func someReadmission() admin.Readmission { return someRules{} }

func (a api) requeue(o admin.RequeueOrder) admin.Ordered {
	a.t.Helper()
	return a.order("requeue", o)
}

// addressesOf returns the recipients of a message with their results, "" if there is no such message.
func addressesOf(q *admintest.Queue, id string) (all string) {
	parsed, _ := mail.ParseQueueID(id)
	for _, r := range q.Outcomes(parsed) {
		all += fmt.Sprintf("%s=%v ", r.Recipient.Address, r.Outcome.Result)
	}
	return all
}

// Recipients at one domain are requeued, and those at another are not; a dry run says what would change; the
// log names both IDs and what has changed. Nothing that the order makes is requeued by it.
func TestRequeue(t *testing.T) {
	one := message(1, mail.AreaDeferred, "a@b", "j@c", "j@d", "k@c")
	one.Content = "Subject: x\r\n\r\n"
	q := admintest.New(one, message(2, mail.AreaDeferred, "a@b", "j@d"), message(3, mail.AreaHold, "x@b", "j@c"), message(4, mail.AreaCorrupt, "a@b", "j@c"))
	var log bytes.Buffer
	a := serve(t, q, admin.Config{Logger: event.NewStrict(&log, nil, nil), Readmission: someReadmission})
	var o admin.RequeueOrder
	o.Filter, o.Reason, o.DryRun = &admin.Filter{Domain: []string{"c"}}, "c has moved", true
	sender := "a@new"
	rewritten := []admin.Rewritten{{Recipient: "j@c", By: []string{"j@e", "j2@e"}}, {Recipient: "k@c", By: []string{"k@e", "k2@e"}}}
	want := admin.Ordered{Matched: 2, Recipients: 3, Rewritten: 3, Scanned: 4, Splits: []admin.Part{
		{From: id(1).String(), Recipients: []string{"j@c", "k@c"}, Sender: &sender, Rewritten: rewritten},
		{From: id(3).String(), Recipients: []string{"j@c"}, Rewritten: rewritten[:1]}}}
	if diff := cmp.Diff(want, a.requeue(o)); diff != "" {
		t.Errorf("a dry run: %s", diff)
	}
	if got := addressesOf(q, id(1).String()); !strings.HasPrefix(got, "j@c=pending") || log.Len() > 0 {
		t.Errorf("after a dry run: %s; log %s", got, log.String())
	}
	o.DryRun = false
	got := a.requeue(o)
	if len(got.Splits) != 2 {
		t.Fatalf("%+v", got)
	}
	want.Done = 2
	for i := range want.Splits {
		want.Splits[i].Into = got.Splits[i].Into
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got, want := addressesOf(q, id(1).String()), "j@c=moved j@d=pending k@c=moved "; got != want {
		t.Errorf("the original: %s, want %s", got, want)
	}
	if got, want := addressesOf(q, got.Splits[0].Into), "j@e=pending j2@e=pending k@e=pending k2@e=pending "; got != want {
		t.Errorf("the new message: %s, want %s", got, want)
	}
	if got := addressesOf(q, id(3).String()); got != "" {
		t.Errorf("nothing is left of the original, and it is there: %s", got)
	}
	shown := get[admin.Detail](a, "GET", "/v1/messages/"+got.Splits[0].Into, "")
	if shown.Sender != "a@new" || shown.Class != "news" || shown.RequeuedFrom != id(1).String() {
		t.Errorf("%+v", shown)
	}
	if held := get[admin.Detail](a, "GET", "/v1/messages/"+got.Splits[1].Into, ""); held.State != admin.StateHold {
		t.Errorf("%+v", held)
	}
	for _, want := range []string{"verb=requeue id=" + id(1).String() + " into=" + got.Splits[0].Into + " from=a@b to=j@c,k@c sender=a@new rewritten=j@c>j@e+j2@e,k@c>k@e+k2@e class=news tenant=t flow=a@new reason=\"c has moved\" by=",
		"verb=requeue id=" + id(3).String() + " into=" + got.Splits[1].Into + " from=x@b to=j@c rewritten=j@c>j@e+j2@e reason", "verb=requeue messages=2"} {
		if strings.Count(log.String(), want) != 1 {
			t.Errorf("no line has %s:\n%s", want, log.String())
		}
	}
	if again := a.requeue(o); again.Matched != 0 || again.Unchanged != 0 {
		t.Errorf("again: %+v", again)
	}
}

// All mail is requeued, in pages of one message: each once, though what the order makes meets its conditions, and
// comes behind in the queue.
func TestRequeueAll(t *testing.T) {
	for _, areas := range [][]string{nil, {"hold"}} {
		area := mail.AreaDeferred
		if areas != nil {
			area = mail.AreaHold
		}
		q := admintest.New(message(1, area, "a@b", "j@d"), message(2, area, "a@b", "j@c"), message(3, area, "a@b", "j@d"))
		a := serve(t, q, admin.Config{Readmission: someReadmission})
		var o admin.RequeueOrder
		o.All, o.Limit, o.Filter = true, 1, &admin.Filter{Areas: areas}
		done := 0
		for n := 0; ; n++ {
			page := a.requeue(o)
			done += page.Done
			if page.Next == "" {
				break
			}
			if o.Cursor = page.Next; n > 10 {
				t.Fatal("the order has no end")
			}
		}
		if done != 3 {
			t.Errorf("%d messages were requeued in %v", done, areas)
		}
	}
}

// A message stays as it was if one of its addresses cannot be rewritten, or if there is no room; others are requeued.
func TestRequeueRefused(t *testing.T) {
	q := admintest.New(message(1, mail.AreaDeferred, "a@b", "j@d", "j@bad"), message(2, mail.AreaDeferred, "a@bad", "j@d"), message(3, mail.AreaDeferred, "x@b", "j@d"))
	a := serve(t, q, admin.Config{Readmission: someReadmission})
	for _, dry := range []bool{true, false} {
		var o admin.RequeueOrder
		o.All, o.DryRun = true, dry
		got := a.requeue(o)
		want := []admin.Refused{{ID: id(1).String(), Reason: "an address cannot be rewritten: nothing that it stands for is an address"},
			{ID: id(2).String(), Reason: "an address cannot be rewritten: the sender: it leads in a circle"}}
		if diff := cmp.Diff(want, got.Refused); diff != "" || got.Matched != 1 || got.Recipients != 1 || len(got.Splits) != 1 {
			t.Errorf("%+v %s", got, diff)
		}
	}
	if got := addressesOf(q, id(1).String()) + addressesOf(q, id(2).String()); got != "j@d=pending j@bad=pending j@d=pending " {
		t.Errorf("those refused: %s", got)
	}
	some := admin.RequeueOrder{}
	some.Filter = named(1)
	some.Filter.Domain = []string{"d"} // the recipient whose address cannot be rewritten is not concerned
	if got := a.requeue(some); got.Done != 1 || len(got.Refused) != 0 {
		t.Errorf("%+v", got)
	}
	q.Fill()
	full := admin.RequeueOrder{}
	full.Filter = named(2, 1)
	full.Filter.Sender = []string{"a@b"}
	if got := a.requeue(full); len(got.Refused) != 1 {
		t.Errorf("%+v", got)
	}
	if got := a.do("POST", "/v1/messages/requeue", `{"all":true}`); got.Code != http.StatusInsufficientStorage {
		t.Errorf("all, without room: %d", got.Code)
	}
}

// Routes that operators have ordered end, unless they are to stay.
func TestRequeueRoute(t *testing.T) {
	for _, keep := range []bool{false, true} {
		m := message(1, mail.AreaDeferred, "x@b", "j@d")
		m.Recipients[0].Outcome.Ordered = &mail.OrderedRoute{Target: "smtp:[relay]"}
		q := admintest.New(m)
		a := serve(t, q, admin.Config{Readmission: someReadmission})
		o := admin.RequeueOrder{KeepRoute: keep}
		o.Filter = named(1)
		got := a.requeue(o)
		into, _ := mail.ParseQueueID(got.Splits[0].Into)
		if list := q.Outcomes(into); len(list) != 1 || (list[0].Outcome.Ordered != nil) != keep {
			t.Errorf("keep %v: %+v", keep, list)
		}
	}
}

// A long message is requeued in parts, each of a bounded size; while deliveries are under way, the order is pending.
func TestRequeueParts(t *testing.T) {
	const n = 7000
	to := make([]string, n)
	for i := range to {
		to[i] = fmt.Sprintf("u%d@c", i)
	}
	q := admintest.New(message(1, mail.AreaDeferred, "x@b", to...))
	a := serve(t, q, admin.Config{Readmission: someReadmission})
	o := admin.RequeueOrder{}
	o.Filter = named(1)
	got := a.requeue(o)
	if got.Recipients != n || got.Rewritten != n || len(got.Splits) != 3 || got.Splits[0].More != 3333-20 || len(got.Splits[2].Rewritten) != 20 || got.Done != 1 {
		t.Errorf("%d recipients, %d rewritten, %d parts", got.Recipients, got.Rewritten, len(got.Splits))
	}
	if left := addressesOf(q, id(1).String()); left != "" {
		t.Errorf("left: %.100s", left)
	}
	busy := message(1, mail.AreaDeferred, "x@b", "j@c")
	busy.Busy = true
	a = serve(t, admintest.New(busy), admin.Config{Readmission: someReadmission, Settle: -1})
	if got := a.requeue(o); got.Pending != 1 || got.Done != 0 {
		t.Errorf("%+v", got)
	}
}

// A host that accepts no mail by rules requeues none.
func TestRequeueElsewhere(t *testing.T) {
	a := serve(t, admintest.New(message(1, mail.AreaDeferred, "a@b", "j@c")), admin.Config{})
	if got := a.do("POST", "/v1/messages/requeue", `{"all":true}`); got.Code != http.StatusNotImplemented {
		t.Errorf("%d", got.Code)
	}
}
