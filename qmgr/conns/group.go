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
	// doubtful is how many of these are in doubt, untested how many of those are to
	// sites that are not known to take mail, and trials the untested ones that began
	// when there were enough doubtful ones: trials <= untested <= doubtful <= open.
	doubtful, untested, trials int
	idle                       ilist.List[Conn] // the one unused for longest first

	// The lines of sites that wait for a slot: slots are those without a connection that
	// wait for one of any kind; shares those that have some, or whose message uses
	// enough; fresh and behind those, new or slow, that wait because doubtful
	// connections have enough.
	slots, shares, fresh, behind ilist.List[Site]
	flows                        map[fair.Path]*slotFlow // those on behalf of which sites wait in slots
	turns                        fair.Order              // of flows
	slowTurn                     bool                    // it is the turn of behind, unless slow sites have enough
	inPool                       ilist.Link[Group]       // on pool.groups; listed if any site waits in a line
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
