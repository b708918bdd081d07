package daemon

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// What the program is for: thousands of messages from several clients to one
// destination and to many, and every one arrives exactly once.
func TestRelay(t *testing.T) {
	t.Parallel()
	runs := min(golden.Runs(1), 4)
	for _, test := range []struct {
		name                    string
		destinations, clients   int
		perClient, perConnected int
	}{
		{"one destination", 1, 10, 60 * runs, 60 * runs},
		{"many destinations", 30, 10, 60 * runs, 20},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var listeners []net.Listener
			var table []string
			for i := range test.destinations {
				ln := listen(t)
				listeners = append(listeners, ln)
				table = append(table, fmt.Sprintf("d%d.test", i), ln.Addr().String())
			}
			box := receive(t, sink.Config{}, listeners...)
			r := start(t, t.TempDir(), routes(table...))
			want := make(copies)
			var mu sync.Mutex
			var clients sync.WaitGroup
			for c := range test.clients {
				clients.Go(func() {
					for first := 0; first < test.perClient; first += test.perConnected {
						var batch []feed.Message
						for i := first; i < first+test.perConnected; i++ {
							m := letter(fmt.Sprintf("<%d.%d>", c, i), mail.Address(fmt.Sprintf("u%d@d%d.test", i, (c+i)%test.destinations)))
							batch = append(batch, m)
							mu.Lock()
							want.add(fmt.Sprintf("<%d.%d>", c, i), m.Recipients...)
							mu.Unlock()
						}
						r.feed(batch...)
					}
				})
			}
			clients.Wait()
			r.settled()
			box.copies().matches(t, want)
			// 20 at a time are allowed. One that has been idle too long is closed, and opened
			// again; how many are depends on how busy the machine is.
			if st := box.Stats(); test.destinations == 1 && st.Connections > st.Messages/10 {
				t.Errorf("%d connections for %d messages: they were not used again", st.Connections, st.Messages)
			}
		})
	}
}

// One message for many people: recipients of one destination share
// transactions of at most the limit, those of several go to each, and no recipient
// is served twice.
func TestManyRecipients(t *testing.T) {
	t.Parallel()
	one, other := receive(t, sink.Config{}), receive(t, sink.Config{})
	r := start(t, t.TempDir(), "default_destination_recipient_limit = 40\n"+routes("one.test", one.address, "other.test", other.address))
	var all []mail.Address
	wantOne, wantOther := make(copies), make(copies)
	for i := range 500 {
		domain, want := "one.test", wantOne
		if i%5 == 0 {
			domain, want = "other.test", wantOther
		}
		to := mail.Address(fmt.Sprintf("u%d@%s", i, domain))
		all = append(all, to)
		want.add("<bulk>", to)
	}
	r.feed(letter("<bulk>", all...), letter("<single>", "u0@one.test"))
	wantOne.add("<single>", "u0@one.test")
	r.settled()
	one.copies().matches(t, wantOne)
	other.copies().matches(t, wantOther)
	for _, d := range one.deliveries() {
		if len(d.Recipients) > 40 {
			t.Errorf("a transaction with %d recipients, want at most 40", len(d.Recipients))
		}
		if d.Sender != "sender@origin.test" {
			t.Errorf("sender %q", d.Sender)
		}
	}
	// The first volley is cut to different sizes, so that not all of it ends at once.
	if n := len(one.deliveries()); n > 400/40+6 {
		t.Errorf("%d transactions for 400 recipients of one destination", n)
	}
}

// A message larger than what a recipient limit of the next hop allows: the
// rest, which got 452, follows in transactions of its own (RFC 5321
// 4.5.3.1.10).
func TestRecipientLimitOfTheNextHop(t *testing.T) {
	t.Parallel()
	box := receive(t, sink.Config{RecipientLimit: 100, Withheld: []string{"LIMITS"}})
	r := start(t, t.TempDir(), "default_destination_recipient_limit = 0\nminimal_backoff_time = \"1s\"\n"+routes("d.test", box.address))
	want := make(copies)
	var all []mail.Address
	for i := range 250 {
		all = append(all, mail.Address(fmt.Sprintf("u%d@d.test", i)))
	}
	want.add("<bulk>", all...)
	r.feed(letter("<bulk>", all...))
	r.settled()
	box.copies().matches(t, want)
}

// Programs on the same machine submit mail through the unix socket, where no
// limit of recipients holds.
func TestSubmissionSocket(t *testing.T) {
	t.Parallel()
	box := receive(t, sink.Config{})
	r := start(t, t.TempDir(), routes("d.test", box.address))
	c, err := feed.Dial(context.Background(), "unix", filepath.Join(r.dir, "submit.sock"))
	if err != nil {
		t.Fatal(err)
	}
	want := make(copies)
	var all []mail.Address
	for i := range 1500 {
		all = append(all, mail.Address(fmt.Sprintf("u%d@d.test", i)))
	}
	want.add("<local>", all...)
	if got := c.Send(letter("<local>", all...)); got.Fate != feed.Accepted || len(got.Accepted) != len(all) {
		t.Fatalf("%s %s, %d recipients: %v", got.Fate, got.Reply, len(got.Accepted), got.Err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	r.settled()
	box.copies().matches(t, want)
}

// A client that may not relay is refused at RCPT, and nothing is queued.
func TestRelayDenied(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), `mynetworks = ["192.0.2.0/24"]`+"\n")
	c := r.dial()
	defer c.Abort()
	if got := c.Send(letter("<1>", "u@elsewhere.test")); got.Fate != feed.Refused || len(got.Accepted) != 0 {
		t.Errorf("result %+v", got)
	}
	r.settled()
}
