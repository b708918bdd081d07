package admin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
	"github.com/posthaste-mta/posthaste/internal/event"
	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
)

// pages reads a list to its end and returns the IDs and the number of pages.
func (a api) pages(query url.Values) (all []string, n int) {
	a.t.Helper()
	for {
		page := get[admin.Page](a, "GET", "/v1/messages?"+query.Encode(), "")
		all, n = append(all, ids(page)...), n+1
		if page.Next == "" {
			return all, n
		}
		if n > 10_000 {
			a.t.Fatal("the list has no end")
		}
		query.Set("cursor", page.Next)
	}
}

// Whatever the limits of a request are, and wherever it stops, the pages together
// must equal a naive scan of all messages: nothing left out, nothing twice.
func TestPagesTogetherAreTheWholeList(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	for range 12 * golden.Runs(1) {
		q, all := randomQueue(rnd)
		a := serve(t, q, admin.Config{ScanMessages: 1 + rnd.IntN(12), ScanRecipients: 1 + rnd.IntN(600)})
		query, want := url.Values{}, func(*admintest.Message) bool { return true }
		switch rnd.IntN(5) {
		case 0:
			query.Set("sender", "s1@example.com")
			want = func(m *admintest.Message) bool { return m.Envelope.Sender == "s1@example.com" }
		case 1:
			query.Set("domain", "d2.example")
			want = func(m *admintest.Message) bool { return waits(m, "@d2.example") }
		case 2:
			query.Set("recipient", "*9@d*")
			want = func(m *admintest.Message) bool { return waits(m, "9@d") }
		case 3:
			query.Set("recipient", "nobody@nowhere.example")
			want = func(*admintest.Message) bool { return false }
		}
		query.Set("limit", strconv.Itoa(1+rnd.IntN(20)))
		got, _ := a.pages(query)
		if diff := cmp.Diff(naive(all, want), got); diff != "" {
			t.Fatalf("query %v: %s", query, diff)
		}
	}
}

func randomQueue(rnd *rand.Rand) (*admintest.Queue, []admintest.Message) {
	var all []admintest.Message
	for n := range rnd.IntN(60) {
		m := message(n, mail.Area(1+rnd.IntN(4)), fmt.Sprintf("s%d@example.com", rnd.IntN(3)))
		if m.Place.Area == mail.AreaDeferred {
			m.Place.Due = noon + mail.Instant(rnd.IntN(5)) // many are due at the same time
		}
		count := 1 + rnd.IntN(3)
		if rnd.IntN(10) == 0 {
			count = 3000
		}
		for i := range count {
			r := mail.RecipientOutcome{Recipient: mail.Recipient{Address: mail.Address(fmt.Sprintf("r%d@d%d.example", i, rnd.IntN(40)))}}
			r.Outcome.Result = mail.Result(rnd.IntN(4))
			m.Recipients = append(m.Recipients, r)
		}
		all = append(all, m)
	}
	return admintest.New(all...), all
}

func waits(m *admintest.Message, part string) bool {
	return slices.ContainsFunc(m.Recipients, func(r mail.RecipientOutcome) bool {
		return !r.Outcome.Result.Settled() && strings.Contains(string(r.Recipient.Address), part)
	})
}

// naive lists incoming, deferred and held messages in the order of the API.
func naive(all []admintest.Message, want func(*admintest.Message) bool) []string {
	var list []string
	for area := mail.AreaIncoming; area <= mail.AreaHold; area++ {
		var found []mail.Cursor
		for i := range all {
			if m := &all[i]; m.Place.Area == area && want(m) {
				found = append(found, mail.Cursor{Due: m.Place.Due, ID: m.Envelope.ID})
			}
		}
		slices.SortFunc(found, func(a, b mail.Cursor) int {
			if a.Before(b) {
				return -1
			}
			return 1
		})
		for _, c := range found {
			list = append(list, c.ID.String())
		}
	}
	return list
}

// A filter that matches nothing must not read all of a backlog in one request: the
// answer is an empty page with a cursor to continue from.
func TestScanIsBounded(t *testing.T) {
	q := admintest.New()
	for n := range 500 {
		q.Add(message(n, mail.AreaIncoming, "a@example.com", "j@example.net"))
	}
	a := serve(t, q, admin.Config{ScanMessages: 40})
	page := get[admin.Page](a, "GET", "/v1/messages?sender=nobody@example.com", "")
	if len(page.Messages) != 0 || page.Next == "" || page.Scanned != 40 || q.Reads() > 40 {
		t.Errorf("%d messages, next %q, %d scanned, %d read", len(page.Messages), page.Next, page.Scanned, q.Reads())
	}
	if _, n := a.pages(url.Values{"sender": {"nobody@example.com"}}); n != 13 {
		t.Errorf("the end came after %d pages", n)
	}
}

