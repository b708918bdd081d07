package resolve

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/posthaste-mta/posthaste/dane"
	"github.com/posthaste-mta/posthaste/route"
)

// digest is a SHA-256 in hexadecimal, and two halves of it of the wrong length.
const digest = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

// signedZone has the zones signed.example and far.example, which are signed, and
// open.example, which is not.
const signedZone = `
soa.                               300 IN SOA ns.example. admin.example. 1 2 3 4 120
signed.example.                    300 IN MX 10 mx.signed.example.
mx.signed.example.                 300 IN A 198.51.100.1
_25._tcp.mx.signed.example.        300 IN TLSA 3 1 1 ` + digest + `
_465._tcp.mx.signed.example.       300 IN TLSA 2 0 1 ` + digest + `
plain.signed.example.              300 IN A 198.51.100.2
pkix.signed.example.               300 IN A 198.51.100.3
_25._tcp.pkix.signed.example.      300 IN TLSA 1 1 1 ` + digest + `
short.signed.example.              300 IN A 198.51.100.3
_25._tcp.short.signed.example.     300 IN TLSA 3 1 1 00
both.signed.example.               300 IN A 198.51.100.4
_25._tcp.both.signed.example.      300 IN TLSA 1 1 1 ` + digest + `
_25._tcp.both.signed.example.      300 IN TLSA 3 1 1 ` + digest + `
bogus.signed.example.              300 IN A 198.51.100.5
bogusaddr.signed.example.          300 IN A 198.51.100.5
half.signed.example.               300 IN A 198.51.100.5
half.signed.example.               300 IN AAAA 2001:db8::5
_25._tcp.half.signed.example.      300 IN TLSA 3 1 1 ` + digest + `
alias.signed.example.              300 IN CNAME mx.far.example.
mx.far.example.                    300 IN A 198.51.100.6
_25._tcp.mx.far.example.           300 IN TLSA 3 1 1 aa112233445566778899aabbccddeeff00112233445566778899aabbccddeeff
own.signed.example.                300 IN CNAME bare.far.example.
bare.far.example.                  300 IN A 198.51.100.7
_25._tcp.own.signed.example.       300 IN TLSA 3 1 1 bb112233445566778899aabbccddeeff00112233445566778899aabbccddeeff
brokenfar.signed.example.          300 IN CNAME broken.far.example.
broken.far.example.                300 IN A 198.51.100.7
_25._tcp.brokenfar.signed.example. 300 IN TLSA 3 1 1 ` + digest + `
out.signed.example.                300 IN CNAME mx.open.example.
_25._tcp.out.signed.example.       300 IN TLSA 3 1 1 cc112233445566778899aabbccddeeff00112233445566778899aabbccddeeff
mx.open.example.                   300 IN A 198.51.100.8
_25._tcp.mx.open.example.          300 IN TLSA 3 1 1 ` + digest + `
in.open.example.                   300 IN CNAME mx.signed.example.
_25._tcp.in.open.example.          300 IN TLSA 3 1 1 ` + digest + `
shared.signed.example.             300 IN A 198.51.100.9
_25._tcp.shared.signed.example.    300 IN CNAME _dane.far.example.
_dane.far.example.                 300 IN TLSA 3 1 1 dd112233445566778899aabbccddeeff00112233445566778899aabbccddeeff
leaky.signed.example.              300 IN A 198.51.100.9
_25._tcp.leaky.signed.example.     300 IN CNAME _dane.open.example.
_dane.open.example.                300 IN TLSA 3 1 1 ` + digest + `
loop.signed.example.               300 IN A 198.51.100.9
_25._tcp.loop.signed.example.      300 IN CNAME _25._tcp.loop.signed.example.
open.example.                      300 IN MX 10 mx.signed.example.
nomx.signed.example.               300 IN A 198.51.100.10
nick.signed.example.               300 IN CNAME signed.example.
nick.open.example.                 300 IN CNAME signed.example.
text.signed.example.               300 IN TXT "v=" "1"
text.signed.example.               300 IN TXT "other"
`

