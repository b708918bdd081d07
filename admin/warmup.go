package admin

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
)

// A SourceWarmup is where a source is in its warm-up.
type SourceWarmup struct {
	Plan   string       `json:"plan"`
	Start  string       `json:"start,omitempty" doc:"The first day (UTC) on which the source may be used, such as 2026-11-23; absent if there is none."`
	Paused bool         `json:"paused" doc:"The plan does not change until it is resumed."`
	First  int          `json:"first_day" doc:"The day of the plan, from 1 on, on which sites begin; 0 if they are warm at once."`
	Known  int          `json:"sites_known" doc:"Sites that the source has sent to."`
	Warm   int          `json:"sites_warm" doc:"Of these, those without a limit."`
	Spent  int          `json:"sites_spent" doc:"Of these, those whose allowance of today is used up."`
	Today  int          `json:"messages_today"`
	Sites  []WarmupSite `json:"sites,omitempty" doc:"Maximum number of sites in the answer, those with the most messages today first."`
}

// A WarmupSite is where a source is in its warm-up at one site.
type WarmupSite struct {
	Site      string `json:"site" doc:"The nexthop of the site's mail."`
	State     string `json:"state" enum:"warming,warm"`
	Day       int    `json:"day,omitempty" doc:"The day of the plan, from 1 on; absent if the site is warm."`
	Allowance int    `json:"allowance,omitempty" doc:"Messages that may be sent today; absent if the site is warm."`
	Today     int    `json:"messages_today"`
	Delivered int    `json:"delivered" doc:"Messages accepted today for a recipient at least."`
	Accepted  int    `json:"recipients_accepted" doc:"Recipients, today."`
	Deferred  int    `json:"recipients_deferred"`
	Bounced   int    `json:"recipients_bounced"`
	Paused    bool   `json:"paused"`
	Last      string `json:"last" doc:"What became of the last day that was judged."`
	Next      string `json:"next" doc:"What would become of today if it ended now."`
	Tomorrow  int    `json:"allowance_tomorrow,omitempty" doc:"The allowance of tomorrow if today ended now; absent if the site is warm then."`
}

func warmupOf(v *warmup.SourceView) *SourceWarmup {
	if v == nil {
		return nil
	}
	w := &SourceWarmup{Plan: v.Plan.Name, Paused: v.Paused, First: v.First, Known: v.Sites, Warm: v.Warm, Spent: v.Spent, Today: v.Taken}
	if v.Start > 0 {
		w.Start = v.Start.String()
	}
	for i := range v.Top {
		s := &v.Top[i]
		w.Sites = append(w.Sites, WarmupSite{Site: s.Site, State: s.State.String(), Day: s.Day, Allowance: s.Of, Today: int(s.Taken), Delivered: int(s.Delivered),
			Accepted: int(s.Accepted), Deferred: int(s.Deferred), Bounced: int(s.Bounced), Paused: s.Paused, Last: s.Last.String(), Next: s.Next.String(), Tomorrow: s.Tomorrow})
	}
	return w
}

// A WarmupOrder changes where a source is in its warm-up.
type WarmupOrder struct {
	Order string `json:"order" enum:"day,pause,resume,reset" doc:"day: go on with another day of the plan; pause: keep the allowance as it is until resume; resume: end the pause; reset: begin again. What was sent today counts in any case."`
	Site  string `json:"site,omitempty" maxLength:"1024" doc:"One site that the source has sent to, by its nexthop; absent for all sites of the source, including future ones."`
	Day   int    `json:"day,omitempty" minimum:"1" maximum:"1000" doc:"With day: the day of the plan, from 1 on; beyond the last, warm."`
}

type warmupInput struct {
	Name string `path:"name" maxLength:"255" doc:"The source's name."`
	Body WarmupOrder
}

type warmupOutput struct{ Body Source }

// adjustWarmup carries out an order about a source's warm-up, and returns the source.
func (s *Server) adjustWarmup(ctx context.Context, in *warmupInput) (*warmupOutput, error) {
	if err := s.refuse(); err != nil {
		return nil, err
	}
	o := warmup.Order{Key: warmup.Key{Source: in.Name, Site: in.Body.Site}, Day: in.Body.Day}
	o.Kind = warmup.OrderKind(slices.Index([]string{"day", "pause", "resume", "reset"}, in.Body.Order))
	switch {
	case o.Kind == warmup.SetDay && o.Day == 0:
		return nil, unprocessable("body.day", o.Day, "the order needs a day of the plan, from 1 on")
	case o.Kind != warmup.SetDay && o.Day != 0:
		return nil, unprocessable("body.day", o.Day, fmt.Sprintf("the order %s has no day", o.Kind))
	}
	before, err := s.warming(ctx, in.Name, maxSites)
	if err != nil {
		return nil, err
	}
	if site := in.Body.Site; site != "" {
		known, found := siteOf(before.Warmup.Top, site)
		if !found && len(before.Warmup.Top) == before.Warmup.Sites {
			return nil, huma.NewError(http.StatusNotFound, "source "+in.Name+" has sent nothing to a site "+site+`; "queue sources --sites 1000" lists its sites, which are named after their MX hosts`)
		}
		o.Key.Site = known
	}
	s.control.AdjustWarmup(o)
	v, err := s.warming(ctx, in.Name, warmupSites)
	if err != nil {
		return nil, err
	}
	s.log.Info("order", "verb", "warmup", "source", in.Name, "site", o.Key.Site, "order", in.Body.Order, "day", in.Body.Day, "by", orderedBy(ctx))
	return &warmupOutput{sourceOf(v)}, nil
}

// siteOf returns the one of a source's sites that an operator names: as it is, or behind a
// transport and a colon, as lists of destinations have it. It reports whether there is one:
// an order for a site that gets no mail would be carried out without effect.
func siteOf(sites []warmup.SiteView, name string) (site string, found bool) {
	_, nexthop, _ := strings.Cut(name, ":")
	for _, want := range []string{name, nexthop} {
		if slices.ContainsFunc(sites, func(v warmup.SiteView) bool { return v.Site == want }) {
			return want, true
		}
	}
	return name, false
}

// warming returns a source that is warmed up, with at most most of its sites.
func (s *Server) warming(ctx context.Context, name string, most int) (*qmgr.SourceView, error) {
	list, err := ask(ctx, func(ctx context.Context) ([]qmgr.SourceView, error) { return s.scheduler.Sources(ctx, most) })
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	i := slices.IndexFunc(list, func(v qmgr.SourceView) bool { return v.Name == name })
	switch {
	case i < 0:
		return nil, huma.NewError(http.StatusNotFound, "there is no source "+name)
	case list[i].Warmup == nil:
		return nil, huma.NewError(http.StatusNotFound, "source "+name+" has no warm-up")
	}
	return &list[i], nil
}

const (
	warmupSites = 10   // that the answer to an order has at most
	maxSites    = 1000 // that a request for sources may ask for
)
