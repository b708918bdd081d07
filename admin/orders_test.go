package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
	"github.com/posthaste-mta/posthaste/internal/event"
	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
)

// order gives an order about messages: an admin.Order, or that of a verb with more parameters.
func (a api) order(verb string, o any) admin.Ordered {
	a.t.Helper()
	body, err := json.Marshal(o)
	if err != nil {
		a.t.Fatal(err)
	}
	return get[admin.Ordered](a, "POST", "/v1/messages/"+verb, string(body))
}

func named(numbers ...int) *admin.Filter {
	f := &admin.Filter{}
	for _, n := range numbers {
		f.IDs = append(f.IDs, id(n).String())
	}
	return f
}

// An order by ID reports for each message whether it was carried out, needed no
// change, or is not in the queue, and may be repeated.
func TestOrdersByID(t *testing.T) {
	q := admintest.New(message(1, mail.AreaIncoming, "a@b", "j@c"), message(2, mail.AreaDeferred, "a@b", "j@c"),
		message(3, mail.AreaHold, "a@b", "j@c"), message(4, mail.AreaCorrupt, "a@b", "j@c"))
	a := serve(t, q, admin.Config{})
	missing := []string{id(9).String()}
	for _, c := range []struct {
		verb  string
		order admin.Order
		want  admin.Ordered
		areas [4]mail.Area
	}{
		{"hold", admin.Order{Filter: named(1, 2, 3, 4, 9), Reason: "why not"},
			admin.Ordered{Matched: 2, Done: 2, Unchanged: 2, Missing: missing, Scanned: 4},
			[4]mail.Area{mail.AreaHold, mail.AreaHold, mail.AreaHold, mail.AreaCorrupt}},
		{"hold", admin.Order{Filter: named(1)}, admin.Ordered{Unchanged: 1, Scanned: 1},
			[4]mail.Area{mail.AreaHold, mail.AreaHold, mail.AreaHold, mail.AreaCorrupt}},
		{"release", admin.Order{Filter: named(1, 9), DryRun: true}, admin.Ordered{Matched: 1, Recipients: 1, Missing: missing, Scanned: 1},
			[4]mail.Area{mail.AreaHold, mail.AreaHold, mail.AreaHold, mail.AreaCorrupt}},
		{"release", admin.Order{Filter: named(1)}, admin.Ordered{Matched: 1, Done: 1, Scanned: 1},
			[4]mail.Area{mail.AreaDeferred, mail.AreaHold, mail.AreaHold, mail.AreaCorrupt}},
		{"retry", admin.Order{Filter: named(1, 2)}, admin.Ordered{Matched: 1, Done: 1, Unchanged: 1, Scanned: 2},
			[4]mail.Area{mail.AreaDeferred, mail.AreaHold, mail.AreaHold, mail.AreaCorrupt}},
		{"drop", admin.Order{Filter: named(1, 4)}, admin.Ordered{Matched: 2, Done: 2, Scanned: 2},
			[4]mail.Area{mail.AreaNone, mail.AreaHold, mail.AreaHold, mail.AreaNone}},
	} {
		got := a.order(c.verb, c.order)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s %v: %s", c.verb, c.order.Filter.IDs, diff)
		}
		for i, want := range c.areas {
			if area := q.Place(id(i + 1)); area != want {
				t.Fatalf("after %s %v message %d is in %s, want %s", c.verb, c.order.Filter.IDs, i+1, area, want)
			}
		}
	}
	if ids, all := q.Retried(); len(ids) != 1 || ids[0] != id(1) || all != 0 {
		t.Errorf("retried %v and all %d times", ids, all)
	}
}

// A hold keeps a double bounce that would expire, whether it is named by ID or found
// by a filter; a message held by an operator is left alone and does not match.
//
// Seen failing: it "needed no change", and was removed.
func TestHoldKeepsWhatWouldBeRemoved(t *testing.T) {
	for _, filter := range []*admin.Filter{named(1), {Sender: []string{"<>"}}, {Sender: []string{"<>"}, Areas: []string{"hold"}}} {
		until := message(1, mail.AreaHold, "", "j@c")
		until.Place.Due = noon.Add(time.Hour)
		q := admintest.New(until, message(2, mail.AreaHold, "", "j@c"))
		a := serve(t, q, admin.Config{})
		got := a.order("hold", admin.Order{Filter: filter})
		if got.Matched != 1 || got.Done != 1 || got.Pending != 0 || got.Unchanged != 0 {
			t.Errorf("%+v: %+v", filter, got)
		}
		if m := get[admin.Detail](a, "GET", "/v1/messages/"+id(1).String(), ""); m.Until != nil {
			t.Errorf("%+v: it is removed at %v", filter, m.Until)
		}
		if got = a.order("hold", admin.Order{Filter: filter}); got.Matched != 0 {
			t.Errorf("%+v: once more %+v", filter, got)
		}
	}
}