func signedWorld(t testing.TB) *world {
	w := newWorld(t, signedZone)
	w.signed = []string{"signed.example.", "far.example."}
	w.rcodes["_25._tcp.bogus.signed.example."] = dns.RcodeServerFailure
	w.rcodes["bogusaddr.signed.example."] = dns.RcodeServerFailure
	w.rcodes["AAAA half.signed.example."] = dns.RcodeServerFailure
	w.rcodes["_25._tcp.broken.far.example."] = dns.RcodeServerFailure
	w.rcodes["cname.signed.example."] = dns.RcodeServerFailure
	return w
}

// showTLSA renders an answer as "usable base: record, record" or "failed: why".
func showTLSA(a dane.Answer) string {
	text := a.State.String()
	if a.Base != "" {
		text += " " + a.Base + ":"
	}
	for _, r := range a.Records {
		text += " " + r.String()[:min(len(r.String()), 8)]
	}
	if a.Why != "" {
		text += ": " + a.Why
	}
	return text
}

var loopback = []string{"127.0.0.1", "[::1]:5353"}

// RFC 7672 2.1 and 2.2 host by host: whose TLSA records count, and what their
// absence, their faults and a failed lookup mean.
func TestTLSA(t *testing.T) {
	for _, c := range []struct {
		name, host string
		port       uint16
		fault      fault
		want       string
	}{
		{"secure", "mx.signed.example", 25, 0, "usable mx.signed.example: 3 1 1 00"},
		{"other spelling", "MX.Signed.Example.", 25, 0, "usable mx.signed.example: 3 1 1 00"},
		{"other port", "mx.signed.example", 465, 0, "usable mx.signed.example: 2 0 1 00"},
		{"other port, without", "mx.signed.example", 587, 0, "none"},
		{"secure denial", "plain.signed.example", 25, 0, "none"},
		{"truncated by UDP", "mx.signed.example", 25, truncates, "usable mx.signed.example: 3 1 1 00"},
		{"without EDNS", "mx.signed.example", 25, noEDNS, "usable mx.signed.example: 3 1 1 00"},
		{"unusable only", "pkix.signed.example", 25, 0, "unusable pkix.signed.example: 1 1 1 00"},
		{"wrong length only", "short.signed.example", 25, 0, "unusable short.signed.example: 3 1 1 00"},
		{"usable beside unusable", "both.signed.example", 25, 0, "usable both.signed.example: 1 1 1 00 3 1 1 00"},
		{"insecure", "mx.open.example", 25, 0, "none"},
		{"bogus", "bogus.signed.example", 25, 0, "failed: DNS lookup of TLSA records of _25._tcp.bogus.signed.example failed: the name server returned SERVFAIL"},
		{"bogus address", "bogusaddr.signed.example", 25, 0, "failed: DNS lookup of bogusaddr.signed.example failed: the name server returned SERVFAIL"},
		{"bogus address of one family", "half.signed.example", 25, 0, "usable half.signed.example: 3 1 1 00"},
		{"silence", "mx.signed.example", 25, silent, "failed: DNS lookup of mx.signed.example failed: no name server answered"},
		{"no such host", "gone.signed.example", 25, 0, "none"},

		{"secure alias, target has records", "alias.signed.example", 25, 0, "usable mx.far.example: 3 1 1 aa"},
		{"secure alias, link by link", "alias.signed.example", 25, oneLink, "usable mx.far.example: 3 1 1 aa"},
		{"secure alias, only the host has records", "own.signed.example", 25, 0, "usable own.signed.example: 3 1 1 bb"},
		{"secure alias, target fails", "brokenfar.signed.example", 25, 0, "failed: DNS lookup of TLSA records of _25._tcp.broken.far.example failed: the name server returned SERVFAIL"},
		{"secure alias of an insecure host", "out.signed.example", 25, 0, "usable out.signed.example: 3 1 1 cc"},
		{"the same, link by link", "out.signed.example", 25, oneLink, "usable out.signed.example: 3 1 1 cc"},
		{"insecure alias of a secure host", "in.open.example", 25, 0, "none"},
		{"the same, link by link", "in.open.example", 25, oneLink, "none"},
		{"records behind a secure alias", "shared.signed.example", 25, 0, "usable shared.signed.example: 3 1 1 dd"},
		{"records behind an insecure alias", "leaky.signed.example", 25, 0, "none"},
		{"alias loop", "loop.signed.example", 25, 0, "failed: the DNS aliases of _25._tcp.loop.signed.example lead nowhere"},

		{"address", "198.51.100.1", 25, 0, "none"},
		{"IPv6 address", "2001:db8::1", 25, 0, "none"},
		{"nothing", "", 25, 0, "none"},
		{"not a name", "a..b", 25, 0, "none"},
		{"too long", strings.Repeat("abcdefg.", 40), 25, 0, "none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := signedWorld(t)
				w.set("127.0.0.1", c.fault)
				w.set("::1", c.fault)
				r := w.resolver(t, Config{Servers: loopback})
				defer r.Close()
				got := r.TLSA(t.Context(), c.host, c.port)
				if showTLSA(got) != c.want {
					t.Errorf("got  %s\nwant %s", showTLSA(got), c.want)
				}
				w.questions()
				if again := r.TLSA(t.Context(), c.host, c.port); showTLSA(again) != c.want || len(w.questions()) != 0 {
					t.Errorf("the second answer is %s", showTLSA(again))
				}
			})
		})
	}
}

