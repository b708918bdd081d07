package report

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/posthaste-mta/posthaste/dsn"
	"github.com/posthaste-mta/posthaste/mail"
)

// refusals yields so many recipients who were refused, and then an error if there is one.
func refusals(n int, notify mail.Notify, end error) iter.Seq2[mail.RecipientOutcome, error] {
	return func(yield func(mail.RecipientOutcome, error) bool) {
		for i := range n {
			if !yield(debt(mail.Address(fmt.Sprintf("u%d@example.net", i)), mail.ReportFailed, notify), nil) {
				return
			}
		}
		if end != nil {
			yield(mail.RecipientOutcome{}, end)
		}
	}
}

// A message that never came into the spool is returned whole, in as many reports as its recipients need, and
// nothing is changed in the spool but for these.
func TestReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r := reporter(t, m, Config{RecipientsMax: 10})
		env := fromAlice()
		env.Size = int64(len(letter))
		arrivals, whole, err := r.Return(context.Background(), env, refusals(25, 0, nil), strings.NewReader(letter))
		if err != nil || !whole || len(arrivals) != 3 || len(m.messages) != 3 {
			t.Fatalf("%d reports, %d messages, whole: %v, %v", len(arrivals), len(m.messages), whole, err)
		}
		n := 0
		for _, a := range arrivals {
			said, original := read(t, m, a)
			n += len(said.Recipients)
			if original.Part != dsn.PartMessage || string(original.Content) != letter || said.To != "alice@example.org" || said.QueueID != 0 || a.Envelope.Sender != "" {
				t.Errorf("%+v, %+v", said, original)
			}
		}
		if n != 25 {
			t.Errorf("%d recipients are reported on", n)
		}
	})
}

// What cannot be returned whole is not said to be, so that its only other copy is kept.
func TestReturnInPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("the list cannot be read")
		for _, c := range []struct {
			name    string
			change  func(*mail.Envelope)
			content string
			failed  iter.Seq2[mail.RecipientOutcome, error]
			reports int
			err     error
		}{
			{"larger than what is returned", func(e *mail.Envelope) { e.Size = 60 << 10 }, letter, refusals(1, 0, nil), 1, nil},
			{"the header was asked for", func(e *mail.Envelope) { e.Ret = mail.RetHeaders }, letter, refusals(1, 0, nil), 1, nil},
			{"no reports were asked for", func(e *mail.Envelope) {}, letter, refusals(12, mail.NotifyNever, nil), 0, nil},
			{"the null sender", func(e *mail.Envelope) { e.Sender = "" }, letter, refusals(1, 0, nil), 0, nil},
			{"trouble behind the first report", func(e *mail.Envelope) {}, letter, refusals(12, 0, broken), 1, broken},
		} {
			m := newMemory()
			r := reporter(t, m, Config{RecipientsMax: 10})
			env := fromAlice()
			env.Size = int64(len(c.content))
			c.change(&env)
			arrivals, whole, err := r.Return(context.Background(), env, c.failed, strings.NewReader(c.content))
			if whole || len(arrivals) != c.reports || !errors.Is(err, c.err) || len(m.messages) != c.reports {
				t.Errorf("%s: %d reports, whole: %v, %v", c.name, len(arrivals), whole, err)
			}
		}
	})
}
