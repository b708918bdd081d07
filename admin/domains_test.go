package admin_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
	"github.com/posthaste-mta/posthaste/internal/event"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A site that dials in asks for its mail, and so does another one. One order tries the mail of both and no other,
// over many pages. Held and damaged mail stays where it is.
func TestRetryDomains(t *testing.T) {
	q := admintest.New()
	var want []mail.QueueID
	for n := range 50 {
		q.Add(message(n, mail.Area(1+n%2), "s@s", []string{"j@A.example", "j@b.example", "j@x.b.example", "j@xb.example", "j@s.a.example"}[n%5], "j@other.example"))
		if n%5 < 3 {
			want = append(want, id(n))
		}
	}
	q.Add(message(60, mail.AreaHold, "s@s", "j@a.example"))
	q.Add(message(61, mail.AreaCorrupt, "s@s", "j@a.example"))
	settled := message(62, mail.AreaDeferred, "s@s", "j@a.example", "j@other.example")
	settled.Recipients[0].Outcome.Result = mail.Delivered
	q.Add(settled)
	log := &bytes.Buffer{}
	s, err := admin.New(admin.Config{ScanMessages: 7, SweepMessages: 7, Logger: event.NewStrict(log, nil, nil)}, q, q, q)
	if err != nil {
		t.Fatal(err)
	}
	n, err := s.RetryDomains(t.Context(), []string{"a.example", ".b.example"}, "etrn", "ETRN a.example @b.example")
	got, all := q.Retried()
	slices.Sort(got)
	if err != nil || n != len(want) || all != 0 || !slices.Equal(got, want) {
		t.Errorf("%d messages, %v; retried %v, all %d times\nwant %v", n, err, got, all, want)
	}
	if !strings.Contains(log.String(), `msg=order verb=retry messages=4 `) || !strings.Contains(log.String(), `reason="ETRN a.example @b.example" by=etrn`) {
		t.Error(log)
	}
	n, whole, err := s.CountDomains(t.Context(), []string{"a.example", ".b.example"})
	if n == 0 || n >= len(want) || whole || err != nil {
		t.Errorf("of %d messages one request counts %d, all %t, %v", len(want), n, whole, err)
	}
	if more, _ := q.Retried(); len(more) != len(got) {
		t.Error("to count mail tries it")
	}
	s.Stopping()
	if n, err := s.RetryDomains(t.Context(), []string{"a.example"}, "etrn", ""); n != 0 || err == nil {
		t.Errorf("while it stops: %d, %v", n, err)
	}
}

// A count of all is exact, whether there is some or none.
func TestCountDomains(t *testing.T) {
	q := admintest.New(message(1, mail.AreaDeferred, "s@s", "j@a.example", "k@a.example"), message(2, mail.AreaIncoming, "s@s", "j@a.example"), message(3, mail.AreaHold, "s@s", "j@b.example"))
	s, err := admin.New(admin.Config{}, q, q, q)
	if err != nil {
		t.Fatal(err)
	}
	for domain, want := range map[string]int{"a.example": 2, "b.example": 0} {
		if n, whole, err := s.CountDomains(t.Context(), []string{domain}); n != want || !whole || err != nil {
			t.Errorf("%s: %d, all %t, %v; want %d", domain, n, whole, err, want)
		}
	}
}

// A downQueue is the queue of a server that is down: what is tried comes back to the end of the index at once.
type downQueue struct {
	*admintest.Queue
	tries int
	ahead time.Duration // the core's clock
}

func (q *downQueue) Retry(ids []mail.QueueID) {
	q.tries += len(ids)
	for _, id := range ids {
		m, err := q.Queue.Show(context.Background(), id)
		if err != nil {
			panic(err)
		}
		again := message(0, mail.AreaDeferred, "s@s", "j@a.example")
		again.Envelope, again.Place = m.Envelope, m.Place
		again.Envelope.LastAttempt = mail.Instant(time.Now().Add(q.ahead).UnixNano())
		again.Place.Due = again.Envelope.LastAttempt.Add(time.Hour)
		q.Queue.Drop([]mail.QueueID{id})
		q.Queue.Add(again)
	}
}

