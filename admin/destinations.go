package admin

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/posthaste-mta/posthaste/idn"
	"github.com/posthaste-mta/posthaste/internal/near"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

type destinationsInput struct {
	Name   string   `query:"name" maxLength:"512" example:"*.example.com" doc:"A substring of transport:nexthop; or a pattern for all of it, in which * stands for any text. Case does not matter."`
	States []string `query:"state,explode" enum:"ready,opening,full,rate-limited,paused,dead,suspended" maxItems:"7" doc:"Only destinations in these states."`
	Each   bool     `query:"each_source" doc:"A line for each source of a destination, instead of one for all together."`
	Limit  int      `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Maximum number of destinations in the answer."`
	Cursor string   `query:"cursor" maxLength:"2048" doc:"Position to continue from: next of the previous answer. Since the queue changes between requests, a destination may be returned twice or not at all."`
}

type destinationsOutput struct{ Body DestinationPage }

func (s *Server) destinations(ctx context.Context, in *destinationsInput) (*destinationsOutput, error) {
	query := qmgr.DestinationQuery{Match: matchName(in.Name), EachSource: in.Each, Most: in.Limit}
	for _, c := range qmgr.Conditions() {
		if slices.Contains(in.States, c.String()) {
			query.In = append(query.In, c)
		}
	}
	if in.Cursor != "" {
		place, err := parsePlace(in.Cursor)
		if err != nil {
			return nil, unprocessable("query.cursor", clip(in.Cursor), err.Error())
		}
		query.After = &place
	}
	list, err := s.ask(ctx, query)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	page := DestinationPage{Matched: list.Matched, States: map[string]int{}, Destinations: make([]Destination, 0, len(list.Destinations))}
	for c, n := range list.ByCondition {
		if n > 0 {
			page.States[qmgr.Condition(c).String()] = n
		}
	}
	suspended := s.inForce(ctx)
	for i := range list.Destinations {
		d := destinationOf(&list.Destinations[i])
		d.Suspended = ofDestination(suspended, &d)
		page.Destinations = append(page.Destinations, d)
	}
	page.Suspensions = countSuspensions(suspended, nil)
	if n := len(list.Destinations); list.More && n > 0 {
		page.Next = placeText(list.Destinations[n-1].Place())
	}
	return &destinationsOutput{page}, nil
}

// ask returns the core's list of destinations.
func (s *Server) ask(ctx context.Context, query qmgr.DestinationQuery) (qmgr.DestinationList, error) {
	return ask(ctx, func(ctx context.Context) (qmgr.DestinationList, error) { return s.scheduler.Destinations(ctx, query) })
}

// matchName returns a function that reports whether text matches a destination; nil
// if it matches all.
func matchName(text string) func(transport, nexthop string) bool {
	if text == "" {
		return nil
	}
	if text = idn.Nexthop(text); !strings.Contains(text, "*") {
		text = "*" + text + "*"
	}
	p := pattern{kind: matchGlob, parts: strings.Split(strings.ToLower(text), "*")}
	return func(transport, nexthop string) bool { return p.match(transport+":"+nexthop) || p.match(nexthop) }
}

// nothing stands for no source, and for no demand of security, in a position; it is no name of
// one.
const nothing = "*"

// Clients get a position as opaque text.
func placeText(p qmgr.DestinationPlace) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %d %s %s %s %s", p.Todo, p.Condition, cmp.Or(p.Source, nothing), cmp.Or(p.Security, nothing), p.Transport, p.Nexthop))
}

func parsePlace(text string) (p qmgr.DestinationPlace, err error) {
	bad := errors.New("not a cursor returned by this server")
	octets, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return p, bad
	}
	numbers, nexthop, _ := strings.Cut(string(octets), " ")
	condition, rest, _ := strings.Cut(nexthop, " ")
	p.Source, rest, _ = strings.Cut(rest, " ")
	p.Security, rest, _ = strings.Cut(rest, " ")
	p.Source, p.Security = unlessNothing(p.Source), unlessNothing(p.Security)
	p.Transport, p.Nexthop, _ = strings.Cut(rest, " ")
	if _, err := fmt.Sscanf(numbers+" "+condition, "%d %d", &p.Todo, &p.Condition); err != nil || p.Transport == "" {
		return p, bad
	}
	return p, nil
}

type destinationInput struct {
	Name  string `path:"name" maxLength:"1024" doc:"Transport and nexthop with a colon between them, as in a list; or a nexthop that only one transport has; or a substring that only one destination has."`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Maximum number each of hosts, connections and ended connections."`
}

type destinationOutput struct{ Body DestinationDetail }