// Mail that its sender has kept until a date: what an operator has held waits for that after a release, which
// has taken effect then; what waits for nothing else is sent by a release that names it, and by no other.
//
// Seen failing: a release of all held mail also sent mail that no operator had held, before its date.
func TestReleaseKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		date := mail.Instant(time.Now().Add(time.Hour).UnixNano())
		kept, held, past, plain := message(1, mail.AreaHold, "a@b", "j@c"), message(2, mail.AreaHold, "a@b", "j@c"), message(3, mail.AreaHold, "a@b", "j@c"), message(4, mail.AreaHold, "a@b", "j@c")
		kept.Envelope.Release, kept.Place.Due, held.Envelope.Release, past.Envelope.Release = date, date, date, mail.Instant(time.Now().UnixNano())
		q := admintest.New(kept, held, past, plain)
		a := serve(t, q, admin.Config{Settle: time.Hour})
		begun := time.Now()
		for _, c := range []struct {
			order admin.Order
			want  admin.Ordered
			areas [4]mail.Area
		}{
			{admin.Order{Filter: &admin.Filter{Sender: []string{"a@b"}}, DryRun: true}, admin.Ordered{Matched: 3, Recipients: 3, Dated: 2, Scanned: 4},
				[4]mail.Area{mail.AreaHold, mail.AreaHold, mail.AreaHold, mail.AreaHold}},
			{admin.Order{All: true}, admin.Ordered{Matched: 3, Done: 3, Dated: 2, Scanned: 4},
				[4]mail.Area{mail.AreaHold, mail.AreaHold, mail.AreaDeferred, mail.AreaDeferred}},
			{admin.Order{Filter: &admin.Filter{Areas: []string{"hold"}}, All: true}, admin.Ordered{Dated: 2, Scanned: 2},
				[4]mail.Area{mail.AreaHold, mail.AreaHold, mail.AreaDeferred, mail.AreaDeferred}},
			{admin.Order{Filter: named(1)}, admin.Ordered{Matched: 1, Done: 1, Scanned: 1},
				[4]mail.Area{mail.AreaDeferred, mail.AreaHold, mail.AreaDeferred, mail.AreaDeferred}},
		} {
			if diff := cmp.Diff(c.want, a.order("release", c.order)); diff != "" {
				t.Errorf("%+v: %s", c.order, diff)
			}
			for i, want := range c.areas {
				if area := q.Place(id(i + 1)); area != want {
					t.Errorf("after %+v message %d is in %s, want %s", c.order, i+1, area, want)
				}
			}
		}
		if waited := time.Since(begun); waited > time.Second {
			t.Errorf("the answers came after %v", waited)
		}
		if m := get[admin.Detail](a, "GET", "/v1/messages/"+id(2).String(), ""); m.Wait != admin.WaitDate || m.Date == nil || !m.Date.Equal(begun.Add(time.Hour)) {
			t.Errorf("it waits for %v, date %v", m.Wait, m.Date)
		}
	})
}

// An order for everything goes page by page; a page is no larger than asked
// for, and the last one ends the list.
func TestOrderForAllInPages(t *testing.T) {
	q := admintest.New()
	for n := range 25 {
		q.Add(message(n, mail.Area(1+n%2), "a@b", "j@c"))
	}
	q.Add(message(30, mail.AreaCorrupt, "a@b", "j@c"))
	a := serve(t, q, admin.Config{})
	o := admin.Order{All: true, Limit: 10, Reason: "maintenance"}
	var pages []int
	for {
		got := a.order("hold", o)
		pages = append(pages, got.Done)
		if got.Next == "" {
			break
		}
		o.Cursor = got.Next
	}
	if diff := cmp.Diff([]int{10, 10, 5}, pages); diff != "" {
		t.Error(diff)
	}
	held := get[admin.Page](a, "GET", "/v1/messages?area=hold", "")
	if len(held.Messages) != 25 || held.Messages[0].Reason != "maintenance" {
		t.Errorf("%d are held", len(held.Messages))
	}
}