// Only signed zones are asked for TLSA records, and a host that is not an alias costs no
// question about aliases.
func TestTLSAQuestions(t *testing.T) {
	for host, want := range map[string][]string{
		"mx.open.example":      {"A mx.open.example.", "AAAA mx.open.example."},
		"mx.signed.example":    {"A mx.signed.example.", "AAAA mx.signed.example.", "TLSA _25._tcp.mx.signed.example."},
		"out.signed.example":   {"A out.signed.example.", "AAAA out.signed.example.", "CNAME out.signed.example.", "TLSA _25._tcp.out.signed.example."},
		"alias.signed.example": {"A alias.signed.example.", "AAAA alias.signed.example.", "TLSA _25._tcp.mx.far.example."},
	} {
		w := signedWorld(t)
		r := w.resolver(t, Config{Servers: []string{"127.0.0.1"}})
		r.TLSA(t.Context(), host, 25)
		var asked []string
		for _, q := range w.questions() {
			asked = append(asked, strings.TrimPrefix(q, "udp 127.0.0.1 "))
		}
		slices.Sort(asked)
		if !slices.Equal(asked, want) {
			t.Errorf("%s: asked %q", host, asked)
		}
	}
}

// The AD bit of a server on the network is not asked for, and not believed if it comes, unless
// the operator says so. One server on the network among others is enough.
func TestTrust(t *testing.T) {
	const usable, none = "usable mx.signed.example: 3 1 1 00", "none"
	for _, c := range []struct {
		name    string
		servers []string
		trust   bool
		want    string
	}{
		{"loopback", loopback, false, usable},
		{"loopback, all of 127", []string{"127.0.0.53"}, false, usable},
		{"loopback, mapped", []string{"[::ffff:127.0.0.1]:53"}, false, usable},
		{"network", []string{"192.0.2.53"}, false, none},
		{"one on the network", []string{"127.0.0.1", "192.0.2.53"}, false, none},
		{"network, trusted", []string{"192.0.2.53"}, true, usable},
		{"resolv.conf without servers", []string{}, false, usable},
	} {
		for _, f := range []fault{0, pushesAD} {
			w := signedWorld(t)
			w.set("192.0.2.53", f)
			w.set("127.0.0.1", f)
			r := w.resolver(t, Config{Servers: c.servers, TrustAD: c.trust})
			if got := showTLSA(r.TLSA(t.Context(), "mx.signed.example", 25)); got != c.want {
				t.Errorf("%s: %s", c.name, got)
			}
			believed := c.want == usable
			if r.Validates() != believed || r.Find(t.Context(), "signed.example").Secure != believed || r.Addresses(t.Context(), "mx.signed.example").Secure != believed {
				t.Errorf("%s: not the same for MX and address records", c.name)
			}
		}
	}
}

