package resolve

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/route"
)

const zone = `
soa.                300 IN SOA ns.example. admin.example. 1 2 3 4 120
example.com.        300 IN MX 10 mx1.example.com.
example.com.        300 IN MX 20 mx2.example.com.
mx1.example.com.    300 IN A 198.51.100.1
mx1.example.com.    300 IN AAAA 2001:db8::1
mx2.example.com.    300 IN A 198.51.100.2
sister.example.     300 IN MX 1 mx1.example.com.
sister.example.     300 IN MX 2 mx2.example.com.
bare.example.       300 IN A 198.51.100.3
empty.example.      300 IN TXT "no mail"
null.example.       300 IN MX 0 .
dot.example.        300 IN MX 0 .
dot.example.        300 IN MX 10 mx1.example.com.
number.example.     300 IN MX 10 10.0.0.1.
nul.example.        300 IN MX 10 m\000x.example.com.
space.example.      300 IN MX 10 m\032x.example.com.
space.example.      300 IN MX 20 mx1.example.com.
alias.example.      300 IN CNAME example.com.
mxalias.example.    300 IN MX 10 host.alias.example.
host.alias.example. 300 IN CNAME mx2.example.com.
loop1.example.      300 IN CNAME loop2.example.
loop2.example.      300 IN CNAME loop1.example.
self.example.       300 IN CNAME self.example.
nowhere.example.    300 IN CNAME gone.example.
broken.example.     300 IN CNAME servfail.example.
lohost.example.     300 IN MX 10 localhost.
localhost.          300 IN A 127.0.0.1
meta.example.       300 IN MX 10 meta1.example.
meta1.example.      300 IN A 169.254.169.254
zero.example.       300 IN A 0.0.0.0
lo6.example.        300 IN AAAA ::1
multi.example.      300 IN A 224.0.0.1
us.example.         300 IN MX 10 mail.us.example.
mail.us.example.    300 IN A 203.0.113.1
nat.example.        300 IN MX 10 nat1.example.
nat1.example.       300 IN A 203.0.113.9
backup.example.     300 IN MX 10 mx1.example.com.
backup.example.     300 IN MX 20 mail.us.example.
some.example.       300 IN MX 10 gone1.example.
some.example.       300 IN MX 20 servfail.example.
some.example.       300 IN MX 30 mx2.example.com.
temps.example.      300 IN MX 10 servfail.example.
temps.example.      300 IN MX 20 gone1.example.
gones.example.      300 IN MX 10 gone1.example.
gones.example.      300 IN MX 20 gone2.example.
ttl0.example.       0 IN MX 10 mx1.example.com.
ttlmax.example.     2147483647 IN MX 10 mxmax.example.
mxmax.example.      2147483647 IN A 198.51.100.4
mxmax.example.      2147483647 IN AAAA 2001:db8::4
ttlneg.example.     2147483648 IN A 198.51.100.5
private.example.    300 IN MX 10 mx.private.example.
mx.private.example. 300 IN A 10.0.0.25
`

// chain returns a zone with a chain of aliases of n links from c0 to cn.
func chainOf(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "c%d.example. 300 IN CNAME c%d.example.\n", i, i+1)
	}
	fmt.Fprintf(&b, "c%d.example. 300 IN MX 10 mx2.example.com.\n", n)
	return b.String()
}

var self = route.Self{
	Names: []string{"mail.us.example", "greeting.us.example"},
	Listeners: []netip.AddrPort{
		netip.MustParseAddrPort("203.0.113.9:25"), netip.MustParseAddrPort("127.0.0.1:2525"), netip.MustParseAddrPort("203.0.113.1:25"),
	},
}

