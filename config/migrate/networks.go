package migrate

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/config/maincf"
)

// networks returns the networks of a list such as mynetworks. Items that are excluded are taken out of
// those behind them, for a network that is wider than before could send where it could not. What
// cannot be read is lost, with a remark.
func (t *translation) networks(s setting) (all []string) {
	tables, ok := t.tables(s)
	if !ok {
		return nil
	}
	var excluded []netip.Prefix
	seen := make(map[string]bool)
	add := func(p netip.Prefix, not bool) {
		if not {
			excluded = append(excluded, p)
			return
		}
		for _, part := range without(p, excluded) {
			if text := shownNetwork(part); !seen[text] && len(all) < networksMax {
				seen[text] = true
				all = append(all, text)
			}
		}
	}
	for _, one := range tables {
		switch {
		case one.Type == "" && !strings.HasPrefix(one.Name, "/"):
			if p, ok := maincf.ParseNetwork(one.Name); ok {
				add(p, one.Not)
			} else {
				t.lost(s, "%q is not a network in numbers; write it as such as \"192.0.2.0/24\".", one.Name)
			}
		case one.Type == "cidr":
			t.eachNetwork(s, one, func(n maincf.Network) { add(n.Prefix, one.Not || isNo(n.Value)) })
		case one.Type == "" || one.IsText():
			for _, p := range t.keys(s, one) {
				if network, ok := maincf.ParseNetwork(p.Key); ok {
					add(network, one.Not)
				} else if network, ok := halfNetwork(p.Key); ok {
					add(network, one.Not)
				} else {
					t.lost(s, "%s:%d: %q is not a network in numbers; write it as such as \"192.0.2.0/24\".", one.Name, p.Line, p.Key)
				}
			}
		default:
			t.lost(s, "%s cannot be asked for networks; write them into the parameter.", one.String())
		}
	}
	if len(all) == networksMax {
		t.lost(s, "There are more than %d networks; the others are left out.", networksMax)
	}
	return all
}

// networksMax is the number of networks in a list. An exclusion makes up to 128 of one.
const networksMax = 10_000

// isNo reports whether the result of a map of networks means that an address is not in it.
func isNo(result string) bool {
	word, _, _ := strings.Cut(result, " ")
	return slices.Contains([]string{"REJECT", "NO", "DUNNO"}, strings.ToUpper(word))
}

// halfNetwork parses such as 192.0.2, which in a map of keys stands for all addresses that begin so.
func halfNetwork(s string) (netip.Prefix, bool) {
	dots := strings.Count(s, ".")
	if dots > 2 || s == "" {
		return netip.Prefix{}, false
	}
	a, err := netip.ParseAddr(s + strings.Repeat(".0", 3-dots))
	if err != nil {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(a, 8*(dots+1)), true
}

func shownNetwork(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// without returns the parts of a network that are in none of the others.
func without(p netip.Prefix, others []netip.Prefix) []netip.Prefix {
	i := slices.IndexFunc(others, p.Overlaps)
	if i < 0 {
		return []netip.Prefix{p}
	}
	if others[i].Bits() <= p.Bits() {
		return nil // all of it
	}
	low := netip.PrefixFrom(p.Addr(), p.Bits()+1)
	bytes := p.Addr().AsSlice()
	bytes[p.Bits()/8] |= 0x80 >> (p.Bits() % 8)
	middle, _ := netip.AddrFromSlice(bytes)
	return append(without(low, others), without(netip.PrefixFrom(middle, p.Bits()+1), others)...)
}
