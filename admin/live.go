package admin

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/sse"

	"github.com/posthaste-mta/posthaste/admin/live"
)

// streamsMax is the maximum number of open live streams. Each keeps a connection for as long as
// there is a watcher; with 16 connections to a listener on the network, half remain for requests.
const streamsMax = 8

// registerLive adds the figures that people watch.
func (s *Server) registerLive() {
	huma.Register(s.api, liveOperation("live", "/v1/live", "Totals, transports, sites and flows at the last sample, with rates",
		"There is a sample each second."), s.live)
	stream := liveOperation("live-stream", "/v1/live/stream", "The same, each time there is a new sample, as server-sent events",
		"Each event is named sample. At most 8 streams may be open; further ones are refused with 429.")
	stream.Errors = append(stream.Errors, http.StatusTooManyRequests)
	stream.Middlewares = huma.Middlewares{s.limitStreams}
	sse.Register(s.api, stream, map[string]any{"sample": live.Sample{}}, s.stream)
	huma.Register(s.api, liveOperation("live-history", "/v1/live/history", "Totals of the last ten minutes, or six hours"), s.liveHistory)
	site := liveOperation("live-site", "/v1/live/sites/{name}", "The window of a destination over the last five minutes, or two hours, with the events that have moved it",
		"It is kept for the 256 destinations that were in core last.")
	site.Errors = append(site.Errors, http.StatusNotFound)
	huma.Register(s.api, site, s.liveSite)
}

func liveOperation(id, path, summary string, description ...string) huma.Operation {
	o := operation(id, http.MethodGet, path, summary, description...)
	o.Errors = append(o.Errors, http.StatusNotImplemented)
	return o
}

// errNotSampled is the answer of a host without a sampler.
func errNotSampled() error { return huma.Error501NotImplemented("this host takes no samples") }

type liveInput struct {
	Sites int  `query:"sites" minimum:"0" maximum:"256" default:"50" doc:"Maximum number of sites in the answer."`
	Flows int  `query:"flows" minimum:"0" maximum:"100" default:"20" doc:"Maximum number of flows in the answer."`
	Trend bool `query:"trend" doc:"Add the last five minutes of each site's window."`
}

type liveOutput struct{ Body live.Sample }

// live waits for the first sample after a start, which comes within milliseconds.
func (s *Server) live(ctx context.Context, in *liveInput) (*liveOutput, error) {
	if s.cfg.Live == nil {
		return nil, errNotSampled()
	}
	limited, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	for {
		latest, fresh, more := s.cfg.Live.Latest(in.Sites, in.Flows, in.Trend)
		if latest.Number > 0 {
			return &liveOutput{latest}, nil
		}
		if !more {
			return nil, s.problem(ctx, errCore)
		}
		select {
		case <-fresh:
		case <-limited.Done():
			return nil, s.problem(ctx, errCore)
		}
	}
}

// limitStreams refuses a stream if too many are open.
func (s *Server) limitStreams(ctx huma.Context, next func(huma.Context)) {
	if s.cfg.Live == nil {
		_ = huma.WriteErr(s.api, ctx, http.StatusNotImplemented, "this host takes no samples")
		return
	}
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
		next(ctx)
	default:
		ctx.SetHeader("Retry-After", "5")
		_ = huma.WriteErr(s.api, ctx, http.StatusTooManyRequests, "too many live streams are open; use /v1/live")
	}
}

// stream sends each sample until the client is gone or the daemon stops.
func (s *Server) stream(ctx context.Context, in *liveInput, send sse.Sender) {
	for {
		latest, fresh, more := s.cfg.Live.Latest(in.Sites, in.Flows, in.Trend)
		if latest.Number > 0 && send(sse.Message{ID: int(latest.Number), Data: latest}) != nil || !more {
			return
		}
		select {
		case <-fresh:
		case <-ctx.Done():
			return
		}
	}
}

type historyInput struct {
	Step string `query:"step" enum:"1s,10s" default:"1s" doc:"1s: ten minutes, second by second. 10s: six hours."`
}

type historyOutput struct{ Body live.History }

func (s *Server) liveHistory(_ context.Context, in *historyInput) (*historyOutput, error) {
	if s.cfg.Live == nil {
		return nil, errNotSampled()
	}
	return &historyOutput{s.cfg.Live.History(seconds(in.Step))}, nil
}

type siteHistoryInput struct {
	Name string `path:"name" maxLength:"1024" doc:"Transport and nexthop with a colon between them, as in a list."`
	Step string `query:"step" enum:"1s,10s" default:"1s" doc:"1s: five minutes, second by second. 10s: two hours."`
}

type siteHistoryOutput struct{ Body live.SiteHistory }

func (s *Server) liveSite(_ context.Context, in *siteHistoryInput) (*siteHistoryOutput, error) {
	if s.cfg.Live == nil {
		return nil, errNotSampled()
	}
	h, known := s.cfg.Live.Site(in.Name, seconds(in.Step))
	if !known {
		return nil, huma.Error404NotFound("no history of destination " + clip(in.Name) + ": it has not been in core lately")
	}
	return &siteHistoryOutput{h}, nil
}

// seconds returns a step in seconds.
func seconds(step string) int {
	if step == "10s" {
		return 10
	}
	return 1
}
