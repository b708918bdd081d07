package route

import (
	"regexp"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/ascii"
	"github.com/posthaste-mta/posthaste/mail"
)

// Names of transports with a special meaning, as in Postfix.
const (
	TransportError   = mail.TransportError   // recipients fail with the text as their reply
	TransportRetry   = "retry"               // recipients are deferred with the text as their reply
	TransportDiscard = mail.TransportDiscard // recipients count as delivered; nothing is sent
)

// A Pattern is the kind of recipients that a rule matches.
type Pattern uint8

const (
	PatternAddress    Pattern = iota + 1 // "user@example.com": this address
	PatternDomain                        // "example.com" or "[192.0.2.1]": addresses of this domain
	PatternSuffix                        // ".example.com": addresses of any subdomain, not of the domain itself
	PatternAny                           // "*": every address
	PatternExpression                    // "/^a.*@/": addresses in which the regular expression (RE2) is found; case does not matter
	PatternNullSender                    // "<>": the null sender; only of senders
)

// A Rule is one line of the transport table.
type Rule struct {
	Pattern Pattern
	Key     string // the pattern's canonical text, local part folded to lower case
	// Route is the destination of the mail. An empty transport means the default
	// transport, an empty nexthop means the recipient's domain, and both
	// together mean the route that mail would take without any rules.
	Route mail.Route
}

// ParseRule parses "pattern transport:nexthop", the form of Postfix's
// transport(5) tables:
//
//	user@example.com  slow:                the recipient's domain by transport slow
//	example.com       smtp:[relay]:587     a relay
//	.example.com      :[a],[b]             the default transport, two relays in turn
//	[192.0.2.1]       smtp:                an address literal
//	old.example       error:5.1.6 moved    rejected with this text
//	down.example      retry:4.4.1 later    deferred with this text
//	test.example      discard:             accepted and dropped
//	example.net       :                    as if there were no rules
//	/^list-.*@/       bulk:                addresses in which the expression is found
//	*                 smtp:[relay]         everything else
//
// Nexthops are those of ParseNexthops, or "unix:" and a path. Errors are
// *SyntaxError.
func ParseRule(line string) (Rule, error) {
	text := strings.TrimSpace(line)
	pattern, target := text, ""
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		pattern, target = text[:i], strings.TrimSpace(text[i:])
	}
	if pattern == "" || target == "" {
		return Rule{}, &SyntaxError{"transport rule", line, "a pattern and a target are needed", `as in "example.com smtp:[relay.example.net]"`}
	}
	r, flaw := parsePattern(pattern)
	if flaw == nil {
		r.Route, flaw = parseTarget(target)
	}
	if flaw != nil {
		flaw.What, flaw.Text = "transport rule", line
		return Rule{}, flaw
	}
	return r, nil
}

func parsePattern(text string) (Rule, *SyntaxError) {
	if len(text) > 2 && text[0] == '/' && text[len(text)-1] == '/' {
		if _, err := compile(text); err != nil {
			return Rule{}, &SyntaxError{Problem: err.Error(), Hint: "expressions are those of RE2"}
		}
		return Rule{Pattern: PatternExpression, Key: text}, nil
	}
	if text == "*" {
		return Rule{Pattern: PatternAny, Key: text}, nil
	}
	if strings.HasPrefix(text, ".") {
		name, flaw := parseDomain(text[1:])
		return Rule{Pattern: PatternSuffix, Key: "." + name}, flaw
	}
	if strings.HasPrefix(text, "*.") {
		return Rule{}, &SyntaxError{Problem: "a wildcard inside a pattern is not supported", Hint: "write " + text[1:] + " for all subdomains"}
	}
	at := strings.LastIndexByte(text, '@')
	if at == 0 {
		return Rule{}, &SyntaxError{Problem: "the local part is missing", Hint: "write " + text[1:] + " for a whole domain"}
	}
	domain, flaw := parseMailDomain(text[at+1:])
	if flaw != nil {
		return Rule{}, flaw
	}
	if at < 0 {
		return Rule{Pattern: PatternDomain, Key: domain}, nil
	}
	return Rule{Pattern: PatternAddress, Key: ascii.Lower(text[:at]) + "@" + domain}, nil
}

// compile compiles an expression between slashes.
func compile(text string) (*regexp.Regexp, error) {
	return regexp.Compile("(?i)" + text[1:len(text)-1])
}

// ParseSenderRule is ParseRule for patterns of senders, of which "<>" is the null sender.
func ParseSenderRule(line string) (Rule, error) {
	const null = "<>"
	rest, ok := strings.CutPrefix(strings.TrimSpace(line), null)
	if !ok || rest == "" || rest[0] != ' ' && rest[0] != '\t' {
		return ParseRule(line)
	}
	r, err := ParseRule("*" + rest)
	r.Pattern, r.Key = PatternNullSender, null
	return r, err
}

// parseMailDomain returns what follows the "@" of an address in canonical form,
// which for an address literal is the nexthop's.
func parseMailDomain(text string) (string, *SyntaxError) {
	if len(text) < 2 || text[0] != '[' {
		return parseDomain(text)
	}
	if text[len(text)-1] == ']' {
		if a, ok := parseLiteral(text[1 : len(text)-1]); ok {
			return "[" + a.String() + "]", nil
		}
	}
	return "", &SyntaxError{"domain", text, "it is not an address literal", ""}
}

// parseTarget parses "transport:nexthop".
func parseTarget(text string) (mail.Route, *SyntaxError) {
	transport, nexthop, _ := strings.Cut(text, ":")
	nexthop = strings.TrimSpace(nexthop)
	if !isTransportName(transport) {
		flaw := &SyntaxError{Problem: "the target does not begin with the name of a transport"}
		if list, err := ParseNexthops(text); err == nil {
			flaw.Hint = "write :" + FormatNexthops(list) + " for the default transport"
		}
		return mail.Route{}, flaw
	}
	switch transport {
	case TransportError:
		return refusal(transport, nexthop, mail.Reply{Code: 550, Status: mail.Status{Class: 5}, Text: "mail to this address is refused"})
	case TransportRetry:
		return refusal(transport, nexthop, mail.Reply{Code: 450, Status: mail.Status{Class: 4}, Text: "mail to this address is deferred"})
	case TransportDiscard:
		return mail.Route{Transport: transport, Nexthop: mail.CleanText(nexthop)}, nil
	}
	nexthop = strings.TrimPrefix(nexthop, "inet:")
	if nexthop == "" || strings.HasPrefix(nexthop, "unix:") {
		return mail.Route{Transport: transport, Nexthop: nexthop}, nil
	}
	list, err := ParseNexthops(nexthop)
	if err != nil {
		return mail.Route{}, &SyntaxError{Problem: err.Error()}
	}
	return mail.Route{Transport: transport, Nexthop: FormatNexthops(list)}, nil
}

// refusal completes the target of error and retry. Their text may begin with a
// status code, which must have the class of the default.
func refusal(transport, text string, r mail.Reply) (mail.Route, *SyntaxError) {
	if status, rest, ok := mail.ParseStatus(text); ok {
		if status.Class != r.Status.Class {
			return mail.Route{}, &SyntaxError{
				Problem: "status " + status.String() + " has the wrong class for transport " + transport,
				Hint:    "write 5.x.x after error:, 4.x.x after retry:",
			}
		}
		r.Status, text = status, rest
	}
	if text != "" {
		r.Text = mail.CleanText(text)
	}
	return mail.Route{Transport: transport, Reply: r}, nil
}

func isTransportName(s string) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
