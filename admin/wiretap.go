package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/posthaste-mta/posthaste/internal/event"
	"github.com/posthaste-mta/posthaste/internal/wiretap"
)

// A WiretapFilter selects connections to receivers. Conditions of different kinds must all be met, of those of one kind any.
type WiretapFilter struct {
	Site      []string `query:"site,explode" maxItems:"100" doc:"The nexthop that the connection is opened for, as in /v1/destinations; braces and brackets around it may be left out. Here and below: * is any text, /…/ a regular expression (RE2), and case does not matter."`
	Host      []string `query:"host,explode" maxItems:"100" doc:"A part of name[address]:port, or of unix:/path."`
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
	site, err1 := parsePatterns("site", bareSites(f.Site), parseGlob)
	host, err2 := parsePatterns("host", f.Host, parsePart)
	source, err3 := parsePatterns("source", f.Source, parseGlob)
	transport, err4 := parsePatterns("transport", f.Transport, parseGlob)
	return func(c wiretap.Connection) bool {
		return site.match(bareSite(c.Nexthop)) && host.match(c.Host) && source.match(c.Source) && transport.match(c.Transport)
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
	first := fmt.Appendf(nil, `{"time":"%s","connection":0,"host":"","direction":"-","text":"watching"}`+"\n", time.Now().Format(time.RFC3339Nano))
	return s.streamLines(ctx, in.Accept, first, func() (*event.Buffer, func(), error) {
		w, err := s.cfg.Wiretap.Watch(wants, in.Count, in.Lines)
		if err != nil {
			return nil, nil, err
		}
		s.log.Info("order", "verb", "trace smtp", "by", orderedBy(ctx)) // others' mail is looked at
		return w.Buffer, w.Close, nil
	})
}

func wiretapOperation() huma.Operation {
	return streamOperation("trace-smtp", "/v1/trace/smtp", "Watch what connections to receivers say",
		"Each line is a JSON object with time, connection (a number), host, direction (> sent, < received, - a note, . the end) and text. Secrets of AUTH are left out, and of contents only the first lines and the size are shown. Over the network it needs a token that may operate. A client that does not read fast enough finds a line with msg = lost.")
}
