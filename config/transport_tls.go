package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/tlspolicy"
)

// protection returns the parameters of TLS to receivers.
func protection() []parameter[Transport] {
	wait := period(time.Second, limit[time.Duration]{min: time.Second, max: time.Hour})
	return []parameter[Transport]{
		transportParameter("tls_security_level", securityLevel(), func(t *Transport) *tlspolicy.Level { return &t.SMTP.Policy.Level },
			"The TLS security level of connections. The level none never uses TLS, may uses it if the server offers it, and encrypt requires it. The next three also demand a certificate: fingerprint one with a digest in tls_fingerprints, verify a valid one for the name of the MX host, and secure a valid one for the domain of the mail. The level dane enforces the host's TLSA records, if it has any, and dane-only sends to no host without them. The level mta-sts is like dane, and enforces the domain's MTA-STS policy for hosts without TLSA records. TLSA records need a name server that validates DNSSEC (see trust_ad under [dns]).",
			"Set it to mta-sts, or to dane if nothing may be fetched by HTTPS; encrypt, verify and secure belong in a [destination.NAME] for receivers that are known to support them.").from("smtp_tls_security_level"),
		transportParameter("tls_wrappermode", flag(), func(t *Transport) *bool { return &t.SMTP.Policy.Implicit },
			"Whether TLS begins with the first byte instead of with STARTTLS, as servers on port 465 expect (RFC 8314). The tls_security_level must be encrypt or stronger. The levels dane and mta-sts then act like encrypt if there are no TLSA records and no MTA-STS policy.",
			"Set it to true, best in a transport of its own, for a relay that is reached at port 465, which must be written in relayhost, the route or nexthop.").from("smtp_tls_wrappermode"),
		transportParameter("tls_match", list(certificateName(), "names"), func(t *Transport) *[]string { return &t.SMTP.Policy.Match },
			"The names that are accepted in the server's certificate with tls_security_level verify or secure. An entry is a name, or .example.com for any name below it, or one of three words: hostname is the MX host, nexthop the domain that the mail is for, and dot-nexthop any name below that domain. Without entries, verify means hostname, and secure means nexthop and dot-nexthop.",
			"Set it for receivers whose servers have a certificate for another name, such as that of their provider.").from("smtp_tls_match"),
		transportParameter("tls_fingerprints", list(fingerprint(), "digests"), func(t *Transport) *[]string { return &t.SMTP.Policy.Fingerprints },
			"The SHA-256 digests that are accepted with tls_security_level fingerprint: that of the server's certificate, or of its public key, must be one of them.",
			"Set it for your own servers with self-signed certificates; openssl x509 -in cert.pem -noout -sha256 -fingerprint prints the digest of one.").from("smtp_tls_fingerprints"),
		transportParameter("tls_ca_file", optional(filePath("/etc/posthaste/authority.pem"), "for the system's"), func(t *Transport) *string { return &t.SMTP.TLS.CAFile },
			"The file of the authorities that may have signed a server's certificate, in PEM form.",
			"Set it for an internal network with an authority of its own.").from("smtp_tls_ca_file"),
		transportParameter("tls_cert_file", optional(filePath("/etc/posthaste/cert.pem"), "for none"), func(t *Transport) *string { return &t.SMTP.TLS.CertFile },
			"The file of our certificate and the authorities that have signed it, in PEM form, for servers that ask for one.",
			"Set it if a relay knows you by your certificate.").from("smtp_tls_cert_file"),
		transportParameter("tls_key_file", optional(filePath("/etc/posthaste/key.pem"), "if it is in tls_cert_file"), func(t *Transport) *string { return &t.SMTP.TLS.KeyFile },
			"The file of the private key of tls_cert_file, which only its owner may be able to read.",
			"Set it if the key is in a file of its own.").from("smtp_tls_key_file"),
		transportParameter("requiretls", flag(), func(t *Transport) *bool { return &t.SMTP.RequireTLS },
			"Whether mail that came with REQUIRETLS (RFC 8689) goes only to servers that offer it too, over TLS and with a valid certificate; transports of type lmtp do not require that.",
			"Set it to false for a relay of your own that does not offer REQUIRETLS, if the rest of the path is secure.").from("smtp_requiretls"),
		transportParameter("starttls_timeout", wait, func(t *Transport) *time.Duration { return &t.SMTP.TLS.HandshakeTimeout },
			"The time limit for the reply to STARTTLS, and for the TLS handshake.",
			"Raise it for receivers behind very slow links.").from("smtp_starttls_timeout").unlike("300s"),
	}
}

// securityLevel is a level of TLS to receivers.
func securityLevel() kind[tlspolicy.Level] {
	var all []word[tlspolicy.Level]
	for _, name := range tlspolicy.Levels() {
		l, _ := tlspolicy.ParseLevel(name)
		all = append(all, word[tlspolicy.Level]{name, l})
	}
	return words(all...)
}

// certificateName is a name in a certificate, or what stands for one.
func certificateName() kind[string] {
	return text("name", `such as "mx.example.com", ".example.com", "hostname", "nexthop" or "dot-nexthop"`, func(s string) (message, hint string) {
		if err := (tlspolicy.Policy{Level: tlspolicy.Verify, Match: []string{s}}).Validate(); err != nil {
			return err.Error(), ""
		}
		return "", ""
	})
}

// fingerprint is the digest of a certificate.
func fingerprint() kind[string] {
	return text("digest", "64 hexadecimal digits, with or without colons", func(s string) (message, hint string) {
		if _, err := tlspolicy.ParseFingerprint(s); err != nil {
			return err.Error(), `openssl x509 -in cert.pem -noout -sha256 -fingerprint prints it`
		}
		return "", ""
	})
}

