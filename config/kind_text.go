package config

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/inbound"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/window"
	"github.com/posthaste-mta/posthaste/report"
	"github.com/posthaste-mta/posthaste/route"
	"github.com/posthaste-mta/posthaste/smtp"
)

// expansion is what main.cf replaces by the value of another parameter.
var expansion = regexp.MustCompile(`\$[({]?[A-Za-z_]+`)

// readText reads a text, whatever it is about.
func readText(n *node, want string) (string, *flaw) {
	if n.kind != nodeText {
		f := mismatch(n, want)
		if n.kind == nodeInteger || n.kind == nodeFloat || n.kind == nodeBool {
			f.hint = "write it in quotes: " + quoteText(n.text)
		}
		return "", f
	}
	if found := expansion.FindString(n.text); found != "" {
		return "", &flaw{message: fmt.Sprintf("%s stands for nothing here: parameters are not expanded", found), hint: "write the value itself"}
	}
	if i := strings.IndexFunc(n.text, func(r rune) bool { return r < ' ' || r == 0x7f }); i >= 0 {
		return "", &flaw{message: fmt.Sprintf("there is a control character %q in it", n.text[i])}
	}
	return n.text, nil
}

// text is a text of which check, unless it is nil, says what is wrong.
func text(name, form string, check func(string) (message, hint string)) kind[string] {
	return kind[string]{
		name:  name,
		form:  form,
		plain: func(s string) any { return s },
		read: func(n *node) (string, *flaw) {
			s, f := readText(n, "a "+name)
			if f != nil || check == nil {
				return s, f
			}
			if message, hint := check(s); message != "" {
				return "", &flaw{message: message, hint: hint}
			}
			return s, nil
		},
	}
}

// optional is k with the empty text as a value more.
func optional(k kind[string], empty string) kind[string] {
	inner := k.read
	k.limits = `or "" ` + empty
	k.read = func(n *node) (string, *flaw) {
		if n.kind == nodeText && n.text == "" {
			return "", nil
		}
		return inner(n)
	}
	return k
}

// A word is one of the values of a parameter that has few.
type word[T comparable] struct {
	name  string
	value T
}

// words is a parameter whose values have names.
func words[T comparable](all ...word[T]) kind[T] {
	names := make([]string, len(all))
	for i, w := range all {
		names[i] = w.name
	}
	return kind[T]{
		name:   "word",
		form:   strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1],
		closed: true,
		plain: func(v T) any {
			i := slices.IndexFunc(all, func(w word[T]) bool { return w.value == v })
			if i < 0 {
				return fmt.Sprint(v)
			}
			return all[i].name
		},
		read: func(n *node) (none T, f *flaw) {
			s, f := readText(n, "a word")
			if f != nil {
				return none, f
			}
			if i := slices.Index(names, s); i >= 0 {
				return all[i].value, nil
			}
			return none, &flaw{message: quoteText(s) + " is not one of the words", hint: didYouMean(s, names)}
		},
	}
}

// list is any number of values: a list, or one text with commas or spaces
// between them, as in main.cf.
func list[T any](item kind[T], name string) kind[[]T] {
	return kind[[]T]{
		name:   "list of " + name,
		limits: item.limits,
		form:   item.form,
		plain: func(all []T) any {
			texts := make([]string, len(all))
			for i, v := range all {
				texts[i] = fmt.Sprint(item.plain(v))
			}
			return texts
		},
		read: func(n *node) ([]T, *flaw) {
			if n.kind != nodeList && n.kind != nodeText {
				f := mismatch(n, "a list")
				if n.kind == nodeInteger {
					f.hint = "write [" + quoteText(n.text) + "]"
				}
				return nil, f
			}
			all := []T{}
			var flaws *flaw
			for _, one := range pieces(n) {
				v, f := item.read(one)
				if f != nil {
					if f.at == (span{}) {
						f.at = one.at
					}
					f.next, flaws = flaws, f
				}
				all = append(all, v)
			}
			return all, flaws
		},
	}
}

// pieces returns the values of a list, or of a text that is one.
func pieces(n *node) []*node {
	if n.kind == nodeList {
		return n.items
	}
	var all []*node
	rest, offset := n.text, 0
	for {
		skipped := len(rest) - len(strings.TrimLeft(rest, ", \t"))
		rest, offset = rest[skipped:], offset+skipped
		if rest == "" {
			return all
		}
		length := strings.IndexAny(rest, ", \t")
		if length < 0 {
			length = len(rest)
		}
		one := &node{kind: nodeText, at: n.at, text: rest[:length]}
		if n.at.end-n.at.start == len(n.text)+len(`""`) { // no escapes: offsets are those of the file
			one.at.start = n.at.start + 1 + offset
			one.at.end = one.at.start + length
		}
		all = append(all, one)
		rest, offset = rest[length:], offset+length
	}
}