// The option trust-ad of resolv.conf is for the servers of that file, and only on a line of options.
func TestTrustInResolvConf(t *testing.T) {
	for _, c := range []struct {
		text    string
		servers []string
		want    bool
	}{
		{"nameserver 192.0.2.53\noptions trust-ad\n", nil, true},
		{"options edns0 timeout:2 trust-ad\nnameserver 192.0.2.53", nil, true},
		{"nameserver 192.0.2.53\noptions trust-ad\n", []string{"192.0.2.54"}, false},
		{"nameserver 192.0.2.53\noptions trust-ad\n", []string{"127.0.0.1"}, true},
		{"nameserver 192.0.2.53\n#options trust-ad\n; options trust-ad\n", nil, false},
		{"nameserver 192.0.2.53\noptions trust-ad:0\nsearch trust-ad\n", nil, false},
		{"nameserver 192.0.2.53\n", nil, false},
		{"nameserver 127.0.0.1\nnameserver 192.0.2.53\n", nil, false},
		{"", nil, true},
	} {
		file := filepath.Join(t.TempDir(), "resolv.conf")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		config := Config{Servers: c.servers, ResolvConf: file}
		r, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		if config.BelievesAD() != c.want || r.Validates() != c.want {
			t.Errorf("%q, servers %q: %v and %v, want %v", c.text, c.servers, config.BelievesAD(), r.Validates(), c.want)
		}
		r.Close()
	}
}

// How servers are asked: AD without the signatures themselves where it is believed, in
// plain messages too, and otherwise as ever.
func TestAsksForAD(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		w := signedWorld(t)
		w.set("192.0.2.53", noEDNS)
		var bits []string
		r := w.resolver(t, Config{Servers: []string{"192.0.2.53"}, TrustAD: trusted})
		r.cfg.Exchange = func(ctx context.Context, network string, server netip.AddrPort, q *dns.Msg) (*dns.Msg, error) {
			edns := q.IsEdns0() != nil
			bits = append(bits, fmt.Sprintf("ad=%v cd=%v edns=%v do=%v", q.AuthenticatedData, q.CheckingDisabled, edns, edns && q.IsEdns0().Do()))
			return w.exchange(ctx, network, server, q)
		}
		r.TXT(t.Context(), "text.signed.example")
		want := []string{
			fmt.Sprintf("ad=%v cd=false edns=true do=false", trusted),
			fmt.Sprintf("ad=%v cd=false edns=false do=false", trusted),
		}
		if !slices.Equal(bits, want) {
			t.Errorf("trusted %v: %q", trusted, bits)
		}
	}
}

