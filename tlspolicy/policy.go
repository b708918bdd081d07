package tlspolicy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Policy is the configured security of connections to some receivers.
type Policy struct {
	Level Level
	// Match, with Verify and Secure, are the names of which the certificate must have one:
	// names, ".example.com" for all below it, and MatchHost, MatchNexthop and MatchBelow. The
	// default is that of the level: MatchHost, or MatchNexthop and MatchBelow.
	Match []string
	// Fingerprints, with Fingerprint, are the SHA-256 digests of which the server's
	// certificate or its public key must have one: 64 hexadecimal digits in lower case.
	Fingerprints []string
	// Implicit has TLS begin with the first octet, in place of STARTTLS (RFC 8314 3.3;
	// smtp_tls_wrappermode). The server must expect that, as on port 465.
	Implicit bool
}

// What stands for a name in Policy.Match.
const (
	MatchHost    = "hostname"    // the MX host's name
	MatchNexthop = "nexthop"     // the domain that mail was routed to
	MatchBelow   = "dot-nexthop" // all names below it
)

// matchMax bounds how many names or digests a policy may have, so that the text of a demand
// stays short.
const matchMax = 8

// Validate returns all that is wrong with the policy, joined; nil if nothing is.
func (p Policy) Validate() error {
	var errs []error
	if p.Level >= levels {
		errs = append(errs, fmt.Errorf("there is no TLS level %d", p.Level))
	}
	if p.Implicit && !p.Level.Encrypts() {
		errs = append(errs, fmt.Errorf("TLS from the first byte (tls_wrappermode) needs a level of at least encrypt, not %v: there is no plaintext to go back to", p.Level))
	}
	if len(p.Match) > 0 && p.Level != Verify && p.Level != Secure {
		errs = append(errs, fmt.Errorf("names to match are for the levels verify and secure, not for %v", p.Level))
	}
	if p.Level == Fingerprint && len(p.Fingerprints) == 0 {
		errs = append(errs, errors.New("level fingerprint needs at least one fingerprint"))
	}
	if len(p.Fingerprints) > 0 && p.Level != Fingerprint {
		errs = append(errs, fmt.Errorf("fingerprints are for the level fingerprint, not for %v", p.Level))
	}
	if len(p.Match) > matchMax || len(p.Fingerprints) > matchMax {
		errs = append(errs, fmt.Errorf("there are more than %d names or fingerprints", matchMax))
	}
	for _, name := range p.Match {
		if !nameLike(name) {
			errs = append(errs, fmt.Errorf("%q is no name of a certificate", name))
		}
	}
	for _, f := range p.Fingerprints {
		if _, err := ParseFingerprint(f); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// A Nexthop has the facts about a nexthop that are known before a connection is opened.
type Nexthop struct {
	Domain   string // that the mail was routed to; "" for a nexthop without one
	SecureMX bool   // its MX records, or that it has none, are protected by DNSSEC
	Enforced bool   // it has an MTA-STS policy in mode enforce
	// MX, with Enforced, are the hosts that may be used, or patterns of them.
	MX []string
}

// Asked returns the policy for mail that asks something of its way (RFC 8689).
//
// REQUIRETLS needs a server that is known by a certificate. Levels that demand one stay; the others
// become mta-sts, with which TLSA records and the domain's policy count.
//
// TLS-Required: No ignores what the receiver's domain demands: dane and mta-sts, which enforce such
// demands, become may. The operator's own demands stay. The header field comes from the sender, and
// encrypt, verify, secure, fingerprint and dane-only are for receivers for which the operator does
// not leave the decision to senders.
func (p Policy) Asked(r mail.TLSRequest) Policy {
	switch p.Level {
	case DANE, STS:
		if r == mail.TLSOptional {
			return p.at(May)
		}
	}
	switch p.Level {
	case None, May, Encrypt, DANE:
		if r == mail.TLSRequired {
			return p.at(STS)
		}
	}
	return p
}

// at returns a policy of another level for the same servers.
func (p Policy) at(l Level) Policy { return Policy{Level: l, Implicit: p.Implicit} }

// NamesFromDNS reports whether the name that a certificate must have comes from MX records.
func (p Policy) NamesFromDNS() bool {
	switch p.Level {
	case Fingerprint:
		return false
	case Verify, Secure:
		return p.Level == Verify && len(p.Match) == 0 || slices.Contains(p.Match, MatchHost)
	}
	return true
}

// Required returns the demand of mail with REQUIRETLS for a nexthop, by the policy that Asked has
// returned, and why the mail cannot be sent there. A reply that is permanent is for good: which hosts
// receive mail for a domain must be known by DNSSEC, or by the domain's policy, or the operator must
// have written a name that they have (RFC 8689 4.2.1, step 2).
func (p Policy) Required(to Nexthop) (Demand, mail.Reply) {
	known := to.SecureMX || !p.NamesFromDNS()
	if !known && to.Enforced && p.Level != DANEOnly {
		p, known = p.at(STS), true // with which hosts that it does not name are not used
	}
	d, why := p.For(to)
	if d.Keyword = KeywordRequired; why.IsZero() && !known {
		why = mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 7, Detail: 10}, Text: "the sender demands REQUIRETLS, and it cannot be known which hosts are those of " +
			to.Domain + ": its MX records are not protected by DNSSEC, and it has no MTA-STS policy in mode enforce"}
	}
	return d, why
}