// network is addresses with a common prefix.
func network() kind[netip.Prefix] {
	return kind[netip.Prefix]{
		name:  "network",
		form:  `such as ["127.0.0.0/8", "192.0.2.7", "2001:db8::/32"]`,
		plain: func(p netip.Prefix) any { return p.String() },
		read: func(n *node) (netip.Prefix, *flaw) {
			s, f := readText(n, "a network")
			if f != nil {
				return netip.Prefix{}, f
			}
			p, ok := parsePrefix(s)
			switch {
			case !ok:
				return p, &flaw{message: quoteText(s) + " is not a network", hint: tableHint(s)}
			case p != p.Masked():
				return p, &flaw{message: fmt.Sprintf("%q has bits set behind the first %d", s, p.Bits()), hint: "did you mean " + quoteText(p.Masked().String()) + "?"}
			}
			return p, nil
		},
	}
}

// parsePrefix also reads an address alone, and brackets around IPv6 as Postfix
// has them.
func parsePrefix(s string) (netip.Prefix, bool) {
	s = strings.NewReplacer("[", "", "]", "").Replace(s)
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	p, err := netip.ParsePrefix(s)
	return p, err == nil
}

// tableHint is for those who used a look-up table of Postfix.
func tableHint(s string) string {
	if kind, _, found := strings.Cut(s, ":"); found && slices.Contains([]string{"hash", "cidr", "texthash", "lmdb", "btree", "regexp", "pcre", "static"}, kind) {
		return "there are no look-up tables; write the entries here"
	}
	return ""
}

// listener is an address and a port to listen on.
func listener() kind[netip.AddrPort] {
	return kind[netip.AddrPort]{
		name:  "address",
		form:  `such as "127.0.0.1:2525", "[::1]:25", or ":25" for all addresses`,
		plain: func(a netip.AddrPort) any { return a.String() },
		read: func(n *node) (netip.AddrPort, *flaw) {
			s, f := readText(n, "an address with a port")
			if f != nil {
				return netip.AddrPort{}, f
			}
			host, port := cutPort(s)
			number, err := strconv.ParseUint(port, 10, 16)
			switch {
			case port == "" && host != "":
				return netip.AddrPort{}, &flaw{message: quoteText(s) + " has no port", hint: portHint(s)}
			case err != nil:
				return netip.AddrPort{}, &flaw{message: fmt.Sprintf("the port %q is not a number from 0 to 65535", port)}
			}
			if host == "" || host == "*" {
				return netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(number)), nil
			}
			a, err := netip.ParseAddr(strings.Trim(host, "[]"))
			if err != nil {
				hint := ""
				if host == "localhost" {
					hint = "write 127.0.0.1 or [::1]"
				}
				return netip.AddrPort{}, &flaw{message: fmt.Sprintf("%q is not an IP address", host), hint: hint}
			}
			return netip.AddrPortFrom(a, uint16(number)), nil
		},
	}
}

func cutPort(s string) (host, port string) {
	colon := strings.LastIndexByte(s, ':')
	if colon < 0 || strings.HasSuffix(s, "]") || strings.Count(s, ":") > 1 && s[0] != '[' {
		return s, ""
	}
	return s[:colon], s[colon+1:]
}

func portHint(s string) string {
	if a, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return "write " + quoteText(netip.AddrPortFrom(a, 25).String())
	}
	if countDigits(s) == len(s) {
		return "write " + quoteText(":"+s) + " for all addresses"
	}
	return ""
}

// nameServer is the address of a name server.
func nameServer() kind[string] {
	return text("address", `such as ["192.0.2.53", "[2001:db8::53]:5353"]`, func(s string) (string, string) {
		if _, err := netip.ParseAddr(s); err == nil {
			return "", ""
		}
		if ap, err := netip.ParseAddrPort(s); err == nil && ap.Port() > 0 {
			return "", ""
		}
		return quoteText(s) + " is not an IP address, with or without a port", ""
	})
}

// address is an IP address of a machine.
func address() kind[netip.Addr] {
	return kind[netip.Addr]{
		name:  "IP address",
		form:  `such as "192.0.2.7" or "2001:db8::7"`,
		plain: func(a netip.Addr) any { return a.String() },
		read: func(n *node) (netip.Addr, *flaw) {
			s, f := readText(n, "an IP address")
			if f != nil {
				return netip.Addr{}, f
			}
			a, err := netip.ParseAddr(strings.Trim(s, "[]"))
			if err != nil || a.IsUnspecified() {
				return netip.Addr{}, &flaw{message: quoteText(s) + " is not the IP address of a machine"}
			}
			return a, nil
		},
	}
}

