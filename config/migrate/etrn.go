package migrate

import (
	"slices"
	"strings"
)

// etrn translates the domains whose mail clients may have tried, and which clients. In Postfix the domains are
// $relay_domains unless they are named; here they must be named.
func (t *translation) etrn(listeners []*listener) {
	const none = "ETRN is offered only for the domains of fast_flush_domains, and there is none"
	s := t.get("fast_flush_domains")
	var domains []string
	if s.set {
		for _, d := range t.domainList(s) {
			domains = append(domains, d)
			if below := "." + strings.TrimPrefix(d, "."); below != d && t.matchesSubdomains(s.Name) {
				domains = append(domains, below)
			}
		}
		if len(domains) > 0 {
			slices.Sort(domains)
			t.doc.top.set(s.Name, slices.Compact(domains), s.line())
		} else {
			t.otherwise(none, s.line())
		}
	}
	for _, l := range listeners {
		r, keywords := t.of(l.service, "smtpd_etrn_restrictions"), t.of(l.service, "smtpd_discard_ehlo_keywords")
		use, line := "all", ""
		if r.set && r.text != "" {
			use, line = t.etrnUse(r, lineIn(l.service, r), len(domains) > 0), lineIn(l.service, r)
		}
		if slices.ContainsFunc(keywords.words(), func(word string) bool { return strings.EqualFold(word, "etrn") }) {
			use, line = "off", lineIn(l.service, keywords)
		}
		switch {
		case len(domains) == 0 || l.purpose != "relay":
			t.otherwise(none, line)
		case use == "all":
			t.otherwise("All clients may use ETRN by default", line)
		default:
			l.set("etrn", use, line)
		}
	}
	if r := t.get("smtpd_etrn_restrictions"); r.set {
		t.otherwise(none, r.line())
	}
}

// etrnUse returns which clients restrictions let use ETRN. matters is whether there are domains for it: otherwise nothing
// is lost.
func (t *translation) etrnUse(s setting, line string, matters bool) string {
	trusted := false
	for _, r := range restrictionsIn(s.text) {
		switch r.name {
		case "permit_mynetworks", "permit_sasl_authenticated", "permit_tls_clientcerts":
			trusted = true
		case "permit":
			return "all"
		case "reject", "defer":
			if trusted {
				return "trusted"
			}
			return "off"
		default:
			if matters {
				t.remark(Lost, strings.TrimSpace(r.name+" "+r.argument)+": ETRN is for all clients, or for those that may send anywhere (etrn of a listener), and for the domains of fast_flush_domains.", line)
			}
		}
	}
	return "all"
}