// filePath is the absolute path of a file. A message quotes such as an example of one.
func filePath(such string) kind[string] {
	return text("path", "such as "+tomlfile.QuoteText(such), func(s string) (message, hint string) {
		if !strings.HasPrefix(s, "/") {
			return tomlfile.QuoteText(s) + " is not an absolute path", "write it from the root: the program may be started in any directory"
		}
		return "", ""
	})
}

// securityRules returns the policies of destinations that have one.
func (c *Config) securityRules() []tlspolicy.Rule {
	var rules []tlspolicy.Rule
	for _, name := range slices.Sorted(maps.Keys(c.Destinations)) {
		if d := c.Destinations[name]; d.Security.Set {
			rules = append(rules, tlspolicy.Rule{Domains: canonicalDomains(d.Domains), Policy: d.policy()})
		}
	}
	return rules
}

// policy returns the destination's TLS policy.
func (d *Destination) policy() tlspolicy.Policy {
	return tlspolicy.Policy{Level: d.Security.Value, Match: d.Match, Fingerprints: digests(d.Fingerprints)}
}

// policy returns the transport's TLS policy.
func (s *SMTP) policy() tlspolicy.Policy {
	p := s.Policy
	p.Fingerprints = digests(p.Fingerprints)
	return p
}

// digests returns fingerprints as policies have them.
func digests(written []string) []string {
	all := make([]string, len(written))
	for i, s := range written {
		all[i], _ = tlspolicy.ParseFingerprint(s) // checked when the file was read
	}
	return all
}

// securityTable returns which TLS policy mail has; nil if all has the default.
func (c *Config) securityTable() *tlspolicy.Table {
	rules, transports, all := c.securityRules(), make(map[string]tlspolicy.Policy), true
	for name, t := range c.Transports {
		if t.Type.connects() {
			transports[name] = t.SMTP.policy()
			all = all && t.SMTP.Policy.Level == tlspolicy.May && !t.SMTP.Policy.Implicit
		}
	}
	if all && len(rules) == 0 {
		return nil
	}
	table, err := tlspolicy.NewTable(transports, rules)
	if err != nil {
		return nil // two destinations have the same domain, which is refused
	}
	return table
}

// SameSecurity reports whether two configurations demand the same of the security of connections to
// receivers. Transports that only one of them has do not count.
func (c *Config) SameSecurity(other *Config) bool {
	for name, t := range c.Transports {
		o, both := other.Transports[name]
		if both && (!reflect.DeepEqual(t.SMTP.policy(), o.SMTP.policy()) || t.SMTP.RequireTLS != o.SMTP.RequireTLS) {
			return false
		}
	}
	return reflect.DeepEqual(c.securityRules(), other.securityRules())
}

// checkSecurity complains about TLS policies that say too much or too little.
func (l *loader) checkSecurity() {
	for _, name := range slices.Sorted(maps.Keys(l.c.Transports)) {
		t := l.c.Transports[name]
		if !t.Type.connects() || !l.checkWrapper(name, &t) {
			continue
		}
		if err := t.SMTP.policy().Validate(); err != nil {
			l.complainOfPolicy(transportTable(name), err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.c.Destinations)) {
		d, table := l.c.Destinations[name], destinationTable(name)
		switch {
		case !d.Security.Set && len(d.Match)+len(d.Fingerprints) > 0:
			l.complain("this table has no tls_security_level for which that would matter", "set tls_security_level too", table+".tls_match", table+".tls_fingerprints", table)
		case !d.Security.Set:
		case len(d.Domains) == 0:
			l.complain("a TLS policy is for domains, because answers of the DNS, which can be forged, say which hosts and networks serve them", "name the receivers in domains", table+".tls_security_level")
		default:
			if err := d.policy().Validate(); err != nil {
				l.complainOfPolicy(table, err)
			}
		}
	}
}

func (l *loader) complainOfPolicy(table string, err error) {
	l.complain(strings.ReplaceAll(err.Error(), "\n", "; "), "", table+".tls_security_level", table+".tls_match", table+".tls_fingerprints", table,
		"smtp_tls_security_level", "smtp_tls_match", "smtp_tls_fingerprints")
}

// records warns of levels that are about TLSA records, where no host has any, as far as the name
// servers are believed: with dane the mail goes as if the level were may, and with dane-only it
// does not go. For mta-sts the records are only one of two ways.
func (w *warner) records() {
	for _, name := range slices.Sorted(maps.Keys(w.c.Transports)) {
		if t := w.c.Transports[name]; t.Type.connects() {
			w.level(w.of(name, "tls_security_level"), t.SMTP.Policy.Level)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.c.Destinations)) {
		if d := w.c.Destinations[name]; d.Security.Set {
			w.level(fullName(destinationTable(name), "tls_security_level"), d.Security.Value)
		}
	}
}

// trustFix is why no TLSA record is believed, and what to do.
const trustFix = "the name servers are not on loopback addresses, and not trusted; set trust_ad under [dns] if they validate DNSSEC and the network to them is safe"

func (w *warner) level(key string, level tlspolicy.Level) {
	switch {
	case level != tlspolicy.DANE && level != tlspolicy.DANEOnly, w.c.Resolve().BelievesAD():
	case level == tlspolicy.DANE:
		w.about(key, "no TLSA record is believed, so it is no more than may: %s", trustFix)
	default:
		w.about(key, "no TLSA record is believed, so no mail is sent: %s", trustFix)
	}
}
