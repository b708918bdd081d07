package route

import (
	"iter"
	"net/netip"
	"strconv"
	"strings"
)

// A Form is the kind of a nexthop's name, which determines how its hosts are found.
type Form uint8

const (
	FormDomain  Form = iota + 1 // "example.com": by MX records
	FormHost                    // "[mail.example.com]": by the addresses of this host
	FormAddress                 // "[192.0.2.1]", "[2001:db8::1]": the address itself
	FormSite                    // "{a.example,b.example;c.example}": by the addresses of these MX hosts
)

// A Nexthop is a parsed nexthop of a transport. Nexthops compare with ==.
type Nexthop struct {
	Form Form
	Name string     // canonical domain or host; for a site the text between the braces; "" for an address
	Addr netip.Addr // FormAddress only
	Port uint16     // 0: the transport's default
}

// String returns the canonical text, which ParseNexthop accepts.
func (n Nexthop) String() string {
	var s string
	switch n.Form {
	case FormDomain:
		s = n.Name
	case FormHost:
		s = "[" + n.Name + "]"
	case FormAddress:
		s = "[" + n.Addr.String() + "]"
	case FormSite:
		s = "{" + n.Name + "}"
	}
	if n.Port != 0 {
		s += ":" + strconv.Itoa(int(n.Port))
	}
	return s
}

// Written reports whether only an operator can have written the nexthop: a domain or an address literal in a recipient's address leads
// to one without a port, and never to a host in brackets; a domain's site has no port either. Others may be an operator's, too.
func (n Nexthop) Written() bool { return n.Form == FormHost || n.Port != 0 }

// AsHost returns the nexthop for a protocol that has no MX records: a domain becomes the
// host of that name. Without a port it gets the given one.
func (n Nexthop) AsHost(port uint16) Nexthop {
	if n.Form == FormDomain {
		n.Form = FormHost
	}
	if n.Port == 0 {
		n.Port = port
	}
	return n
}

// Tiers yields the hosts of a site, tier by tier.
func (n Nexthop) Tiers() iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		if n.Form != FormSite {
			return
		}
		for tier := range strings.SplitSeq(n.Name, ";") {
			if !yield(strings.Split(tier, ",")) {
				return
			}
		}
	}
}

// ParseNexthop parses one nexthop: "domain", "domain:port", "[host]",
// "[host]:port", "[address]", "[address]:port" or a site in braces. A port is a
// number or one of smtp, submission, submissions, smtps and lmtp. Errors are
// *SyntaxError.
func ParseNexthop(text string) (Nexthop, error) {
	bad := func(problem, hint string) (Nexthop, error) {
		return Nexthop{}, &SyntaxError{"nexthop", text, problem, hint}
	}
	switch {
	case text == "":
		return bad("it is empty", "")
	case text[0] == '[':
		return parseEnclosed(text, ']', parseBracketed)
	case text[0] == '{':
		return parseEnclosed(text, '}', parseSite)
	}
	if a, err := netip.ParseAddr(text); err == nil {
		return bad("an address without brackets would be taken for a domain", "write ["+a.String()+"]")
	}
	name, port, hasPort := strings.Cut(text, ":")
	n := Nexthop{Form: FormDomain}
	if hasPort {
		var ok bool
		if n.Port, ok = parsePort(port); !ok {
			return bad(portProblem(port), portHint(name, port))
		}
	}
	canonical, flaw := parseDomain(name)
	if flaw != nil {
		hint := flaw.Hint
		if hint != "" && hasPort {
			hint += ":" + port
		}
		return bad(flaw.Problem, hint)
	}
	n.Name = canonical
	return n, nil
}

