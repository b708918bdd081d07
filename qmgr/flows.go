package qmgr

import (
	"cmp"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A FlowQuery picks flows.
type FlowQuery struct {
	Match func(mail.Flow) bool // nil: all are wanted. It must not keep the core waiting
	Most  int                  // in the answer
}

// A FlowList is the flows that have most waiting, the first of them first.
type FlowList struct {
	Flows   []FlowView
	Matched int
	More    bool
}

// A FlowView is what the core holds of one flow, and what it has done for it since the
// flow was first seen, or was forgotten because it had been idle for too long.
type FlowView struct {
	Flow     mail.Flow
	Messages int // in core
	Waiting  int // entries
	Busy     int // deliveries under way
	Started  uint64
	// Half and NinetyNine are times that half of the deliveries, and 99 % of them, have
	// not waited longer than since their messages were admitted: powers of two of a
	// millisecond, rounded up. They are 0 if there were none.
	Half, NinetyNine time.Duration
	// Places are the destinations that have something of it waiting, those with most
	// first, up to flowPlaces of them.
	Places []FlowPlace
	More   int // destinations that are not among Places
}

// flowPlaces bounds FlowView.Places.
const flowPlaces = 5

// A FlowPlace is what one flow has at one destination.
type FlowPlace struct {
	Transport, Nexthop string
	Source             string // "" where none is chosen
	Security           string // what is demanded of connections
	Waiting, Busy      int
	Sharing            Sharing
}

// Sharing is how a flow shares the room of a destination.
type Sharing struct {
	Flows int // that have something waiting there, itself included
	// Share is what it is entitled to, in thousandths, and Turns how many entries of other
	// flows may start before its next, if the room is scarce; otherwise 0.
	Share, Turns int
}

// Flows returns those that have most waiting. It takes time in proportion to the number of
// flows and of the destinations for which they have mail waiting.
func (q *Qmgr) Flows(query FlowQuery) FlowList {
	var list FlowList
	found := best[*flow]{most: query.Most, compare: compareFlows}
	for _, f := range q.flows { //archtest:anyorder compareFlows is a total order
		if query.Match != nil && !query.Match(f.full()) {
			continue
		}
		list.Matched++
		found.add(f)
	}
	for _, f := range found.sorted() {
		list.Flows = append(list.Flows, f.view())
	}
	list.More = found.more
	return list
}

// compareFlows puts those first that have most waiting, then those with most messages.
func compareFlows(a, b *flow) int {
	return cmp.Or(cmp.Compare(b.load().Waiting, a.load().Waiting), cmp.Compare(b.messages, a.messages), cmp.Compare(b.started, a.started),
		cmp.Compare(a.tenant.name.class, b.tenant.name.class), cmp.Compare(a.tenant.name.tenant, b.tenant.name.tenant), cmp.Compare(a.name, b.name))
}

func (f *flow) view() FlowView {
	load := f.load()
	v := FlowView{Flow: f.full(), Messages: f.messages, Waiting: load.Waiting, Busy: load.Busy,
		Started: f.started, Half: f.quantile(500), NinetyNine: f.quantile(990)}
	most := best[*claim]{most: flowPlaces, compare: compareClaims}
	places := 0
	for l := range f.allLanes() {
		for d := range l.Destinations() {
			if d.Waiting > 0 {
				most.add(claimOf(d))
				places++
			}
		}
	}
	for _, c := range most.sorted() {
		v.Places = append(v.Places, FlowPlace{Transport: c.queue.transport.Name, Nexthop: c.queue.nexthop, Source: c.queue.source.name(), Security: c.queue.security, Waiting: c.Waiting, Busy: c.Busy, Sharing: c.sharing()})
	}
	v.More = places - len(v.Places)
	return v
}

func compareClaims(a, b *claim) int {
	return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.queue.transport.Name, b.queue.transport.Name), compareNames(a.queue, b.queue))
}

// sharing returns how the claim shares the room of its destination.
func (c *claim) sharing() Sharing {
	d := c.queue
	s := Sharing{Flows: d.contenders.Len()}
	if c.leaf.Joined() {
		_, _, flow := d.turns.View(&c.leaf)
		s.Share, s.Turns = flow.Share, d.turns.Wait(&c.leaf)
	}
	return s
}