// "older" is used when the queue is full of new mail: where the index is sorted by
// age, messages that are too young need not be read at all.
func TestOlderStopsAtTheFirstYoungMessage(t *testing.T) {
	q := admintest.New(message(1, mail.AreaIncoming, "a@example.com", "j@example.net"))
	for n := range 200 {
		m := message(1_000_000_000+n, mail.AreaIncoming, "a@example.com", "j@example.net")
		m.Envelope.Arrived = m.Envelope.ID.Time()
		q.Add(m)
	}
	a := serve(t, q, admin.Config{})
	page := get[admin.Page](a, "GET", "/v1/messages?older=1h", "")
	if len(page.Messages) != 1 || page.Next != "" || page.Scanned != 1 {
		t.Errorf("%d messages, next %q, %d scanned", len(page.Messages), page.Next, page.Scanned)
	}
}

// An error text narrows a list to messages with one cause, be it a server's reply
// or an operator's reason for a hold.
func TestErrorFilter(t *testing.T) {
	held := message(3, mail.AreaHold, "a@example.com", "j@example.net")
	held.Reason = "suspected GREYlist test"
	q := admintest.New(
		deferredFor(message(1, mail.AreaDeferred, "a@example.com", "j@example.net"), mail.Reply{Code: 451, Text: "Greylisted, come back"}),
		deferredFor(message(2, mail.AreaDeferred, "a@example.com", "j@example.net"), mail.Reply{Code: 421, Text: "too busy"}), held)
	a := serve(t, q, admin.Config{})
	got, _ := a.pages(url.Values{"error": {"greylist"}})
	if diff := cmp.Diff([]string{id(1).String(), id(3).String()}, got); diff != "" {
		t.Error(diff)
	}
	got, _ = a.pages(url.Values{"error": {"greylist"}, "domain": {"example.org"}})
	if len(got) != 0 {
		t.Errorf("another domain: %v", got)
	}
}

// IDs that were copied from a log are looked up directly, in the order given;
// messages that have left meanwhile are left out.
func TestListByID(t *testing.T) {
	q := admintest.New(message(1, mail.AreaCorrupt, "a@example.com", "j@example.net"), message(2, mail.AreaHold, "b@example.com", "j@example.net"))
	a := serve(t, q, admin.Config{})
	query := url.Values{"id": {id(2).String(), id(9).String(), id(1).String()}}
	got, _ := a.pages(query)
	if diff := cmp.Diff([]string{id(2).String(), id(1).String()}, got); diff != "" {
		t.Error(diff)
	}
	query.Set("sender", "@example.com")
	query.Set("recipient", "*")
	if got, _ = a.pages(query); len(got) != 2 {
		t.Errorf("with a filter: %v", got)
	}
}

// A faulty store fails for one of its messages.
type faultyStore struct {
	*admintest.Queue
	id mail.QueueID
}

func (s faultyStore) Show(ctx context.Context, id mail.QueueID) (admin.Message, error) {
	if id == s.id {
		return admin.Message{}, errors.New("input/output error")
	}
	return s.Queue.Show(ctx, id)
}

func (s faultyStore) Recipients(ctx context.Context, id mail.QueueID, q admin.RecipientQuery) (admin.RecipientList, error) {
	if id == s.id {
		return admin.RecipientList{}, errors.New("input/output error")
	}
	return s.Queue.Recipients(ctx, id, q)
}

func (s faultyStore) Sweep(ctx context.Context, from mail.QueueID, in admin.Interest, visit func(*admin.Sight) bool) error {
	return s.Queue.Sweep(ctx, from, in, func(m *admin.Sight) bool {
		if m.Envelope.ID == s.id {
			*m = admin.Sight{Message: admin.Message{Envelope: mail.Envelope{ID: s.id}, Place: m.Place, Damage: "input/output error"}, Long: true}
		}
		return visit(m)
	})
}