func (s *Server) destination(ctx context.Context, in *destinationInput) (*destinationOutput, error) {
	names, err := s.meant(ctx, in.Name)
	switch {
	case err != nil:
		return nil, s.problem(ctx, err)
	case len(names) > 1:
		return nil, unprocessable("path.name", clip(in.Name), "ambiguous, several transports have it: "+strings.Join(fullNames(names), ", "))
	case len(names) == 1:
		limited, cancel := context.WithTimeout(ctx, viewTimeout)
		defer cancel()
		view, held, err := s.scheduler.Destination(limited, names[0].Transport, names[0].Nexthop, in.Limit)
		if err != nil {
			return nil, s.problem(ctx, fmt.Errorf("%w: %w", errCore, err))
		}
		if held {
			d := detailOfDestination(&view)
			d.Suspended = ofDestination(s.inForce(ctx), &d.Destination)
			return &destinationOutput{d}, nil
		}
	}
	return nil, s.unknownDestination(ctx, in.Name)
}

// meant returns the destinations that a name stands for: the one with this full name,
// those with this nexthop, or the only one whose name contains it.
func (s *Server) meant(ctx context.Context, name string) ([]mail.Origin, error) {
	list, err := s.ask(ctx, qmgr.DestinationQuery{Most: 10, Match: func(transport, nexthop string) bool {
		return strings.EqualFold(nexthop, name) || strings.EqualFold(transport+":"+nexthop, name)
	}})
	if err != nil || len(list.Destinations) > 0 {
		return originsOf(&list), err
	}
	if transport, nexthop, full := strings.Cut(name, ":"); full && isAddress(nexthop) {
		return []mail.Origin{{Transport: transport, Nexthop: nexthop}}, nil // destdb may remember it
	}
	if list, err = s.ask(ctx, qmgr.DestinationQuery{Most: 2, Match: matchName(name)}); len(list.Destinations) > 1 {
		return nil, err
	}
	return originsOf(&list), err
}

func originsOf(list *qmgr.DestinationList) []mail.Origin {
	var all []mail.Origin
	for i := range list.Destinations {
		all = append(all, mail.Origin{Transport: list.Destinations[i].Transport, Nexthop: list.Destinations[i].Queue.Nexthop})
	}
	return all
}

func fullNames(all []mail.Origin) []string {
	var names []string
	for _, o := range all {
		names = append(names, insteadOf(o))
	}
	return names
}

// nearMax is the maximum number of destinations suggested for an unknown name.
const nearMax = 5

// unknownDestination returns the error for a destination that the core does not
// hold, with suggestions: sites that have mail for it, destinations whose name
// contains it, and those with a similar spelling.
func (s *Server) unknownDestination(ctx context.Context, name string) error {
	all := []struct {
		query qmgr.DestinationQuery
		pick  func([]mail.Origin) []mail.Origin
	}{
		{qmgr.DestinationQuery{Domain: idn.Key(name), Most: nearMax}, nil},
		{qmgr.DestinationQuery{Match: matchName(name), Most: nearMax}, nil},
		{qmgr.DestinationQuery{Most: DestinationsMax}, func(known []mail.Origin) []mail.Origin { return alike(name, known) }},
	}
	text := "unknown destination " + clip(name) + ": no mail in core and no connections"
	for _, one := range all {
		list, err := s.ask(ctx, one.query)
		if err != nil {
			return s.problem(ctx, err)
		}
		found := originsOf(&list)
		if one.pick != nil {
			found = one.pick(found)
		}
		if len(found) > 0 {
			return huma.Error404NotFound(text, &huma.ErrorDetail{Location: "path.name",
				Message: "did you mean " + strings.Join(fullNames(found), " or ") + "?", Value: clip(name)})
		}
	}
	return huma.Error404NotFound(text)
}

// isAddress reports whether a nexthop is an IP address, with or without a port.
func isAddress(nexthop string) bool {
	if _, err := netip.ParseAddrPort(nexthop); err == nil {
		return true
	}
	host, _, _ := strings.Cut(strings.TrimPrefix(nexthop, "["), "]")
	_, err := netip.ParseAddr(host)
	return err == nil
}

// alike returns destinations with a spelling similar to name.
func alike(name string, known []mail.Origin) []mail.Origin {
	byName := map[string]mail.Origin{}
	var names []string
	for _, o := range known {
		if isAddress(o.Nexthop) {
			continue // similar addresses are unrelated
		}
		for _, text := range []string{o.Nexthop, insteadOf(o)} {
			if text = strings.ToLower(text); byName[text] == (mail.Origin{}) {
				byName[text], names = o, append(names, text)
			}
		}
	}
	var found []mail.Origin
	for _, guess := range near.Names(name, names, nearMax) {
		if o := byName[guess]; !slices.Contains(found, o) {
			found = append(found, o)
		}
	}
	return found
}

func unlessNothing(text string) string {
	if text == nothing {
		return ""
	}
	return text
}