// The catalogue of bad input, DNS and routing, row by row, and what surrounds
// it. Faults are those of both servers.
func TestHosts(t *testing.T) {
	const mx2 = "10 mx2.example.com=198.51.100.2:25"
	const mx1 = "10 mx1.example.com=[2001:db8::1]:25 mx1.example.com=198.51.100.1:25"
	for _, c := range []struct {
		row, nexthop string
		fault        fault
		want         string
	}{
		{"MX", "example.com", 0, mx1 + " | 20 mx2.example.com=198.51.100.2:25"},
		{"MX, upper case", "EXAMPLE.com.", 0, mx1 + " | 20 mx2.example.com=198.51.100.2:25"},
		{"host", "[mx1.example.com]:587", 0, "0 mx1.example.com=[2001:db8::1]:587 mx1.example.com=198.51.100.1:587"},
		{"site", "{mx1.example.com;mx2.example.com}", 0, "1" + mx1[2:] + " | 2 mx2.example.com=198.51.100.2:25"},

		{"B-150 NXDOMAIN", "gone.example", 0, "550 5.1.2 gone.example does not exist"},
		{"B-150 NODATA, address", "bare.example", 0, "0 bare.example=198.51.100.3:25"},
		{"B-150 NODATA, no address", "empty.example", 0, "550 5.4.4 empty.example has no address that can be used"},
		{"B-150 SERVFAIL", "servfail.example", 0, "451 4.4.3 DNS lookup of servfail.example failed: the name server returned SERVFAIL"},
		{"B-150 REFUSED", "example.com", refuses, "451 4.4.3 DNS lookup of example.com failed: the name server returned REFUSED"},
		{"B-150 timeout", "example.com", silent, "451 4.4.3 DNS lookup of example.com failed: no name server answered"},
		{"B-150 odd rcode", "odd.example", 0, "451 4.4.3 DNS lookup of odd.example failed: the name server returned RCODE 13"},

		{"B-151 lame", "example.com", lame, "451 4.4.3 DNS lookup of example.com failed: the name server returned a referral instead of an answer"},
		{"B-151 truncated", "sister.example", truncates, "1" + mx1[2:] + " | 2 mx2.example.com=198.51.100.2:25"},
		{"B-151 truncated, TCP refused", "example.com", truncates | noTCP, "451 4.4.3 DNS lookup of example.com failed: the name server does not answer over TCP"},
		{"B-151 truncated by TCP too", "example.com", cutsTCP, "451 4.4.3 DNS lookup of example.com failed: the name server truncated its answer over TCP, too"},
		{"B-151 EDNS refused", "bare.example", noEDNS, "0 bare.example=198.51.100.3:25"},
		{"B-151 EDNS refused, truncated", "bare.example", noEDNS | truncates, "0 bare.example=198.51.100.3:25"},
		{"B-151 EDNS dropped", "bare.example", dropEDNS, "0 bare.example=198.51.100.3:25"},
		{"B-151 other question", "example.com", babbles, "451 4.4.3 DNS lookup of example.com failed: the name server's answer does not match the question"},
		{"B-151 unreachable", "example.com", unreachable, "451 4.4.3 DNS lookup of example.com failed: no name server answered"},

		{"B-152 alias", "alias.example", 0, mx1 + " | 20 mx2.example.com=198.51.100.2:25"},
		{"B-152 alias, link by link", "alias.example", oneLink, mx1 + " | 20 mx2.example.com=198.51.100.2:25"},
		{"B-152 loop", "loop1.example", 0, "550 5.4.4 the DNS aliases of loop1.example lead nowhere"},
		{"B-152 loop, link by link", "loop1.example", oneLink, "550 5.4.4 the DNS aliases of loop1.example lead nowhere"},
		{"B-152 alias of itself", "self.example", 0, "550 5.4.4 the DNS aliases of self.example lead nowhere"},
		{"B-152 chain of 20", "c0.example", 0, "550 5.4.4 the DNS aliases of c0.example lead nowhere"},
		{"B-152 chain of 20, link by link", "c0.example", oneLink, "550 5.4.4 the DNS aliases of c0.example lead nowhere"},
		{"B-152 chain of 9", "c11.example", 0, "550 5.4.4 the DNS aliases of c11.example lead nowhere"},
		{"B-152 chain of 8", "c12.example", 0, mx2},
		{"B-152 chain of 8, link by link", "c12.example", oneLink, mx2},
		{"B-152 alias of nothing", "nowhere.example", 0, "550 5.1.2 nowhere.example does not exist"},
		{"B-152 alias of nothing, link by link", "nowhere.example", oneLink, "550 5.1.2 nowhere.example does not exist"},
		{"B-152 a step without answer", "broken.example", oneLink, "451 4.4.3 DNS lookup of broken.example failed: the name server returned SERVFAIL"},
		{"C-08 MX host is an alias", "mxalias.example", 0, "10 host.alias.example=198.51.100.2:25"},

		{"B-153 null MX", "null.example", 0, "556 5.1.10 null.example does not accept mail (null MX)"},
		{"B-153 dot and others", "dot.example", 0, mx1},
		{"B-153 address text", "number.example", 0, `550 5.4.4 no mail host of number.example can be used, among them "10.0.0.1."`},
		{"B-153 NUL", "nul.example", 0, `550 5.4.4 no mail host of nul.example can be used, among them "m\\000x.example.com."`},
		{"B-153 space", "space.example", 0, "2" + mx1[1:]},

		{"B-154 localhost", "lohost.example", 0, "550 5.4.4 mail for lohost.example would go to 127.0.0.1, an address that is not connected to for others"},
		{"B-154 metadata", "meta.example", 0, "550 5.4.4 mail for meta.example would go to 169.254.169.254, an address that is not connected to for others"},
		{"B-154 zero", "zero.example", 0, "550 5.4.4 mail for zero.example would go to 0.0.0.0, an address that is not connected to for others"},
		{"B-154 ::1", "lo6.example", 0, "550 5.4.4 mail for lo6.example would go to ::1, an address that is not connected to for others"},
		{"B-154 multicast", "multi.example", 0, "550 5.4.4 mail for multi.example would go to 224.0.0.1, an address that is not connected to for others"},
		{"B-154 our public address", "nat.example", 0, "554 5.4.6 mail for nat.example loops back to ourselves"},
		{"B-154 literal", "[127.0.0.1]", 0, "550 5.4.4 mail for 127.0.0.1 would go to 127.0.0.1, an address that is not connected to for others"},
		{"B-154 site", "{localhost}", 0, "550 5.4.4 mail for localhost would go to 127.0.0.1, an address that is not connected to for others"},
		{"C-05 our name", "us.example", 0, "554 5.4.6 mail for us.example loops back to ourselves"},
		{"C-05 we are the backup", "backup.example", 0, mx1},
		{"C-05 own literal", "[203.0.113.1]", 0, "554 5.4.6 mail for 203.0.113.1 loops back to ourselves"},
		{"C-05 own listener, configured", "[127.0.0.1]:2525", 0, "451 4.3.5 configured nexthop [127.0.0.1]:2525: mail for 127.0.0.1 loops back to ourselves"},
		{"C-05 own machine, other port", "[127.0.0.1]:2526", 0, "0 =127.0.0.1:2526"},
		{"C-05 own name, other port", "[mail.us.example]:587", 0, "0 mail.us.example=203.0.113.1:587"},

		{"B-157 some", "some.example", 0, "30 mx2.example.com=198.51.100.2:25"},
		{"B-157 none, one temporary", "temps.example", 0, "451 4.4.3 DNS lookup of the mail hosts of temps.example failed: the name server returned SERVFAIL"},
		{"B-157 none", "gones.example", 0, "550 5.4.4 no mail host of gones.example can be used"},

		{"C-09 private", "private.example", 0, "550 5.4.4 mail for private.example would go to 10.0.0.25, an address that is not connected to for others"},
		{"C-09 private, trusted", "[mx.private.example]", 0, "0 mx.private.example=10.0.0.25:25"},
		{"C-09 private, listed", "private.example:26", 0, "10 mx.private.example=10.0.0.25:26"},
		{"C-09 literal, listed", "[10.1.1.1]", 0, "0 =10.1.1.1:25"},
		{"configured host without name", "[gone.example]", 0, "451 4.3.5 configured nexthop [gone.example]: gone.example does not exist"},

		{"localhost", "[localhost]:2526", 0, "0 localhost=127.0.0.1:2526 localhost=[::1]:2526"},
		{"list", "bare.example,[mx2.example.com]", 0, "0 bare.example=198.51.100.3:25 | 0 mx2.example.com=198.51.100.2:25"},
		{"list, first without name", "gone.example [mx2.example.com]", 0, "0 mx2.example.com=198.51.100.2:25"},
		{"list, twice the same", "bare.example,[198.51.100.3],[mx2.example.com]", 0, "0 bare.example=198.51.100.3:25 | 0 mx2.example.com=198.51.100.2:25"},
		{"list, nothing", "gone.example,temps.example", 0, "451 4.4.3 DNS lookup of the mail hosts of temps.example failed: the name server returned SERVFAIL"},
		{"list, null MX is final", "null.example,[mx2.example.com]", 0, "556 5.1.10 null.example does not accept mail (null MX)"},
		{"list, loop is final", "us.example,[mx2.example.com]", 0, "554 5.4.6 mail for us.example loops back to ourselves"},
	} {
		t.Run(c.row, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, zone+chainOf(20))
				w.rcodes["servfail.example."] = dns.RcodeServerFailure
				w.rcodes["odd.example."] = 13
				w.set("192.0.2.53", c.fault)
				w.set("192.0.2.54", c.fault)
				r := w.resolver(t, Config{Policy: route.Policy{Self: self}, Trusted: []string{"private.example:26", "[10.1.1.1]"}})
				start := time.Now()
				set, reply := r.Hosts(t.Context(), c.nexthop)
				got := show(set, reply)
				if got != c.want {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
				if reply.IsZero() != (set.Until > mail.Instant(start.UnixNano())) {
					t.Errorf("until %v", set.Until)
				}
				if took := time.Since(start); took > 60*time.Second {
					t.Errorf("took %v", took)
				}
				// The second answer comes from memory and is the same.
				w.questions()
				again, reply := r.Hosts(t.Context(), c.nexthop)
				if show(again, reply) != got || len(w.questions()) != 0 {
					t.Errorf("again: %s", show(again, reply))
				}
				r.Close()
			})
		})
	}
}

