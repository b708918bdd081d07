package admin

import (
	"context"
	"errors"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
)

// FlowsMax is the maximum number of flows in one answer.
const FlowsMax = 1000

// A FlowPage is the answer to a question for flows.
type FlowPage struct {
	Matched int    `json:"matched" doc:"Number of flows that match, including those that are not in the answer."`
	Flows   []Flow `json:"flows" doc:"Those with the most waiting first."`
	// Suspensions are those of classes and tenants.
	Suspensions *SuspensionCounts `json:"suspensions,omitempty" doc:"The classes and tenants that operators have suspended; absent if there are none."`
}

// A Flow is what the core has of one flow.
type Flow struct {
	Class  string `json:"class"`
	Tenant string `json:"tenant"`
	Flow   string `json:"flow"`

	Messages  int         `json:"messages" doc:"In core."`
	Suspended *Suspension `json:"suspended,omitempty" doc:"The suspension of its class or tenant, if an operator has suspended it."`
	Waiting   int         `json:"waiting" doc:"Deliveries that wait for their turn."`
	Busy      int         `json:"busy" doc:"Deliveries under way."`
	Started   uint64      `json:"started" doc:"Deliveries started since the start of the daemon, or since the flow was forgotten because it was idle."`
	// The waits are between two powers of two of a millisecond; these are the upper ones.
	WaitMedianMS int64 `json:"wait_p50_ms,omitempty" doc:"Median of the time between a message's coming into core and the start of a delivery, rounded up to a power of two."`
	WaitP99MS    int64 `json:"wait_p99_ms,omitempty" doc:"The same for 99 of 100 deliveries."`

	Destinations     []FlowDestination `json:"destinations,omitempty" doc:"Where most of it waits, up to five."`
	MoreDestinations int               `json:"more_destinations,omitempty"`
}

// A FlowDestination is what a flow has waiting at one destination.
type FlowDestination struct {
	Name     string `json:"name" doc:"transport:nexthop"`
	Source   string `json:"source,omitempty" doc:"The source that the mail leaves from; absent without sources."`
	Security string `json:"security,omitempty" doc:"The security demand of the mail; absent for TLS if the server offers it."`
	Waiting  int    `json:"waiting"`
	Busy     int    `json:"busy"`
	Sharing
}

// Sharing is how a flow shares the room of a destination.
type Sharing struct {
	Flows int `json:"flows,omitempty" doc:"Flows that have mail waiting for the destination, including this one."`
	Share int `json:"share_permille,omitempty" doc:"The flow's share of the destination, in thousandths; absent if there is room for all."`
	Turns int `json:"turns,omitempty" doc:"Deliveries of other flows that may start there before the next one of this flow, at most."`
}

// A FlowFilter selects flows, with patterns as in Filter.
type FlowFilter struct {
	Class  []string `query:"class,explode" maxItems:"100" doc:"The class, in which * stands for any text, or /RE2/. Case does not matter, here and below."`
	Tenant []string `query:"tenant,explode" maxItems:"100" doc:"The tenant, in which * stands for any text, or /RE2/."`
	Flow   []string `query:"flow,explode" maxItems:"100" doc:"The flow, in which * stands for any text, or /RE2/."`
}

type flowsInput struct {
	FlowFilter
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Maximum number of flows in the answer."`
}

type flowsOutput struct{ Body FlowPage }

func (s *Server) flows(ctx context.Context, in *flowsInput) (*flowsOutput, error) {
	class, err1 := parsePatterns("class", in.Class, parseGlob)
	tenant, err2 := parsePatterns("tenant", in.Tenant, parseGlob)
	flow, err3 := parsePatterns("flow", in.Flow, parseGlob)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, invalid("query", err)
	}
	query := qmgr.FlowQuery{Most: in.Limit, Match: func(f mail.Flow) bool {
		return class.match(f.Class) && tenant.match(f.Tenant) && flow.match(f.Flow)
	}}
	list, err := ask(ctx, func(ctx context.Context) (qmgr.FlowList, error) { return s.scheduler.Flows(ctx, query) })
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	page := FlowPage{Matched: list.Matched, Flows: make([]Flow, 0, len(list.Flows))}
	suspended := s.inForce(ctx)
	for i := range list.Flows {
		f := flowOf(&list.Flows[i])
		f.Suspended = ofFlow(suspended, &f)
		page.Flows = append(page.Flows, f)
	}
	page.Suspensions = countSuspensions(suspended, func(v *qmgr.SuspensionView) bool { return v.Scope == measure.Class || v.Scope == measure.Tenant })
	return &flowsOutput{page}, nil
}

func flowOf(v *qmgr.FlowView) Flow {
	f := Flow{Class: v.Flow.Class, Tenant: v.Flow.Tenant, Flow: v.Flow.Flow, Messages: v.Messages, Waiting: v.Waiting, Busy: v.Busy, Started: v.Started,
		WaitMedianMS: int64(v.Half / time.Millisecond), WaitP99MS: int64(v.NinetyNine / time.Millisecond), MoreDestinations: v.More}
	for i := range v.Places {
		p := &v.Places[i]
		f.Destinations = append(f.Destinations, FlowDestination{Name: p.Transport + ":" + p.Nexthop, Source: p.Source, Security: p.Security, Waiting: p.Waiting, Busy: p.Busy, Sharing: sharingOf(p.Sharing)})
	}
	return f
}

func sharingOf(s qmgr.Sharing) Sharing {
	return Sharing{Flows: s.Flows, Share: s.Share, Turns: s.Turns}
}