// A missing reason must not be replaced by the last reply of a server.
func TestHoldWithoutReason(t *testing.T) {
	a := serve(t, admintest.New(message(1, mail.AreaDeferred, "a@b", "j@c")), admin.Config{})
	a.order("hold", admin.Order{Filter: named(1)})
	held := get[admin.Page](a, "GET", "/v1/messages?area=hold", "")
	if len(held.Messages) != 1 || held.Messages[0].Reason != "held by an operator" {
		t.Errorf("%+v", held.Messages)
	}
}

// Dropping is irreversible, so it stops at the number that the caller confirmed,
// even if more messages have arrived meanwhile; damaged messages stay.
func TestDropStopsAtTheConfirmedNumber(t *testing.T) {
	q := admintest.New(message(30, mail.AreaCorrupt, "a@b", "j@c"))
	for n := range 5 {
		q.Add(message(n, mail.AreaIncoming, "a@b", "j@c"))
	}
	a := serve(t, q, admin.Config{})
	count := a.order("drop", admin.Order{All: true, DryRun: true})
	if count.Matched != 5 || count.Done != 0 {
		t.Fatalf("dry run: %+v", count)
	}
	q.Add(message(7, mail.AreaIncoming, "late@b", "j@c"))
	got := a.order("drop", admin.Order{All: true, Confirm: count.Matched})
	if got.Done != 5 || got.Next == "" || q.Place(id(7)) != mail.AreaIncoming || q.Place(id(30)) != mail.AreaCorrupt {
		t.Errorf("%+v; the late message is in %s", got, q.Place(id(7)))
	}
}

// An order for a message that is being delivered waits for the delivery, but its
// caller does not wait forever: the rest is pending.
func TestOrderForBusyMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy, soon := message(1, mail.AreaIncoming, "a@b", "j@c"), message(2, mail.AreaIncoming, "a@b", "j@c")
		busy.Busy, soon.Busy = true, true
		q := admintest.New(busy, soon, message(3, mail.AreaIncoming, "a@b", "j@c"))
		a := serve(t, q, admin.Config{Settle: 2 * time.Second})
		go func() {
			time.Sleep(time.Second)
			q.Finish(id(2))
		}()
		begin := time.Now()
		got := a.order("hold", admin.Order{All: true})
		if got.Matched != 3 || got.Done != 2 || got.Pending != 1 {
			t.Errorf("%+v", got)
		}
		if took := time.Since(begin); took < 1900*time.Millisecond || took > 2*time.Second {
			t.Errorf("it took %s", took)
		}
		q.Finish(id(1))
		if q.Place(id(1)) != mail.AreaHold {
			t.Error("the order was forgotten")
		}
	})
}

// A message that was delivered before a hold took effect is not a failure: it is
// gone and no longer needs the order.
func TestOrderForAMessageThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := message(1, mail.AreaIncoming, "a@b", "j@c")
		busy.Busy = true
		q := admintest.New(busy)
		a := serve(t, q, admin.Config{})
		go func() {
			time.Sleep(100 * time.Millisecond)
			q.Drop([]mail.QueueID{id(1)})
			q.Finish(id(1))
		}()
		if got := a.order("hold", admin.Order{Filter: named(1)}); got.Done != 1 || got.Pending != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// A flush reaches the core once and returns the number of deferred messages.
func TestFlush(t *testing.T) {
	q := admintest.New(message(1, mail.AreaDeferred, "a@b", "j@c"), message(2, mail.AreaDeferred, "a@b", "j@c"))
	a := serve(t, q, admin.Config{})
	got := get[admin.Flushed](a, "POST", "/v1/flush", "")
	if _, all := q.Retried(); got.Deferred != 2 || all != 1 {
		t.Errorf("%+v, %d times", got, all)
	}
}