// The server of a domain is down. Each message is tried once by one order, although it comes back to a place in the
// index that the order has not reached.
//
// Seen failing: the order did not end while the server was down.
func TestRetryDomainsEnds(t *testing.T) {
	q := &downQueue{Queue: admintest.New()}
	for n := range 30 {
		q.Add(message(n, mail.AreaDeferred, "s@s", "j@a.example"))
	}
	s, err := admin.New(admin.Config{ScanMessages: 10}, q, q, q)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	for round := 1; round < 3; round++ {
		if n, err := s.RetryDomains(ctx, []string{"a.example"}, "etrn", ""); n != 30 || q.tries != 30*round || err != nil {
			t.Fatalf("round %d: %d, %v, tried %d times", round, n, err, q.tries)
		}
	}
}

// An operator has the mail for a domain tried whose server is down, in several requests. Each message is tried once,
// also if the clock has been set back since the last attempts, so that the core's is ahead of it.
//
// Seen failing: the requests met the same messages again and again.
func TestFlushEnds(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Hour} {
		q := &downQueue{Queue: admintest.New(), ahead: ahead}
		now := mail.Instant(time.Now().Add(ahead).UnixNano())
		for n := range 30 {
			m := message(n, mail.AreaDeferred, "s@s", "j@a.example")
			m.Envelope.LastAttempt = now
			q.Add(m)
		}
		q.SetCore(qmgr.View{Now: now})
		s, err := admin.New(admin.Config{ScanMessages: 10}, q, q, q)
		if err != nil {
			t.Fatal(err)
		}
		a := api{t: t, handler: s.Handler()}
		o := admin.Order{Filter: &admin.Filter{Domain: []string{"a.example"}}}
		for requests := 1; ; requests++ {
			got := a.order("retry", o)
			if o.Cursor = got.Next; o.Cursor == "" {
				break
			}
			if requests > 10 {
				t.Fatalf("after %d requests it goes on; %d attempts", requests, q.tries)
			}
		}
		if q.tries != 30 {
			t.Errorf("ahead by %v: %d attempts for 30 messages", ahead, q.tries)
		}
		q.SetCore(qmgr.View{Now: mail.Instant(time.Now().Add(ahead).UnixNano())})
		if n, err := s.RetryDomains(t.Context(), []string{"a.example"}, "etrn", ""); n != 30 || err != nil {
			t.Errorf("ahead by %v, an order for domains: %d messages, %v", ahead, n, err)
		}
	}
}

// The core is full. An order for domains names no more messages than the core can be given, and goes on when it has
// taken them in. It does not outlive its context.
func TestRetryDomainsWaitsForTheCore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := admintest.New()
		for n := range 30 {
			q.Add(message(n, mail.AreaDeferred, "s@s", "j@a.example"))
		}
		s, err := admin.New(admin.Config{SweepMessages: 10}, q, q, q)
		if err != nil {
			t.Fatal(err)
		}
		q.SetCore(qmgr.View{Named: admin.MessagesMax + 1})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		done := make(chan error, 1)
		go func() {
			_, err := s.RetryDomains(ctx, []string{"a.example"}, "etrn", "")
			done <- err
		}()
		time.Sleep(time.Hour)
		if got, _ := q.Retried(); len(got) != 10 {
			t.Errorf("%d messages were named while the core is full", len(got))
		}
		q.SetCore(qmgr.View{Named: admin.MessagesMax})
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got, _ := q.Retried(); len(got) != 30 {
			t.Errorf("%d messages were named", len(got))
		}
		q.SetCore(qmgr.View{Named: admin.MessagesMax + 1})
		go func() {
			_, err := s.RetryDomains(ctx, []string{"a.example"}, "etrn", "")
			done <- err
		}()
		time.Sleep(time.Minute)
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
