package resolve

import (
	"context"
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/tlspolicy"
)

// An stsPolicy is what of a domain's MTA-STS policy counts for routes.
type stsPolicy struct {
	enforced bool
	mx       []string // patterns of the hosts that it names
}

const (
	// stsTime is for how long a route takes a policy for known. Its finder notices sooner
	// or later that there is a new one, and keeps what it knows for longer than this.
	stsTime = 5 * time.Minute
	// stsWait is for how long mail for a domain waits for the policy. The search goes on
	// then, and later mail finds the policy.
	stsWait = 10 * time.Second
)

// names reports whether the policy names a host (RFC 8461 4.1).
func (p stsPolicy) names(host string) bool {
	return slices.ContainsFunc(p.mx, func(pattern string) bool { return tlspolicy.MatchName(host, pattern) })
}

// wantsPolicy reports whether the policy of a route's domain counts.
func (r *Router) wantsPolicy(to *mail.Route) bool {
	return r.cfg.STS != nil && r.cfg.Security != nil && r.cfg.Security.Policy(to.Transport, domainOf(to.Nexthop)).Level == tlspolicy.STS
}

// knownPolicy returns the policy of a route's domain, and whether it need not be looked for.
func (r *Router) knownPolicy(to *mail.Route, now time.Time) (stsPolicy, bool) {
	if !r.wantsPolicy(to) {
		return stsPolicy{}, true
	}
	p, _, ok := r.policies.get(to.Nexthop, now)
	return p, ok
}

// policy returns the policy of a route's domain, after a search if need be.
func (r *Router) policy(ctx context.Context, to *mail.Route) stsPolicy {
	if p, known := r.knownPolicy(to, time.Now()); known {
		return p
	}
	wait, cancel := context.WithTimeout(ctx, stsWait)
	defer cancel()
	var p stsPolicy
	p.mx, p.enforced = r.cfg.STS.Enforced(wait, domainOf(to.Nexthop))
	if ctx.Err() == nil {
		r.policies.enter(to.Nexthop, p, time.Now().Add(stsTime))
	}
	return p
}

// notNamed is for mail to a domain whose policy names none of its hosts. It waits: one of the
// two may be about to change (RFC 8461 5.1).
func notNamed(domain string) mail.Reply {
	return mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 7, Detail: 5},
		Text: mail.CleanText("none of the MX hosts of " + domain + " is named by its MTA-STS policy")}
}
