package route

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// A zone is what the DNS says about hosts; names that are not in it do not
// exist.
type zone map[string]HostAnswer

// addrs makes an answer of addresses, or of a word for one without any.
func addrs(text string) HostAnswer {
	switch text {
	case "nodata":
		return HostAnswer{Answer: NoData}
	case "unknown":
		return HostAnswer{Answer: Unknown}
	case "endless":
		return HostAnswer{Answer: Endless}
	}
	h := HostAnswer{Answer: Found}
	for f := range strings.FieldsSeq(text) {
		h.Addrs = append(h.Addrs, netip.MustParseAddr(f))
	}
	return h
}

func (z zone) answer(name string) HostAnswer {
	if a, ok := z[name]; ok {
		return a
	}
	return HostAnswer{Answer: NoName}
}

func still(int, func(int, int)) {}

// hosts runs plan and tiers, as a resolver does.
func hosts(n Nexthop, answer Answer, records []MX, z zone, p Policy, shuffle Shuffle) (mail.HostSet, mail.Reply) {
	plan, reply := NewPlan(n, answer, records, p, shuffle)
	if !reply.IsZero() {
		return mail.HostSet{}, reply
	}
	answers := make([]HostAnswer, len(plan.Hosts))
	for i, h := range plan.Hosts {
		answers[i] = z.answer(h.Name)
		if n.Form == FormAddress {
			answers[i] = HostAnswer{Answer: Found, Addrs: []netip.Addr{n.Addr}}
		}
	}
	return plan.Tiers(answers)
}

// showSet renders tiers as "pref name=addr:port name=addr:port | …".
func showSet(set mail.HostSet, reply mail.Reply) string {
	if !reply.IsZero() {
		return reply.String()
	}
	var tiers []string
	for _, tier := range set.Tiers {
		words := []string{fmt.Sprint(tier[0].Preference)}
		for _, h := range tier {
			words = append(words, h.Name+"="+h.Addr.String())
		}
		tiers = append(tiers, strings.Join(words, " "))
	}
	return strings.Join(tiers, " | ")
}

// mxs reads "10 a, 20 b".
func mxs(text string) []MX {
	var all []MX
	for _, r := range strings.Split(text, ", ") {
		var m MX
		if _, err := fmt.Sscanf(r, "%d", &m.Preference); err != nil {
			panic(err)
		}
		_, m.Name, _ = strings.Cut(r, " ")
		all = append(all, m)
	}
	return all
}

