package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/route"
	"github.com/posthaste-mta/posthaste/tlspolicy"
)

// A target is a nexthop in the file whose transport makes connections.
type target struct {
	key       string // the parameter or route that says so
	what      string // in a message: "" for the parameter itself, or what in a file of routes
	transport string
	nexthops  []route.Nexthop // none: the domains of recipients
}

// targets returns where mail goes, as far as the file says it.
func (c *Config) targets() []target {
	var all []target
	add := func(key, what, name, nexthops string) {
		if name == "" {
			name, _, _ = strings.Cut(c.DefaultTransport, ":")
		}
		t := c.Transports[name]
		nexthops = strings.TrimPrefix(strings.TrimSpace(nexthops), inetPrefix)
		if !t.Type.connects() || strings.HasPrefix(nexthops, mail.SocketPrefix) {
			return
		}
		if nexthops == "" && t.Nexthop != "" {
			return // told of the transport
		}
		list, err := route.ParseNexthops(nexthops)
		if err != nil && nexthops != "" {
			return // reported elsewhere
		}
		all = append(all, target{key, what, name, list})
	}
	for _, r := range []struct {
		table  string
		file   bool
		routes []Route
	}{
		{tableRoutes, false, c.Routes}, {tableSenderRoutes, false, c.SenderRoutes},
		{"routes_file", true, c.RouteFiles.routes}, {"sender_routes_file", true, c.RouteFiles.senderRoutes},
	} {
		for _, one := range r.routes {
			name, nexthops, _ := strings.Cut(one.Target, ":")
			switch {
			case name == "" && strings.TrimSpace(nexthops) == "": // as if there were no route
			case r.file:
				add(r.table, "the route of "+one.Pattern, name, nexthops)
			default:
				add(fullName(r.table, one.Pattern), "", name, nexthops)
			}
		}
	}
	name, nexthops, _ := strings.Cut(c.DefaultTransport, ":")
	switch {
	case strings.TrimSpace(nexthops) != "":
		add("default_transport", "", name, nexthops)
	case c.RelayHost != "":
		add("relayhost", "", name, c.RelayHost)
	default:
		add("", "", name, "")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Transports)) {
		t := c.Transports[name]
		if t.Nexthop != "" {
			add(fullName(transportTable(name), "nexthop"), "", name, t.Nexthop)
		}
		if t.SMTP.FallbackRelay != "" {
			add(fullName(transportTable(name), "fallback_relay"), "", name, t.SMTP.FallbackRelay)
		}
	}
	return all
}

// portOfTLS is the port at which servers expect TLS from the first octet (RFC 8314 7.3).
const portOfTLS = 465

// ports warns of nexthops at whose port servers expect TLS first where the transport begins in plaintext, or
// the other way round: such a connection fails only when a time limit has passed.
func (w *warner) ports() {
	for _, to := range w.c.targets() {
		t := w.c.Transports[to.transport]
		key, by := to.key, "transport "+to.transport
		if key == fullName(transportTable(to.transport), "fallback_relay") && !w.c.explicit[key] {
			key, by = w.of(to.transport, "fallback_relay"), map[bool]string{true: "a transport with tls_wrappermode", false: "a transport without tls_wrappermode"}[t.SMTP.Policy.Implicit]
		}
		if to.what != "" && slices.ContainsFunc(w.list, func(one Warning) bool { return one.Key == key }) {
			continue // one line of a file shows what is wrong with the others
		}
		subject := ""
		if to.what != "" {
			subject = to.what + ": "
		}
		if t.SMTP.Policy.Implicit && len(to.nexthops) == 0 {
			if key == "" {
				key = w.of(to.transport, "tls_wrappermode")
			}
			w.about(key, "%smail goes to the domains of its recipients, at port 25, where no server expects TLS first; write a nexthop with port %d, or use a transport without tls_wrappermode", subject, portOfTLS)
		}
		for _, n := range to.nexthops {
			w.port(key, subject+by, &t, n)
		}
	}
	w.plainDestinations()
}

// port is ports for one nexthop.
func (w *warner) port(key, subject string, t *Transport, n route.Nexthop) {
	if n.Port == 0 {
		if n.Port = 25; t.Type == TypeLMTP {
			n.Port = lmtpPort
		}
	}
	switch {
	case n.Port == portOfTLS && !t.SMTP.Policy.Implicit:
		w.about(key, `%s begins in plaintext, and servers expect TLS first at port %d; set tls_wrappermode = true and tls_security_level = "secure" for it, or for a transport of its own, or write port 587`, subject, portOfTLS)
	case t.SMTP.Policy.Implicit && (n.Port == 25 || n.Port == 587 || n.Port == lmtpPort):
		at := n
		at.Port = portOfTLS
		w.about(key, "%s begins with TLS (tls_wrappermode), which servers do not expect at port %d; write %s, or use a transport without tls_wrappermode", subject, n.Port, at)
	}
}

// plainDestinations warns of destinations that are to have no TLS, or none for certain, and have it.
func (w *warner) plainDestinations() {
	for _, name := range slices.Sorted(maps.Keys(w.c.Destinations)) {
		d := w.c.Destinations[name]
		if !d.Security.Set || d.Security.Value.Encrypts() {
			continue
		}
		table, err := tlspolicy.NewTable(nil, []tlspolicy.Rule{{Domains: canonicalDomains(d.Domains), Policy: tlspolicy.Policy{Level: tlspolicy.None}}})
		if err != nil {
			continue // reported elsewhere
		}
		for _, to := range w.c.targets() {
			has := func(n route.Nexthop) bool { return table.Policy("", n.Name).Level == tlspolicy.None }
			if w.c.Transports[to.transport].SMTP.Policy.Implicit && slices.ContainsFunc(to.nexthops, has) {
				w.about(fullName(destinationTable(name), "tls_security_level"), "%q has no effect: transport %s, by which mail goes there, begins with TLS (tls_wrappermode)", d.Security.Value, to.transport)
			}
		}
	}
}

// checkWrapper complains about TLS from the first octet at a level that may do without.
func (l *loader) checkWrapper(name string, t *Transport) bool {
	if !t.SMTP.Policy.Implicit || t.SMTP.Policy.Level.Encrypts() {
		return true
	}
	key := fullName(transportTable(name), "tls_wrappermode")
	if _, own := l.places[key]; !own {
		key = "smtp_tls_wrappermode"
	}
	problem := fmt.Sprintf("TLS from the first byte leaves no plaintext to go back to, and tls_security_level is %q", t.SMTP.Policy.Level)
	if _, told := l.failed[key]; !told {
		l.complain(problem, `set tls_security_level = "secure", or at least "encrypt"`, key)
		l.failed[key] = true
	}
	return false
}
