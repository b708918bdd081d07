package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/route"
)

// lmtpPort is the port of LMTP where none is written. There is no registered one; port
// 25, where SMTP is spoken, is forbidden (RFC 2033 5).
const lmtpPort = 24

// inetPrefix may begin a nexthop, as in Postfix, for the sake of those that begin with
// mail.SocketPrefix.
const inetPrefix = "inet:"

// lmtpNexthops returns nexthops of LMTP in the form that other packages have: hosts,
// never domains with MX records, with their port. A text that cannot be read stays as it
// is.
func lmtpNexthops(text string) string {
	text = strings.TrimPrefix(strings.TrimSpace(text), inetPrefix)
	list, err := route.ParseNexthops(text)
	if err != nil || strings.HasPrefix(text, mail.SocketPrefix) {
		return text
	}
	for i := range list {
		list[i] = list[i].AsHost(lmtpPort)
	}
	return route.FormatNexthops(list)
}

// transportNexthop is one or more nexthops, or a unix socket.
func transportNexthop() kind[string] {
	k := nexthops()
	k.form += `, "unix:/path" for a unix socket (type lmtp)`
	inner := k.read
	k.read = func(n *tomlfile.Node) (string, *flaw) {
		if n.Kind != tomlfile.KindText || !strings.HasPrefix(n.Text, mail.SocketPrefix) && !strings.HasPrefix(n.Text, inetPrefix) {
			return inner(n)
		}
		s, f := readText(n, "a nexthop")
		if rest, ok := strings.CutPrefix(s, inetPrefix); ok && f == nil {
			if message, hint := explainRoute(s, parseError(rest)); message != "" {
				return "", &flaw{message: message, hint: hint}
			}
		}
		return s, f
	}
	return k
}

func parseError(nexthops string) error {
	_, err := route.ParseNexthops(nexthops)
	return err
}

// checkNexthops complains about nexthops that a transport's type has no use for, and of
// mail that LMTP would have to find a server for.
func (l *loader) checkNexthops() {
	for _, name := range slices.Sorted(maps.Keys(l.c.Transports)) {
		key := fullName(transportTable(name), "nexthop")
		l.checkNexthop(l.c.Transports[name].Type, l.c.Transports[name].Nexthop, key, l.places[key])
	}
	for _, r := range l.rules {
		target := r.Route.Transport + ":" + r.Route.Nexthop
		l.checkTarget(target, r.key, r.at)
	}
	if l.c.RelayHost == "" {
		l.checkTarget(l.c.DefaultTransport, "default_transport", l.places["default_transport"])
	}
}

// checkTarget complains about the target of a route, except for one that is empty, with
// which mail goes as if there were no routes.
func (l *loader) checkTarget(target, key string, at tomlfile.Span) {
	name, nexthop, _ := strings.Cut(target, ":")
	if name == "" && nexthop == "" || l.failed[key] {
		return
	}
	t := l.c.typeOf(target)
	if t == TypeLMTP && nexthop == "" && l.c.Transports[name].Nexthop == "" && !l.failed[fullName(transportTable(name), "nexthop")] {
		l.src.Complain(at, tomlfile.Problem{Key: key, Message: "LMTP needs a nexthop: its servers are not found in the DNS",
			Allowed: `such as "` + name + `:unix:/run/dovecot/lmtp" or "` + name + `:[192.0.2.1]:24"`, Hint: fmt.Sprintf("write it here, or as nexthop in [%s]", transportTable(name))})
		return
	}
	l.checkNexthop(t, nexthop, key, at)
}

// checkNexthop complains about a nexthop that is a unix socket if nothing can be
// delivered there.
func (l *loader) checkNexthop(t TransportType, nexthop, key string, at tomlfile.Span) {
	if l.failed[key] {
		return
	}
	if message, hint := wrongSocket(t, nexthop); message != "" {
		l.src.Complain(at, tomlfile.Problem{Key: key, Message: message, Hint: hint})
	}
}