// An invalid nexthop can only be an error in the configuration; mail waits for its
// correction.
func TestHostsMalformed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newWorld(t, zone).resolver(t, Config{})
		defer r.Close()
		for _, n := range []string{"", "[", "a..b", "192.0.2.1", "\x00", "[a]:x"} {
			if set, reply := r.Hosts(t.Context(), n); reply.Status != (mail.Status{Class: 4, Subject: 3, Detail: 5}) || len(set.Tiers) != 0 {
				t.Errorf("Hosts(%q) = %s", n, show(set, reply))
			}
		}
	})
}

// One dead server out of two must not cost its timeout at every question, and
// must be tried again when it may be back.
func TestSickServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, zone)
		w.set("192.0.2.53", silent)
		r := w.resolver(t, Config{Policy: route.Policy{Families: route.FamiliesIPv4}})
		defer r.Close()
		took := func(nexthop string) time.Duration {
			start := time.Now()
			if set, reply := r.Hosts(t.Context(), nexthop); !reply.IsZero() {
				t.Errorf("%s: %s", nexthop, show(set, reply))
			}
			return time.Since(start)
		}
		if d := took("[bare.example]"); d != 5*time.Second {
			t.Errorf("the first lookup took %v", d)
		}
		if d := took("[mx2.example.com]"); d != 0 {
			t.Errorf("the second lookup took %v", d)
		}
		time.Sleep(sickFor)
		w.set("192.0.2.53", 0)
		w.questions()
		if d := took("[mx1.example.com]"); d != 0 {
			t.Errorf("the third lookup took %v", d)
		}
		if q := w.questions(); len(q) != 1 || !strings.Contains(q[0], "192.0.2.53") {
			t.Errorf("the first server was not tried again: %q", q)
		}
		if s := r.Stats(); s.Timeouts != 1 || !s.SilentSince.IsZero() {
			t.Errorf("%+v", s)
		}
	})
}