// One page must not take long even if it is a full one: its cost determines how
// long a list of a million takes.
func BenchmarkListPage(b *testing.B) {
	q := admintest.New()
	for n := range 1000 {
		q.Add(message(n, mail.AreaHold, "a@b", fmt.Sprintf("j%d@c", n)))
	}
	s, err := admin.New(admin.Config{}, q, q, q)
	if err != nil {
		b.Fatal(err)
	}
	a := api{handler: s.Handler()}
	for b.Loop() {
		if w := a.do("GET", "/v1/messages?limit=1000", ""); w.Code != 200 {
			b.Fatal(w.Body)
		}
	}
}

// A damaged message is shown with its damage, can be selected by it, and does not
// match conditions on what cannot be read.
func TestDamagedMessages(t *testing.T) {
	whole, state, lost := message(1, mail.AreaDeferred, "a@b", "j@c"), message(2, mail.AreaDeferred, "a@b", "j@c"), message(3, mail.AreaDeferred, "")
	state.Damage = "state: checksum mismatch"
	lost.Damage, lost.Envelope = "envelope: checksum mismatch", mail.Envelope{ID: id(3)}
	a := serve(t, admintest.New(whole, state, lost), admin.Config{})
	list := func(query string) string {
		t.Helper()
		var found string
		for _, m := range get[admin.Page](a, "GET", "/v1/messages?"+query, "").Messages {
			found += fmt.Sprintf("%s %s;", m.ID, m.Damage)
			if m.Arrived.Unix() == 0 {
				t.Errorf("%s is said to have arrived at %v", m.ID, m.Arrived)
			}
		}
		return found
	}
	one, two, three := id(1).String()+" ;", id(2).String()+" state: checksum mismatch;", id(3).String()+" envelope: checksum mismatch;"
	for query, want := range map[string]string{
		"": one + two + three, "damaged=true": two + three, "damaged=true&sender=a@b": two, "sender=a@b": one + two, "sender=%3C%3E": "", "older=1s": one + two,
		"id=" + id(2).String() + "&area=hold": "", "id=" + id(2).String() + "&area=deferred": two,
	} {
		if got := list(query); got != want {
			t.Errorf("%q lists %s, want %s", query, got, want)
		}
	}
	if got := a.order("hold", admin.Order{Filter: &admin.Filter{Damaged: true}}); got.Matched != 2 {
		t.Errorf("an order for the damaged ones is for %d", got.Matched)
	}
}

