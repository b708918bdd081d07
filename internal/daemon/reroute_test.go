package daemon

import (
	"net"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/queue"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// queueIn returns a function that calls posthaste queue for the daemon of a directory and returns what it writes; one that
// fails is an error of the test unless the arguments begin with "!".
func queueIn(t *testing.T, dir string) func(args ...string) string {
	return func(args ...string) string {
		t.Helper()
		fails := args[0] == "!"
		if fails {
			args = args[1:]
		}
		var out strings.Builder
		err := queue.Call(t.Context(), command.Streams{In: strings.NewReader(""), Out: &out, Err: &out}, &socket.Finder{}, append(args, "--queue-directory", dir)...)
		if (err != nil) != fails {
			t.Fatalf("%q: %v", args, err)
		}
		if err != nil {
			return out.String() + err.Error()
		}
		return out.String()
	}
}

// Mail is deferred at its receiver; an operator sends the recipients at that domain through a relay, where they are delivered at once. The
// other recipients of the same messages are not touched. The route is kept over a restart and a reload, and explained; taken
// back, it leads to the receiver again.
func TestReroute(t *testing.T) {
	t.Parallel()
	down, other, relay := closed(t), closed(t), receive(t, sink.Config{})
	dir, text := t.TempDir(), routes("down.test", down, "other.test", other)
	r := start(t, dir, text)
	queue := queueIn(t, dir)
	for i := range 3 {
		r.feed(letter(key(i), "a@down.test", "b@other.test"))
	}
	r.waiting("all deferred", census{mail.AreaDeferred: 3})
	attempts := r.attempts()
	if got := queue("reroute", "--domain", "down.test", "--to", to(relay.address), "--dry-run"); got != "Would reroute 3 recipients of 3 messages.\n" {
		t.Error(got)
	}
	if got := queue("reroute", "--domain", "down.test", "--to", to(relay.address), "--reason", "their MX is down"); got != "Rerouted 3 recipients of 3 messages.\n" {
		t.Error(got)
	}
	want := copies{}
	for i := range 3 {
		want[key(i)+" a@down.test"] = 1
	}
	r.until("the relay has the mail", func() bool { return len(relay.deliveries()) == 3 })
	relay.copies().matches(t, want)
	r.waiting("the others wait", census{mail.AreaDeferred: 3})
	if got := r.attempts(); got != attempts {
		t.Errorf("%d attempts, before %d: the others were tried", got, attempts)
	}
	id := r.ids(mail.AreaDeferred)[0].String()
	if n := r.log.count("msg=order", "verb=reroute", "id="+id, "to=a@down.test", "route="+to(relay.address), `reason="their MX is down"`, "by="); n != 1 {
		t.Errorf("%d lines about the order", n)
	}

	// The others go nowhere yet: their new route is down, too, for a relay that listens later.
	later := closed(t)
	if got := queue("reroute", "--all", "--to", to(later), "--reason", "for later"); got != "Rerouted 3 recipients of 3 messages.\n" {
		t.Error(got)
	}
	r.waiting("they were tried and wait", census{mail.AreaDeferred: 3})
	for _, args := range [][]string{{"show", id}, {"explain", id}, {"list"}} {
		want := "has it go to " + to(later) + ": for later"
		if args[0] == "list" {
			want = "rerouted to " + to(later)
		}
		got := ""
		if args[0] == "explain" {
			got = explain(t, dir, id)
			if clear := "posthaste queue reroute --clear " + id + " has the configuration decide again"; !strings.Contains(got, clear) {
				t.Errorf("explain does not say how to take it back:\n%s", got)
			}
		} else {
			got = queue(args...)
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s does not name the route:\n%s", args[0], got)
		}
	}
	if got := queue("reroute", "--all", "--to", to(later)); got != "3 messages needed no change.\n" {
		t.Errorf("the same again: %s", got)
	}
	if got := queue("reroute", "--all", "--to", to(later), "--dry-run"); got != "3 messages needed no change.\n" {
		t.Errorf("a dry run of it: %s", got)
	}
	r.end()
	r = start(t, dir, text)
	box := open(t, later)
	r.d.driver.RetryAll()
	r.settled()
	if n := len(box.deliveries()); n != 3 {
		t.Errorf("after a restart %d messages arrived where they were to go", n)
	}

	// Taken back, while the receiver works again.
	r.feed(letter(key(9), "a@down.test", "b@other.test"))
	r.waiting("deferred", census{mail.AreaDeferred: 1})
	nowhere := closed(t)
	queue("reroute", "--domain", "down.test", "--to", to(nowhere))
	r.waiting("deferred", census{mail.AreaDeferred: 1})
	receiver := open(t, down)
	if got := queue("reroute", "--clear", "--recipient", "a@*", "--dry-run"); got != "Would clear the route of 1 recipient of 1 message.\n" {
		t.Error(got)
	}
	if got := queue("reroute", "--clear", "--recipient", "a@*"); got != "Cleared the route of 1 recipient of 1 message.\n" {
		t.Error(got)
	}
	r.until("it arrives", func() bool { return len(receiver.deliveries()) == 1 })
	r.waiting("the other waits", census{mail.AreaDeferred: 1})
}

// attempts returns how often servers have been tried for all that waits.
func (r *rig) attempts() (n uint32) {
	for _, id := range r.ids(mail.AreaDeferred) {
		s, err := r.d.spool.Lookup(r.t.Context(), id)
		if err != nil {
			r.t.Fatal(err)
		}
		n += s.Envelope.Attempts
	}
	return n
}

func explain(t *testing.T, dir, id string) string {
	t.Helper()
	cmd := queue.NewExplainCommand()
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetArgs([]string{id, "--queue-directory", dir})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Routes that cannot be are refused before anything is done. Without a condition, or with --to and --clear together, the
// call is wrong. A reload that removes the transport has the mail wait, and say why; another reload leads it on.
func TestRerouteRefused(t *testing.T) {
	t.Parallel()
	down, relay := closed(t), receive(t, sink.Config{})
	dir, plain := t.TempDir(), routes("down.test", down)
	with := plain + "[transport.slow]\ntype = \"smtp\"\n"
	r := start(t, dir, with)
	queue := queueIn(t, dir)
	r.feed(letter(key(0), "a@down.test"))
	r.waiting("deferred", census{mail.AreaDeferred: 1})
	for _, c := range []struct{ to, want string }{
		{"nowhere:[x.test]", `there is no transport "nowhere"`}, {"smtp:[x.test", "closing ']' is missing"}, {"smtp:[x.test]:99999", "is not a number from 1 to 65535"},
		{"smtp:unix:/x", "cannot use a unix socket"}, {"lmtp:", "LMTP needs a nexthop"}, {"a\nb", "control characters"}, {strings.Repeat("x", 600), "600 bytes; it can have at most 512"}, {"::1", "write [::1]"},
	} {
		if got := queue("!", "reroute", "--all", "--to", c.to); !strings.Contains(got, c.want) {
			t.Errorf("%.40q: %q, want %q", c.to, got, c.want)
		}
	}
	for _, args := range [][]string{{"--all"}, {"--all", "--to", "x.test", "--clear"}, {"--to", "x.test"}, {"--clear"}, {"--all", "--domain", "x", "--to", "x.test"}} {
		queue(append([]string{"!", "reroute"}, args...)...)
	}
	if got := queue("!", "reroute", "--all", "--to", "x.test", "--clear"); !strings.Contains(got, "--to and --clear were both given") {
		t.Error(got)
	}
	if got := queue("!", "reroute", "--domain", "nobody.test", "--to", "x.test"); !strings.Contains(got, "no message to reroute meets the conditions") {
		t.Error(got)
	}
	id := r.ids(mail.AreaDeferred)[0].String()
	if got := queue("show", id); strings.Contains(got, "has it go to") {
		t.Errorf("something was done:\n%s", got)
	}
	hole := closed(t)
	queue("reroute", id, "--to", "slow:"+strings.TrimPrefix(to(hole), "smtp:"))
	r.waiting("deferred", census{mail.AreaDeferred: 1})
	if _, err := r.d.reload(configure(t, dir, plain)); err != nil {
		t.Fatal(err)
	}
	r.d.driver.RetryAll()
	r.until("it says why it waits", func() bool { return strings.Contains(queue("show", id), `there is no transport "slow" any more`) })
	r.waiting("deferred", census{mail.AreaDeferred: 1})
	queue("reroute", id, "--to", to(relay.address))
	r.settled()
	if n := len(relay.deliveries()); n != 1 {
		t.Errorf("%d messages arrived", n)
	}
}

// To discard or to return mail is confirmed like a drop or a bounce. A word is a transport, and a nexthop that cannot be found has
// the mail wait, as in the configuration.
func TestRerouteHarmful(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir, routes("down.test", closed(t)))
	queue := queueIn(t, dir)
	r.feed(letter(key(0), "a@down.test"))
	r.feed(letter(key(1), "a@down.test"))
	r.waiting("deferred", census{mail.AreaDeferred: 2})
	id := r.ids(mail.AreaDeferred)[0].String()
	queue("reroute", id, "--to", "[relay.exmaple.invalid]:587")
	r.until("it says that the nexthop is at fault", func() bool { return strings.Contains(queue("show", id), "[relay.exmaple.invalid]:587") })
	r.waiting("deferred", census{mail.AreaDeferred: 2})
	for _, to := range []string{"discard", "discard:", "error:5.1.1 gone", " error"} {
		if got := queue("!", "reroute", "--all", "--to", to); !strings.Contains(got, "this would reroute 2 recipients of 2 messages") {
			t.Errorf("%s: %s", to, got)
		}
	}
	if got := queue("reroute", "--all", "--to", "discard", "--dry-run"); got != "Would reroute 2 recipients of 2 messages.\n" {
		t.Error(got)
	}
	if got := queue("!", "reroute", "--all", "--to", "nowhere"); !strings.Contains(got, `there is no transport "nowhere"`) || !strings.Contains(got, "[nowhere]") {
		t.Error(got)
	}
	r.waiting("nothing was done", census{mail.AreaDeferred: 2})
	if got := queue("reroute", id, "--to", "discard"); got != "Rerouted 1 recipient of 1 message.\n" {
		t.Error(got)
	}
	r.waiting("one is discarded", census{mail.AreaDeferred: 1})
	if got := queue("reroute", "--all", "--to", "retry:", "--yes"); got != "Rerouted 1 recipient of 1 message.\n" {
		t.Error(got)
	}
	r.waiting("it waits", census{mail.AreaDeferred: 1})
	if got := queue("reroute", "--all", "--to", "retry:", "--yes"); got != "1 message needed no change.\n" {
		t.Error(got)
	}
	queue("reroute", "--all", "--to", "discard", "--yes")
	r.settled()
}

// What the sender asks for counts at the new nexthop, too: mail with REQUIRETLS that an operator sends to a relay in plaintext is
// returned, as other mail for such a nexthop is, and through a relay that is known and offers it, it goes with REQUIRETLS.
func TestRerouteWithRequireTLS(t *testing.T) {
	t.Parallel()
	w := newSecureWorld(t)
	origin := receive(t, sink.Config{})
	_, dead, err := net.SplitHostPort(closed(t))
	if err != nil {
		t.Fatal(err)
	}
	r, client, _ := w.sender(t, "", "origin.test", origin.address, "down.test", "smtp:[mx.secure.test]:"+dead)
	queue := queueIn(t, r.dir)
	for _, to := range []mail.Address{"plain@down.test", "secure@down.test"} {
		if got := client.Send(required("<"+string(to)+">", to)); got.Fate != feed.Accepted {
			t.Fatalf("%+v", got)
		}
	}
	r.waiting("both deferred", census{mail.AreaDeferred: 2})
	queue("reroute", "--recipient", "plain@down.test", "--to", "smtp:[127.0.0.4]:"+w.port)
	queue("reroute", "--recipient", "secure@down.test", "--to", "smtp:[mx.secure.test]:"+w.port)
	r.settled()
	w.offers.settled()
	if got := statuses(t, origin); len(got) != 1 || got["plain@down.test"] != "5.7.10" {
		t.Errorf("returned: %v", got)
	}
	if n := len(w.plain.deliveries()); n != 0 {
		t.Errorf("%d messages went in plaintext", n)
	}
	if n := w.offers.log.count("msg=accepted", "requiretls=yes"); n != 1 {
		t.Errorf("%d messages went on with REQUIRETLS", n)
	}
}