// A server is silent if a question by UDP had all its time. A lookup that ends sooner, or
// a server that takes no TCP, shows nothing of that. However many servers there have been,
// few are remembered.
func TestWhatIsSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, zone)
		r := w.resolver(t, Config{})
		defer r.Close()
		sick := func(network string, patience time.Duration) bool {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			server := netip.MustParseAddrPort("192.0.2.53:53")
			if _, err := r.send(ctx, network, server, question{"example.com", dns.TypeA}, manner{edns: true, timeout: 5 * time.Second}); err == nil {
				t.Error("a server that is silent has answered")
			}
			_, sick := r.health.order([]netip.AddrPort{server}, time.Now())
			return sick
		}
		w.set("192.0.2.53", silent)
		if sick("tcp", time.Minute) || sick("udp", time.Second) || !sick("udp", time.Minute) {
			t.Error("want a server sick that did not answer by UDP, and no other")
		}
		for i := range 10 * serversMax {
			server := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 53)
			r.health.answered(server, time.Now())
			r.health.silent(server, time.Now(), time.Now())
		}
		if n, m := len(r.health.sick), len(r.health.last); n > serversMax+1 || m > serversMax+1 {
			t.Errorf("%d servers are remembered as sick, and %d for their answers", n, m)
		}
	})
}

// How often servers are asked, and how long it takes: silence is asked again,
// an answer of no use is not, and while all are known to be silent, once is
// enough.
func TestRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, zone)
		r := w.resolver(t, Config{Policy: route.Policy{Families: route.FamiliesIPv4}})
		defer r.Close()
		ask := func(name string, first, second fault, messages int, took time.Duration, why string) {
			t.Helper()
			w.set("192.0.2.53", first)
			w.set("192.0.2.54", second)
			w.questions()
			start := time.Now()
			set, reply := r.Hosts(t.Context(), name)
			if n := len(w.questions()); n != messages || time.Since(start) != took || !strings.HasSuffix(reply.Text, why) {
				t.Errorf("%s: %d messages in %v: %s", name, n, time.Since(start), show(set, reply))
			}
		}
		ask("both-fail.example", servfails, refuses, 2, 0, "the name server returned REFUSED")
		ask("one-silent.example", silent, servfails, 2, 5*time.Second, "the name server returned SERVFAIL")
		time.Sleep(sickFor)
		ask("late.example", servfails, silent, 2, 5*time.Second, "the name server returned SERVFAIL")
		time.Sleep(sickFor)
		ask("both-silent.example", silent, silent, 4, 20*time.Second, "no name server answered")
		ask("still-silent.example", silent, silent, 2, 10*time.Second, "no name server answered")
	})
}

// Lifetimes of answers are clamped at both ends, so that neither a zone with
// TTL 0 makes a question of every message nor one with a huge TTL outlives its
// own change (row B-158).
func TestLifetimes(t *testing.T) {
	for _, c := range []struct {
		row, nexthop string
		want         time.Duration
	}{
		{"B-158 TTL 0", "ttl0.example", 30 * time.Second},
		{"B-158 TTL 2^31-1", "ttlmax.example", 24 * time.Hour},
		{"B-158 TTL 2^31", "[ttlneg.example]", 30 * time.Second},
		{"TTL 300", "[mx2.example.com]", 300 * time.Second},
		{"SOA minimum", "gone.example", 120 * time.Second},
		{"SOA minimum, no data", "bare.example", 120 * time.Second},
		{"SERVFAIL", "servfail.example", 5 * time.Second},
		{"literal", "[192.0.2.1]", 24 * time.Hour},
	} {
		t.Run(c.row, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, zone)
				w.rcodes["servfail.example."] = dns.RcodeServerFailure
				r := w.resolver(t, Config{Policy: route.Policy{Families: route.FamiliesIPv4}})
				defer r.Close()
				now := time.Now()
				set, reply := r.Hosts(t.Context(), c.nexthop)
				if reply.IsZero() && set.Until != mail.Instant(now.Add(c.want).UnixNano()) {
					t.Errorf("until %v after now, want %v", set.Until.Sub(mail.Instant(now.UnixNano())), c.want)
				}
				w.questions()
				time.Sleep(c.want - 1)
				if r.Hosts(t.Context(), c.nexthop); len(w.questions()) != 0 {
					t.Error("asked again before the time")
				}
				time.Sleep(time.Nanosecond)
				if r.Hosts(t.Context(), c.nexthop); len(w.questions()) == 0 && c.row != "literal" {
					t.Error("not asked again after the time")
				}
			})
		})
	}
}

// The lifetime of a negative answer comes from the zone's SOA; if that is missing
// or strange, the configured limits decide (row B-158).
func TestNegativeLifetimes(t *testing.T) {
	for soa, want := range map[string]time.Duration{
		"":                                      30 * time.Second,
		"soa. 300 IN SOA a. b. 1 2 3 4 0":       30 * time.Second,
		"soa. 60 IN SOA a. b. 1 2 3 4 86400":    60 * time.Second,
		"soa. 86400 IN SOA a. b. 1 2 3 4 86400": time.Hour,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, soa)
			r := w.resolver(t, Config{})
			defer r.Close()
			r.Hosts(t.Context(), "gone.example")
			time.Sleep(want - 1)
			w.questions()
			if r.Hosts(t.Context(), "gone.example"); len(w.questions()) != 0 {
				t.Errorf("%q: asked again before %v", soa, want)
			}
			time.Sleep(time.Nanosecond)
			if r.Hosts(t.Context(), "gone.example"); len(w.questions()) == 0 {
				t.Errorf("%q: not asked again after %v", soa, want)
			}
		})
	}
}

