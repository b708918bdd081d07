package daemon

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/queue"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
)

// A domain is suspended before any mail for it arrives. Its mail waits, also after a restart, and mail for others
// goes. When it is resumed, all of it goes at once, although it is not due for days. A suspension with
// an end ends by itself.
func TestSuspendedDomain(t *testing.T) {
	t.Parallel()
	box, other := receive(t, sink.Config{}), receive(t, sink.Config{})
	dir, table := t.TempDir(), routes("d.test", box.address, "e.test", other.address)
	r := start(t, dir, table)
	var complaints strings.Builder
	queue := func(args ...string) string {
		t.Helper()
		var out strings.Builder
		complaints.Reset()
		if err := queue.Call(t.Context(), command.Streams{In: strings.NewReader(""), Out: &out, Err: &complaints}, &socket.Finder{}, append(args, "--queue-directory", dir)...); err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		return out.String()
	}
	out := queue("suspend", "--domain", "D.test", "--reason", "they asked us to wait")
	if !strings.HasPrefix(out, "domain d.test is suspended by ") || !strings.HasSuffix(out, " until it is resumed: they asked us to wait; posthaste queue resume --domain d.test\n") {
		t.Errorf("suspend says %q", out)
	}
	if !strings.Contains(complaints.String(), "domain d.test has no mail in core now") {
		t.Errorf("there is no warning about an unknown domain: %q", complaints.String())
	}
	for i := range 20 {
		r.feed(letter(key(i), "a@d.test"), letter(key(i), "a@e.test"))
	}
	r.waiting("mail that waits", census{mail.AreaDeferred: 20})
	if n := len(box.deliveries()); n != 0 || len(other.deliveries()) != 20 {
		t.Errorf("%d messages went where it is suspended, %d elsewhere", n, len(other.deliveries()))
	}
	first := r.ids(mail.AreaDeferred)[0].String()
	for _, args := range [][]string{{"show", first}, {"suspensions"}, {"destinations"}, {"status"}} {
		if out := queue(args...); !strings.Contains(out, "domain d.test is suspended by ") || !strings.Contains(out, "; posthaste queue resume --domain d.test") {
			t.Errorf("queue %s does not name the suspension:\n%s", args[0], out)
		}
	}
	if n := r.log.count("msg=order", "verb=suspend", "scope=domain", "value=d.test", `reason="they asked us to wait"`, "by="); n != 1 {
		t.Errorf("%d lines about the order", n)
	}
	r.end()

	r = start(t, dir, table)
	r.d.driver.RetryAll()
	r.feed(letter(key(20), "a@d.test"))
	r.waiting("mail that waits after a restart", census{mail.AreaDeferred: 21})
	if n := len(box.deliveries()); n != 0 {
		t.Errorf("%d messages went where it is suspended after a restart", n)
	}
	if out := queue("resume", "--domain", "d.test"); !strings.HasPrefix(out, "Resumed domain d.test, suspended by ") {
		t.Errorf("resume says %q", out)
	}
	r.settled()
	if n := len(box.deliveries()); n != 21 {
		t.Errorf("%d messages arrived, want 21", n)
	}
	if out := queue("suspensions"); out != "Nothing is suspended.\n" {
		t.Errorf("suspensions are %q", out)
	}

	before := time.Now()
	if _, err := r.d.driver.Suspend(t.Context(), qmgr.Suspend{Scope: measure.Transport, Value: "smtp", For: 300 * time.Millisecond, By: "test", Reason: "for a moment"}); err != nil {
		t.Fatal(err)
	}
	r.feed(letter(key(21), "a@d.test"))
	r.settled()
	if all := box.deliveries(); len(all) != 22 || all[21].At.Sub(before) < 300*time.Millisecond {
		t.Errorf("%d messages arrived, the last after %v", len(all), all[len(all)-1].At.Sub(before))
	}
}

// A destination is suspended from one source, and its mail goes from the other; then from all, and it waits. Each order is
// resumed by itself, as what "queue suspensions" shows of it says. What is mistyped is refused, or warned of.
func TestSuspendedDestination(t *testing.T) {
	t.Parallel()
	sources, box := twoSources(t), receive(t, sink.Config{})
	dir := t.TempDir()
	r := start(t, dir, sources+routes("d.test", box.address))
	call := func(args ...string) (out, complaints string, err error) {
		t.Helper()
		var o, c strings.Builder
		err = queue.Call(t.Context(), command.Streams{In: strings.NewReader(""), Out: &o, Err: &c}, &socket.Finder{}, append(args, "--queue-directory", dir)...)
		return o.String(), c.String(), err
	}
	does := func(want string, args ...string) (complaints string) {
		t.Helper()
		out, complaints, err := call(args...)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%q: %v\n%s%swant %q", args, err, out, complaints, want)
		}
		return complaints
	}
	refuses := func(want string, args ...string) {
		t.Helper()
		if out, _, err := call(args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v\n%swant %q", args, err, out, want)
		}
	}
	came := func(want map[string]int) {
		t.Helper()
		got := make(map[string]int)
		for _, d := range box.deliveries() {
			got[strings.TrimSuffix(d.Client.Helo, ".mta.test")]++
		}
		if !maps.Equal(got, want) {
			t.Errorf("mail came from %v, want %v", got, want)
		}
	}
	name := "smtp:" + strings.TrimPrefix(to(box.address), "smtp:")
	suspend := func(value string) []string { return []string{"suspend", "--destination", value, "--reason", "blocked"} }
	refuses("a destination is a transport and a site", suspend("d.test")...)
	refuses("cannot be suspended", suspend("retry:d.test")...)
	refuses("is not suspended", "resume", "--destination", name)

	does("destination "+name+" from a is suspended by ", suspend(name+" from a")...)
	for i := range 10 {
		r.feed(letter(key(i), "u@d.test"))
	}
	r.settled()
	came(map[string]int{"b": 10})

	does("; posthaste queue resume --destination "+"'"+name+"'", suspend(name)...)
	for i := range 10 {
		r.feed(letter(key(10+i), "u@d.test"))
	}
	r.waiting("mail that waits", census{mail.AreaDeferred: 10})
	came(map[string]int{"b": 10})
	does("destination "+name+" is suspended by ", "show", r.ids(mail.AreaDeferred)[0].String())
	if out, _, err := call("suspensions"); err != nil || strings.Count(out, "destination "+name) != 2 {
		t.Errorf("%v\n%s", err, out)
	}

	// Mistyped: it is suspended, and does nothing.
	if warned := does("is suspended by ", suspend("smtp:d.tset")...); !strings.Contains(warned, "destination smtp:d.tset has no mail in core now") {
		t.Errorf("a mistyped destination is warned of as %q", warned)
	}
	if warned := does("is suspended by ", suspend(name+" from c")...); !strings.Contains(warned, "has no mail in core now") {
		t.Errorf("a mistyped source is warned of as %q", warned)
	}
	refuses("is not suspended", "resume", "--destination", "smtp:d.tes")
	does("Resumed destination smtp:d.tset, ", "resume", "--destination", "smtp:d.tset")
	does("Resumed destination "+name+" from c, ", "resume", "--destination", name+" from c")

	does("Resumed destination "+name+", ", "resume", "--destination", name)
	r.settled()
	came(map[string]int{"b": 20})
	refuses("is not suspended", "resume", "--destination", name)
	does("Resumed destination "+name+" from a, ", "resume", "--destination", name+" from a")
	does("Nothing is suspended.", "suspensions")
}
