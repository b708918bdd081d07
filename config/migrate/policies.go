package migrate

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/config/maincf"
	"github.com/posthaste-mta/posthaste/route"
	"github.com/posthaste-mta/posthaste/tlspolicy"
)

// policyMaps translates smtp_tls_policy_maps to destinations: one for each policy, with all domains that
// have it.
func (t *translation) policyMaps() {
	s := t.get("smtp_tls_policy_maps")
	if s.text == "" {
		if s.set {
			t.notNeeded("No domain has a policy of its own", s.line())
		}
		return
	}
	tables, ok := t.tables(s)
	if !ok {
		return
	}
	names := make(map[string]string) // of destinations, by policy
	seen := make(map[string]bool)    // domains
	for _, one := range tables {
		switch {
		case isMTASTS(one):
			if l := t.doc.top.get("smtp_tls_security_level"); l != nil && l.value == `"mta-sts"` {
				t.different(s, "%s is taken for a server of MTA-STS policies, which this program fetches itself (smtp_tls_security_level = \"mta-sts\").", one.String())
			} else {
				t.lost(s, "%s is taken for a server of MTA-STS policies. This program fetches these itself with smtp_tls_security_level = \"mta-sts\", and the level is another one.", one.String())
			}
			continue
		case one.IsText() || one.Type == maincf.TypeInline:
		default:
			t.lost(s, "%s: %s. Write a [destination.NAME] with domains and tls_security_level for each policy.", one.String(), external(one))
			continue
		}
		for _, p := range t.keys(s, one) {
			line := s.line()
			if p.Line > 0 {
				line = cut(fmt.Sprintf("%s:%d: %s %s", path.Base(one.Name), p.Line, p.Key, p.Value))
			}
			domain, ok := policyDomain(p.Key)
			if !ok {
				t.remark(Lost, fmt.Sprintf("%q is not a domain or host.", p.Key), line)
				continue
			}
			if !seen[domain] {
				seen[domain] = true
				t.policy(names, domain, p.Value, line, s.line())
			}
		}
	}
}

// policyDomain returns the domain of a key: that of a nexthop, or .domain.
func policyDomain(key string) (string, bool) {
	if strings.HasPrefix(key, ".") {
		_, err := route.ParseDomain(key[1:])
		return key, err == nil
	}
	n, err := route.ParseNexthop(key)
	if err != nil || n.Form == route.FormAddress {
		return "", false
	}
	return n.Name, true
}

// policy adds a domain to the destination that has its policy.
func (t *translation) policy(names map[string]string, domain, text, line, parameter string) {
	words := strings.Fields(text)
	level := strings.ToLower(words[0])
	if !slices.Contains(tlspolicy.Levels(), level) {
		t.remark(NotUnderstood, fmt.Sprintf("%q is not a security level.", words[0]), line)
		return
	}
	var match, prints []string
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		switch {
		case name == "match" && level == "fingerprint":
			prints = append(prints, t.fingerprints(strings.ReplaceAll(value, "|", " "), line)...)
		case name == "match":
			match = append(match, strings.FieldsFunc(value, func(r rune) bool { return r == ':' || r == ',' })...)
		case name == "protocols" && (lowestTLS(value) == "1.0" || lowestTLS(value) == "1.1" || lowestTLS(value) == "1.2"):
		case name == "servername":
			t.remark(Different, "The name in the TLS handshake is always that of the host, or of the domain for level secure.", line)
		default:
			t.remark(Lost, fmt.Sprintf("%s cannot be set for a destination: versions of TLS and ciphers are those of Go's crypto/tls, from TLS 1.2 on.", name), line)
		}
	}
	policy := strings.Join(slices.Concat([]string{level}, match, []string{"|"}, prints), " ")
	name, known := names[policy]
	if !known {
		name = "tls-" + level
		for n := 2; t.doc.find("destination", name) != nil; n++ {
			name = fmt.Sprintf("tls-%s-%d", level, n)
		}
		names[policy] = name
		one := t.doc.table("destination", name)
		one.origins = nonEmpty(parameter)
		one.set("domains", []string{domain}, line)
		one.set("tls_security_level", level)
		if len(match) > 0 {
			one.set("tls_match", match)
		}
		if len(prints) > 0 {
			one.set("tls_fingerprints", prints)
		}
		t.policies[name] = []string{domain}
		return
	}
	t.policies[name] = append(t.policies[name], domain)
	l := t.doc.table("destination", name).get("domains")
	l.value = literal(t.policies[name])
	l.add(line)
}
