package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/inbound"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/report"
	"github.com/posthaste-mta/posthaste/route"
	"github.com/posthaste-mta/posthaste/smtp"
)

// network is an address prefix, or a single address.
func network() kind[netip.Prefix] {
	return kind[netip.Prefix]{
		name:  "network",
		form:  `such as ["127.0.0.0/8", "192.0.2.7", "2001:db8::/32"]`,
		plain: func(p netip.Prefix) any { return p.String() },
		read: func(n *tomlfile.Node) (netip.Prefix, *flaw) {
			s, f := readText(n, "a network")
			if f != nil {
				return netip.Prefix{}, f
			}
			p, ok := parsePrefix(s)
			switch {
			case !ok:
				return p, &flaw{message: tomlfile.QuoteText(s) + " is not a network", hint: tableHint(s)}
			case p != p.Masked():
				return p, &flaw{message: fmt.Sprintf("%q has bits set after the first %d", s, p.Bits()), hint: "did you mean " + tomlfile.QuoteText(p.Masked().String()) + "?"}
			}
			return p, nil
		},
	}
}

// parsePrefix also accepts a single address, and brackets around IPv6 addresses as
// in Postfix.
func parsePrefix(s string) (netip.Prefix, bool) {
	s = strings.NewReplacer("[", "", "]", "").Replace(s)
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	p, err := netip.ParsePrefix(s)
	return p, err == nil
}

// tableHint returns a hint for a value that is a lookup table of Postfix, or "".
func tableHint(s string) string {
	if kind, _, found := strings.Cut(s, ":"); found && slices.Contains([]string{"hash", "cidr", "texthash", "lmdb", "btree", "regexp", "pcre", "static"}, kind) {
		return "lookup tables are not supported; write the entries here"
	}
	return ""
}

// listener is an address and a port to listen on.
func listener() kind[netip.AddrPort] {
	return kind[netip.AddrPort]{
		name:  "address",
		form:  `such as "127.0.0.1:2525", "[::1]:25", or ":25" for all addresses`,
		plain: func(a netip.AddrPort) any { return a.String() },
		read: func(n *tomlfile.Node) (netip.AddrPort, *flaw) {
			s, f := readText(n, "an address with a port")
			if f != nil {
				return netip.AddrPort{}, f
			}
			host, port := cutPort(s)
			number, err := strconv.ParseUint(port, 10, 16)
			switch {
			case port == "" && host != "":
				return netip.AddrPort{}, &flaw{message: tomlfile.QuoteText(s) + " has no port", hint: portHint(s)}
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
		return "write " + tomlfile.QuoteText(netip.AddrPortFrom(a, 25).String())
	}
	if countDigits(s) == len(s) {
		return "write " + tomlfile.QuoteText(":"+s) + " for all addresses"
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
		return tomlfile.QuoteText(s) + " is not an IP address, with or without a port", ""
	})
}

// address is an IP address of a machine.
func address() kind[netip.Addr] {
	return kind[netip.Addr]{
		name:  "IP address",
		form:  `such as "192.0.2.7" or "2001:db8::7"`,
		plain: func(a netip.Addr) any { return a.String() },
		read: func(n *tomlfile.Node) (netip.Addr, *flaw) {
			s, f := readText(n, "an IP address")
			if f != nil {
				return netip.Addr{}, f
			}
			a, err := netip.ParseAddr(strings.Trim(s, "[]"))
			if err != nil || a.IsUnspecified() {
				return netip.Addr{}, &flaw{message: tomlfile.QuoteText(s) + " is not the IP address of a machine"}
			}
			return a, nil
		},
	}
}

// sourceAddress is the source address of connections; "" lets the system choose it.
func sourceAddress() kind[netip.Addr] {
	k := address()
	k.limits = `or "" to let the system choose`
	inner := k.read
	k.read = func(n *tomlfile.Node) (netip.Addr, *flaw) {
		if n.Kind == tomlfile.KindText && n.Text == "" {
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
			hint = "did you mean " + tomlfile.QuoteText(trimmed) + "?"
		}
		return tomlfile.QuoteText(s) + " is not a domain name", hint
	})
}

// relayDomain is a domain, or all domains below one.
func relayDomain() kind[string] {
	return text("domain", `such as ["example.com", ".example.net"]`, func(s string) (string, string) {
		if _, err := inbound.NewRelayPolicy(inbound.RelayConfig{RelayDomains: []string{s}}); err == nil {
			return "", ""
		}
		if rest, found := strings.CutPrefix(s, "*."); found {
			return tomlfile.QuoteText(s) + " is not a domain", "write " + tomlfile.QuoteText("."+rest) + " for all names below " + rest
		}
		return tomlfile.QuoteText(s) + " is not a domain", tableHint(s)
	})
}

// nexthops is one or more nexthops.
func nexthops() kind[string] {
	return text("nexthop", `"example.com" for its MX hosts, "[mail.example.com]:587" for one host; separate several with commas`,
		func(s string) (string, string) {
			_, err := route.ParseNexthops(s)
			return explainRoute(s, err)
		})
}

// explainRoute splits an error of package route into the message and the hint.
// The message does not quote the whole text, because it is underlined anyway, but
// it quotes a part of it.
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
			return "there is no domain in it", "write " + tomlfile.QuoteText(s+"@example.com") + ", with your own domain"
		case route.Config{Postmaster: a}.Validate() != nil, report.Config{Hostname: "localhost", Postmaster: a}.WithDefaults().Validate() != nil:
			return "this is not a mail address", ""
		}
		return "", ""
	})
}

// sender is a mail address or the null sender, which main.cf also writes as "<>".
func sender() kind[string] {
	k := optional(mailbox(), "for the null sender")
	inner := k.read
	k.read = func(n *tomlfile.Node) (string, *flaw) {
		if n.Kind == tomlfile.KindText && n.Text == "<>" {
			return "", nil
		}
		return inner(n)
	}
	return k
}
