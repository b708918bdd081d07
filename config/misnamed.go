package config

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/flow"
	"github.com/posthaste-mta/posthaste/internal/glob"
	"github.com/posthaste-mta/posthaste/internal/near"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/qmgr/source"
)

// names warns of tenants that rules and pools name but that are not configured, and of names and
// values that are listed twice. Classes that do not exist are mistakes.
func (w *warner) names() {
	for i := range w.c.Classes {
		table, m := fullName(tableClass, w.c.Classes[i].Name), &w.c.Classes[i].Match
		w.tenants(fullName(table, "tenant"), m.Tenants)
		w.twice(fullName(table, "sender"), m.Senders)
		w.twice(fullName(table, "header"), m.Headers)
		w.twice(fullName(table, "user"), m.Users)
		w.twice(fullName(table, "client"), texts(m.Clients))
	}
	for i := range w.c.Tenants {
		t := &w.c.Tenants[i]
		table := fullName(tableTenant, t.Name)
		w.twice(fullName(table, "sender"), t.Match.Senders)
		w.twice(fullName(table, "user"), t.Match.Users)
		w.twice(fullName(table, "client"), texts(t.Match.Clients))
		w.tenant(i)
	}
	for i := range w.c.Pools {
		p := &w.c.Pools[i]
		table := fullName(tablePool, p.Name)
		w.tenants(fullName(table, "tenant"), p.Match.Tenants)
		for kind, list := range p.Match.Lists() {
			if kind != "tenant" {
				w.twice(fullName(table, kind), *list)
			}
		}
		w.taken(i)
	}
}

// texts returns the values of a list as texts.
func texts[T interface{ String() string }](list []T) (all []string) {
	for _, v := range list {
		all = append(all, v.String())
	}
	return all
}

// twice warns of what a list has twice. The patterns of all lists match whatever the case.
func (w *warner) twice(key string, list []string) {
	for i, s := range list {
		if slices.ContainsFunc(list[:i], func(before string) bool { return strings.EqualFold(before, s) }) {
			w.about(key, "%s is in the list twice", tomlfile.QuoteText(s))
		}
	}
}

// tenants warns of names in a list that no tenant has. Mail may have another one all the
// same, from the name of a user or a header field; a pattern with a star may be meant for
// those, and what looks like a network or the number of a user is one.
func (w *warner) tenants(key string, list []string) {
	w.twice(key, list)
	for _, name := range list {
		if strings.Contains(name, "*") || namesItself(name) || slices.ContainsFunc(w.c.Tenants, func(t Tenant) bool { return glob.Matches(glob.New(name), t.Name) }) {
			continue
		}
		meant := w.nearTenant(name)
		if meant != "" {
			meant = "; did you mean " + tomlfile.QuoteKey(meant) + "?"
		}
		w.about(key, "there is no [tenant.%s]: %s means only mail of a user of that name, and mail that names it in the field %s%s",
			tomlfile.QuoteKey(name), tomlfile.QuoteText(name), flow.HeaderTenant, meant)
	}
}

// nearTenant returns the configured tenant that is most like a name, "" if none is.
func (w *warner) nearTenant(name string) string {
	var known []string
	for i := range w.c.Tenants {
		known = append(known, strings.ToLower(w.c.Tenants[i].Name))
	}
	if i := slices.Index(known, near.Name(name, known)); i >= 0 {
		return w.c.Tenants[i].Name
	}
	return ""
}

// namesItself reports whether a tenant's name is one that mail gets from its client.
func namesItself(name string) bool {
	_, err := netip.ParsePrefix(name)
	return err == nil || name == flow.LocalTenant || strings.HasPrefix(name, "uid:")
}

// tenant warns of a tenant that is there twice: by a name that differs only in its case,
// which no condition distinguishes, or with conditions that another one before it has.
func (w *warner) tenant(i int) {
	t := &w.c.Tenants[i]
	for j := range w.c.Tenants[:i] {
		before := &w.c.Tenants[j]
		if strings.EqualFold(before.Name, t.Name) {
			w.about(fullName(tableTenant, t.Name), "it is another tenant than [tenant.%s], and conditions for one of them are met by both; give one of them another name", before.Name)
			return
		}
		if before.conditional() && t.conditional() && takesAll(tenantLists(before), tenantLists(t)) {
			w.about(fullName(tableTenant, t.Name), "it gets no mail by its conditions: [tenant.%s] before it takes all that meets them", before.Name)
			return
		}
	}
}

// tenantLists are the conditions of a tenant by their kind.
func tenantLists(t *Tenant) conditions {
	return conditions{"sender": t.Match.Senders, "client": texts(t.Match.Clients), "user": t.Match.Users}
}

// taken warns of single conditions of a pool that select nothing: another one before it
// takes all mail that meets them, and not all of the pool's.
func (w *warner) taken(i int) {
	p := &w.c.Pools[i]
	for kind, list := range p.Match.Lists() {
		if len(*list) < 2 {
			continue
		}
		for _, one := range *list {
			narrow := poolLists(&p.Match)
			narrow[kind] = []string{one}
			j := slices.IndexFunc(w.c.Pools[:i], func(before source.Pool) bool {
				lists := poolLists(&before.Match)
				return before.Match.Given() && takesAll(lists, narrow) && !takesAll(lists, poolLists(&p.Match))
			})
			if j >= 0 {
				w.about(fullName(fullName(tablePool, p.Name), kind), "%s has no effect: [pool.%s] before it takes that mail", tomlfile.QuoteText(one), w.c.Pools[j].Name)
			}
		}
	}
}