// A parameter that takes one value is refused if given twice.
func TestParameterGivenTwice(t *testing.T) {
	a := serve(t, admintest.New(message(1, mail.AreaDeferred, "a@b", "j@c")), admin.Config{})
	for query, want := range map[string]int{"sender=a@b&sender=c@d": 200, "domain=c&domain=c": 200, "limit=1&limit=2": 422, "older=1h&older=2h": 422, "area=hold&area=deferred": 200} {
		if w := a.do("GET", "/v1/messages?"+query, ""); w.Code != want {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}

// A message with recipients at two domains keeps those at the second, whatever is
// ordered for the first; the log names the recipients that an order applies to.
func TestOrdersForRecipients(t *testing.T) {
	none := mail.Address("quiet@c")
	full := mail.Reply{Code: 452, Status: mail.Status{Class: 4, Subject: 2, Detail: 2}, Text: "mailbox full"}
	part := mail.NewQueueID(4e18, 1)
	for _, c := range []struct {
		verb   string
		filter admin.Filter
		sender string
		want   admin.Ordered
		left   string // waiting recipients
		told   int
	}{
		{"drop", admin.Filter{Domain: []string{"c"}}, "a@b", admin.Ordered{Matched: 1, Done: 1, Recipients: 2, Scanned: 1}, "j@d ", 0},
		{"bounce", admin.Filter{Domain: []string{"c"}}, "a@b", admin.Ordered{Matched: 1, Done: 1, Recipients: 2, Scanned: 1}, "j@d ", 1},
		{"bounce", admin.Filter{Domain: []string{"c"}}, "", admin.Ordered{Matched: 1, Done: 1, Recipients: 2, Scanned: 1}, "j@d ", 0},
		{"bounce", admin.Filter{Recipient: []string{"j@*"}}, "a@b", admin.Ordered{Matched: 1, Done: 1, Recipients: 2, Scanned: 1}, "quiet@c ", 2},
		{"bounce", admin.Filter{IDs: []string{id(1).String()}}, "a@b", admin.Ordered{Matched: 1, Done: 1, Recipients: 3, Scanned: 1}, "", 2},
		{"expire", admin.Filter{Domain: []string{"c"}}, "a@b", admin.Ordered{Matched: 1, Done: 1, Recipients: 2, Scanned: 1}, "j@d ", 1},
		{"expire", admin.Filter{IDs: []string{id(1).String()}}, "", admin.Ordered{Matched: 1, Done: 1, Recipients: 3, Scanned: 1}, "", 3},
		{"drop", admin.Filter{ReplyClass: []string{"mailbox-full"}}, "a@b", admin.Ordered{Matched: 1, Done: 1, Recipients: 1, Scanned: 1}, "j@d quiet@c ", 0},
		{"bounce", admin.Filter{Error: []string{"/4[.]2[.][0-9]/"}}, "a@b", admin.Ordered{Matched: 1, Done: 1, Recipients: 1, Scanned: 1}, "j@d quiet@c ", 1},
		{"drop", admin.Filter{Recipient: []string{"j@c", "/^quiet@/"}}, "a@b", admin.Ordered{Matched: 1, Done: 1, Recipients: 2, Scanned: 1}, "j@d ", 0},
		{"drop", admin.Filter{Domain: []string{"c"}, Recipient: []string{"*@d", "quiet@*"}}, "a@b", admin.Ordered{Matched: 1, Done: 1, Recipients: 1, Scanned: 1}, "j@c j@d ", 0},
		{"drop", admin.Filter{Domain: []string{"nowhere"}}, "a@b", admin.Ordered{Scanned: 1}, "j@c j@d quiet@c ", 0},
		{"hold", admin.Filter{Domain: []string{"c"}}, "a@b", admin.Ordered{Matched: 1, Done: 1, Recipients: 2, Scanned: 1,
			Splits: []admin.Part{{From: id(1).String(), Into: part.String(), Recipients: []string{"j@c", "quiet@c"}}}}, "j@d ", 0},
		{"hold", admin.Filter{Recipient: []string{"*"}}, "a@b", admin.Ordered{Matched: 1, Done: 1, Recipients: 3, Scanned: 1}, "j@c j@d quiet@c ", 0},
	} {
		m := message(1, mail.AreaDeferred, c.sender, "j@c", "j@d", string(none))
		m.Recipients[2].Recipient.Notify = mail.NotifyNever
		m.Recipients[0].Outcome.Reply = full
		q := admintest.New(m)
		var log bytes.Buffer
		a := serve(t, q, admin.Config{Logger: event.NewStrict(&log, nil, nil), ReplyClass: func(r mail.Reply) string {
			if r.Status.Detail == 2 {
				return "mailbox-full"
			}
			return ""
		}})
		o := admin.Order{Filter: &c.filter, Confirm: 10, Reason: "they moved"}
		if c.verb == "hold" {
			o.Confirm = 0
		}
		dry := o
		dry.DryRun = true
		if got := a.order(c.verb, dry); got.Recipients != c.want.Recipients || got.Matched != c.want.Matched || len(got.Splits) != len(c.want.Splits) {
			t.Errorf("%s %+v: a dry run says %+v", c.verb, c.filter, got)
		}
		if diff := cmp.Diff(c.want, a.order(c.verb, o)); diff != "" {
			t.Errorf("%s %+v: %s", c.verb, c.filter, diff)
		}
		left, told := "", 0
		list := q.Outcomes(id(1))
		for _, r := range list {
			switch {
			case !r.Outcome.Result.Settled():
				left += string(r.Recipient.Address) + " "
			case r.Outcome.Result == mail.Moved:
			case c.verb == "expire":
				want := mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 4, Detail: 7}, Text: "delivery time expired"}
				if r.Recipient.Index == 0 {
					want = full
				}
				if r.Outcome.Result != mail.Failed || !r.Outcome.Expired || r.Outcome.Reply != want {
					t.Errorf("%s %+v: %+v", c.verb, c.filter, r)
				}
				if r.Outcome.Report == mail.ReportFailed {
					told++
				}
			case r.Outcome.Result != mail.Failed || !strings.Contains(r.Outcome.Reply.Text, "by an operator: they moved"):
				t.Errorf("%s %+v: %+v", c.verb, c.filter, r)
			case r.Outcome.Report == mail.ReportFailed:
				told++
			}
		}
		if left != c.left || list != nil && told != c.told {
			t.Errorf("%s %+v: %q are left and %d are reported, want %q and %d", c.verb, c.filter, left, told, c.left, c.told)
		}
		if want := len(c.want.Splits); want > 0 {
			held := q.Outcomes(part)
			if q.Place(part) != mail.AreaHold || len(held) != 2 || held[0].Recipient.Address != "j@c" || !strings.Contains(log.String(), "into="+part.String()) {
				t.Errorf("%s %+v: %v is in %v, %+v; log:\n%s", c.verb, c.filter, part, q.Place(part), held, log.String())
			}
		}
		if line := "id=" + id(1).String(); strings.Contains(log.String(), line) != (c.want.Matched > 0) || c.want.Recipients == 2 && !strings.Contains(log.String(), "to=j@") {
			t.Errorf("%s %+v: log:\n%s", c.verb, c.filter, log.String())
		}
	}
}

