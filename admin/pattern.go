package admin

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"github.com/posthaste-mta/posthaste/idn"
	"github.com/posthaste-mta/posthaste/mail"
)

// patternMax is the maximum length of a pattern, in octets.
const patternMax = 512

// Patterns are those of one condition, which is met if one of them matches, or if there
// is none.
type patterns []pattern

func (p patterns) match(text string) bool {
	for i := range p {
		if p[i].match(text) {
			return true
		}
	}
	return len(p) == 0
}

// matchDomain reports whether one of the ways of writing a domain matches: what is asked for with U-labels is found with A-labels,
// and the reverse.
func (p patterns) matchDomain(domain string) bool {
	return p.matchSpellings("", domain)
}

// matchAddress is matchDomain for an address.
func (p patterns) matchAddress(address mail.Address) bool {
	domain := address.Domain()
	return p.matchSpellings(string(address[:len(address)-len(domain)]), domain)
}

func (p patterns) matchSpellings(local, domain string) bool {
	if p.match(local + domain) {
		return true
	}
	ascii, unicode := idn.Others(domain)
	return ascii != "" && (p.match(local+ascii) || p.match(local+unicode))
}

// parsePatterns reads the patterns of one condition. The error joins fieldErrors.
func parsePatterns(field string, texts []string, parse func(string) (pattern, error)) (all patterns, err error) {
	for _, text := range texts {
		p, one := parsePattern(text, parse)
		if one != nil {
			err = errors.Join(err, &fieldError{field, text, one})
		}
		all = append(all, p)
	}
	return all, err
}

// A matchKind is how a pattern matches.
type matchKind uint8

const (
	matchNull       matchKind = iota + 1 // the null sender, or what is not classified
	matchDomainOf                        // all of a domain
	matchSubdomains                      // a domain and its subdomains
	matchPart                            // a part of the text
	matchGlob                            // literal text between stars
	matchRegexp                          // a regular expression
	matchNetwork                         // an address in a network
)

// A pattern matches text without regard to case, in time proportional to its length:
// stars match at the first place that will do, and regular expressions are those of RE2,
// which never backtrack.
type pattern struct {
	kind  matchKind
	parts []string       // matchGlob: the text between the stars
	text  string         // matchDomainOf, matchSubdomains: the domain; matchPart: the part
	re    *regexp.Regexp // matchRegexp

	network netip.Prefix // matchNetwork
}

func (p *pattern) match(text string) bool {
	switch p.kind {
	case matchNull:
		return text == ""
	case matchDomainOf:
		return strings.EqualFold(mail.Address(text).Domain(), p.text)
	case matchRegexp:
		return p.re.MatchString(text)
	case matchNetwork:
		a, err := netip.ParseAddr(text)
		return err == nil && p.network.Contains(a.Unmap().WithZone(""))
	}
	text = strings.ToLower(text)
	switch p.kind {
	case matchSubdomains:
		return text == p.text || strings.HasSuffix(text, "."+p.text)
	case matchPart:
		return strings.Contains(text, p.text)
	}
	return p.glob(text)
}

// glob reports whether text, in lower case, matches literal text between stars.
func (p *pattern) glob(text string) bool {
	first, last := p.parts[0], p.parts[len(p.parts)-1]
	if len(p.parts) == 1 {
		return text == first
	}
	rest, ok := strings.CutPrefix(text, first)
	if !ok || !strings.HasSuffix(rest, last) {
		return false
	}
	rest = rest[:len(rest)-len(last)]
	for _, part := range p.parts[1 : len(p.parts)-1] {
		if _, rest, ok = strings.Cut(rest, part); !ok {
			return false
		}
	}
	return true
}