// One message that cannot be read is named. The others are listed, whatever the query,
// and an order is carried out for them.
//
// Seen failing: an answer 500 to all of it.
func TestOneUnreadableMessage(t *testing.T) {
	for _, query := range []string{"", "domain=c", "sender=a@b&recipient=j@c", "older=1s"} {
		for _, whole := range []bool{false, true} {
			bad := message(2, mail.AreaDeferred, "a@b", "j@c")
			bad.Unreadable = !whole
			q := admintest.New(message(1, mail.AreaDeferred, "a@b", "j@c"), bad, message(3, mail.AreaHold, "a@b", "j@c"))
			store := faultyStore{Queue: q}
			if whole {
				store.id = id(2)
			}
			var log bytes.Buffer
			s, err := admin.New(admin.Config{Logger: event.NewStrict(&log, nil, nil)}, store, q, q)
			if err != nil {
				t.Fatal(err)
			}
			a := api{t, s.Handler()}
			page := get[admin.Page](a, "GET", "/v1/messages?"+query, "")
			want := []string{id(1).String(), id(3).String()}
			if !whole && (query == "" || query == "older=1s") { // whose recipients are missing
				want = slices.Insert(want, 1, id(2).String())
			}
			if diff := cmp.Diff(want, ids(page)); diff != "" || len(page.Unread) != 1 || page.Unread[0].ID != id(2).String() || !strings.Contains(page.Unread[0].Error, "input/output") {
				t.Errorf("%q, whole %t: unread %+v, %s", query, whole, page.Unread, diff)
			}
			if strings.Count(log.String(), "cannot read messages") != 1 {
				t.Errorf("%q, whole %t: log:\n%s", query, whole, log.String())
			}
			if query != "domain=c" {
				continue
			}
			got := a.order("drop", admin.Order{Filter: &admin.Filter{Domain: []string{"c"}}, Confirm: 3})
			if got.Done != 2 || len(got.Unread) != 1 || q.Place(id(1)) != mail.AreaNone || q.Place(id(2)) != mail.AreaDeferred || q.Place(id(3)) != mail.AreaNone {
				t.Errorf("whole %t: %+v", whole, got)
			}
		}
	}
}

// lastAreaFails is a store of which one area cannot be listed.
type lastAreaFails struct{ *admintest.Queue }

func (s lastAreaFails) Find(ctx context.Context, area mail.Area, from mail.Cursor, max int) (mail.Found, error) {
	if area == mail.AreaHold {
		return mail.Found{}, errors.New("input/output error")
	}
	return s.Queue.Find(ctx, area, from, max)
}

// Messages found before an area that cannot be listed are returned, and an order is
// carried out for them; the request that continues from there gets the error.
func TestAreaThatCannotBeListed(t *testing.T) {
	q := admintest.New(message(1, mail.AreaDeferred, "a@b", "j@c"), message(2, mail.AreaDeferred, "a@b", "j@c"), message(3, mail.AreaHold, "a@b", "j@c"))
	s, err := admin.New(admin.Config{Logger: slog.New(slog.DiscardHandler)}, lastAreaFails{q}, q, q)
	if err != nil {
		t.Fatal(err)
	}
	a := api{t, s.Handler()}
	page := get[admin.Page](a, "GET", "/v1/messages", "")
	if diff := cmp.Diff([]string{id(1).String(), id(2).String()}, ids(page)); diff != "" || page.Next == "" {
		t.Errorf("next %q, %s", page.Next, diff)
	}
	if got := a.do("GET", "/v1/messages?cursor="+page.Next, "").Code; got != 500 {
		t.Errorf("the next page is answered with %d", got)
	}
}

// A disk on which no message can be read still has a finite list of pages, which names
// them all once.
func TestManyUnreadableMessages(t *testing.T) {
	q := admintest.New()
	for n := range 2500 {
		m := message(n, mail.AreaDeferred, "a@b", "j@c")
		m.Unreadable = true
		q.Add(m)
	}
	a := serve(t, q, admin.Config{})
	seen := map[string]bool{}
	for query := "/v1/messages?domain=c"; ; {
		page := get[admin.Page](a, "GET", query, "")
		if len(page.Unread) > admin.MessagesMax {
			t.Fatalf("a page names %d", len(page.Unread))
		}
		for _, u := range page.Unread {
			if seen[u.ID] {
				t.Fatalf("%s is named twice", u.ID)
			}
			seen[u.ID] = true
		}
		if page.Next == "" {
			break
		}
		query = "/v1/messages?domain=c&cursor=" + page.Next
	}
	if len(seen) != 2500 {
		t.Errorf("%d of 2500 are named", len(seen))
	}
}
