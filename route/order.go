package route

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// orderMax is the maximum length in bytes of the route in an operator's order. It is kept with each recipient.
const orderMax = 512

// ParseOrder parses the route of an operator's order (mail.OrderedRoute). It has the form of a rule's target (ParseRule),
// or is a nexthop alone, for the transport named fallback:
//
//	smtp:[relay.example]:587    by transport smtp to a relay
//	slow:                       by transport slow, to the domain of each recipient
//	slow                        likewise
//	[relay.example]:587         a relay
//	relay.example               the MX hosts of this domain
//	discard:                    nowhere; the recipients count as delivered
//
// A word without a dot is a transport, as in a rule. Whether there is such a one is left to the caller. Errors are *SyntaxError.
func ParseOrder(text, fallback string) (mail.Route, error) {
	bad := func(problem, hint string) (mail.Route, error) {
		return mail.Route{}, &SyntaxError{"route", text, problem, hint}
	}
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return bad("it is empty", "write a nexthop such as [relay.example.net]:587, or a transport with a colon")
	case len(text) > orderMax:
		text = strings.ToValidUTF8(text[:60], "") + "…"
		return bad("it is longer than "+strconv.Itoa(orderMax)+" bytes", "")
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return bad("it has control characters", "")
	case strings.Trim(text, ": ") == "":
		return bad("it names neither a transport nor a nexthop", "clear the route to have the configuration decide again")
	}
	if a, err := netip.ParseAddr(text); err == nil { // in an IPv6 address, the colon would end the transport
		return bad("an address without brackets is no nexthop", "write ["+a.String()+"]")
	}
	transport, nexthop, _ := strings.Cut(text, ":")
	if !isTransportName(transport) {
		transport, nexthop = "", text
	}
	r, flaw := parseTarget(transport + ":" + nexthop)
	if flaw != nil {
		return bad(flaw.Problem, flaw.Hint)
	}
	if r.Transport == "" {
		r.Transport = fallback
	}
	return r, nil
}

// WrittenNexthop returns the canonical text of nexthops that lead where these lead, and that are known for an operator's wherever they
// are met (Nexthop.Written). A text that is not one or more nexthops stays as it is.
func WrittenNexthop(nexthops string) string {
	list, err := ParseNexthops(nexthops)
	if err != nil {
		return nexthops // it is empty, or a socket
	}
	for i := range list {
		if !list[i].Written() {
			list[i].Port = smtpPort
		}
	}
	return FormatNexthops(list)
}

// FormatOrder returns the text of an order's route, which Ordered reads.
func FormatOrder(r mail.Route) string {
	if !r.Reply.IsZero() {
		return r.Transport + ":" + strings.TrimSpace(r.Reply.Status.String()+" "+r.Reply.Text)
	}
	return r.Transport + ":" + r.Nexthop
}

// Ordered returns the route of an operator's order for an address. Mail for an invalid address is not sent
// anywhere by an order either.
func (t *Table) Ordered(target string, a mail.Address) mail.Route {
	_, _, domain, problem := t.split(a)
	if problem != "" {
		return unroutable(problem)
	}
	r, flaw := parseTarget(target)
	if flaw != nil || r.Transport == "" { // not what ParseOrder has accepted
		return mail.Route{Transport: TransportRetry, Reply: reply(451, mail.Status{Class: 4, Subject: 3, Detail: 5}, "the route that an operator has ordered is invalid: "+target)}
	}
	if r.Nexthop == "" && r.Reply.IsZero() {
		r.Nexthop = domain
	}
	return r
}