// A name that fails is asked for again after 5, 10, 20 and then every 30
// seconds, whatever the number of messages for it.
func TestFailuresBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, zone)
		w.rcodes["servfail.example."] = dns.RcodeServerFailure
		r := w.resolver(t, Config{})
		defer r.Close()
		start := time.Now()
		var at []int
		for range 120 {
			r.Hosts(t.Context(), "servfail.example")
			if len(w.questions()) > 0 {
				at = append(at, int(time.Since(start).Seconds()))
			}
			time.Sleep(time.Second)
		}
		if want := []int{0, 5, 15, 35, 65, 95}; !slices.Equal(at, want) {
			t.Errorf("asked at %v, want %v", at, want)
		}
	})
}

// While no server answers, records are used for an hour beyond their time, so
// that mail flows on; absence is not, so that no mail is returned on the
// strength of an old answer (row B-161).
func TestStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, zone)
		r := w.resolver(t, Config{})
		defer r.Close()
		fresh := show(r.Hosts(t.Context(), "example.com"))
		bare := show(r.Hosts(t.Context(), "bare.example"))
		r.Hosts(t.Context(), "gone.example")
		r.Hosts(t.Context(), "empty.example")
		w.set("192.0.2.53", silent)
		w.set("192.0.2.54", silent)
		time.Sleep(10 * time.Minute)
		if got := show(r.Hosts(t.Context(), "example.com")); got != fresh {
			t.Errorf("after ten minutes: %s", got)
		}
		if got := show(r.Hosts(t.Context(), "bare.example")); got != bare {
			t.Errorf("after ten minutes: %s", got)
		}
		for _, absent := range []string{"gone.example", "empty.example"} {
			if _, reply := r.Hosts(t.Context(), absent); !reply.Temporary() {
				t.Errorf("mail was returned on the strength of an old answer: %v", reply)
			}
		}
		if s := r.Stats(); s.Stale == 0 || s.SilentSince.IsZero() {
			t.Errorf("%+v", s)
		}
		time.Sleep(time.Hour)
		if _, reply := r.Hosts(t.Context(), "example.com"); !reply.Temporary() {
			t.Errorf("after more than an hour: %v", reply)
		}
		w.set("192.0.2.54", 0)
		time.Sleep(time.Minute)
		if got := show(r.Hosts(t.Context(), "example.com")); got != fresh {
			t.Errorf("after the outage: %s", got)
		}
		if s := r.Stats(); !s.SilentSince.IsZero() {
			t.Errorf("after the outage: silent since %v", s.SilentSince)
		}
	})
}

// NoStale makes every failure count at once.
func TestNoStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, zone)
		r := w.resolver(t, Config{NoStale: true})
		defer r.Close()
		r.Hosts(t.Context(), "example.com")
		w.set("192.0.2.53", servfails)
		w.set("192.0.2.54", servfails)
		time.Sleep(10 * time.Minute)
		if _, reply := r.Hosts(t.Context(), "example.com"); !reply.Temporary() {
			t.Errorf("%v", reply)
		}
	})
}

// A burst of mail for a new domain asks once; and a caller that gives up does
// not spoil the answer for the others.
func TestOneFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, zone)
		w.set("192.0.2.53", silent)
		r := w.resolver(t, Config{})
		defer r.Close()
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() {
			start := time.Now()
			if _, reply := r.Hosts(impatient, "bare.example"); reply.Status.String() != "4.4.3" || time.Since(start) != time.Second {
				t.Errorf("after %v: %v", time.Since(start), reply)
			}
		})
		for range 100 {
			all.Go(func() {
				if got := show(r.Hosts(t.Context(), "bare.example")); got != "0 bare.example=198.51.100.3:25" {
					t.Error(got)
				}
			})
		}
		all.Wait()
		var fromGood int
		for _, q := range w.questions() {
			if strings.Contains(q, "192.0.2.54") {
				fromGood++
			}
		}
		if s := r.Stats(); fromGood != 3 || s.Shared != 100 || s.Latency.Count < 3 || s.Latency.Count > s.Questions { // MX, A and AAAA
			t.Errorf("%d questions, %+v", fromGood, s)
		}
	})
}

// No more questions than configured are under way, however many domains mail
// comes for; what has to wait for too long fails for now.
func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, zone)
		w.set("192.0.2.53", silent)
		w.set("192.0.2.54", silent)
		r := w.resolver(t, Config{Concurrency: 3})
		defer r.Close()
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				if _, reply := r.Hosts(t.Context(), fmt.Sprintf("d%d.example", i)); reply.Status.String() != "4.4.3" {
					t.Error(reply)
				}
			})
		}
		time.Sleep(time.Second)
		if n, s := len(w.questions()), r.Stats(); n != 33 || s.UnderWay != 33 { // 3, and ten times as many that take long
			t.Errorf("%d questions, %d under way", n, s.UnderWay)
		}
		start := time.Now()
		all.Wait()
		if took := time.Since(start); took > 60*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// Ten MX hosts are looked up at once, the best first. Whatever is wrong with ten, the
