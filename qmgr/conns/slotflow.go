package conns

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/qmgr/fair"
)

// Sites that wait for their first slot (Group.slots) take turns by flows: each waits on
// behalf of the flow of its first message (Ask.Flow), the flows have a fair order (package
// fair), and within one the site goes first that has waited longest. Otherwise one who has
// mail for many sites would get a slot for each of them before one who comes later
// gets one.

// A slotFlow is the sites that wait on behalf of one flow.
type slotFlow struct {
	path  fair.Path
	leaf  fair.Leaf // in Group.turns
	sites ilist.List[Site]
}

// joinTurn has a site that waits for a slot wait on behalf of a flow, too.
func (g *Group) joinTurn(s *Site, front bool) {
	f := g.flows[s.flow]
	if f == nil {
		f = &slotFlow{path: s.flow}
		f.leaf.Owner = f
		if g.flows == nil {
			g.flows = make(map[fair.Path]*slotFlow)
		}
		g.flows[s.flow] = f
		g.turns.Join(&f.leaf, f.path)
	}
	if s.waitsFor = f; front {
		f.sites.PushFront(&s.inFlow, s)
	} else {
		f.sites.PushBack(&s.inFlow, s)
	}
}

// leaveTurn ends that.
func (g *Group) leaveTurn(s *Site) {
	f := s.waitsFor
	if f == nil {
		return
	}
	s.waitsFor = nil
	if f.sites.Remove(&s.inFlow); f.sites.Empty() {
		g.turns.Leave(&f.leaf)
		delete(g.flows, f.path)
	}
}

// firstInTurn returns the site whose turn it is to get a slot, nil if none waits.
func (g *Group) firstInTurn() *Site {
	if leaf := g.turns.Next(); leaf != nil {
		return leaf.Owner.(*slotFlow).sites.Front()
	}
	return nil
}

// tookTurn notes that a site has a slot that was offered to it in turn. It does not wait any
// more, and its flow may not, either.
func (g *Group) tookTurn(s *Site) {
	if s.cause != causeSlot {
		return
	}
	if f := g.flows[s.flow]; f != nil {
		g.turns.Serve(&f.leaf)
		return
	}
	var leaf fair.Leaf
	g.turns.Join(&leaf, s.flow)
	g.turns.Serve(&leaf)
	g.turns.Leave(&leaf)
}

// checkTurns checks that all sites that wait for a slot wait on behalf of a flow.
func (g *Group) checkTurns() {
	n := 0
	for path, f := range g.flows { //archtest:anyorder assertions
		f.sites.Check()
		n += f.sites.Len()
		assert.That(f.path == path && f.leaf.Joined() && !f.sites.Empty(), "%s: a flow of which no site waits has turns", g.name)
		for s := range f.sites.All() {
			assert.That(s.waitsFor == f && s.inLine.On(&g.slots), "%s has a turn and waits for no slot", s.name)
		}
	}
	assert.That(n == g.slots.Len(), "%s: %d sites wait for a slot, %d take turns", g.name, g.slots.Len(), n)
	g.turns.Check()
}