// Reading one message fails temporarily. A drop does not depend on it; orders that
// depend on its recipients leave that message alone and are carried out for the others.
// The log names what was done, and no more.
func TestOrdersLeaveOutWhatCannotBeRead(t *testing.T) {
	for _, c := range []struct {
		verb   string
		filter admin.Filter
		want   admin.Ordered
		logged []int
	}{
		{"drop", *named(1, 2, 3), admin.Ordered{Matched: 3, Done: 3, Scanned: 3}, []int{1, 2, 3}},
		{"bounce", *named(1, 2, 3), admin.Ordered{Matched: 2, Done: 2, Recipients: 2, Unread: unread(2), Scanned: 3}, []int{1, 3}},
		{"bounce", admin.Filter{Domain: []string{"c"}}, admin.Ordered{Matched: 2, Done: 2, Recipients: 2, Unread: unread(2), Scanned: 3}, []int{1, 3}},
		{"bounce", admin.Filter{IDs: named(1, 2, 3).IDs, Domain: []string{"c"}}, admin.Ordered{Matched: 2, Done: 2, Recipients: 2, Unread: unread(2), Scanned: 3}, []int{1, 3}},
	} {
		bad := message(2, mail.AreaDeferred, "a@b", "j@c")
		bad.Unreadable = true
		q := admintest.New(message(1, mail.AreaDeferred, "a@b", "j@c"), bad, message(3, mail.AreaDeferred, "a@b", "j@c"))
		var log bytes.Buffer
		a := serve(t, q, admin.Config{Logger: event.NewStrict(&log, nil, nil)})
		if diff := cmp.Diff(c.want, a.order(c.verb, admin.Order{Filter: &c.filter, Confirm: 3})); diff != "" {
			t.Errorf("%s: %s", c.verb, diff)
		}
		for n := 1; n <= 3; n++ {
			if got, want := strings.Contains(log.String(), "msg=order verb="+c.verb+" id="+id(n).String()), slices.Contains(c.logged, n); got != want {
				t.Errorf("%s: message %d is logged: %t, want %t\n%s", c.verb, n, got, want, log.String())
			}
		}
	}
}

// The log names, for each message, the order and the peer that gave it, also for orders
// that read no recipients.
//
// Seen failing: a hold and a release named the first message only.
func TestOrdersAreLogged(t *testing.T) {
	for verb, area := range map[string]mail.Area{"hold": mail.AreaDeferred, "release": mail.AreaHold} {
		q := admintest.New(message(1, area, "a@b", "j@c"), message(2, area, "d@e", "j@c"))
		var log bytes.Buffer
		a := serve(t, q, admin.Config{Logger: event.NewStrict(&log, nil, nil)})
		for _, dry := range []bool{true, false} {
			a.order(verb, admin.Order{All: true, Reason: "why", DryRun: dry})
			for n, sender := range map[int]string{1: "a@b", 2: "d@e"} {
				if got := strings.Contains(log.String(), fmt.Sprintf("msg=order verb=%s id=%s from=%s reason=why by=", verb, id(n), sender)); got == dry {
					t.Errorf("%s, dry run %t: message %d is logged: %t\n%s", verb, dry, n, got, log.String())
				}
			}
		}
	}
}