// eleventh is used if it can be; if not, the mail waits as long as it may turn out that
// one of them can be.
func TestMoreHostsThanAreLookedUpAtOnce(t *testing.T) {
	kinds := map[string]string{"gone": "gone%d.example.", "servfail": "servfail%d.example.", "empty": "empty%d.example.", "good": "mx1.example.com.",
		"us": "us.test.", "dot": ".", "private": "lan%d.example."}
	const good, bounce, wait, loop = "mx1.example.com=198.51.100.1:25", "550 5.4.4", "451 4.4.3", "554 5.4.6"
	for _, c := range []struct {
		hosts []string // as often as the number before it says
		want  string
	}{
		{[]string{"10 gone", "1 good"}, good},
		{[]string{"10 servfail", "1 good"}, good},
		{[]string{"10 empty", "1 good"}, good},
		{[]string{"10 private", "1 good"}, good},
		{[]string{"1 dot", "9 gone", "1 good"}, good},
		{[]string{"5 gone", "5 servfail", "5 empty", "1 good"}, good},
		{[]string{"49 gone", "1 good"}, good},
		{[]string{"50 gone", "1 good"}, "451 4.4.4"},
		{[]string{"11 gone"}, bounce},
		{[]string{"11 empty"}, bounce},
		{[]string{"10 gone", "1 servfail"}, wait},
		{[]string{"1 servfail", "10 gone"}, wait},
		{[]string{"9 gone", "1 servfail", "1 empty"}, wait},
		{[]string{"10 gone", "1 us", "1 good"}, loop},
		{[]string{"1 servfail", "9 gone", "1 us"}, wait},
		{[]string{"10 gone", "1 private"}, bounce},
		{[]string{"10 servfail", "1 private"}, wait},
		{[]string{"1 dot"}, "556 5.1.10"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, zone)
			n := 0
			for _, group := range c.hosts {
				times, kind, _ := strings.Cut(group, " ")
				var count int
				fmt.Sscan(times, &count)
				for range count {
					n++
					name := kinds[kind]
					if strings.Contains(name, "%") {
						name = fmt.Sprintf(name, n)
					}
					w.add(t, fmt.Sprintf("many.example. 300 IN MX %d %s\n", n, name))
					switch kind {
					case "servfail":
						w.rcodes[name] = dns.RcodeServerFailure
					case "empty":
						w.add(t, name+" 300 IN TXT \"no address\"\n")
					case "private":
						w.add(t, name+" 300 IN A 10.0.0.1\n")
					}
				}
			}
			r := w.resolver(t, Config{Policy: route.Policy{Families: route.FamiliesIPv4, Self: route.Self{Names: []string{"us.test"}}}})
			if got := show(r.Hosts(t.Context(), "many.example")); !strings.Contains(got, c.want) {
				t.Errorf("%v: %s, want %s", c.hosts, got, c.want)
			}
		})
	}
}

// Domains whose own name servers are silent keep a question each until our patience
// ends. Others are looked up meanwhile although those are more than may be under way at
// once, and our name server does not pass for a silent one.
func TestSilentDomainsDelayNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, zone)
		r := w.resolver(t, Config{Concurrency: 4, Servers: []string{"192.0.2.1", "192.0.2.2"}})
		r.cfg.Exchange = func(ctx context.Context, network string, server netip.AddrPort, q *dns.Msg) (*dns.Msg, error) {
			if strings.HasPrefix(q.Question[0].Name, "silent") {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			time.Sleep(10 * time.Millisecond)
			return w.exchange(ctx, network, server, q)
		}
		for i := range 30 {
			go r.Hosts(context.Background(), fmt.Sprintf("silent%d.example", i))
		}
		time.Sleep(time.Millisecond)
		start := time.Now()
		if _, reply := r.Hosts(context.Background(), "example.com"); !reply.IsZero() || time.Since(start) > time.Second {
			t.Errorf("a good domain is looked up in %v: %v", time.Since(start), reply)
		}
		for range 8 {
			time.Sleep(time.Second)
			r.Hosts(context.Background(), "sister.example")
			r.Flush()
		}
		if order, _ := r.health.order([]netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:53"), netip.MustParseAddrPort("192.0.2.2:53")}, time.Now()); order[0].Addr().String() != "192.0.2.1" {
			t.Error("the name server that answers all others is held to be silent")
		}
	})
}

// However many domains are silent, no more questions are under way than may be, each
// of which has a file descriptor.
func TestSlowQuestionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, zone)
		r := w.resolver(t, Config{Concurrency: 4, Slow: 6, Servers: []string{"192.0.2.1"}})
		var underWay, most atomic.Int32
		r.cfg.Exchange = func(ctx context.Context, network string, server netip.AddrPort, q *dns.Msg) (*dns.Msg, error) {
			if n := underWay.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer underWay.Add(-1)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() { r.Hosts(context.Background(), fmt.Sprintf("silent%d.example", i)) })
		}
		wg.Wait()
		if most.Load() != 4+6 {
			t.Errorf("%d questions were under way at once, want 10", most.Load())
		}
	})
}

// Memory is bounded in the number of entries, and the one that goes is the one
// least recently used.
func TestEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, zone)
		r := w.resolver(t, Config{CacheEntries: 10})
		defer r.Close()
		for i := range 100 {
			r.Hosts(t.Context(), "[mx2.example.com]")
			r.Hosts(t.Context(), fmt.Sprintf("d%d.example", i))
		}
		s := r.Stats()
		if s.Nexthops != 10 || s.Records != 10 || s.Evictions != 91+92 {
			t.Errorf("%+v", s)
		}
		w.questions()
		if r.Hosts(t.Context(), "[mx2.example.com]"); len(w.questions()) != 0 {
			t.Error("the entry in use was pushed out")
		}
		r.Flush()
		if r.Hosts(t.Context(), "[mx2.example.com]"); len(w.questions()) == 0 {
			t.Error("Flush did not forget")
		}
	})
}