// What Find says of the hosts of a nexthop besides what Hosts does.
func TestFind(t *testing.T) {
	for _, c := range []struct {
		nexthop, want string
	}{
		{"signed.example", "true [signed.example]"},
		{"open.example", "false [open.example]"},
		{"nomx.signed.example", "true [nomx.signed.example]"},
		{"gone.open.example", "false [gone.open.example]"},
		{"nick.signed.example", "true [nick.signed.example signed.example]"},
		{"nick.open.example", "false [nick.open.example]"},
		{"[mx.open.example]", "true [mx.open.example]"},
		{"[198.51.100.1]", "false []"},
		{"{mx.signed.example}", "false []"},
		{"signed.example,[mx.open.example]", "true []"},
		{"signed.example,open.example", "false []"},
		{"[", "false []"},
	} {
		w := signedWorld(t)
		r := w.resolver(t, Config{Servers: loopback})
		for range 2 { // from the servers, and from the cache
			f := r.Find(t.Context(), c.nexthop)
			set, reply := r.Hosts(t.Context(), c.nexthop)
			names := r.Names(t.Context(), c.nexthop)
			if (len(names) > 0) != (f.Secure && len(f.Names) > 0) || len(names) > 0 && !slices.Equal(names, f.Names) {
				t.Errorf("%s: names %q, secure %v", c.nexthop, names, f.Secure)
			}
			if got := fmt.Sprint(f.Secure, f.Names); got != c.want || show(f.Set, f.Reply) != show(set, reply) {
				t.Errorf("%s: %s", c.nexthop, got)
			}
		}
	}
}

// Addresses and TXT records, as other packages need them.
func TestAddressesAndTexts(t *testing.T) {
	w := signedWorld(t)
	w.rcodes["fail.example."] = dns.RcodeServerFailure
	r := w.resolver(t, Config{Servers: loopback})
	if a := r.Addresses(t.Context(), "Out.Signed.Example"); a.Answer != route.Found || a.Secure || a.Alias != "mx.open.example" || fmt.Sprint(a.Addrs) != "[198.51.100.8]" {
		t.Errorf("%+v", a)
	}
	if a := r.Addresses(t.Context(), "192.0.2.1"); a.Answer != route.NoName {
		t.Errorf("%+v", a)
	}
	if a, err := r.Addrs(t.Context(), "mx.signed.example"); err != nil || fmt.Sprint(a) != "[198.51.100.1]" {
		t.Errorf("%v, %v", a, err)
	}
	if a, err := r.Addrs(t.Context(), "gone.signed.example"); err != nil || len(a) != 0 {
		t.Errorf("%v, %v", a, err)
	}
	if a, err := r.Addrs(t.Context(), "fail.example"); err == nil || !strings.Contains(err.Error(), "SERVFAIL") {
		t.Errorf("%v, %v", a, err)
	}
	for name, want := range map[string]string{
		"TEXT.signed.example":       "[v=1 other] <nil>",
		"gone.signed.example":       "[] <nil>",
		"mx.signed.example":         "[] <nil>",
		"fail.example":              "[] DNS lookup of TXT records of fail.example failed: the name server returned SERVFAIL",
		"":                          "[] <nil>",
		strings.Repeat("long.", 60): "[] <nil>",
	} {
		texts, err := r.TXT(t.Context(), name)
		if got := fmt.Sprint(texts, " ", err); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A name that does not fit in a question is the remote domain's doing. It must not look
// like a silent name server, which would be avoided by all other questions.
func TestLongNamesHurtNobody(t *testing.T) {
	host := strings.Repeat("a.", 120) + "signed.example" // 254 with the prefix
	w := signedWorld(t)
	w.add(t, host+". 300 IN A 198.51.100.1")
	r := w.resolver(t, Config{Servers: loopback})
	if a := r.TLSA(t.Context(), host, 25); a.State != dane.None {
		t.Errorf("%s", showTLSA(a))
	}
	if s := r.Stats(); s.Timeouts != 0 || len(r.health.sick) != 0 {
		t.Errorf("%+v", s)
	}
}

// TLSA records that have expired are never used, be all servers silent: the host is
// skipped. Its addresses are, so that what fails is the policy and not the route.
func TestNoStaleTLSA(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := signedWorld(t)
		r := w.resolver(t, Config{Servers: loopback})
		defer r.Close()
		usable := showTLSA(r.TLSA(t.Context(), "mx.signed.example", 25))
		texts, err := r.TXT(t.Context(), "text.signed.example")
		w.set("127.0.0.1", silent)
		w.set("::1", silent)
		time.Sleep(100 * time.Second)
		if got := showTLSA(r.TLSA(t.Context(), "mx.signed.example", 25)); got != usable || len(texts) != 2 || err != nil {
			t.Errorf("before the records expire: %s", got)
		}
		time.Sleep(200 * time.Second)
		if got := showTLSA(r.TLSA(t.Context(), "mx.signed.example", 25)); !strings.HasPrefix(got, "failed: DNS lookup of TLSA records") {
			t.Errorf("after they have expired: %s", got)
		}
		if texts, err := r.TXT(t.Context(), "text.signed.example"); err == nil {
			t.Errorf("expired text: %q", texts)
		}
		if set, reply := r.Hosts(t.Context(), "[mx.signed.example]"); !reply.IsZero() {
			t.Errorf("the host: %s", show(set, reply))
		}
	})
}

