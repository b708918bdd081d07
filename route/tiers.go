package route

import (
	"net/netip"
	"slices"

	"github.com/posthaste-mta/posthaste/mail"
)

// Tiers arranges the plan's hosts in tiers, one for each preference, the best first;
// answers[i] is the answer about p.Hosts[i]. The reply is zero if there is a host to
// connect to; otherwise it is the reason why there is none.
//
//   - If an address is one of our listeners, that host's preference and all worse
//     ones are left out (RFC 5321 5.1).
//   - Addresses that the policy's reach or families exclude are left out.
//   - An address counts once, at its best preference.
//   - At most the policy's maximum of addresses remain. Hosts of equal preference
//     contribute them in turn, so that neither one host with hundreds of addresses
//     nor one address family can use up the maximum.
//
// Hosts without an answer do not affect the others. If there are no others, the
// answer may come later, and the reply is temporary.
func (p Plan) Tiers(answers []HostAnswer) (mail.HostSet, mail.Reply) {
	best := len(p.Hosts)
	for i := range p.Hosts {
		if slices.ContainsFunc(answers[i].Addrs, p.isListener) {
			p.loop = true
			best = firstAsGood(p.Hosts, i)
			break
		}
	}
	p.Hosts = p.Hosts[:best]

	hosts := p.reachable(answers[:best])
	if len(hosts) == 0 {
		return mail.HostSet{}, p.failure(answers[:best])
	}
	return mail.HostSet{Tiers: inTiers(balance(hosts, p.policy.addressesMax()))}, mail.Reply{}
}

func (p Plan) isListener(a netip.Addr) bool { return p.policy.Self.isListener(a.Unmap(), p.port) }

// reachable returns the usable addresses, ordered by preference; within a
// preference, the first address of every host comes before the second of any. One
// host's addresses keep their order (RFC 5321 5.1, RFC 6724).
func (p Plan) reachable(answers []HostAnswer) []mail.Host {
	var hosts []mail.Host
	seen := make(map[netip.Addr]bool)
	for from := 0; from < len(p.Hosts); {
		to := from + 1
		for to < len(p.Hosts) && p.Hosts[to].Preference == p.Hosts[from].Preference {
			to++
		}
		for turn, more := 0, true; more; turn++ {
			more = false
			for i := from; i < to; i++ {
				if turn >= len(answers[i].Addrs) {
					continue
				}
				more = true
				a := answers[i].Addrs[turn].Unmap()
				if seen[a] || !p.policy.Families.Includes(a) || !p.policy.Reach.Permits(a) {
					continue
				}
				seen[a] = true
				hosts = append(hosts, mail.Host{
					Name:       p.Hosts[i].Name,
					Addr:       netip.AddrPortFrom(a, p.port),
					Preference: p.Hosts[i].Preference,
				})
			}
		}
		from = to
	}
	return hosts
}

// failure returns the reason why no address remained.
func (p Plan) failure(answers []HostAnswer) mail.Reply {
	forbidden := netip.Addr{}
	for _, a := range answers {
		if a.Answer == Unknown {
			return p.verdict(true)
		}
		for _, addr := range a.Addrs {
			if !forbidden.IsValid() && !p.policy.Reach.Permits(addr.Unmap()) {
				forbidden = addr.Unmap()
			}
		}
	}
	switch {
	case p.loop:
		return p.verdict(false)
	case forbidden.IsValid():
		return reply(550, mail.Status{Class: 5, Subject: 4, Detail: 4},
			"mail for "+p.shown+" would go to "+forbidden.String()+", an address that is not connected to for others")
	case p.bare:
		return p.bareFailure(answers[0].Answer)
	}
	return p.verdict(false)
}

// bareFailure returns the reason why a host that no MX record names has no address.
func (p Plan) bareFailure(answer Answer) mail.Reply {
	switch answer {
	case NoName, Endless:
		return answerReply(p.shown, answer)
	}
	return reply(550, mail.Status{Class: 5, Subject: 4, Detail: 4}, p.shown+" has no address that can be used")
}

// balance truncates a list of addresses to limit, like Postfix's
// smtp_balance_inet_protocols: a family that would fill less than its half
// stays complete, otherwise each gets half, and an odd one goes to the family that
// comes first. The order is kept.
func balance(hosts []mail.Host, limit int) []mail.Host {
	if len(hosts) <= limit {
		return hosts
	}
	keep6 := 0
	for _, h := range hosts {
		if h.Addr.Addr().Is6() {
			keep6++
		}
	}
	keep4 := len(hosts) - keep6
	half := limit / 2
	switch {
	case keep4 == 0 || keep6 == 0:
		return hosts[:limit]
	case keep6 <= half:
		keep4 = limit - keep6
	case keep4 <= half:
		keep6 = limit - keep4
	case hosts[0].Addr.Addr().Is6():
		keep4, keep6 = half, limit-half
	default:
		keep4, keep6 = limit-half, half
	}
	return slices.DeleteFunc(hosts, func(h mail.Host) bool {
		left := &keep4
		if h.Addr.Addr().Is6() {
			left = &keep6
		}
		*left--
		return *left < 0
	})
}

// inTiers splits a list ordered by preference where the preference changes.
func inTiers(hosts []mail.Host) [][]mail.Host {
	tiers := make([][]mail.Host, 0, 2)
	from := 0
	for i := range hosts {
		if i+1 == len(hosts) || hosts[i+1].Preference != hosts[i].Preference {
			tiers = append(tiers, hosts[from:i+1:i+1])
			from = i + 1
		}
	}
	return tiers
}
