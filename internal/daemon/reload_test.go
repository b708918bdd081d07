package daemon

import (
	"slices"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// A reload that asks for another type of a transport says that this needs a restart,
// and leaves the transport as it was: no mail is thrown away, and none is dialled for
// what takes no connections. That holds for transports that came about by a reload,
// too, and for those that were away in between.
func TestReloadKeepsTypesOfTransports(t *testing.T) {
	t.Parallel()
	box := receive(t, sink.Config{})
	route := strings.Replace(routes("good.test", box.address), "smtp:", "x:", 1)
	r := start(t, t.TempDir(), route+"[transport.x]\n")
	other := "relay_domains = [\"b.test\"]\n"
	for _, step := range []struct {
		text string
		want []string
	}{
		{route + "[transport.x]\ntype = \"discard\"\n", []string{"transport.x.type"}},
		{other, nil},
		{route + "[transport.x]\ntype = \"discard\"\n", []string{"transport.x.type"}},
		{route + "[transport.x]\n[transport.y]\ntype = \"discard\"\n", nil},
		{route + "[transport.x]\n[transport.y]\n", []string{"transport.y.type"}},
		{route + "[transport.x]\ntype = \"discard\"\n[transport.y]\ntype = \"discard\"\n", []string{"transport.x.type"}},
	} {
		restart, err := r.d.reload(configure(t, r.dir, step.text))
		if err != nil || !slices.Equal(restart, step.want) {
			t.Errorf("%q: %q need a restart, %v; want %q", step.text, restart, err, step.want)
		}
	}
	r.feed(letter("<1>", "a@good.test"))
	r.settled()
	box.copies().matches(t, copies{"<1> a@good.test": 1})
}

// An operator saves a file in which the routes are missing. Mail that went to hosts of
// theirs would go to the MX hosts of its domains, so that the log must say so, once.
func TestReloadWithoutRoutes(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), routes("d.test", "smtp:[127.0.0.1]:1"))
	for _, text := range []string{"", "", routes("d.test", "smtp:[127.0.0.1]:1")} {
		if _, err := r.d.reload(configure(t, r.dir, text)); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.log.count("level=WARN", "no [routes] after the reload", "routes=0", "had=1"); n != 1 {
		t.Errorf("%d warnings that the routes are gone", n)
	}
}

// Mail is classified by the rules in force, and keeps its flow when they change.
func TestReloadOfFlows(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), "default_transport = \"retry:4.4.1 later\"\n[class.first]\nsender = \"origin.test\"\n")
	r.feed(letter("<1>", "a@b.test"))
	restart, err := r.d.reload(configure(t, r.dir, "default_transport = \"retry:4.4.1 later\"\nflow_key = \"none\"\n[class.second]\nsender = \"origin.test\"\n"))
	if err != nil || len(restart) > 0 {
		t.Fatal(restart, err)
	}
	r.feed(letter("<2>", "a@b.test"))
	r.waiting("both are deferred", census{mail.AreaDeferred: 2})
	var got []mail.Flow
	ids := r.ids(mail.AreaDeferred)
	slices.Sort(ids) // by arrival, not by the next attempt
	for _, id := range ids {
		m, err := r.d.spool.Lookup(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, m.Envelope.Flow)
	}
	want := []mail.Flow{{Class: "first", Tenant: "local", Flow: "sender@origin.test"}, {Class: "second", Tenant: "local", Flow: "*"}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Mail that waits in core for a destination goes by a new route as soon as there is one.
func TestReloadOfRoutes(t *testing.T) {
	t.Parallel()
	slow, quick := receive(t, sink.Config{}), receive(t, sink.Config{})
	limited := "[transport.slow]\ndestination_rate = \"1/h\"\n"
	r := start(t, t.TempDir(), strings.Replace(routes("d.test", slow.address), "smtp:", "slow:", 1)+limited)
	r.feed(letter("<1>", "a@d.test"), letter("<2>", "a@d.test"), letter("<3>", "a@d.test"))
	r.until("one of three is delivered", func() bool { return len(slow.copies()) == 1 })
	if _, err := r.d.reload(configure(t, r.dir, routes("d.test", quick.address)+limited)); err != nil {
		t.Fatal(err)
	}
	r.settled()
	if first, others := len(slow.copies()), len(quick.copies()); first != 1 || others != 2 {
		t.Errorf("%d went by the old route, %d by the new one", first, others)
	}
}
