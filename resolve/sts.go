package resolve

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/route"
	"github.com/posthaste-mta/posthaste/tlspolicy"
)

// A receiver is where mail goes, and how the connections to it must be secured.
type receiver struct {
	domain string // that a nexthop names, in canonical form; "" if it names none, or several
	policy tlspolicy.Policy
	// credential is the name of that by which we authenticate to its servers, or "".
	credential string
	asked      mail.TLSRequest // by the mail's sender
}

// receiver returns the receiver of a route, for mail that asks something of its way, and for which we
// authenticate by a credential.
func (r *Router) receiver(to *mail.Route, asked mail.TLSRequest, credential string) receiver {
	if asked != mail.TLSOptional && r.cfg.Transports[to.Transport].Unrequired {
		asked = mail.TLSUnset
	}
	if r.cfg.Security == nil && asked == mail.TLSUnset {
		return receiver{policy: tlspolicy.Policy{Level: tlspolicy.May}, credential: credential} // the domain makes no difference
	}
	domain := domainOf(to.Nexthop)
	return receiver{domain, r.cfg.Security.Policy(to.Transport, domain).Asked(asked), credential, asked}
}

// domainOf returns the name in a nexthop: a domain, or a host in brackets. A list, an address and a
// site have none.
func domainOf(nexthop string) string {
	if !strings.ContainsAny(nexthop, "[{:,") { // as nearly all are; no allocation
		name, err := route.ParseDomain(nexthop)
		if err != nil {
			return ""
		}
		return name
	}
	n, err := route.ParseNexthop(nexthop)
	if err != nil || n.Form != route.FormHost && n.Form != route.FormDomain {
		return ""
	}
	return n.Name
}

// An stsPolicy is what of a domain's MTA-STS policy counts for routes.
type stsPolicy struct {
	enforced bool
	mx       []string // patterns of the hosts that it names
	// again is when to ask again, if the search for the policy was not over; zero if it was.
	again time.Time
}

const (
	// stsTime is for how long a route takes a policy for known. Its finder notices sooner
	// or later that there is a new one, and keeps what it knows for longer than this.
	stsTime = 5 * time.Minute
	// stsWait is for how long mail for a domain waits for the policy. The search goes on
	// then, and later mail finds the policy: while it lasts, the finder is asked every
	// stsAgain, and has stsGlance for the answer, which it has at once if the search is over.
	stsWait   = 10 * time.Second
	stsAgain  = 2 * time.Second
	stsGlance = 100 * time.Millisecond
)

// names reports whether the policy names a host (RFC 8461 4.1).
func (p stsPolicy) names(host string) bool {
	return slices.ContainsFunc(p.mx, func(pattern string) bool { return tlspolicy.MatchName(host, pattern) })
}

// wantsPolicy reports whether the policy of a receiver's domain counts.
func (r *Router) wantsPolicy(to receiver) bool {
	return r.cfg.STS != nil && (to.policy.Level == tlspolicy.STS || to.namesFromDNS())
}

// namesFromDNS reports whether mail demands REQUIRETLS, and it counts for that who says which
// hosts are the receiver's.
func (to *receiver) namesFromDNS() bool {
	return to.asked == mail.TLSRequired && to.policy.NamesFromDNS()
}

// knownPolicy returns the policy of a receiver's domain, and whether it need not be looked for.
func (r *Router) knownPolicy(nexthop string, to receiver, now time.Time) (p stsPolicy, known bool) {
	if !r.wantsPolicy(to) {
		return stsPolicy{}, true
	}
	p, _, found := r.policies.get(nexthop, now)
	return p, found && (p.again.IsZero() || now.Before(p.again))
}

// policy returns the policy of a receiver's domain, after a search if need be. A search that takes
// too long is no answer: mail goes without a policy until it is over, and no longer.
func (r *Router) policy(ctx context.Context, nexthop string, to receiver) stsPolicy {
	p, known := r.knownPolicy(nexthop, to, time.Now())
	if known {
		return p
	}
	limit := stsWait
	if !p.again.IsZero() {
		limit = stsGlance // mail has waited before
	}
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var err error
	p = stsPolicy{}
	p.mx, p.enforced, err = r.cfg.STS.Enforced(wait, to.domain)
	now := time.Now()
	switch {
	case ctx.Err() != nil && err != nil:
		return p // the caller has gone, and has not waited for long
	case err != nil:
		p.again = now.Add(stsAgain)
	}
	r.policies.enter(nexthop, p, now.Add(stsTime))
	return p
}

// patternsMax is how long the patterns of a policy may be, in octets, to be all in a demand, which is
// part of the name of a queue. A policy may have 64 KiB.
const patternsMax = 1 << 10

// few returns the patterns of the policy; only those that name one of the hosts, if they are long.
func (p stsPolicy) few(hosts *mail.HostSet) []string {
	size := 0
	for _, pattern := range p.mx {
		size += len(pattern) + 1
	}
	if size <= patternsMax {
		return p.mx
	}
	var few []string
	for _, h := range slices.Concat(hosts.Tiers...) {
		i := slices.IndexFunc(p.mx, func(pattern string) bool { return tlspolicy.MatchName(h.Name, pattern) })
		if i >= 0 && !slices.Contains(few, p.mx[i]) {
			few = append(few, p.mx[i])
		}
	}
	return few
}

// notNamed is for mail to a domain whose policy names none of its hosts. It waits: one of the
// two may be about to change (RFC 8461 5.1).
func notNamed(domain string) mail.Reply {
	return mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 7, Detail: 5},
		Text: mail.CleanText("none of the MX hosts of " + domain + " is named by its MTA-STS policy")}
}
