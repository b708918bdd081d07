package admin

import (
	"context"
	"time"

	"github.com/posthaste-mta/posthaste/qmgr"
)

// A SourcePage is the answer to a question for sources.
type SourcePage struct {
	Sources []Source `json:"sources" doc:"In the order of the configuration."`
}

// A Source is one of our identities towards receivers.
type Source struct {
	Name      string          `json:"name"`
	State     string          `json:"state" enum:"in use,withdrawn,removed" doc:"withdrawn: none of its addresses can be used; removed: a reload has removed it, and mail is still under way from it."`
	Ehlo      string          `json:"ehlo,omitempty" doc:"Its name in EHLO; absent for that of all connections."`
	Addresses []SourceAddress `json:"addresses"`
	Pools     []SourcePool    `json:"pools" doc:"The pools that have it."`

	Connections int `json:"connections" doc:"Open, or being opened."`
	Waiting     int `json:"waiting" doc:"Deliveries that wait for a connection from it."`
	Busy        int `json:"busy" doc:"Deliveries under way."`

	Delivered uint64     `json:"delivered" doc:"Recipients delivered today, since counted_since."`
	Deferred  uint64     `json:"deferred" doc:"Recipients that receivers deferred today."`
	Bounced   uint64     `json:"bounced" doc:"Recipients that receivers refused today."`
	Since     *time.Time `json:"counted_since,omitempty" doc:"Midnight UTC, or the first delivery since the daemon was started."`

	Warmup *SourceWarmup `json:"warmup,omitempty" doc:"Absent if receivers know the source."`

	Destinations int          `json:"destinations" doc:"Destinations that it has mail for or connections to, or knows to be dead."`
	Sites        []SourceSite `json:"sites,omitempty" doc:"Most of these, those with the most waiting first."`
}

// A SourceAddress is one address of a source.
type SourceAddress struct {
	Address string     `json:"address"`
	State   string     `json:"state" enum:"in use,withdrawn,tried" doc:"withdrawn: connections cannot come from it; tried: it was withdrawn, and the next connection shows whether it can be used again."`
	Reason  string     `json:"reason,omitempty" doc:"Why it was withdrawn."`
	Since   *time.Time `json:"since,omitempty" doc:"When it was withdrawn."`
	Until   *time.Time `json:"until,omitempty" doc:"When it is tried again."`
}

// A SourcePool is the part of a source in a pool.
type SourcePool struct {
	Name   string `json:"name"`
	Weight int    `json:"weight"`
	Of     int    `json:"of" doc:"The sum of the weights of the pool's sources."`
}

// A SourceSite is what a source has at one destination.
type SourceSite struct {
	Name        string      `json:"name" doc:"Transport and nexthop, separated by a colon."`
	State       string      `json:"state" enum:"ready,opening,full,rate-limited,paused,dead,suspended"`
	Waiting     int         `json:"waiting"`
	Busy        int         `json:"busy"`
	Connections int         `json:"connections" doc:"Open, or being opened."`
	Window      int         `json:"window" doc:"Current limit of concurrent connections."`
	WaitReason  *WaitReason `json:"wait_reason,omitempty"`
	Reason      string      `json:"reason,omitempty" doc:"Why it is dead."`
	Until       *time.Time  `json:"until,omitempty" doc:"When it is tried again."`
}

type sourcesInput struct {
	Sites int `query:"sites" minimum:"0" maximum:"1000" default:"0" doc:"Maximum number of destinations of each source in the answer."`
}

type sourcesOutput struct{ Body SourcePage }

func (s *Server) sources(ctx context.Context, in *sourcesInput) (*sourcesOutput, error) {
	list, err := ask(ctx, func(ctx context.Context) ([]qmgr.SourceView, error) { return s.scheduler.Sources(ctx, in.Sites) })
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	page := SourcePage{Sources: make([]Source, 0, len(list))}
	for i := range list {
		page.Sources = append(page.Sources, sourceOf(&list[i]))
	}
	return &sourcesOutput{page}, nil
}

func sourceOf(v *qmgr.SourceView) Source {
	s := Source{Name: v.Name, State: "withdrawn", Ehlo: v.Hello, Addresses: []SourceAddress{}, Pools: []SourcePool{}, Connections: v.Connections,
		Waiting: v.Waiting, Busy: v.Busy, Delivered: v.Delivered, Deferred: v.Deferred, Bounced: v.Bounced, Since: wallOrNil(v.Since), Destinations: v.Destinations, Warmup: warmupOf(v.Warmup)}
	for _, a := range v.Addresses {
		if a.State != "withdrawn" {
			s.State = "in use"
		}
		s.Addresses = append(s.Addresses, SourceAddress{Address: a.Addr.String(), State: a.State, Reason: a.Why.Text, Since: wallOrNil(a.Since), Until: wallOrNil(a.Until)})
	}
	if !v.Configured {
		s.State = "removed"
	}
	for _, p := range v.Pools {
		s.Pools = append(s.Pools, SourcePool{Name: p.Pool, Weight: p.Weight, Of: p.Of})
	}
	for i := range v.Sites {
		d := &v.Sites[i]
		q := &d.Queue
		s.Sites = append(s.Sites, SourceSite{Name: d.Transport + ":" + q.Nexthop, State: d.Condition.String(), Waiting: q.Todo, Busy: q.Busy,
			Connections: q.Connections.Ready + q.Connections.Connecting, Window: q.Window, WaitReason: waitReasonOf(&q.WaitReason, d.Transport),
			Reason: q.Reason.String(), Until: wallOrNil(q.Until)})
	}
	return s
}
