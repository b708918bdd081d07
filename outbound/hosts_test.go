package outbound

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

func set(tiers ...string) (s mail.HostSet) {
	for _, tier := range tiers {
		var hosts []mail.Host
		for _, a := range strings.Fields(tier) {
			hosts = append(hosts, mail.Host{Addr: address(a)})
		}
		s.Tiers = append(s.Tiers, hosts)
	}
	return s
}

func names(list []candidate) string {
	var b []string
	for _, c := range list {
		b = append(b, short(c.Addr))
	}
	return strings.Join(b, " ")
}

func anyAddress(netip.AddrPort) bool { return true }

// Tiers keep their order; inside a tier every order is as likely as any other
// (C-03).
func TestOrderShufflesInsideTiers(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	seen := map[string]int{}
	const rounds = 6000
	for range rounds {
		list, _ := order(set("1 2 3", "4"), rng, anyAddress)
		seen[names(list)]++
	}
	if len(seen) != 6 {
		t.Errorf("seed %d: orders %v", seed, seen)
	}
	for o, n := range seen {
		if !strings.HasSuffix(o, " 4") || n < rounds/6*8/10 || n > rounds/6*12/10 {
			t.Errorf("seed %d: order %q came %d times of %d", seed, o, n, rounds)
		}
	}
	if list, _ := order(set("3 1", "2"), nil, anyAddress); names(list) != "3 1 2" {
		t.Errorf("without shuffling: %s", names(list))
	}
}

// The limit is shared by the address families (C-07).
func TestBalance(t *testing.T) {
	const six = "2001:db8::"
	mixed := func(s string) []candidate { // "464" is an IPv4, an IPv6 and an IPv4 address
		var list []candidate
		for i, c := range s {
			a := fmt.Sprint(i + 1)
			if c == '6' {
				a = six + a
			}
			list = append(list, candidate{Host: mail.Host{Addr: address(a)}})
		}
		return list
	}
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"444", 5, "444"},
		{"4444444", 5, "44444"},
		{"6666666", 5, "66666"},
		{"66666644", 5, "66644"},
		{"66666444444", 5, "66644"},
		{"44444466666", 5, "44466"},
		{"6444444", 5, "64444"},
		{"4444446", 5, "44446"},
		{"4646464646", 4, "4646"},
		{"4646", -1, "4646"},
	} {
		got := ""
		for _, k := range balance(mixed(c.in), c.limit) {
			if isSix(k) {
				got += "6"
			} else {
				got += "4"
			}
		}
		if got != c.want {
			t.Errorf("%s cut to %d is %s, want %s", c.in, c.limit, got, c.want)
		}
	}
}

// A literal's key must not depend on the spelling of the address.
func TestLiteral(t *testing.T) {
	got := []string{literal("[IPv6:2001:DB8::0:1]"), literal("[2001:db8::1]:25"), literal("[2001:0db8::1]")}
	if slices.ContainsFunc(got, func(s string) bool { return s != "2001:db8::1" }) {
		t.Errorf("got %q", got)
	}
}
