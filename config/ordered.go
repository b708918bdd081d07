package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/route"
)

// ParseOrderedRoute parses the route of an operator's order as route.ParseOrder does, and returns its canonical text
// (mail.OrderedRoute). It refuses what Load would refuse in a [[route]]. The transport's own nexthop becomes part of it. The order has
// no place in the configuration, by which its nexthops would be known for the operator's (Config.trusted), so their form tells
// (route.WrittenNexthop).
func (c *Config) ParseOrderedRoute(text string) (target string, err error) {
	fallback, _, _ := strings.Cut(c.DefaultTransport, ":")
	r, err := route.ParseOrder(text, fallback)
	if err != nil {
		return "", err
	}
	bad := func(problem, hint string) (string, error) {
		return "", &route.SyntaxError{What: "route", Text: text, Problem: problem, Hint: hint}
	}
	if _, known := c.Transports[r.Transport]; !known || r.Transport == TransportFeedback {
		names := slices.DeleteFunc(slices.Sorted(maps.Keys(c.Transports)), func(name string) bool { return name == TransportFeedback })
		hint := didYouMean(r.Transport, names)
		host := "[" + r.Transport + "]"
		if _, port, ok := strings.Cut(strings.TrimSpace(text), ":"); ok {
			host += ":" + port
		}
		if list, err := route.ParseNexthops(host); err == nil && hint == "" {
			hint = "write " + route.FormatNexthops(list) + " for a host of that name"
		}
		if hint == "" {
			hint = "it may be one of " + strings.Join(names, ", ")
		}
		return bad(fmt.Sprintf("there is no transport %q", r.Transport), hint)
	}
	if !r.Reply.IsZero() {
		return route.FormatOrder(r), nil
	}
	target = c.withNexthop(route.FormatOrder(r))
	name, nexthop, _ := strings.Cut(target, ":")
	t := c.typeOf(target)
	if t == TypeLMTP && nexthop == "" {
		return bad("LMTP needs a nexthop: its servers are not found in the DNS", `write one, such as "`+r.Transport+`:unix:/run/dovecot/lmtp" or "`+r.Transport+`:[192.0.2.1]:24"`)
	}
	if problem, hint := wrongSocket(t, nexthop); problem != "" {
		return bad(problem, hint)
	}
	if r.Transport == route.TransportDiscard {
		return target, nil
	}
	return name + ":" + route.WrittenNexthop(nexthop), nil
}

// wrongSocket returns why a nexthop that is a unix socket cannot be used by transports of a type; "" if it is none, or can
// be used.
func wrongSocket(t TransportType, nexthop string) (problem, hint string) {
	path, ok := strings.CutPrefix(nexthop, mail.SocketPrefix)
	switch {
	case !ok:
	case t.connects() && t != TypeLMTP:
		return "a transport of type " + t.String() + " cannot use a unix socket", `use a transport of type lmtp, such as "lmtp:` + nexthop + `"`
	case !t.connects():
	case !filepath.IsAbs(path):
		return "the path of the socket is not absolute", "write unix: and a path that begins with a slash"
	case len(path) > socketPathMax:
		return fmt.Sprintf("the path of the socket has %d bytes; that of a unix socket cannot be longer than %d", len(path), socketPathMax), ""
	}
	return "", ""
}
