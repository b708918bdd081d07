package flow

import (
	"slices"

	"github.com/posthaste-mta/posthaste/mail"
)

// Reclassify returns the flow of a message that was classified before, as was, by rules that may have been others. login says
// that its client had logged in, or was a program on a unix socket.
//
// Which user that was, on which listener the message came, and what it said in our header fields is not
// kept with a message. A condition on users or listeners of TCP counts as met by what is in the class or of the tenant already, and
// one on users also if the tenant is the user. Of mail from a client that may name class and
// tenant, these stay unless they are what that client's mail has without a rule.
func (r *Rules) Reclassify(m *Message, was mail.Flow, login bool) (f mail.Flow) {
	a := again{m: m, was: was, login: login || !m.Client.addr.IsValid(), named: r.trusts(m.Client)}
	f.Tenant = a.tenant(r)
	f.Class = a.class(r, f.Tenant)
	f.Flow = r.flow(m)
	return f
}

// An again is one Reclassify.
type again struct {
	m     *Message
	was   mail.Flow
	login bool // its client had a user
	named bool // its client may have named class and tenant
}

func (a *again) tenant(r *Rules) string {
	kept := a.was.Tenant != "" && a.was.Tenant != a.m.Client.tenant
	if a.named && kept {
		return a.was.Tenant
	}
	for i := range r.tenants {
		t := &r.tenants[i]
		if a.met(&t.match, "", a.was.Tenant == t.name, false) {
			return t.name
		}
	}
	if a.login && kept {
		return a.was.Tenant // the user, unless that was a rule's
	}
	return a.m.Client.tenant
}

func (a *again) class(r *Rules, tenant string) string {
	known := slices.ContainsFunc(r.classes, func(c classRule) bool { return c.name == a.was.Class })
	if a.named && known && a.was.Class != ClassNormal {
		return a.was.Class
	}
	for i := range r.classes {
		c := &r.classes[i]
		for j := range c.match {
			if is := a.was.Class == c.name; a.met(&c.match[j], tenant, is, is) {
				return c.name
			}
		}
	}
	return ClassNormal
}

// met is match.met for a message of which the user and the listener are not known; user and listener say what to take a condition on
// them for.
func (a *again) met(c *match, tenant string, user, listener bool) bool {
	left := *c
	if left.users != nil {
		if !a.login || !user && !slices.Contains(left.users, a.was.Tenant) {
			return false
		}
		left.users = nil
	}
	if left.listeners != nil && a.m.Client.addr.IsValid() {
		if !listener {
			return false
		}
		left.listeners = nil
	}
	return left.met(a.m, tenant)
}