// A damaged message cannot be tried: a retry by ID releases it, which rereads it.
// The other messages of the order are tried.
//
// Seen failing: retry for the areas of other mail only: nothing was done.
func TestRetryOfDamagedMessage(t *testing.T) {
	q := admintest.New(message(1, mail.AreaDeferred, "a@b", "j@c"), message(2, mail.AreaCorrupt, "a@b", "j@c"), message(3, mail.AreaCorrupt, "a@b", "j@c"))
	a := serve(t, q, admin.Config{})
	if got := a.order("retry", admin.Order{Filter: &admin.Filter{Sender: []string{"a@b"}}}); got.Matched != 1 {
		t.Errorf("by sender: %+v", got)
	}
	if q.Place(id(2)) != mail.AreaCorrupt {
		t.Error("a message that was not named was released")
	}
	if got := a.order("retry", admin.Order{Filter: named(1, 2)}); got.Matched != 2 || got.Done != 2 {
		t.Errorf("by ID: %+v", got)
	}
	if q.Place(id(2)) != mail.AreaDeferred || q.Place(id(3)) != mail.AreaCorrupt {
		t.Errorf("message 2 is in %s, message 3 in %s", q.Place(id(2)), q.Place(id(3)))
	}
	if ids, _ := q.Retried(); len(ids) != 2 || ids[0] != id(1) || ids[1] != id(1) {
		t.Errorf("retried %v", ids)
	}
}

// unread is the part of an answer about messages whose recipients cannot be read.
func unread(numbers ...int) []admin.Unread {
	var all []admin.Unread
	for _, n := range numbers {
		all = append(all, admin.Unread{ID: id(n).String(), Error: "read its recipients: memory: input/output error"})
	}
	return all
}

// Without room for another copy of a large message none of its recipients is held
// separately. The order is still carried out for other messages.
//
// Seen failing: an answer 507 to all of it, with the third message held.
func TestHoldSomeWithoutRoom(t *testing.T) {
	q := admintest.New(message(1, mail.AreaDeferred, "a@b", "j@c", "j@d"), message(2, mail.AreaDeferred, "a@b", "j@c"))
	q.Fill()
	a := serve(t, q, admin.Config{})
	got := a.order("hold", admin.Order{Filter: &admin.Filter{Domain: []string{"c"}}})
	if got.Matched != 1 || got.Recipients != 1 || len(got.Splits) != 0 || len(got.Unread) != 1 || !strings.Contains(got.Unread[0].Error, "no room") {
		t.Errorf("%+v", got)
	}
	if q.Place(id(1)) != mail.AreaDeferred || q.Place(id(2)) != mail.AreaHold {
		t.Errorf("message 1 is in %v, message 2 in %v", q.Place(id(1)), q.Place(id(2)))
	}
}

// A crowd is a Store and a Control with one message of very many recipients. It
// stores none of them, and samples the heap.
type crowd struct {
	*admintest.Queue
	recipients int
	settled    []bool
	splits     int
	looks      int
	most       uint64
}

func (c *crowd) look() {
	if c.looks++; c.looks%100 == 0 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		c.most = max(c.most, m.HeapAlloc)
	}
}

func (c *crowd) Recipients(_ context.Context, _ mail.QueueID, q admin.RecipientQuery) (admin.RecipientList, error) {
	c.look()
	list := admin.RecipientList{Next: uint32(min(int(q.From)+q.Max, c.recipients))}
	for i := q.From; i < list.Next; i++ {
		if !c.settled[i] {
			list.Recipients = append(list.Recipients, mail.RecipientOutcome{
				Recipient: mail.Recipient{Index: i, Address: mail.Address(fmt.Sprintf("recipient-with-a-long-name-%d@d%d.example", i, i%2))}})
		}
	}
	list.More = int(list.Next) < c.recipients
	return list, nil
}

// Sweep leaves out the recipients, as of all long lists.
func (c *crowd) Sweep(ctx context.Context, from mail.QueueID, in admin.Interest, visit func(*admin.Sight) bool) error {
	return c.Queue.Sweep(ctx, from, admin.Interest{Passed: in.Passed, Brief: in.Brief}, func(m *admin.Sight) bool {
		m.Long, m.Recipients = true, nil
		return visit(m)
	})
}

// Show also knows the messages that recipients were moved to.
func (c *crowd) Show(ctx context.Context, id mail.QueueID) (admin.Message, error) {
	if id >= mail.NewQueueID(4e18, 0) {
		return admin.Message{Envelope: mail.Envelope{ID: id}, Place: mail.Place{Area: mail.AreaHold}}, nil
	}
	return c.Queue.Show(ctx, id)
}