// 500 MX records with 500 addresses each cost ten lookups and leave a handful
// of addresses (row B-156).
func TestManyRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		header := func(name string, rrtype uint16) dns.RR_Header {
			return dns.RR_Header{Name: name, Rrtype: rrtype, Class: dns.ClassINET, Ttl: 300}
		}
		for i := range 500 {
			name := fmt.Sprintf("h%d.many.example.", i)
			w.rrs["many.example."] = append(w.rrs["many.example."], &dns.MX{Hdr: header("many.example.", dns.TypeMX), Preference: 10, Mx: name})
			for j := range 500 {
				a := &dns.A{Hdr: header(name, dns.TypeA), A: []byte{20, byte(i >> 2), byte(j >> 8), byte(j)}}
				w.rrs[name] = append(w.rrs[name], a)
			}
		}
		r := w.resolver(t, Config{})
		defer r.Close()
		set, reply := r.Hosts(t.Context(), "many.example")
		if len(set.Tiers) != 1 || len(set.Tiers[0]) != route.DefaultAddressesMax {
			t.Errorf("%s", show(set, reply))
		}
		if n := len(w.questions()); n != 1+2*route.DefaultHostsMax {
			t.Errorf("%d questions", n)
		}
		rec, _ := r.lookup(t.Context(), question{"many.example", dns.TypeMX})
		if len(rec.mx) != recordsMax || cap(rec.mx) > 2*recordsMax {
			t.Errorf("%d of %d MX records kept", len(rec.mx), cap(rec.mx))
		}
	})
}

// Zones with many long names make room by pushing out others: the bound on
// memory is one on octets.
func TestHeavyRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		long := strings.Repeat("x123456789.", 20)
		for d := range 50 {
			domain := fmt.Sprintf("d%d.example.", d)
			for i := range 40 {
				w.rrs[domain] = append(w.rrs[domain], &dns.MX{
					Hdr:        dns.RR_Header{Name: domain, Rrtype: dns.TypeMX, Class: dns.ClassINET, Ttl: 300},
					Preference: uint16(i), Mx: fmt.Sprintf("h%d.%sd%d.example.", i, long, d),
				})
			}
		}
		r := w.resolver(t, Config{CacheEntries: 100})
		defer r.Close()
		for d := range 50 {
			if rec, _ := r.lookup(t.Context(), question{fmt.Sprintf("d%d.example", d), dns.TypeMX}); len(rec.mx) != 40 || rec.weight() < 10 {
				t.Fatalf("%d records of weight %d", len(rec.mx), rec.weight())
			}
		}
		if s := r.Stats(); s.Records == 0 || s.Records > 10 {
			t.Errorf("%d records of some 10 KiB each in room for 100 KiB", s.Records)
		}
	})
}

// A domain that flips its MX is followed once its records are over, not before
// and not later (row B-159).
func TestFlip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, zone)
		r := w.resolver(t, Config{})
		defer r.Close()
		before := show(r.Hosts(t.Context(), "[mx2.example.com]"))
		w.mu.Lock()
		w.rrs["mx2.example.com."] = nil
		w.mu.Unlock()
		w.add(t, "mx2.example.com. 300 IN A 198.51.100.77")
		time.Sleep(119 * time.Second) // AAAA is absent for 120 s
		if got := show(r.Hosts(t.Context(), "[mx2.example.com]")); got != before {
			t.Errorf("before: %s", got)
		}
		time.Sleep(181 * time.Second)
		if got := show(r.Hosts(t.Context(), "[mx2.example.com]")); got != "0 mx2.example.com=198.51.100.77:25" {
			t.Errorf("after: %s", got)
		}
	})
}

// A person who writes [localhost]:2525, or a name of /etc/hosts, expects it to
// work, and to change when the file does.
func TestHostsFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "hosts")
		write := func(text string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("127.0.0.1 localhost lo # here\n10.0.0.7\tRelay.local relay\nfe80::1%eth0 link\nnonsense relay\n10.0.0.8 relay\n# 10.0.0.9 relay\n10.0.0.9\n")
		w := newWorld(t, zone)
		r := w.resolver(t, Config{HostsFile: path})
		defer r.Close()
		for in, want := range map[string]string{
			"[localhost]:2525": "0 localhost=127.0.0.1:2525",
			"[relay]":          "0 relay=10.0.0.7:25 relay=10.0.0.8:25",
			"[relay.local]":    "0 relay.local=10.0.0.7:25",
			"[link]":           "0 link=[fe80::1]:25",
			"relay":            "550 5.1.2 relay does not exist", // a recipient's domain
		} {
			if got := show(r.Hosts(t.Context(), in)); got != want {
				t.Errorf("%s: %s, want %s", in, got, want)
			}
		}
		write("10.0.0.77 relay\n")
		time.Sleep(fileCheckInterval)
		if got := show(r.Hosts(t.Context(), "[relay]")); got != "0 relay=10.0.0.77:25" {
			t.Errorf("after the change: %s", got)
		}
		os.Remove(path)
		time.Sleep(fileCheckInterval)
		if _, reply := r.Hosts(t.Context(), "[relay]"); reply.Status.String() != "4.3.5" {
			t.Errorf("after the file went away: %v", reply)
		}
		if got := show(r.Hosts(t.Context(), "[localhost]")); got != "0 localhost=127.0.0.1:25 localhost=[::1]:25" {
			t.Errorf("localhost without a file: %s", got)
		}
	})
}

