package tlspolicy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Demand is a policy's demand on connections for one nexthop.
type Demand struct {
	Level Level
	// Names, with Verify and Secure, are those of which the certificate must have one, in
	// order; none with Verify means the MX host's name. With Fingerprint they are digests.
	Names []string
	// Enforced, with STS, means that the domain's policy demands a valid certificate for the
	// MX host's name. Names are the hosts that it names, or patterns of them; none if no other
	// host can come up.
	Enforced bool
	// Implicit means that TLS begins with the first octet (RFC 8314 3.3). The level is then at least
	// Encrypt: there is no plaintext to which anything could fall back.
	Implicit bool
	// Keyword is the demand of a message (RFC 8689).
	Keyword Keyword
	// Credential names that by which we authenticate to the server; "" for none. It may end in "~" and digits, which are
	// others when the name comes to stand for another user.
	Credential string
}

// A Keyword is whether a server must offer REQUIRETLS.
type Keyword uint8

const (
	KeywordNone     Keyword = iota // it does not matter
	KeywordWanted                  // a server that does, and is authenticated, gets it; others get the mail without
	KeywordRequired                // it must, and whatever the level, it must be authenticated
	keywords        = iota
)

// keywordTexts are the endings of demands in text form.
var keywordTexts = [keywords]string{"", "+wants-requiretls", "+requiretls"}

const (
	textEnforced   = "sts"
	textImplicit   = "+implicit"
	textCredential = "+auth="
)

// String returns the demand's text; "" is May.
func (d Demand) String() string {
	text := d.Level.String()
	switch {
	case d.Level == May:
		text = ""
	case d.Enforced:
		text = textEnforced
	}
	if len(d.Names) > 0 {
		text += "=" + strings.Join(d.Names, ",")
	}
	if d.Implicit {
		text += textImplicit
	}
	if d.Credential != "" {
		text += textCredential + d.Credential
	}
	return text + keywordTexts[d.Keyword]
}

// ParseDemand returns the demand of a text that String has returned.
func ParseDemand(text string) (Demand, error) {
	var d Demand
	rest := text
	for k := KeywordWanted; k < keywords; k++ {
		if cut, ok := strings.CutSuffix(rest, keywordTexts[k]); ok {
			rest, d.Keyword = cut, k
			break
		}
	}
	rest, d.Credential, _ = strings.Cut(rest, textCredential)
	rest, d.Implicit = strings.CutSuffix(rest, textImplicit)
	level, names, named := strings.Cut(rest, "=")
	switch level {
	case "":
		d.Level = May
	case textEnforced:
		d.Level, d.Enforced = STS, true
	default:
		var err error
		if d.Level, err = ParseLevel(level); err != nil {
			return Demand{}, err
		}
	}
	if named {
		d.Names = strings.Split(names, ",")
	}
	if !d.sound() || d.String() != text {
		return Demand{}, fmt.Errorf("%q does not say how a connection must be secured", text)
	}
	return d, nil
}

// Word returns a demand's text without the names in it, for a line of the log: "dane", "secure+implicit",
// "may+auth=office" without the digits of a credential. It is "" for mail that demands nothing.
func Word(text string) string {
	if text == "" {
		return ""
	}
	level, rest, more := strings.Cut(text, "+")
	level, _, _ = strings.Cut(level, "=")
	if level == "" {
		level = May.String()
	}
	if !more {
		return level
	}
	if name, digits, labeled := strings.Cut(rest, "~"); labeled {
		_, behind, keyword := strings.Cut(digits, "+")
		if rest = name; keyword {
			rest += "+" + behind
		}
	}
	return level + "+" + rest
}

// sound reports whether the demand has names if its level needs them, and none if it has no use
// for them; a level that goes with TLS from the first octet, if it has that; and a credential that can
// be one.
func (d Demand) sound() bool {
	some := len(d.Names) > 0
	switch {
	case d.Implicit && !d.Level.Encrypts(), strings.Contains(d.Credential, "+"):
		return false
	case d.Level == Fingerprint, d.Level == Secure:
		return some && !slices.Contains(d.Names, "")
	case d.Level == Verify, d.Enforced:
		return !slices.Contains(d.Names, "")
	}
	return !some
}

// Records is the state of the TLSA records of one host (RFC 7672 2.1).
type Records uint8

const (
	RecordsNone     Records = iota // it has no TLSA records, or they are not protected by DNSSEC
	RecordsUsable                  // at least one that can be matched
	RecordsUnusable                // none that can
	RecordsFailed                  // they could not be looked up, or are forged
	recordsStates   = iota
)

