package outbound

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// A candidate is a host that may be tried, with its position in the order.
type candidate struct {
	mail.Host
	tier int
}

// order returns the hosts of a set in the order in which to try them:
// tier by tier, shuffled within each (RFC 5321 5.1) unless rng is nil, and
// without those that usable rejects.
func order(set mail.HostSet, rng *rand.Rand, usable func(netip.AddrPort) bool) (list []candidate, blocked int) {
	for tier, hosts := range set.Tiers {
		from := len(list)
		for _, h := range hosts {
			if !usable(h.Addr) {
				blocked++
				continue
			}
			list = append(list, candidate{h, tier})
		}
		if part := list[from:]; rng != nil {
			rng.Shuffle(len(part), func(i, j int) { part[i], part[j] = part[j], part[i] })
		}
	}
	return list, blocked
}

// balance truncates a list to limit addresses such that neither address family uses
// the whole limit alone, which matters for a site whose IPv6 does not work. A family
// with at most half of the limit stays complete; if both have more, each gets
// half, and an odd one goes to the family of the first address
// (smtp_balance_inet_protocols).
func balance(list []candidate, limit int) []candidate {
	if limit < 0 || len(list) <= limit {
		return list
	}
	six := 0
	for _, c := range list {
		if isSix(c) {
			six++
		}
	}
	four := len(list) - six
	keepSix, keepFour := limit, limit
	switch half := limit / 2; {
	case six == 0 || four == 0:
	case six <= half:
		keepSix, keepFour = six, limit-six
	case four <= half:
		keepSix, keepFour = limit-four, four
	default:
		keepSix, keepFour = half, half
		if isSix(list[0]) {
			keepSix = limit - half
		} else {
			keepFour = limit - half
		}
	}
	return slices.DeleteFunc(list, func(c candidate) bool {
		left := &keepFour
		if isSix(c) {
			left = &keepSix
		}
		*left--
		return *left < 0
	})
}

func isSix(c candidate) bool { return c.Addr.Addr().Unmap().Is6() }

// bracketed reports whether a nexthop is written in brackets, so that it names a
// host and not a domain.
func bracketed(nexthop string) bool { return strings.HasPrefix(nexthop, "[") }

// literal returns the text in brackets, with a single spelling for each address.
func literal(s string) string {
	s, _, _ = strings.Cut(strings.ToLower(s[1:]), "]")
	s = strings.TrimPrefix(s, "ipv6:")
	if a, err := netip.ParseAddr(s); err == nil {
		return a.Unmap().String()
	}
	return s
}
