package daemon

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// The addresses of two sources. Linux has all of 127.0.0.0/8 on the loopback interface.
var sourceA, sourceB = netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3")

// twoSources is a configuration with a pool of two sources for all mail. It skips the test
// on a machine that does not have the addresses.
func twoSources(t *testing.T) string {
	t.Helper()
	text := sourceTables()
	if err := configure(t, t.TempDir(), text).Outbound().CheckSources(); err != nil {
		t.Skip(err)
	}
	return text
}

func sourceTables() string {
	return fmt.Sprintf("[source.a]\naddress = %q\nehlo = \"a.mta.test\"\n[source.b]\naddress = %q\nehlo = \"b.mta.test\"\n[pool.main]\nsources = [\"a\", \"b\"]\n",
		sourceA, sourceB)
}

// bulk is so many messages for a domain, and the copies that must come of them.
func bulk(n int, to mail.Address) (letters []feed.Message, want copies) {
	want = make(copies)
	for i := range n {
		m := letter(fmt.Sprintf("<%d>", i), to)
		letters = append(letters, m)
		want.add(fmt.Sprintf("<%d>", i), to)
	}
	return letters, want
}

// A receiver allows five connections from each address. Two sources have ten, each finds out
// its limit by itself, no message is refused for it, and each says its own name. The limit is
// found by being refused: those connections are, at most as many as work, that were being
// opened when the first refusal came; and then single ones after a second, two more, four more …
func TestSourcesHaveConnectionsOfTheirOwn(t *testing.T) {
	t.Parallel()
	sources := twoSources(t)
	var box *mailbox
	ready := make(chan struct{})
	box = receive(t, sink.Config{ClientConnectionLimit: 5, Taken: func(sink.Delivery) {
		<-ready
		await(t, "ten connections", func() bool { return box.Stats().Peak == 10 }) // which no delivery ends before
	}})
	r := start(t, t.TempDir(), sources+routes("d.test", box.address))
	close(ready)
	began := time.Now()
	letters, want := bulk(300, "u@d.test")
	r.feed(letters...)
	r.settled()
	took := time.Since(began)
	box.copies().matches(t, want)
	from := make(map[mail.Client]int)
	for _, d := range box.deliveries() {
		from[d.Client]++
	}
	for _, s := range []mail.Client{{Addr: sourceA, Helo: "a.mta.test", Proto: "ESMTP"}, {Addr: sourceB, Helo: "b.mta.test", Proto: "ESMTP"}} {
		st := box.ClientStats(s.Addr)
		if st.Peak != 5 {
			t.Errorf("source %s has had %d connections at once, of the 5 that it may have", s.Addr, st.Peak)
		}
		probes := 0
		for time.Second<<(probes+1)-time.Second <= took {
			probes++
		}
		if volley := 5; int(st.TurnedAway) > volley+probes {
			t.Errorf("source %s was refused %d times in %v, %d more than at most", s.Addr, st.TurnedAway, took, int(st.TurnedAway)-volley-probes)
		}
		if n := from[s]; n != 150 {
			t.Errorf("%d messages came from %+v; %v", n, s, from)
		}
	}
	if n := r.log.count("msg=delivery", "status=deferred"); n > 0 {
		t.Errorf("%d deliveries were put off", n)
	}
	for _, s := range []string{"a", "b"} {
		if n := r.log.count("msg=delivery", "status=sent", "source="+s); n != 150 {
			t.Errorf("%d deliveries from %s are logged", n, s)
		}
	}
}

// A receiver that refuses one of our addresses gets all mail from the other.
func TestSourceThatIsRefused(t *testing.T) {
	t.Parallel()
	for _, stage := range []sink.Stage{sink.AtGreeting, sink.AtMail} {
		t.Run(stage.String(), func(t *testing.T) {
			t.Parallel()
			sources := twoSources(t)
			box := receive(t, sink.Config{Faults: []sink.Fault{{Stage: stage, Kind: sink.RefuseForNow, Share: 1, Client: sourceA}}})
			r := start(t, t.TempDir(), "minimal_backoff_time = \"1s\"\nmaximal_backoff_time = \"1s\"\n"+sources+routes("d.test", box.address))
			letters, want := bulk(20, "u@d.test")
			r.feed(letters...)
			r.settled()
			box.copies().matches(t, want)
			for _, d := range box.deliveries() {
				if d.Client.Addr != sourceB {
					t.Errorf("%s came from %s", d.Key, d.Client.Addr)
				}
			}
		})
	}
}

// A reload takes a source away while mail is sent from it: what is under way ends, the rest
// leaves from the other, nothing twice.
func TestReloadWithoutASource(t *testing.T) {
	t.Parallel()
	sources := twoSources(t)
	box := receive(t, sink.Config{MessageDelay: 20 * time.Millisecond})
	table := routes("d.test", box.address)
	r := start(t, t.TempDir(), sources+table)
	letters, want := bulk(400, "u@d.test")
	r.feed(letters[:200]...)
	r.until("mail from both", func() bool {
		return box.ClientStats(sourceA).Connections > 0 && box.ClientStats(sourceB).Connections > 0 && box.Stats().Messages > 20
	})
	only := fmt.Sprintf("[source.b]\naddress = %q\n[pool.main]\nsources = [\"b\"]\n", sourceB)
	if _, err := r.d.reload(configure(t, r.dir, only+table)); err != nil {
		t.Fatal(err)
	}
	r.until("no connection from the other", func() bool { return box.ClientStats(sourceA).Open == 0 })
	before := box.ClientStats(sourceA).Connections
	r.feed(letters[200:]...)
	r.settled()
	box.copies().matches(t, want)
	if st := box.ClientStats(sourceA); st.Connections != before {
		t.Errorf("%d connections were opened from a source that is not configured", st.Connections-before)
	}
}

// An address that is not on the machine is an error at the start, and of a reload that
// brings it.
func TestSourceThatIsNotHere(t *testing.T) {
	t.Parallel()
	sources := twoSources(t)
	elsewhere := strings.Replace(sources, sourceB.String(), "192.0.2.77", 1)
	want := []string{"source b", "192.0.2.77", "network interface", "[source.b]"}
	check := func(err error) {
		t.Helper()
		for _, text := range want {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("the error does not say %q: %v", text, err)
			}
		}
	}
	d, err := New(configure(t, t.TempDir(), elsewhere), quiet)
	if err == nil {
		d.Close()
	}
	check(err)
	r := start(t, t.TempDir(), sources)
	_, err = r.d.reload(configure(t, r.dir, elsewhere))
	check(err)
}