// A Use is whether a connection uses TLS.
type Use uint8

const (
	UseNever     Use = iota
	UseIfOffered     // and goes on in plaintext if the handshake fails
	UseAlways
)

// A Check is by what a certificate is judged.
type Check uint8

const (
	CheckNothing     Check = iota // it may be any
	CheckName                     // a valid chain, and one of the names
	CheckFingerprint              // a digest
	CheckTLSA                     // the host's TLSA records
)

// A Requirement is the consequence of a demand for one host.
type Requirement struct {
	Use   Use
	Check Check
	Names []string // CheckName: one of these; none means the host's own. CheckFingerprint: digests
	// Implicit means that the handshake comes first; Use is then UseAlways.
	Implicit bool
	// Keyword is whether the server must offer REQUIRETLS under TLS.
	Keyword Keyword
}

// For returns what the demand comes to for a host of which the DNS has such records. The
// caller need not look them up unless WantsRecords. A reply that is not zero says why the
// host must not be used.
func (d Demand) For(records Records) (Requirement, mail.Reply) {
	r, why := d.base(records)
	if r.Implicit = d.Implicit; d.Implicit && why.IsZero() {
		r.Use = UseAlways
	}
	if r.Keyword = d.Keyword; why.IsZero() && d.Keyword == KeywordRequired {
		r.Use = UseAlways
		if r.Check == CheckNothing {
			r.Check = CheckName
		}
	}
	return r, why
}

func (d Demand) base(records Records) (Requirement, mail.Reply) {
	switch d.Level {
	case None:
		return Requirement{}, mail.Reply{}
	case Encrypt:
		return Requirement{Use: UseAlways}, mail.Reply{}
	case Fingerprint:
		return Requirement{Use: UseAlways, Check: CheckFingerprint, Names: d.Names}, mail.Reply{}
	case Verify, Secure:
		return Requirement{Use: UseAlways, Check: CheckName, Names: d.Names}, mail.Reply{}
	case DANE, DANEOnly, STS:
		return d.byRecords(records)
	}
	return Requirement{Use: UseIfOffered}, mail.Reply{}
}

// byRecords is for the levels at which TLSA records count (RFC 7672 2.2; RFC 8461 2: a
// policy must not make good what they refuse).
func (d Demand) byRecords(records Records) (Requirement, mail.Reply) {
	switch {
	case records == RecordsFailed:
		return Requirement{}, insecure(5, "its TLSA records cannot be looked up")
	case records == RecordsUsable:
		return Requirement{Use: UseAlways, Check: CheckTLSA}, mail.Reply{}
	case d.Level == DANEOnly:
		return Requirement{}, insecure(5, "it has no usable TLSA records, and the level is dane-only")
	case d.Enforced:
		return Requirement{Use: UseAlways, Check: CheckName}, mail.Reply{}
	case records == RecordsUnusable:
		return Requirement{Use: UseAlways}, mail.Reply{}
	}
	return Requirement{Use: UseIfOffered}, mail.Reply{}
}

// Allows reports whether a host may be used at all, by its name.
func (d Demand) Allows(host string) bool {
	return d.Level != STS || len(d.Names) == 0 || slices.ContainsFunc(d.Names, func(pattern string) bool { return MatchName(host, pattern) })
}

// WantsRecords reports whether the host's TLSA records matter.
func (d Demand) WantsRecords() bool { return d.Level == DANE || d.Level == DANEOnly || d.Level == STS }

// insecure is the reply for mail whose demand is not met: it waits. Detail is that of the
// status 4.7.
func insecure(detail uint16, text string) mail.Reply {
	return mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 7, Detail: detail}, Text: text}
}

// MatchName reports whether a name of a certificate, which may begin with "*.", is the one
// wanted, or, if that begins with a dot, any below it. Names are compared without regard to
// case; a star stands for one label (RFC 6125 6.4.3).
func MatchName(want, has string) bool {
	want, has = strings.ToLower(strings.TrimSuffix(want, ".")), strings.ToLower(strings.TrimSuffix(has, "."))
	switch {
	case want == "" || has == "":
		return false
	case strings.HasPrefix(want, "."):
		return len(has) > len(want) && strings.HasSuffix(has, want)
	case strings.HasPrefix(has, "*."):
		_, parent, found := strings.Cut(want, ".")
		return found && parent == has[len("*."):]
	}
	return want == has
}