// For returns what the policy demands for a nexthop. If that can never be met, the reply is not
// zero, and says why. With Implicit, a level without a demand, which a destination or a message may
// have brought, is Encrypt: how TLS begins is a property of the server, and in plaintext it hears nothing.
func (p Policy) For(to Nexthop) (Demand, mail.Reply) {
	if p.Implicit && !p.Level.Encrypts() {
		p.Level = Encrypt
	}
	d := Demand{Level: p.Level, Implicit: p.Implicit}
	switch p.Level {
	case Fingerprint:
		d.Names = slices.Sorted(slices.Values(p.Fingerprints))
	case Verify, Secure:
		d.Names = p.names(to.Domain)
		if p.Level == Secure && len(d.Names) == 0 {
			return d, insecure(5, "level secure needs a domain, or names to match, and the nexthop has none")
		}
	case DANEOnly:
		if !to.SecureMX {
			return d, insecure(5, "level dane-only needs MX records that are protected by DNSSEC, and those of "+to.Domain+" are not")
		}
	case STS:
		if d.Enforced = to.Enforced; d.Enforced {
			d.Names = slices.Sorted(slices.Values(to.MX))
		}
	}
	return d, mail.Reply{}
}

// names returns the names that a certificate must have one of, in order; nil for MatchHost
// alone, which is what Verify means without any.
func (p Policy) names(domain string) []string {
	domain = canonical(domain)
	match := p.Match
	switch {
	case len(match) > 0:
	case p.Level == Verify:
		return nil
	default:
		match = []string{MatchNexthop, MatchBelow}
	}
	var names []string
	for _, m := range match {
		switch m {
		case MatchNexthop:
			m = domain
		case MatchBelow:
			m = "." + domain
		}
		if m != "" && m != "." {
			names = append(names, strings.ToLower(m))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ParseFingerprint returns a SHA-256 digest as 64 hexadecimal digits in lower case; colons
// between the octets, as openssl writes them, are left out.
func ParseFingerprint(text string) (string, error) {
	digest := strings.ToLower(strings.ReplaceAll(text, ":", ""))
	if len(digest) != 64 || strings.Trim(digest, "0123456789abcdef") != "" {
		return "", fmt.Errorf("%q is no SHA-256 digest: it has 64 hexadecimal digits, with or without colons", text)
	}
	return digest, nil
}

// nameLike reports whether a text can be matched with the name of a certificate.
func nameLike(name string) bool {
	if name == "" || len(name) > 254 {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_':
		default:
			return false
		}
	}
	return name != "."
}
