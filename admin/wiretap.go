package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/posthaste-mta/posthaste/internal/event"
	"github.com/posthaste-mta/posthaste/internal/wiretap"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A WiretapFilter selects connections to receivers. Conditions of different kinds must all be met, of those of one kind any.
type WiretapFilter struct {
	Site      []string `query:"site,explode" maxItems:"100" doc:"The nexthop that the connection is opened for, as in /v1/destinations; braces and brackets around it may be left out. Here and below: * is any text, /…/ a regular expression (RE2), and case does not matter."`
	Host      []string `query:"host,explode" maxItems:"100" doc:"A part of name[address]:port, or of unix:/path, in which a star is a star; or /RE2/."`
	Source    []string `query:"source,explode" maxItems:"100" doc:"The source."`
	Transport []string `query:"transport,explode" maxItems:"100" doc:"The transport."`
	Count     int      `query:"count" minimum:"0" maximum:"1000000" doc:"Show so many connections; 0: all."`
	Lines     int      `query:"lines" minimum:"0" maximum:"1000" default:"5" doc:"The number of lines of each message that are shown."`
}

type wiretapInput struct {
	WiretapFilter
	Accept string `header:"Accept" doc:"With text/event-stream: as server-sent events."`
}

// parse returns a function that reports whether a connection meets the conditions. The error joins fieldErrors.
func (f *WiretapFilter) parse() (func(wiretap.Connection) bool, error) {
	site, err1 := parsePatterns("site", f.Site, parseSite)
	host, err2 := parsePatterns("host", f.Host, parsePart)
	source, err3 := parsePatterns("source", f.Source, parseGlob)
	transport, err4 := parsePatterns("transport", f.Transport, parseGlob)
	return func(c wiretap.Connection) bool {
		return (len(site) == 0 || site.matchSite(c.Nexthop)) && host.match(c.Host) && source.match(c.Source) && transport.match(c.Transport)
	}, errors.Join(err1, err2, err3, err4)
}

// watch streams what connections to receivers say (package wiretap), each line a [wiretap.Record], until the client goes.
func (s *Server) watch(ctx context.Context, in *wiretapInput) (*huma.StreamResponse, error) {
	if s.cfg.Wiretap == nil {
		return nil, huma.Error404NotFound("no connections can be watched here")
	}
	wants, err := in.parse()
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	return s.streamRecords(ctx, in.Accept, "trace smtp", s.unknownSites(ctx, in.Site), func() (*wiretap.Watcher, error) {
		return s.cfg.Wiretap.Watch(wants, in.Count, in.Lines)
	})
}

// A VisitFilter selects sessions of clients. Conditions of different kinds must all be met, of those of one kind any.
type VisitFilter struct {
	Listener  []string `query:"listener,explode" maxItems:"100" doc:"The name of the listener. Here and below: * is any text, /…/ a regular expression (RE2), and case does not matter."`
	Client    []string `query:"client,explode" maxItems:"100" doc:"The client's address, a network such as 192.0.2.0/24, or local for programs on this machine."`
	Sender    []string `query:"sender,explode" maxItems:"100" doc:"A sender of the session, also one that was refused; @example.com is its whole domain, <> the null sender. The session is shown from a few lines before on."`
	Recipient []string `query:"recipient,explode" maxItems:"100" doc:"A recipient of the session, also one that was refused; @example.com is its whole domain. With sender, one of a message that has both."`
	Count     int      `query:"count" minimum:"0" maximum:"1000000" doc:"Show so many sessions; 0: all."`
	Lines     int      `query:"lines" minimum:"0" maximum:"1000" default:"5" doc:"The number of lines of each message that are shown."`
}

type visitInput struct {
	VisitFilter
	Accept string `header:"Accept" doc:"With text/event-stream: as server-sent events."`
}

// parse returns a function for [wiretap.Hub.WatchVisits]. The error joins fieldErrors.
func (f *VisitFilter) parse() (func(*wiretap.Visit) wiretap.Choice, error) {
	listener, err1 := parsePatterns("listener", f.Listener, parseGlob)
	client, err2 := parsePatterns("client", f.Client, parseClient)
	sender, err3 := parsePatterns("sender", f.Sender, parseSender)
	recipient, err4 := parsePatterns("recipient", f.Recipient, parseRecipient)
	return func(v *wiretap.Visit) wiretap.Choice {
		switch {
		case !listener.match(v.Client.Listener), !client.match(v.Client.Address):
			return wiretap.Never
		case len(sender) > 0 && (!v.Mail || !sender.matchAddress(mail.Address(v.Sender))), len(recipient) > 0 && (v.Recipient == "" || !recipient.matchAddress(mail.Address(v.Recipient))):
			return wiretap.NotYet
		}
		return wiretap.Now
	}, errors.Join(err1, err2, err3, err4)
}