// parseEnclosed parses the text inside the brackets, then the port after them.
func parseEnclosed(text string, closing byte, inside func(string) (Nexthop, string)) (Nexthop, error) {
	bad := func(problem, hint string) (Nexthop, error) {
		return Nexthop{}, &SyntaxError{"nexthop", text, problem, hint}
	}
	end := strings.IndexByte(text, closing)
	if end < 0 {
		return bad("the closing "+strconv.QuoteRune(rune(closing))+" is missing", "")
	}
	n, problem := inside(text[1:end])
	if problem != "" {
		return bad(problem, "")
	}
	rest := text[end+1:]
	if rest == "" {
		return n, nil
	}
	if rest[0] != ':' {
		return bad("only a colon and a port may follow "+strconv.QuoteRune(rune(closing)), "")
	}
	port, ok := parsePort(rest[1:])
	if !ok {
		return bad(portProblem(rest[1:]), "")
	}
	n.Port = port
	return n, nil
}

func parseBracketed(inside string) (Nexthop, string) {
	if a, ok := parseLiteral(inside); ok {
		return Nexthop{Form: FormAddress, Addr: a}, ""
	}
	if strings.IndexByte(inside, ':') >= 0 {
		return Nexthop{}, "the text in brackets is neither a host nor an address; a port goes after the brackets"
	}
	name, flaw := parseDomain(inside)
	if flaw != nil {
		return Nexthop{}, flaw.Problem
	}
	return Nexthop{Form: FormHost, Name: name}, ""
}

func parseSite(inside string) (Nexthop, string) {
	if len(inside) > siteLengthMax {
		return Nexthop{}, "it is too long for a site"
	}
	var b strings.Builder
	for i, tier := range strings.Split(inside, ";") {
		if i > 0 {
			b.WriteByte(';')
		}
		for j, host := range strings.Split(tier, ",") {
			name, flaw := parseDomain(host)
			if flaw != nil {
				return Nexthop{}, "host " + strconv.Quote(host) + ": " + flaw.Problem
			}
			if j > 0 {
				b.WriteByte(',')
			}
			b.WriteString(name)
		}
	}
	return Nexthop{Form: FormSite, Name: b.String()}, ""
}

// ParseNexthops parses nexthops separated by commas or white space, to be tried
// in this order, and returns at least one. Commas inside braces do not separate.
func ParseNexthops(list string) ([]Nexthop, error) {
	var all []Nexthop
	for word := range words(list) {
		n, err := ParseNexthop(word)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	if len(all) == 0 {
		return nil, &SyntaxError{"nexthop", list, "it is empty", ""}
	}
	return all, nil
}

// FormatNexthops returns the canonical text of a list, which ParseNexthops
// accepts.
func FormatNexthops(list []Nexthop) string {
	if len(list) == 1 {
		return list[0].String()
	}
	var b strings.Builder
	for i, n := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(n.String())
	}
	return b.String()
}

func words(list string) iter.Seq[string] {
	return func(yield func(string) bool) {
		start, braces := 0, false
		for i := 0; i <= len(list); i++ {
			if i < len(list) {
				switch list[i] {
				case '{':
					braces = true
				case '}':
					braces = false
				}
				if braces || !strings.ContainsRune(", \t\r\n", rune(list[i])) {
					continue
				}
			}
			if i > start && !yield(list[start:i]) {
				return
			}
			start = i + 1
		}
	}
}

// parsePort parses a port number from 1 on, or the name of a mail service. The
// names are the registered ones, and smtps, the common name of submissions
// (RFC 8314 7.3). An LMTP service has no registered port; 24 is the one in use.
func parsePort(text string) (uint16, bool) {
	switch strings.ToLower(text) {
	case "smtp":
		return 25, true
	case "lmtp":
		return 24, true
	case "smtps", "submissions":
		return 465, true
	case "submission":
		return 587, true
	}
	if text == "" || text[0] < '0' || text[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 16)
	return uint16(n), err == nil && n > 0
}

func portProblem(port string) string {
	if port == "" {
		return "the port is missing after the colon"
	}
	return "the port " + strconv.Quote(port) + " is not a number from 1 to 65535 or the name of a mail service"
}

// portHint returns the form to write if "[host]:25" or an IPv6 address was meant.
func portHint(name, port string) string {
	if strings.IndexByte(port, ':') >= 0 {
		return "an IPv6 address goes into brackets: [" + name + ":" + port + "]"
	}
	return ""
}
