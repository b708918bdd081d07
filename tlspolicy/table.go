package tlspolicy

import (
	"fmt"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Rule is a policy for mail to some domains, over any transport.
type Rule struct {
	// Domains are those that mail is routed to: "example.com" is that domain, or the host of
	// that name in brackets, and ".example.com" are all below it. They are no names of MX
	// hosts: who can forge an answer of the DNS must not be able to choose the policy.
	Domains []string
	Policy  Policy
}

// A Table says which policy mail has. It is made once and then only read.
type Table struct {
	transports map[string]Policy
	domains    map[string]Policy // ".example.com" with its dot
}

// NewTable returns a table of the transports' policies, and of rules that override them. It
// fails if two rules name the same domain.
func NewTable(transports map[string]Policy, rules []Rule) (*Table, error) {
	t := &Table{transports: transports, domains: make(map[string]Policy)}
	for _, r := range rules {
		for _, d := range r.Domains {
			d = canonical(d)
			if _, twice := t.domains[d]; twice {
				return nil, fmt.Errorf("two TLS policies are for %s", d)
			}
			t.domains[d] = r.Policy
		}
	}
	return t, nil
}

// Policy returns the policy of mail that goes over a transport to a domain, or "" if the nexthop
// has none. The domain's letter case and a final dot do not matter; one that is internationalized
// must be in A-labels, like those of the rules. The longest rule that is for the domain wins, but for
// Implicit, which is always the transport's. A transport without a policy has May.
func (t *Table) Policy(transport, domain string) Policy {
	if t == nil {
		return Policy{Level: May}
	}
	standard, ok := t.transports[transport]
	if !ok {
		standard = Policy{Level: May}
	}
	if p, ok := t.rule(domain); ok {
		p.Implicit = standard.Implicit
		return p
	}
	return standard
}

// rule returns the policy of the longest rule that is for a domain.
func (t *Table) rule(domain string) (Policy, bool) {
	if domain = canonical(domain); len(t.domains) > 0 && domain != "" {
		if p, ok := t.domains[domain]; ok {
			return p, true
		}
		for above := range mail.Above(domain) {
			if p, ok := t.domains[above]; ok {
				return p, true
			}
		}
	}
	return Policy{}, false
}

// canonical returns a domain in lower case and without a final dot.
func canonical(domain string) string { return strings.ToLower(strings.TrimSuffix(domain, ".")) }
