package admin_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
	"github.com/posthaste-mta/posthaste/mail"
)

// longQueue returns messages in random areas, of which some are due at the same time and some have many
// recipients. Every hundredth is of a rare sender, and every tenth to a domain of its own.
func longQueue(rnd *rand.Rand, n int) []admintest.Message {
	var all []admintest.Message
	for i := range n {
		sender := "often@example.com"
		if i%100 == 37 {
			sender = "rare@example.com"
		}
		m := message(i, mail.Area(1+rnd.IntN(4)), sender)
		if m.Place.Area == mail.AreaDeferred {
			m.Place.Due = noon + mail.Instant(rnd.IntN(50))
		}
		for r := range 1 + rnd.IntN(2)*i%60 {
			domain := "all.example"
			if i%10 == 3 && r == 0 {
				domain = "some.example"
			}
			to := mail.RecipientOutcome{Recipient: mail.Recipient{Address: mail.Address(fmt.Sprintf("r%d@%s", r, domain))}}
			to.Outcome.Result = mail.Result(rnd.IntN(4))
			m.Recipients = append(m.Recipients, to)
		}
		all = append(all, m)
	}
	return all
}

// A list of what few messages match is the same whether it is swept or not, in pages of any size; and its
// first page does not look up all messages one by one.
func TestListOfFew(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 1))
	all := longQueue(rnd, 3000)
	rare := func(m *admintest.Message) bool { return m.Envelope.Sender == "rare@example.com" }
	for _, c := range []struct {
		query url.Values
		want  func(*admintest.Message) bool
	}{
		{url.Values{"sender": {"rare@example.com"}}, rare},
		{url.Values{"domain": {"some.example"}, "sender": {"rare@*", "*@example.com"}}, func(m *admintest.Message) bool { return waits(m, "@some.example") }},
		{url.Values{"sender": {"nobody@example.com"}}, func(*admintest.Message) bool { return false }},
		{url.Values{"sender": {"rare@example.com"}, "area": {"hold", "deferred"}}, func(m *admintest.Message) bool {
			return rare(m) && (m.Place.Area == mail.AreaDeferred || m.Place.Area == mail.AreaHold)
		}},
	} {
		want := naive(all, c.want)
		if len(c.query["area"]) > 0 { // in the order in which they were given
			held := naive(all, func(m *admintest.Message) bool { return rare(m) && m.Place.Area == mail.AreaHold })
			want = append(held, naive(all, func(m *admintest.Message) bool { return rare(m) && m.Place.Area == mail.AreaDeferred })...)
		}
		for _, limit := range []int{1, 7, 1000} {
			q := admintest.New(all...)
			a := serve(t, q, admin.Config{})
			c.query.Set("limit", strconv.Itoa(limit))
			c.query.Del("cursor")
			first := get[admin.Page](a, "GET", "/v1/messages?"+c.query.Encode(), "")
			if reads := q.Reads(); limit == 1000 && len(want) < 50 && reads > 1000 {
				t.Errorf("%v: %d messages were looked up for the first page of %d", c.query, reads, len(first.Messages))
			}
			if got, _ := a.pages(c.query); !slices.Equal(got, want) {
				t.Errorf("%v: %s", c.query, cmp.Diff(want, got))
			}
		}
	}
}

