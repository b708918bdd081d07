package conns

import (
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/qmgr/fair"
)

// A Group is the connections of one transport.
type Group struct {
	name string
	cfg  GroupConfig
	open int // connections that have a slot
	// leaving is how many of these are draining: their slots will soon be free.
	leaving int
	doubts
	idle ilist.List[Conn] // the one unused for longest first
	slotLines
	inPool ilist.Link[Group] // on pool.groups; listed if any site waits in a line
}

// doubts counts connections of a group that are in doubt. Invariant: trials <= untested <= doubtful <= Group.open.
type doubts struct {
	doubtful int
	untested int // of these, to sites that are not known to take mail
	trials   int // of those, that began when there were enough doubtful ones
}

// slotLines are the sites that wait for a slot. A site is in one of the first four at most.
type slotLines struct {
	slots  ilist.List[Site] // without a connection: they wait for a slot of any kind
	shares ilist.List[Site] // with some, or on behalf of a message that uses enough
	fresh  ilist.List[Site] // new, while doubtful connections have enough
	behind ilist.List[Site] // slow, likewise

	flows    map[fair.Path]*slotFlow // those on behalf of which sites wait in slots
	turns    fair.Order              // of flows
	slowTurn bool                    // it is the turn of behind, unless slow sites have enough
}

// NewGroup returns a transport without connections.
func NewGroup(name string, cfg GroupConfig) *Group {
	return &Group{name: name, cfg: cfg.WithDefaults()}
}

// Share says how flows share the slots; nil: equally.
func (g *Group) Share(r *fair.Rules) { g.turns.Configure(r) }

// Configure puts new limits in force. Connections that exist are kept.
func (g *Group) Configure(cfg GroupConfig) { g.cfg = cfg.WithDefaults() }

// wanted reports whether sites wait for connections of the transport to end.
func (g *Group) wanted() bool { return !g.slots.Empty() || g.waitForDoubt() }

// waitForDoubt reports whether sites wait that may be helped by a doubtful connection
// fewer.
func (g *Group) waitForDoubt() bool {
	return !(g.shares.Empty() && g.fresh.Empty() && g.behind.Empty())
}