func (c *crowd) Settle(_ mail.QueueID, outcomes []mail.Outcome, last bool) {
	for i := range outcomes {
		c.settled[outcomes[i].Index] = true
	}
	if left := slices.Index(c.settled, false); last != (left < 0) {
		panic(fmt.Sprintf("last is %t, and recipient %d is left", last, left))
	}
}

func (c *crowd) Split(_ mail.QueueID, s mail.Split, _ bool) {
	c.splits++
	for _, i := range s.Recipients {
		c.settled[i] = true
	}
}

// An order for recipients keeps only some of them in memory at a time, however many
// there are, and is carried out for all.
//
// Seen failing: with all recipients of the message in a list, 35 to 62 MB are held.
func TestOrderForAMessageWithManyRecipients(t *testing.T) {
	recipients := 40_000 * min(golden.Runs(1), 5)
	for _, c := range []struct {
		verb   string
		filter admin.Filter
		want   int
	}{
		{"drop", *named(1), 0},
		{"drop", admin.Filter{Domain: []string{"d1.example"}}, recipients / 2},
		{"bounce", *named(1), recipients},
		{"bounce", admin.Filter{Domain: []string{"d1.example"}}, recipients / 2},
		{"hold", admin.Filter{Domain: []string{"d1.example"}}, recipients / 2},
	} {
		spool := &crowd{Queue: admintest.New(message(1, mail.AreaDeferred, "a@b")), recipients: recipients, settled: make([]bool, recipients)}
		s, err := admin.New(admin.Config{ScanRecipients: 10 * recipients, ScanTime: time.Hour}, spool, spool, spool)
		if err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		var before runtime.MemStats
		runtime.ReadMemStats(&before)
		o := admin.Order{Filter: &c.filter}
		if c.verb != "hold" {
			o.Confirm = 1
		}
		got := api{t, s.Handler()}.order(c.verb, o)
		if got.Recipients != c.want || got.Matched != 1 || got.Done != 1 {
			t.Errorf("%s %+v: %d recipients, %d matched, %d done", c.verb, c.filter, got.Recipients, got.Matched, got.Done)
		}
		if n := len(slices.DeleteFunc(slices.Clone(spool.settled), func(settled bool) bool { return !settled })); n != c.want {
			t.Errorf("%s %+v: carried out for %d recipients, want %d", c.verb, c.filter, n, c.want)
		}
		if c.verb == "hold" && (spool.splits != recipients/20_000 || len(got.Splits) != recipients/20_000 || len(got.Splits[0].Recipients) != 20 || got.Splits[0].More != 9_980) {
			t.Errorf("%d splits, %d told", spool.splits, len(got.Splits))
		}
		if held := int64(spool.most) - int64(before.HeapAlloc); spool.looks < recipients*3/2000 || held > 4<<20 {
			t.Errorf("%s %+v: %d octets held at most, in %d looks", c.verb, c.filter, held, spool.looks)
		}
	}
}

// A request without a limit gives its order for many pages of messages before it waits until all of that is durable. One
// with a limit, or with a number that was confirmed, stops there.
func TestOrderForManyPages(t *testing.T) {
	const n = 2*admin.MessagesMax + 500
	for _, c := range []struct {
		order admin.Order
		want  int
		next  bool
	}{
		{admin.Order{All: true, Confirm: n}, n, false},
		{admin.Order{All: true, Confirm: n - 600}, n - 600, true},
		{admin.Order{All: true, Confirm: n, Limit: 300}, 300, true},
	} {
		q := admintest.New()
		for i := range n {
			q.Add(message(i+1, mail.AreaDeferred, "a@b", "j@c"))
		}
		a := serve(t, q, admin.Config{ScanTime: time.Hour})
		got := a.order("drop", c.order)
		if got.Matched != c.want || got.Done != c.want || (got.Next != "") != c.next {
			t.Errorf("%+v: matched %d, done %d, next %q", c.order, got.Matched, got.Done, got.Next)
		}
		if counts, err := q.Counts(t.Context()); err != nil || int(counts.Deferred) != n-c.want {
			t.Errorf("%+v: %d are left, %v", c.order, counts.Deferred, err)
		}
	}
}