// Counts and orders in pages of any size are for each message once, whatever their areas.
func TestSweptPages(t *testing.T) {
	const messages = 60
	for _, sweep := range []int{1, 13, 1000} {
		for _, filter := range []admin.Filter{{Sender: []string{"often@*"}}, {Domain: []string{"some.example"}}, {Recipient: []string{"r0@*"}}, {Site: []string{"*"}}} {
			all := longQueue(rand.New(rand.NewPCG(8, 1)), messages) // orders change it
			wantMessages, wantRecipients, waiting := 0, 0, 0
			for i := range all {
				n := 0
				for _, r := range all[i].Recipients {
					ok := len(filter.Site) == 0 && !r.Outcome.Result.Settled()
					ok = ok && (len(filter.Domain) == 0 || strings.HasSuffix(string(r.Recipient.Address), "@some.example"))
					ok = ok && (len(filter.Recipient) == 0 || strings.HasPrefix(string(r.Recipient.Address), "r0@"))
					if ok {
						n++
					}
				}
				whole := len(filter.Sender) > 0
				if all[i].Place.Area != mail.AreaCorrupt && (n > 0 || whole) && (!whole || all[i].Envelope.Sender == "often@example.com") {
					wantMessages, wantRecipients = wantMessages+1, wantRecipients+n
					if n > 0 {
						waiting++
					}
				}
			}
			q := admintest.New(all...)
			a := serve(t, q, admin.Config{SweepMessages: sweep})
			for _, by := range []string{"", "domain", "sender"} {
				values := url.Values{"sender": filter.Sender, "domain": filter.Domain, "recipient": filter.Recipient, "site": filter.Site}
				if by != "" {
					values.Set("by", by)
				}
				messages, recipients, scanned, inGroups := 0, 0, 0, 0
				for more := true; more; {
					page := get[admin.Count](a, "GET", "/v1/counts?"+values.Encode(), "")
					messages, recipients, scanned = messages+page.Messages, recipients+page.Recipients, scanned+page.Scanned
					for _, g := range page.Groups {
						inGroups += g.Recipients
					}
					more = page.Next != ""
					values.Set("cursor", page.Next)
				}
				wantInGroups, wantMessages := wantRecipients, wantMessages
				if by == "domain" { // messages are counted in the groups of their recipients
					wantMessages = waiting
				}
				if by == "" {
					wantInGroups = 0
				}
				if messages != wantMessages || recipients != wantRecipients || scanned != len(all) || inGroups != wantInGroups {
					t.Errorf("%+v by %q, %d at a time: %d messages, %d recipients, %d in groups, %d looked at; want %d, %d, %d, %d", filter, by, sweep,
						messages, recipients, inGroups, scanned, wantMessages, wantRecipients, wantInGroups, len(all))
				}
			}
			for _, dry := range []bool{true, false} {
				o := admin.Order{Filter: &filter, DryRun: dry, Limit: 25, Confirm: 1000}
				matched, recipients := 0, 0
				for more := true; more; {
					done := a.order("drop", o)
					matched, recipients = matched+done.Matched, recipients+done.Recipients
					if done.Matched > 25 {
						t.Errorf("%d in a page of 25", done.Matched)
					}
					o.Cursor, more = done.Next, done.Next != ""
				}
				if matched != wantMessages || (dry || len(filter.Sender) == 0) && recipients != wantRecipients {
					t.Errorf("%+v, %d at a time, dry %t: dropped %d recipients of %d messages, want %d of %d", filter, sweep, dry, recipients, matched, wantRecipients, wantMessages)
				}
			}
			left := get[admin.Count](serve(t, q, admin.Config{}), "GET", "/v1/counts?"+url.Values{"sender": filter.Sender, "domain": filter.Domain, "recipient": filter.Recipient, "site": filter.Site}.Encode(), "")
			if left.Messages != 0 {
				t.Errorf("%+v: %d are left", filter, left.Messages)
			}
		}
	}
}

// A wholeStore passes over nothing.
type wholeStore struct{ *admintest.Queue }

func (s wholeStore) Sweep(ctx context.Context, from mail.QueueID, _ admin.Interest, visit func(*admin.Sight) bool) error {
	return s.Queue.Sweep(ctx, from, admin.Interest{}, visit)
}

// What is found is the same whether a sweep may pass over messages or not, whatever the conditions are, also where a reason or the lack
// of a reply meets them.
func TestSweepsPassOver(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 1))
	all := longQueue(rnd, 700)
	for i := range all {
		m := &all[i]
		m.Envelope.Flow = mail.Flow{Class: []string{"normal", "bulk"}[i%2], Tenant: fmt.Sprint("t", i%50)}
		if i%70 == 3 {
			m.Reason = "a rare reason"
		}
		for r := range m.Recipients {
			if o := &m.Recipients[r].Outcome; o.Result != mail.Pending {
				o.Reply = mail.Reply{Code: uint16(450 + rnd.IntN(2)), Text: []string{"busy", "a rare reply", "later"}[min(rnd.IntN(100), 2)], By: []string{"mx.one", "mx.two"}[i%2]}
			}
		}
	}
	class := func(r mail.Reply) string {
		if r.Code == 450 {
			return "greylisted"
		}
		return ""
	}
	q := admintest.New(all...)
	cfg := admin.Config{ReplyClass: class, ScanTime: time.Hour}
	part, err := admin.New(cfg, q, q, q)
	whole, as := admin.New(cfg, wholeStore{q}, q, q)
	if err != nil || as != nil {
		t.Fatal(err, as)
	}
	found := 0
	for _, query := range []url.Values{
		{"sender": {"rare@*"}}, {"tenant": {"t7"}}, {"class": {"bulk"}, "domain": {"some.example"}}, {"recipient": {"r50@*"}}, {"error": {"rare"}}, {"error": {"rare re"}, "class": {"bulk"}},
		{"error": {"rare"}, "reply_class": {"greylisted"}}, {"error": {"/^$/"}}, {"reply_class": {"-"}}, {"reply_class": {"greylisted"}}, {"host": {"mx.two"}, "error": {"reply"}},
		{"host": {"*"}}, {"site": {"*"}}, {"older": {"1s"}, "error": {"rare"}}, {"error": {"reason"}}, {"larger": {"1M"}},
	} {
		for _, by := range []string{"", "domain", "sender", "reply-class"} {
			values := maps.Clone(query)
			if by != "" {
				values.Set("by", by)
			}
			got, want := get[admin.Count](api{t, part.Handler()}, "GET", "/v1/counts?"+values.Encode(), ""), get[admin.Count](api{t, whole.Handler()}, "GET", "/v1/counts?"+values.Encode(), "")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("count of %v: %s", values, diff)
			}
			found += got.Messages
		}
		query.Set("limit", "1000")
		got, _ := api{t, part.Handler()}.pages(maps.Clone(query))
		if want, _ := (api{t, whole.Handler()}).pages(query); !slices.Equal(got, want) {
			t.Errorf("list of %v: %s", query, cmp.Diff(want, got))
		}
	}
	if found == 0 {
		t.Error("nothing was found")
	}
}
