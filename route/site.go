package route

import (
	"slices"
	"strings"
)

// Limits of a site's text. It is a queue's name, so it must be short enough to read
// and to keep in large numbers.
const (
	siteLengthMax = 512
	siteHostsMax  = 16
)

// Site returns the nexthop shared by all domains with the same MX records, so that
// they share a queue, its window and its connections. ok is false if there is no such
// nexthop: without MX records, with a null MX, or with more hosts than a name should
// contain. Then the domain is the nexthop.
//
// The nexthop names the hosts themselves instead of one of the domains. A
// representative domain would be shorter, but if its records changed, the mail of
// all the others would follow it to hosts that do not know them.
//
// The order of the preferences counts, not their values: "10 a, 20 b" and
// "1 a, 2 b" are the same site. Records that can never be used are left out, as in
// NewPlan.
func Site(records []MX) (Nexthop, bool) {
	hosts := usableRecords(records)
	if len(hosts) == 0 || len(hosts) > siteHostsMax {
		return Nexthop{}, false
	}
	slices.SortFunc(hosts, func(a, b MX) int {
		if a.Preference != b.Preference {
			return int(a.Preference) - int(b.Preference)
		}
		return strings.Compare(a.Name, b.Name)
	})
	var b strings.Builder
	for i, h := range hosts {
		switch {
		case i == 0:
		case h.Preference != hosts[i-1].Preference:
			b.WriteByte(';')
		default:
			b.WriteByte(',')
		}
		b.WriteString(h.Name)
	}
	if b.Len() > siteLengthMax {
		return Nexthop{}, false
	}
	return Nexthop{Form: FormSite, Name: b.String()}, true
}

// Records returns a site's hosts as MX records, the tiers numbered from 1.
func (n Nexthop) Records() []MX {
	var all []MX
	preference := uint16(0)
	for tier := range n.Tiers() {
		preference++
		for _, host := range tier {
			all = append(all, MX{Preference: preference, Name: host})
		}
	}
	return all
}

// KeepHosts returns a site with only those hosts that keep wants, in the same order; "" if
// there are none.
func KeepHosts(site string, keep func(host string) bool) string {
	n, err := ParseNexthop(site)
	if err != nil || n.Form != FormSite {
		return ""
	}
	var tiers []string
	for tier := range n.Tiers() {
		var hosts []string
		for _, host := range tier {
			if keep(host) {
				hosts = append(hosts, host)
			}
		}
		if len(hosts) > 0 {
			tiers = append(tiers, strings.Join(hosts, ","))
		}
	}
	if len(tiers) == 0 {
		return ""
	}
	n.Name = strings.Join(tiers, ";")
	return n.String()
}

// HostsOf returns the hosts of a site, the best first; nil for what is no site.
func HostsOf(site string) []string {
	n, err := ParseNexthop(site)
	if err != nil {
		return nil
	}
	var all []string
	for tier := range n.Tiers() {
		all = append(all, tier...)
	}
	return all
}