// resolv.conf gives servers, timeout, attempts and the search list, which in a
// container is what makes [relay] work; only names that a person wrote are
// searched for.
func TestResolvConf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "resolv.conf")
		write := func(text string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("nameserver 192.0.2.1\nnameserver 2001:db8::53\nsearch cluster.example other.example\noptions timeout:2 attempts:1 ndots:2\n")
		w := newWorld(t, zone+"mail.empty.example.\nrelay.ns.other.example. 60 IN A 10.0.0.1\nbare.example.cluster.example. 60 IN A 10.0.0.2\n")
		r := w.resolver(t, Config{ResolvConf: path, Servers: []string{}, Policy: route.Policy{Families: route.FamiliesIPv4}})
		defer r.Close()
		for in, want := range map[string]string{
			"[relay.ns]":                     "0 relay.ns=10.0.0.1:25",
			"[bare.example]":                 "0 bare.example=10.0.0.2:25",
			"bare.example":                   "0 bare.example=198.51.100.3:25",
			"[bare.example.cluster.example]": "0 bare.example.cluster.example=10.0.0.2:25",
			"relay.ns":                       "550 5.1.2 relay.ns does not exist",
			"[empty.example]":                "451 4.3.5 configured nexthop [empty.example]: empty.example has no address that can be used",
			"[mail.empty.example]":           "451 4.3.5 configured nexthop [mail.empty.example]: mail.empty.example has no address that can be used",
			"[gone.empty.example]":           "451 4.3.5 configured nexthop [gone.empty.example]: gone.empty.example does not exist",
		} {
			if got := show(r.Hosts(t.Context(), in)); got != want {
				t.Errorf("%s: %s, want %s", in, got, want)
			}
		}
		w.set("192.0.2.1", silent)
		w.set("2001:db8::53", silent)
		start := time.Now()
		r.Hosts(t.Context(), "slow.example")
		if took := time.Since(start); took != 4*time.Second {
			t.Errorf("two servers of 2 s took %v", took)
		}
		write("nameserver 192.0.2.2\n")
		time.Sleep(time.Minute)
		w.questions()
		r.Hosts(t.Context(), "example.com")
		if q := w.questions(); len(q) == 0 || !strings.HasPrefix(q[0], "udp 192.0.2.2 ") {
			t.Errorf("after the change: %q", q)
		}
	})
}

// Without a resolv.conf the server is on this machine, as resolv.conf(5) says.
func TestNoResolvConf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, zone)
		r := w.resolver(t, Config{Servers: []string{}})
		defer r.Close()
		r.Hosts(t.Context(), "[bare.example]")
		if q := w.questions(); len(q) == 0 || !strings.HasPrefix(q[0], "udp 127.0.0.1 ") {
			t.Errorf("%q", q)
		}
	})
}

// Close ends what is under way, and what comes after it fails for now.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, zone)
		w.set("192.0.2.53", silent)
		r := w.resolver(t, Config{})
		var all sync.WaitGroup
		all.Go(func() {
			if _, reply := r.Hosts(t.Context(), "example.com"); !reply.Temporary() {
				t.Errorf("%v", reply)
			}
		})
		synctest.Wait()
		start := time.Now()
		r.Close()
		all.Wait()
		if took := time.Since(start); took != 0 {
			t.Errorf("Close took %v", took)
		}
		if _, reply := r.Hosts(t.Context(), "bare.example"); !reply.Temporary() {
			t.Errorf("after Close: %v", reply)
		}
	})
}

// All errors are reported at once.
func TestConfigComplains(t *testing.T) {
	_, err := New(Config{
		Servers: []string{"ns.example", "192.0.2.1:0"}, Attempts: -1, Timeout: -1,
		PositiveMin: time.Hour, PositiveMax: time.Minute, Trusted: []string{"[A]", "["},
	})
	for _, want := range []string{
		`"ns.example": want an address`, `"192.0.2.1:0"`, "attempts: -1", "timeout: must not be negative", "minimum 1h0m0s is above maximum 1m0s",
		`nexthop "[A]": the canonical form is "[a]"`, `nexthop "[": `,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
	if err := (Config{}).Validate(); err != nil {
		t.Errorf("the zero Config: %v", err)
	}
}

// The hot path: a busy destination's hosts come from memory.
func TestCachedHostsAllocations(t *testing.T) {
	r := newWorld(t, zone).resolver(t, Config{})
	r.Hosts(t.Context(), "example.com")
	if n := testing.AllocsPerRun(100, func() { r.Hosts(t.Context(), "example.com") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkHostsCached(b *testing.B) {
	r := newWorld(b, zone).resolver(b, Config{})
	ctx := b.Context()
	r.Hosts(ctx, "example.com")
	b.ReportAllocs()
	for b.Loop() {
		r.Hosts(ctx, "example.com")
	}
}

func BenchmarkHostsCachedParallel(b *testing.B) {
	r := newWorld(b, zone).resolver(b, Config{})
	ctx := b.Context()
	r.Hosts(ctx, "example.com")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r.Hosts(ctx, "example.com")
		}
	})
}

// Every nexthop is new, its MX hosts are known: what a backlog of small domains
// at one provider costs.
func BenchmarkHostsNewDomain(b *testing.B) {
	w := newWorld(b, zone)
	w.mu.Lock()
	mx := w.rrs["sister.example."]
	for i := range 20000 {
		name := fmt.Sprintf("d%d.example.", i)
		for _, rr := range mx {
			c := dns.Copy(rr)
			c.Header().Name = name
			w.rrs[name] = append(w.rrs[name], c)
		}
	}
	w.mu.Unlock()
	r := w.resolver(b, Config{})
	ctx := b.Context()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if i%20000 == 0 {
			r.Flush()
		}
		if _, reply := r.Hosts(ctx, fmt.Sprintf("d%d.example", i%20000)); !reply.IsZero() {
			b.Fatal(reply)
		}
		i++
	}
}