// A hundred deliveries to a host begin at once: its records are asked for once.
func TestTLSAOneFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := signedWorld(t)
		r := w.resolver(t, Config{Servers: loopback})
		defer r.Close()
		inner := r.cfg.Exchange
		r.cfg.Exchange = func(ctx context.Context, network string, server netip.AddrPort, q *dns.Msg) (*dns.Msg, error) {
			time.Sleep(time.Second)
			return inner(ctx, network, server, q)
		}
		answers := make(chan string, 100)
		for range cap(answers) {
			go func() { answers <- showTLSA(r.TLSA(t.Context(), "mx.signed.example", 25)) }()
		}
		for range cap(answers) {
			if got := <-answers; got != "usable mx.signed.example: 3 1 1 00" {
				t.Error(got)
			}
		}
		if n := len(w.questions()); n != 3 {
			t.Errorf("%d questions", n)
		}
	})
}

// A host with a thousand records of many kilobytes costs others their place in the
// cache, but the program no memory; so do texts.
func TestHeavySecureRecords(t *testing.T) {
	w := signedWorld(t)
	r := w.resolver(t, Config{Servers: loopback, CacheEntries: 100})
	cert := strings.Repeat("ab", 2<<10)
	for i := range 20 {
		name := fmt.Sprintf("h%d.signed.example.", i)
		w.add(t, name+" 300 IN A 198.51.100.1")
		for j := range 100 {
			w.add(t, fmt.Sprintf("_25._tcp.%s 300 IN TLSA 3 0 0 %04x%s", name, j, cert))
			w.add(t, name+` 300 IN TXT "`+strings.Repeat("x", 200)+`"`)
		}
		if a := r.TLSA(t.Context(), name, 25); a.State != dane.Unusable || len(a.Records) != recordsMax {
			t.Fatalf("%s with %d records", a.State, len(a.Records))
		}
		if texts, _ := r.TXT(t.Context(), name); len(texts) != recordsMax {
			t.Fatalf("%d texts", len(texts))
		}
	}
	if n := r.Stats().Records; n > 6 {
		t.Errorf("%d records in a cache of 100 KiB", n)
	}
}

// Records of TLSA that are not even records count as unusable ones.
func TestTLSARecord(t *testing.T) {
	for _, c := range []struct {
		rr   dns.TLSA
		want dane.Record
	}{
		{dns.TLSA{Usage: 3, Selector: 1, MatchingType: 1, Certificate: "AbCd"}, dane.Record{Usage: 3, Selector: 1, Matching: 1, Data: []byte{0xab, 0xcd}}},
		{dns.TLSA{Usage: 3, Selector: 1, MatchingType: 1, Certificate: "abc"}, dane.Record{}},
		{dns.TLSA{Usage: 3, Selector: 1, MatchingType: 1}, dane.Record{}},
		{dns.TLSA{Usage: 3, Certificate: strings.Repeat("00", dane.DataMax+1)}, dane.Record{}},
	} {
		got := tlsaRecord(&c.rr)
		if got.String() != c.want.String() || !bytes.Equal(got.Data, c.want.Data) {
			t.Errorf("%.20s: %.40s", c.rr.Certificate, got)
		}
	}
}