// parseClient reads the pattern of a client's address.
func parseClient(text string) (pattern, error) {
	if strings.EqualFold(text, "local") {
		return newGlob(text), nil
	}
	if strings.Contains(text, "/") {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return pattern{}, errors.New("not a network; write one such as 192.0.2.0/24")
		}
		return pattern{kind: matchNetwork, network: p.Masked()}, nil
	}
	if strings.Contains(text, "*") {
		return newGlob(text), nil
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return pattern{}, errors.New("write an address, a network such as 192.0.2.0/24, or local")
	}
	return newGlob(a.Unmap().String()), nil
}

// watchVisits streams what clients' sessions say, each line a [wiretap.Record], until the client goes.
func (s *Server) watchVisits(ctx context.Context, in *visitInput) (*huma.StreamResponse, error) {
	if s.cfg.Wiretap == nil {
		return nil, huma.Error404NotFound("no sessions can be watched here")
	}
	meets, err := in.parse()
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	return s.streamRecords(ctx, in.Accept, "trace smtp incoming", s.unknownListeners(in.Listener), func() (*wiretap.Watcher, error) {
		return s.cfg.Wiretap.WatchVisits(meets, in.Count, in.Lines)
	})
}

// literal reports whether a value of a condition can only match one text.
func literal(value string) bool {
	return !strings.Contains(value, "*") && value != "-" && !(len(value) > 2 && value[0] == '/' && value[len(value)-1] == '/')
}

// unknownListeners warns of a name that no listener has, for which nothing would ever be seen.
func (s *Server) unknownListeners(names []string) string {
	if s.cfg.Listeners == nil {
		return ""
	}
	known := s.cfg.Listeners()
	for _, name := range names {
		if literal(name) && !slices.ContainsFunc(known, func(l string) bool { return strings.EqualFold(l, name) }) {
			return "no listener has the name " + clip(name) + "; there are " + strings.Join(known, ", ")
		}
	}
	return ""
}

// unknownSites warns of a site that has no destination in core. It may get one.
func (s *Server) unknownSites(ctx context.Context, sites []string) string {
	for _, text := range sites {
		p, err := parsePattern(text, parseSite)
		if err != nil || !literal(text) {
			continue
		}
		site := patterns{p}
		list, err := s.ask(ctx, qmgr.DestinationQuery{Most: 1, Match: func(_, nexthop string) bool { return site.matchSite(nexthop) }})
		if err == nil && list.Matched == 0 {
			return "no destination in core has the name " + clip(text) + " now; \"posthaste queue destinations\" shows the names"
		}
	}
	return ""
}

// streamRecords streams what a watcher sees, with a warning first, if there is one. The watcher is logged, since this shows other people's mail.
func (s *Server) streamRecords(ctx context.Context, accept, verb, warning string, watch func() (*wiretap.Watcher, error)) (*huma.StreamResponse, error) {
	if warning != "" {
		text, err := json.Marshal(warning)
		if err != nil {
			return nil, s.problem(ctx, err)
		}
		warning = `,"warning":` + string(text)
	}
	first := fmt.Appendf(nil, `{"time":"%s","connection":0,"host":"","direction":"-","text":"watching"%s}`+"\n", time.Now().Format(time.RFC3339Nano), warning)
	return s.streamLines(ctx, accept, first, func() (*event.Buffer, func(), error) {
		w, err := watch()
		if err != nil {
			return nil, nil, err
		}
		s.log.Info("order", "verb", verb, "by", orderedBy(ctx))
		return w.Buffer, w.Close, nil
	})
}

func visitOperation() huma.Operation {
	return streamOperation("trace-smtp-incoming", "/v1/trace/smtp/incoming", "Watch what sessions of clients say",
		"As /v1/trace/smtp, for the connections that this machine accepts; host is the client's address. Content and commands are as the session understands them. A session is shown to its end.")
}

func wiretapOperation() huma.Operation {
	return streamOperation("trace-smtp", "/v1/trace/smtp", "Watch what connections to receivers say",
		"Each line is a JSON object with time, connection (a number), host, direction (> sent, < received, - a note, . the end) and text; the first may have a warning about a name that is not known. Secrets of AUTH are left out, and of contents only the first lines and the size are shown. Over the network it needs a token that may operate. A client that does not read fast enough finds a line with msg = lost.")
}
