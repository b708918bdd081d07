package outbound

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// Limits of the validity of a lookup. The resolver has its own cache, so asking it
// early costs little; asking it late would miss a change.
const (
	lookupMin     = 30 * time.Second
	lookupMax     = time.Hour
	lookupFailed  = time.Minute     // for temporary failures
	lookupRefused = 5 * time.Minute // for permanent failures, as far as the DNS knows
)

// Hosts looks up the hosts that serve a nexthop on a transport, in tiers: the
// nexthop's own, at most MXAddressLimit of them and none that must not be
// dialed, then those of the fallback relays, relay by relay. A tier's hosts are
// in random order; with KeepOrder each host is a tier of its own.
//
// If there is none, the reply is the reason. It is permanent only if there are no
// fallback relays either, because relays may become available. Until is set in
// either case.
func (c *Client) Hosts(ctx context.Context, transport, nexthop string) (mail.HostSet, mail.Reply) {
	config := c.transports[transport]
	if config == nil {
		return mail.HostSet{Until: now().Add(lookupFailed)}, unconfigured(transport)
	}
	set, reply := c.hostsOf(ctx, config, nexthop, c.trustsNexthop(nexthop))
	relays := config.FallbackRelays
	if c.cfg.Credentials.Any(nexthop, c.trusted[nexthop]) {
		relays = nil // they are other servers than the one that the password is for, of whatever sender
	}
	for _, relay := range relays {
		further, why := c.hostsOf(ctx, config, relay, true)
		reply = soften(why)
		set.Tiers = addTiers(set.Tiers, further.Tiers)
		set.Until = min(set.Until, further.Until)
	}
	if len(set.Tiers) > 0 {
		reply = mail.Reply{}
	}
	return set, reply
}

// hostsOf looks up the hosts of one nexthop.
func (c *Client) hostsOf(ctx context.Context, config *TransportConfig, nexthop string, trusted bool) (mail.HostSet, mail.Reply) {
	if path, ok := strings.CutPrefix(nexthop, mail.SocketPrefix); ok && config.LMTP {
		return socketHost(path), mail.Reply{}
	}
	found, reply := c.resolver.Hosts(ctx, nexthop)
	list, blocked := c.candidates(found, config, trusted)
	switch {
	case ctx.Err() != nil:
		return mail.HostSet{Until: now()}, interrupted()
	case !reply.IsZero():
	case len(list) == 0 && blocked > 0:
		reply = allBlocked(nexthop)
	case len(list) == 0:
		reply = noHosts(nexthop)
	}
	return mail.HostSet{
		Tiers: tiersOf(balance(list, config.MXAddressLimit), config.KeepOrder),
		Until: validUntil(found.Until, reply),
	}, reply
}

// validUntil returns the time until which an answer is used.
func validUntil(until mail.Instant, reply mail.Reply) mail.Instant {
	at := now()
	switch {
	case until > 0:
	case reply.Permanent():
		until = at.Add(lookupRefused)
	case !reply.IsZero():
		until = at.Add(lookupFailed)
	}
	return min(max(until, at.Add(lookupMin)), at.Add(lookupMax))
}

// tiersOf groups candidates into tiers again.
func tiersOf(list []candidate, apart bool) (tiers [][]mail.Host) {
	for i, h := range list {
		if apart || i == 0 || h.tier != list[i-1].tier {
			tiers = append(tiers, nil)
		}
		last := &tiers[len(tiers)-1]
		*last = append(*last, h.Host)
	}
	return tiers
}

// addTiers appends further tiers, without the addresses that are already in tiers.
func addTiers(tiers, more [][]mail.Host) [][]mail.Host {
	known := make(map[netip.AddrPort]bool)
	for _, h := range slices.Concat(tiers...) {
		known[h.Addr] = true
	}
	for _, tier := range more {
		tier = slices.DeleteFunc(tier, func(h mail.Host) bool { return known[h.Addr] })
		if len(tier) > 0 {
			tiers = append(tiers, tier)
		}
	}
	return tiers
}

// trustsNexthop reports whether the operator configured a nexthop, so that its hosts
// may be at any address. A recipient's address literal also leads to an address in
// brackets without a port, so this form must be listed.
func (c *Client) trustsNexthop(nexthop string) bool {
	for one := range strings.SplitSeq(nexthop, ",") {
		if !c.trusted[one] && (!bracketed(one) || isLiteral(one)) {
			return false
		}
	}
	return true
}

// isLiteral reports whether a nexthop in brackets could be a recipient's address
// literal.
func isLiteral(nexthop string) bool {
	_, err := netip.ParseAddr(literal(nexthop))
	return err == nil && strings.HasSuffix(nexthop, "]")
}