// Every rule about MX records, one line each; the names are rows of the
// catalogue of bad input and of the requirements.
func TestTiers(t *testing.T) {
	z := zone{
		"a.example":     addrs("192.0.2.1"),
		"b.example":     addrs("192.0.2.2 2001:db8::2"),
		"c.example":     addrs("192.0.2.3"),
		"us.example":    addrs("198.51.100.7"),
		"nat.example":   addrs("203.0.113.7"),
		"none.example":  addrs("nodata"),
		"slow.example":  addrs("unknown"),
		"loop.example":  addrs("endless"),
		"home.example":  addrs("10.0.0.1"),
		"mixed.example": addrs("127.0.0.1 192.0.2.9"),
		"six.example":   addrs("2001:db8::6"),
		"d.example":     addrs("192.0.2.50"),
	}
	z["lo.example"] = addrs("127.0.0.1")
	self := Self{Names: []string{"mail.us.example", "helo.us.example"}, Listeners: []netip.AddrPort{
		netip.MustParseAddrPort("198.51.100.7:25"), netip.MustParseAddrPort("203.0.113.7:25"), netip.MustParseAddrPort("127.0.0.1:2525")}}
	const d = "d.example"
	for _, c := range []struct {
		row, nexthop string
		answer       Answer
		mx           string
		policy       Policy
		want         string
	}{
		{"C-03 order", d, Found, "20 b.example, 10 a.example", Policy{}, "10 a.example=192.0.2.1:25 | 20 b.example=192.0.2.2:25 b.example=[2001:db8::2]:25"},
		{"C-03 equal", d, Found, "10 b.example, 10 a.example", Policy{}, "10 a.example=192.0.2.1:25 b.example=192.0.2.2:25 b.example=[2001:db8::2]:25"},
		{"port", d + ":2525", Found, "10 A.Example.", Policy{}, "10 a.example=192.0.2.1:2525"},
		{"C-01 implicit MX", d, NoData, "", Policy{}, "0 d.example=192.0.2.50:25"},
		{"C-01 implicit MX, no address", "none.example", NoData, "", Policy{}, "550 5.4.4 none.example has no address that can be used"},
		{"C-01 implicit MX, alias loop", "loop.example", NoData, "", Policy{}, "550 5.4.4 the DNS aliases of loop.example lead nowhere"},
		{"C-01 implicit MX, no answer", "slow.example", NoData, "", Policy{}, "451 4.4.3 DNS lookup of the mail hosts of slow.example failed"},
		{"C-01 name without name", "gone.example", NoData, "", Policy{}, "550 5.1.2 gone.example does not exist"},
		{"B-150 NXDOMAIN", d, NoName, "", Policy{}, "550 5.1.2 d.example does not exist"},
		{"B-150 no answer", d, Unknown, "", Policy{}, "451 4.4.3 DNS lookup of d.example failed"},
		{"B-152 alias loop", d, Endless, "", Policy{}, "550 5.4.4 the DNS aliases of d.example lead nowhere"},
		{"C-02 no address fallback", d, Found, "10 none.example", Policy{}, "550 5.4.4 no mail host of d.example can be used"},
		{"C-06 null MX", d, Found, "0 .", Policy{}, "556 5.1.10 d.example does not accept mail (null MX)"},
		{"B-153 null MX, any preference, twice", d, Found, "10 ., 0 ", Policy{}, "556 5.1.10 d.example does not accept mail (null MX)"},
		{"B-153 dot and others", d, Found, "0 ., 10 a.example", Policy{}, "10 a.example=192.0.2.1:25"},
		{"B-153 address text", d, Found, "10 10.0.0.1.", Policy{}, `550 5.4.4 no mail host of d.example can be used, among them "10.0.0.1."`},
		{"B-153 address text and a host", d, Found, "10 192.0.2.1., 20 a.example", Policy{}, "20 a.example=192.0.2.1:25"},
		{"B-153 space", d, Found, "10 a b.example", Policy{}, `550 5.4.4 no mail host of d.example can be used, among them "a b.example"`},
		{"B-153 NUL", d, Found, `10 a\000.example., 10 a.example`, Policy{}, "10 a.example=192.0.2.1:25"},
		{"B-154 localhost", d, Found, "10 localhost", Policy{}, "550 5.4.4 no mail host of d.example can be used"},
		{"B-154 loopback", d, Found, "10 lo.example", Policy{}, "550 5.4.4 mail for d.example would go to 127.0.0.1, an address that is not connected to for others"},
		{"B-154 one address of two", d, Found, "10 mixed.example", Policy{}, "10 mixed.example=192.0.2.9:25"},
		{"B-154 private", d, Found, "10 home.example", Policy{}, "550 5.4.4 mail for d.example would go to 10.0.0.1, an address that is not connected to for others"},
		{"C-09 private allowed", d, Found, "10 home.example", Policy{Reach: ReachPrivate}, "10 home.example=10.0.0.1:25"},
		{"C-09 private allowed, not loopback", d, Found, "10 lo.example", Policy{Reach: ReachPrivate}, "550 5.4.4 mail for d.example would go to 127.0.0.1, an address that is not connected to for others"},
		{"C-09 any", d, Found, "10 lo.example", Policy{Reach: ReachAny}, "10 lo.example=127.0.0.1:25"},
		{"C-09 literal", "[169.254.169.254]", 0, "", Policy{}, "550 5.4.4 mail for 169.254.169.254 would go to 169.254.169.254, an address that is not connected to for others"},
		{"literal", "[2001:db8::9]:26", 0, "", Policy{}, "0 =[2001:db8::9]:26"},
		{"host", "[b.example]:587", 0, "", Policy{}, "0 b.example=192.0.2.2:587 b.example=[2001:db8::2]:587"},
		{"host without address", "[none.example]", 0, "", Policy{}, "550 5.4.4 none.example has no address that can be used"},
		{"host without name", "[gone.example]", 0, "", Policy{}, "550 5.1.2 gone.example does not exist"},
		{"site", "{b.example,a.example;c.example}", 0, "", Policy{}, "1 a.example=192.0.2.1:25 b.example=192.0.2.2:25 b.example=[2001:db8::2]:25 | 2 c.example=192.0.2.3:25"},
		{"C-05 name, best", d, Found, "10 mail.us.example, 20 a.example", Policy{Self: self}, "554 5.4.6 mail for d.example loops back to ourselves"},
		{"C-05 name, worse", d, Found, "10 a.example, 20 MAIL.us.example., 20 b.example, 30 c.example", Policy{Self: self}, "10 a.example=192.0.2.1:25"},
		{"C-05 greeting name", d, Found, "10 a.example, 20 helo.us.example, 30 c.example", Policy{Self: self}, "10 a.example=192.0.2.1:25"},
		{"C-05 address", d, Found, "10 a.example, 20 b.example, 20 us.example, 30 c.example", Policy{Self: self}, "10 a.example=192.0.2.1:25"},
		{"C-05 address, best", d, Found, "10 us.example, 10 a.example", Policy{Self: self}, "554 5.4.6 mail for d.example loops back to ourselves"},
		{"B-154 own address behind NAT", d, Found, "10 nat.example", Policy{Self: self}, "554 5.4.6 mail for d.example loops back to ourselves"},
		{"C-05 other port", d + ":587", Found, "10 us.example", Policy{Self: self}, "10 us.example=198.51.100.7:587"},
		{"C-05 name, other port", d + ":587", Found, "10 mail.us.example, 20 a.example", Policy{Self: self}, "20 a.example=192.0.2.1:587"},
		{"C-05 listener literal", "[127.0.0.1]:2525", 0, "", Policy{Self: self, Reach: ReachAny}, "554 5.4.6 mail for 127.0.0.1 loops back to ourselves"},
		{"C-05 listener, mapped", "[::ffff:198.51.100.7]", 0, "", Policy{Self: self}, "554 5.4.6 mail for 198.51.100.7 loops back to ourselves"},
		{"C-05 no listeners known", d, Found, "10 mail.us.example", Policy{Self: Self{Names: self.Names}}, "554 5.4.6 mail for d.example loops back to ourselves"},
		{"C-05 better hosts without answer", d, Found, "10 slow.example, 20 us.example", Policy{Self: self}, "451 4.4.3 DNS lookup of the mail hosts of d.example failed"},
		{"C-05 better hosts without address", d, Found, "10 none.example, 20 us.example", Policy{Self: self}, "554 5.4.6 mail for d.example loops back to ourselves"},
		{"C-05 the domain is our name", "mail.us.example", NoData, "", Policy{Self: self}, "554 5.4.6 mail for mail.us.example loops back to ourselves"},
		{"B-157 some without name", d, Found, "10 gone.example, 20 a.example", Policy{}, "20 a.example=192.0.2.1:25"},
		{"B-157 some without answer", d, Found, "10 slow.example, 20 a.example", Policy{}, "20 a.example=192.0.2.1:25"},
		{"B-157 all without answer", d, Found, "10 slow.example, 20 slow.example", Policy{}, "451 4.4.3 DNS lookup of the mail hosts of d.example failed"},
		{"B-157 none, one without answer", d, Found, "10 gone.example, 20 slow.example", Policy{}, "451 4.4.3 DNS lookup of the mail hosts of d.example failed"},
		{"B-157 all without name", d, Found, "10 gone.example, 20 gone2.example", Policy{}, "550 5.4.4 no mail host of d.example can be used"},
		{"B-152 hosts with alias loops", d, Found, "10 loop.example", Policy{}, "550 5.4.4 no mail host of d.example can be used"},
		{"B-159 one address, two names", d, Found, "10 a.example, 20 a2.example, 20 b.example", Policy{}, "10 a.example=192.0.2.1:25 | 20 b.example=192.0.2.2:25 b.example=[2001:db8::2]:25"},
		{"one name, two preferences", d, Found, "20 a.example, 10 A.example", Policy{}, "10 a.example=192.0.2.1:25"},
		{"IPv4 only", d, Found, "10 b.example", Policy{Families: FamiliesIPv4}, "10 b.example=192.0.2.2:25"},
		{"IPv6 only", d, Found, "10 b.example", Policy{Families: FamiliesIPv6}, "10 b.example=[2001:db8::2]:25"},
		{"IPv4 only, IPv6 host", d, Found, "10 six.example", Policy{Families: FamiliesIPv4}, "550 5.4.4 no mail host of d.example can be used"},
		{"C-07 hosts", d, Found, "10 gone.example, 20 a.example, 30 c.example", Policy{HostsMax: 2}, "20 a.example=192.0.2.1:25"},
		{"C-07 addresses", d, Found, "10 a.example, 20 c.example, 30 us.example", Policy{AddressesMax: 2}, "10 a.example=192.0.2.1:25 | 20 c.example=192.0.2.3:25"},
	} {
		t.Run(c.row, func(t *testing.T) {
			n, err := ParseNexthop(c.nexthop)
			if err != nil {
				t.Fatal(err)
			}
			var records []MX
			if c.mx != "" {
				records = mxs(c.mx)
			}
			z["a2.example"] = z["a.example"]
			if got := showSet(hosts(n, c.answer, records, z, c.policy, still)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// Each address of row B-154 makes its host unusable when the DNS names it, and
// the reply says which it was.
func TestTiersForbidden(t *testing.T) {
	for text := range strings.FieldsSeq("127.0.0.1 0.0.0.0 ::1 :: 169.254.169.254 224.0.0.1 ::ffff:127.0.0.1 fe80::1 fd00:ec2::254") {
		z := zone{"mx.example": addrs(text)}
		want := "550 5.4.4 mail for d.example would go to " + netip.MustParseAddr(text).Unmap().String() + ","
		got := showSet(hosts(Nexthop{Form: FormDomain, Name: "d.example"}, Found, mxs("10 mx.example"), z, Policy{}, still))
		if !strings.HasPrefix(got, want) {
			t.Errorf("MX to %s: %s", text, got)
		}
	}
}

// The owner of a domain must not be able to make us connect to these addresses, in
// whatever form they are written (row B-154).
func TestReach(t *testing.T) {
	for _, c := range []struct {
		kinds           string
		public, private bool
	}{
		{"192.0.2.1 8.8.8.8 100.63.255.255 100.128.0.1 172.32.0.1 2001:db8::1 ::ffff:192.0.2.1 64:ff9b::c000:201 2002:c000:201::", true, true},
		{"10.0.0.1 172.16.0.1 192.168.1.1 100.64.0.1 100.127.255.255 fd00::1 ::ffff:10.0.0.1 64:ff9b::a00:1 2002:a00:1::", false, true},
		{"0.0.0.0 0.1.2.3 127.0.0.1 127.255.255.254 169.254.169.254 224.0.0.1 239.1.1.1 240.0.0.1 255.255.255.255", false, false},
		{":: ::1 fe80::1 febf::1 ff02::1 ::ffff:127.0.0.1 ::127.0.0.1 ::ffff:169.254.169.254 64:ff9b::7f00:1 2002:7f00:1::", false, false},
	} {
		for text := range strings.FieldsSeq(c.kinds) {
			a := netip.MustParseAddr(text)
			if got := ReachPublic.Permits(a); got != c.public {
				t.Errorf("public permits %s: %v", a, got)
			}
			if got := ReachPrivate.Permits(a); got != c.private {
				t.Errorf("private permits %s: %v", a, got)
			}
			if !ReachAny.Permits(a) {
				t.Errorf("any does not permit %s", a)
			}
		}
	}
	if ReachAny.Permits(netip.Addr{}) {
		t.Error("any permits the zero address")
	}
}

// naiveTiers is the definition without caps: for every address its best
// preference, after the reply to everything that goes wrong.
func naiveTiers(records []MX, z zone, p Policy) (map[netip.Addr]uint16, string) {
	ours := 1 << 20
	for _, r := range records {
		self := slices.Contains(p.Self.Names, r.Name)
		for _, a := range z.answer(r.Name).Addrs {
			self = self || slices.Contains(p.Self.Listeners, netip.AddrPortFrom(a, 25))
		}
		if self {
			ours = min(ours, int(r.Preference))
		}
	}
	best := map[netip.Addr]uint16{}
	unknown := false
	for _, r := range records {
		if int(r.Preference) >= ours {
			continue
		}
		unknown = unknown || z.answer(r.Name).Answer == Unknown
		for _, a := range z.answer(r.Name).Addrs {
			if !p.Reach.Permits(a) {
				continue
			}
			if old, ok := best[a]; !ok || r.Preference < old {
				best[a] = r.Preference
			}
		}
	}
	switch {
	case len(best) > 0:
		return best, ""
	case unknown:
		return nil, "4.4.3"
	case ours < 1<<20:
		return nil, "5.4.6"
	}
	return nil, "5.4.4"
}

// Random record sets agree with the definition.
func TestTiersNaiveTwin(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	pool := strings.Fields("192.0.2.1 192.0.2.2 192.0.2.3 192.0.2.4 2001:db8::1 2001:db8::2 127.0.0.1 10.0.0.1 198.51.100.7")
	p := Policy{Self: Self{Names: []string{"us"}, Listeners: []netip.AddrPort{netip.MustParseAddrPort("198.51.100.7:25")}}, HostsMax: 1000, AddressesMax: 1000}
	for range 5000 {
		z := zone{}
		var records []MX
		for i := range 1 + rng.IntN(6) {
			name := fmt.Sprintf("h%d", rng.IntN(5))
			if rng.IntN(15) == 0 {
				name = "us"
			}
			records = append(records, MX{Preference: uint16(rng.IntN(4)), Name: name})
			switch rng.IntN(6) {
			case 0:
				z[name] = addrs([]string{"nodata", "unknown", "endless"}[rng.IntN(3)])
			case 1:
			default:
				var some []string
				for range 1 + i%3 {
					some = append(some, pool[rng.IntN(len(pool))])
				}
				z[name] = addrs(strings.Join(some, " "))
			}
		}
		if rng.IntN(2) == 0 {
			p.Reach = Reach(rng.IntN(3))
		}
		set, reply := hosts(Nexthop{Form: FormDomain, Name: "d.example"}, Found, records, z, p, rng.Shuffle)
		want, verdict := naiveTiers(records, z, p)
		got := map[netip.Addr]uint16{}
		last := -1
		for _, tier := range set.Tiers {
			for _, h := range tier {
				if _, twice := got[h.Addr.Addr()]; twice || h.Preference != tier[0].Preference {
					t.Fatalf("seed %d: %v", seed, set)
				}
				got[h.Addr.Addr()] = h.Preference
			}
			if int(tier[0].Preference) <= last {
				t.Fatalf("seed %d: tiers out of order: %v", seed, set)
			}
			last = int(tier[0].Preference)
		}
		if !maps.Equal(got, want) || reply.Status.String() != verdict {
			t.Fatalf("seed %d: %v in %v\ngot  %v %v\nwant %v %v", seed, records, z, got, reply, want, verdict)
		}
	}
}

// A hostile zone with 500 hosts of 500 addresses each costs a handful of
// lookups and leaves a handful of addresses, drawn at random within a
// preference (rows B-156, C-07).
func TestTiersCaps(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	z := zone{}
	var records []MX
	for i := range 500 {
		name := fmt.Sprintf("h%d.example", i)
		records = append(records, MX{Preference: 10, Name: name})
		var h HostAnswer
		h.Answer = Found
		for j := range 500 {
			h.Addrs = append(h.Addrs, netip.AddrFrom4([4]byte{20, byte(i >> 8), byte(i), byte(j)}))
		}
		z[name] = h
	}
	n := Nexthop{Form: FormDomain, Name: "d.example"}
	drawn := map[string]bool{}
	for range 50 {
		plan, reply := NewPlan(n, Found, records, Policy{}, rng.Shuffle)
		if !reply.IsZero() || len(plan.Hosts) != DefaultHostsMax {
			t.Fatalf("%d hosts, %v", len(plan.Hosts), reply)
		}
		set, reply := hosts(n, Found, records, z, Policy{}, rng.Shuffle)
		if !reply.IsZero() || len(set.Tiers) != 1 || len(set.Tiers[0]) != DefaultAddressesMax {
			t.Fatalf("%v, %v", set, reply)
		}
		inSet := map[string]bool{}
		for _, h := range set.Tiers[0] {
			inSet[h.Name], drawn[h.Name] = true, true
		}
		if len(inSet) != DefaultAddressesMax {
			t.Errorf("one host contributed several addresses while others wait: %v", set)
		}
	}
	if len(drawn) < 100 {
		t.Errorf("only %d hosts out of 500 in 50 draws of 5", len(drawn))
	}
}

// naiveBalance restates the rule of smtp_balance_inet_protocols with counts.
func naiveBalance(families string, limit int) string {
	n4, n6 := strings.Count(families, "4"), strings.Count(families, "6")
	if n4+n6 > limit && n4 > 0 && n6 > 0 {
		switch {
		case n6 <= limit/2:
			n4 = limit - n6
		case n4 <= limit/2:
			n6 = limit - n4
		default:
			n4, n6 = limit/2, limit/2
			if limit%2 == 1 {
				if families[0] == '4' {
					n4++
				} else {
					n6++
				}
			}
		}
	}
	var kept strings.Builder
	for _, f := range families {
		if kept.Len() == limit {
			break
		}
		if f == '4' && n4 > 0 {
			n4--
			kept.WriteRune(f)
		} else if f == '6' && n6 > 0 {
			n6--
			kept.WriteRune(f)
		}
	}
	return kept.String()
}

// Neither address family may use up the number of addresses (C-07). All
// mixtures up to eight addresses and limits up to nine.
func TestBalance(t *testing.T) {
	for n := range 9 {
		for bits := range 1 << n {
			for limit := 1; limit < 10; limit++ {
				families := ""
				var in []mail.Host
				for i := range n {
					a := netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
					families += string(rune('4' + bits>>i&1*2))
					if families[i] == '6' {
						a = netip.AddrFrom16([16]byte{0x20, 1, 15: byte(i)})
					}
					in = append(in, mail.Host{Addr: netip.AddrPortFrom(a, 25)})
				}
				got, order := "", -1
				for _, h := range balance(in, limit) {
					b := h.Addr.Addr().AsSlice()
					if i := int(b[len(b)-1]); i <= order {
						t.Fatalf("%s cut to %d: out of order", families, limit)
					} else {
						order = i
					}
					got += map[bool]string{true: "4", false: "6"}[h.Addr.Addr().Is4()]
				}
				if want := naiveBalance(families, limit); got != want {
					t.Fatalf("%s cut to %d = %s, want %s", families, limit, got, want)
				}
			}
		}
	}
}

// Domains with the same MX hosts share a nexthop, whatever their preferences
// are called, and only these.
func TestSite(t *testing.T) {
	for _, c := range []struct{ mx, want string }{
		{"10 mx1.example, 20 mx2.example", "{mx1.example;mx2.example}"},
		{"5 MX1.Example., 7 mx2.example.", "{mx1.example;mx2.example}"},
		{"10 b, 10 a, 30 c", "{a,b;c}"},
		{"10 a, 20 ., 30 a, 40 10.0.0.1", "{a}"},
		{"0 .", ""},
		{"10 10.0.0.1", ""},
	} {
		n, ok := Site(mxs(c.mx))
		if ok != (c.want != "") || ok && n.String() != c.want {
			t.Errorf("Site(%s) = %v, %v, want %s", c.mx, n, ok, c.want)
		}
	}
	var many []MX
	for i := range siteHostsMax + 1 {
		many = append(many, MX{Name: fmt.Sprintf("h%d", i)})
	}
	if n, ok := Site(many); ok {
		t.Errorf("Site of %d hosts = %v", len(many), n)
	}
	if _, ok := Site(many[1:]); !ok {
		t.Errorf("no Site of %d hosts", siteHostsMax)
	}
	if n, ok := Site(nil); ok {
		t.Errorf("Site(nil) = %v", n)
	}
	if n, ok := Site([]MX{{0, strings.Repeat("abcdefg.", 30) + "a"}, {1, strings.Repeat("abcdefg.", 30) + "b"}, {2, strings.Repeat("abcdefg.", 30) + "c"}}); ok {
		t.Errorf("a site of %d octets", len(n.Name))
	}
}

// Mail sent by way of the site reaches the hosts it would reach by way of the
// domain, in the same tiers.
func TestSiteServesTheSameHosts(t *testing.T) {
	z := zone{"a.example": addrs("192.0.2.1"), "b.example": addrs("192.0.2.2 192.0.2.3"), "c.example": addrs("192.0.2.4")}
	records := mxs("20 c.example, 10 b.example, 10 a.example")
	site, ok := Site(records)
	if !ok {
		t.Fatal("no site")
	}
	byDomain, _ := hosts(Nexthop{Form: FormDomain, Name: "d.example"}, Found, records, z, Policy{}, still)
	bySite, _ := hosts(site, 0, nil, z, Policy{}, still)
	clear := func(set mail.HostSet) {
		for _, tier := range set.Tiers {
			for i := range tier {
				tier[i].Preference = 0
			}
		}
	}
	clear(byDomain)
	clear(bySite)
	if got, want := showSet(bySite, mail.Reply{}), showSet(byDomain, mail.Reply{}); got != want {
		t.Errorf("by site   %s\nby domain %s", got, want)
	}
}

func BenchmarkTiers(b *testing.B) {
	z := zone{"a.example": addrs("192.0.2.1 2001:db8::1"), "b.example": addrs("192.0.2.2 2001:db8::2"), "c.example": addrs("192.0.2.3")}
	records := mxs("10 a.example, 10 b.example, 20 c.example")
	b.ReportAllocs()
	for b.Loop() {
		hosts(Nexthop{Form: FormDomain, Name: "d.example"}, Found, records, z, Policy{}, still)
	}
}