// parsePattern reads a pattern: a regular expression between slashes, or what parse reads.
// A condition that cannot be met is an error: it must not look like one that no message
// happens to meet.
func parsePattern(text string, parse func(string) (pattern, error)) (pattern, error) {
	switch {
	case strings.TrimSpace(text) == "":
		return pattern{}, errors.New("empty pattern")
	case len(text) > patternMax:
		return pattern{}, fmt.Errorf("it has %d octets, and may have %d", len(text), patternMax)
	case text == "//":
		return pattern{}, errors.New("empty regular expression")
	case len(text) > 2 && text[0] == '/' && text[len(text)-1] == '/':
		re, err := regexp.Compile("(?i)" + text[1:len(text)-1])
		if _, as := regexp.Compile(text[1 : len(text)-1]); err != nil && as != nil {
			err = as // it quotes what was written
		}
		if err != nil {
			return pattern{}, fmt.Errorf("not a regular expression (RE2): %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		}
		return pattern{kind: matchRegexp, re: re}, nil
	}
	return parse(text)
}

func newGlob(text string) pattern {
	return pattern{kind: matchGlob, parts: strings.Split(strings.ToLower(text), "*")}
}

// parseGlob reads the pattern of a class, a tenant, a flow, or the class of a reply.
func parseGlob(text string) (pattern, error) {
	if text == "-" {
		return pattern{kind: matchNull}, nil
	}
	return newGlob(text), nil
}

// parsePart reads a part of a text.
func parsePart(text string) (pattern, error) {
	return pattern{kind: matchPart, text: strings.ToLower(text)}, nil
}

func parseSender(text string) (pattern, error) {
	if text == "<>" {
		return pattern{kind: matchNull}, nil
	}
	return parseAddress(text)
}

func parseRecipient(text string) (pattern, error) {
	if text == "<>" {
		return pattern{}, errors.New("a recipient is never the null address")
	}
	return parseAddress(text)
}

// parseAddress reads the pattern of an address.
func parseAddress(text string) (pattern, error) {
	switch {
	case len(text) > 2 && text[0] == '<' && text[len(text)-1] == '>':
		return pattern{}, fmt.Errorf("write it without <>: %s", text[1:len(text)-1])
	case !strings.Contains(text, `"`) && strings.ContainsAny(text, ", \t;"):
		return pattern{}, errors.New("give one address or pattern, not a list; for more, repeat the condition")
	case text == "@":
		return pattern{}, errors.New("want @domain")
	case strings.HasPrefix(text, "@."):
		return pattern{}, fmt.Errorf("write @domain for a domain, or *%s for its subdomains", text[1:])
	case text[0] == '@':
		if err := checkDomain(strings.ReplaceAll(text[1:], "*", "x")); err != nil {
			return pattern{}, err
		}
		if !strings.Contains(text, "*") {
			return pattern{kind: matchDomainOf, text: idn.Key(text[1:])}, nil
		}
	case !strings.ContainsAny(text, "@*") && strings.Contains(text, "."):
		return pattern{}, fmt.Errorf("write an address, or @%s for the whole domain", text)
	}
	if at := strings.LastIndexByte(text, '@') + 1; at > 0 && !strings.Contains(text[at:], "*") {
		text = text[:at] + idn.Key(text[at:])
	}
	return newGlob(text), nil // possibly an address without a domain, such as postmaster
}

// parseDomain reads the pattern of a domain.
func parseDomain(text string) (pattern, error) {
	name, subdomains := strings.CutPrefix(text, ".")
	literal := strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]")
	if literal && !strings.ContainsAny(text, " ,*@") {
		return newGlob(text), nil
	}
	if subdomains && strings.Contains(name, "*") {
		return pattern{}, fmt.Errorf("write *.%s for its subdomains", name)
	}
	if err := checkDomain(strings.ReplaceAll(name, "*", "x")); err != nil {
		return pattern{}, err
	}
	if subdomains {
		return pattern{kind: matchSubdomains, text: idn.Key(name)}, nil
	}
	if !strings.Contains(text, "*") {
		text = idn.Key(text)
	}
	return newGlob(text), nil
}

// checkDomain returns why name is not a domain.
func checkDomain(name string) error {
	if name == "" || strings.ContainsAny(name, " \t,;*@<>[]()\"\\/") || strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") || strings.Contains(name, "..") {
		return errors.New("give one domain such as example.net, or .example.net to include its subdomains; for more, repeat the condition")
	}
	return nil
}