// sourceAddress is the address that connections come from; "" leaves it to the system.
func sourceAddress() kind[netip.Addr] {
	k := address()
	k.limits = `or "" to let the system choose`
	inner := k.read
	k.read = func(n *node) (netip.Addr, *flaw) {
		if n.kind == nodeText && n.text == "" {
			return netip.Addr{}, nil
		}
		return inner(n)
	}
	k.plain = func(a netip.Addr) any {
		if !a.IsValid() {
			return ""
		}
		return a.String()
	}
	return k
}

// domain is a host or domain name.
func domain() kind[string] {
	return text("domain name", `such as "mail.example.com"`, func(s string) (string, string) {
		if smtp.ValidDomain(s) {
			return "", ""
		}
		hint := ""
		if trimmed := strings.Trim(s, ". "); trimmed != s && smtp.ValidDomain(trimmed) {
			hint = "did you mean " + quoteText(trimmed) + "?"
		}
		return quoteText(s) + " is not a domain name", hint
	})
}

// relayDomain is a domain, or all below one.
func relayDomain() kind[string] {
	return text("domain", `such as ["example.com", ".example.net"]`, func(s string) (string, string) {
		if _, err := inbound.NewRelayPolicy(inbound.RelayConfig{RelayDomains: []string{s}}); err == nil {
			return "", ""
		}
		if rest, found := strings.CutPrefix(s, "*."); found {
			return quoteText(s) + " is not a domain", "write " + quoteText("."+rest) + " for all names below " + rest
		}
		return quoteText(s) + " is not a domain", tableHint(s)
	})
}

// footer is a text of any number of lines.
func footer() kind[string] {
	return kind[string]{
		name:  "text",
		form:  `lines are separated by \n`,
		plain: func(s string) any { return s },
		read: func(n *node) (string, *flaw) {
			if n.kind != nodeText {
				_, f := readText(n, "a text")
				return "", f
			}
			s := strings.ReplaceAll(n.text, "\r\n", "\n")
			if i := strings.IndexFunc(s, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }); i >= 0 {
				return "", &flaw{message: fmt.Sprintf("there is a control character %q in it", s[i])}
			}
			return s, nil
		},
	}
}

// nexthops is one or more places to send mail to.
func nexthops() kind[string] {
	return text("nexthop", `"example.com" for its MX hosts, "[mail.example.com]:587" for one host; several with commas between them`,
		func(s string) (string, string) {
			_, err := route.ParseNexthops(s)
			return explainRoute(s, err)
		})
}

// explainRoute returns what package route says about a text, its guess apart.
// The text itself is left out, because it is underlined; a part of it is not.
func explainRoute(whole string, err error) (message, hint string) {
	var wrong *route.SyntaxError
	switch {
	case err == nil:
		return "", ""
	case !errors.As(err, &wrong):
		return err.Error(), ""
	case wrong.Text == whole:
		return wrong.Problem, wrong.Hint
	}
	return fmt.Sprintf("%.80q: %s", wrong.Text, wrong.Problem), wrong.Hint
}

// mailbox is a mail address.
func mailbox() kind[string] {
	return text("mail address", `such as "postmaster@example.com"`, func(s string) (string, string) {
		a := mail.Address(s)
		switch {
		case a.Domain() == "":
			return "there is no domain in it", "write " + quoteText(s+"@example.com") + ", with your own domain"
		case route.Config{Postmaster: a}.Validate() != nil, report.Config{Hostname: "localhost", Postmaster: a}.WithDefaults().Validate() != nil:
			return "this is not a mail address", ""
		}
		return "", ""
	})
}

// feedback is how much one delivery counts.
func feedback() kind[window.Feedback] {
	return kind[window.Feedback]{
		name: "feedback", closed: true,
		form:  `a number from 0 to 1, a fraction such as "1/8", "1/concurrency" or "1/sqrt_concurrency"`,
		plain: func(f window.Feedback) any { return f.String() },
		read: func(n *node) (window.Feedback, *flaw) {
			if n.kind != nodeText && n.kind != nodeInteger && n.kind != nodeFloat {
				return window.Feedback{}, mismatch(n, "feedback")
			}
			v, err := window.ParseFeedback(n.text)
			if err != nil {
				reason, _, _ := strings.Cut(err.Error(), ";") // what follows is in form
				return v, &flaw{message: reason}
			}
			return v, nil
		},
	}
}
