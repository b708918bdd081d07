package fair

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/stock"
)

// A Path names a flow: its class, its tenant within the class, and itself within the
// tenant. Any of the names may be empty.
type Path struct{ Class, Tenant, Flow string }

// A Leaf is a flow's part in one Order. Its owner embeds it, or holds it as a field, and
// must not copy it while it is joined. The zero Leaf is not joined.
type Leaf struct {
	Owner any   // for the caller, which gets leaves from Next; a pointer costs no allocation
	node  *node // nil unless joined beside others
	alone bool  // joined, and the only one
}

// Joined reports whether the leaf is in an Order.
func (l *Leaf) Joined() bool { return l.node != nil || l.alone }

// A sole leaf is the only one that is joined. As long as it is, it has no competitor: it needs no
// nodes, and when it leaves, nothing is remembered. Many resources are used by one leaf after
// another and never have more than one at a time.
type sole struct {
	leaf   *Leaf // nil: there is none, or there are others
	path   Path
	served uint64
	pays   bool // it was served or has passed its turn, and so comes behind those that join
}

// An Order decides which leaf is served next, for one resource. The zero Order is
// empty and ready, with the zero Rules. It must not be copied after its first use, and is
// not safe for concurrent use.
type Order struct {
	rules  *Rules // shared with other Orders; nil is the zero Rules
	strict []strictClass

	sole   sole // if its leaf is not nil there are no nodes but the root
	root   node
	nodes  map[key]*node // all but the root, found by name
	large  bool          // nodes has held more than smallMax
	debts  int           // nodes that are indebted
	turns  uint64        // services and forfeits
	serial uint64        // the latest rank that was given

	spareNodes  stock.Of[node]
	spareGroups stock.Of[group]
}

const (
	// spareMax bounds what an Order keeps for its next joins.
	spareMax = 64
	// smallMax is the size above which a map or a heap is left to the garbage
	// collector when it is empty.
	smallMax = 64
)

// Join puts a leaf in: there is something to be served from now on. The leaf must not be
// joined, and no other leaf of the Order may have its path. Time is that of three map
// lookups and O(log n) comparisons, where n is the largest number of siblings on the path; it is
// constant if no other leaf is joined.
func (o *Order) Join(l *Leaf, p Path) {
	assert.That(!l.Joined(), "a leaf joins twice, now as %q, %q, %q", p.Class, p.Tenant, p.Flow)
	if o.root.group == nil && o.sole.leaf == nil && len(o.strict) == 0 { // strict classes remember their turns
		o.sole, l.alone = sole{leaf: l, path: p}, true
		return
	}
	o.accompany()
	o.join(l, p)
}

// accompany gives the sole leaf, if there is one, the nodes that it would have if it had had
// them all the time: others are about to join it.
func (o *Order) accompany() {
	s := o.sole
	if s.leaf == nil {
		return
	}
	o.sole, s.leaf.alone = sole{}, false
	o.join(s.leaf, s.path)
	if s.pays {
		o.charge(s.leaf)
	}
	for n := s.leaf.node; n.parent != nil; n = n.parent {
		n.served = s.served
	}
}

func (o *Order) join(l *Leaf, p Path) {
	n := o.child(o.child(o.child(&o.root, p.Class), p.Tenant), p.Flow)
	assert.That(n.leaf == nil, "two leaves of flow %q, %q, %q", p.Class, p.Tenant, p.Flow)
	n.leaf, l.node = l, n
	for ; n.parent != nil && !n.active(); n = n.parent {
		o.enter(n)
	}
}

// Leave takes a leaf out: there is nothing more to be served. What it still has to pay is
// remembered under its path. It takes O(log n), but for the last leaf of a tenant or class:
// that forgets all that is remembered below it, at O(log n) for each.
func (o *Order) Leave(l *Leaf) {
	if l.alone {
		o.sole, l.alone = sole{}, false
		return
	}
	n := o.joined(l)
	n.leaf, l.node = nil, nil
	for n != nil && n.parent != nil {
		n = o.exit(n)
	}
}

// Next returns the leaf whose turn it is, nil if none is joined. The answer stays the same
// until one of the other methods changes the Order.
func (o *Order) Next() *Leaf {
	if o.root.group == nil {
		return o.sole.leaf
	}
	n := o.nextClass()
	for n.group != nil {
		n = n.group.active.Min()
	}
	return n.leaf
}

// Serve records that a joined leaf has got one service. Normally it is Next's; another is
// charged in the same way, as the package comment explains.
func (o *Order) Serve(l *Leaf) {
	if o.Forfeit(l); l.alone {
		o.sole.served++
		return
	}
	for n := l.node; n.parent != nil; n = n.parent {
		n.served++
	}
}

// Forfeit passes the turn of a joined leaf: it is charged as if it had been served.
func (o *Order) Forfeit(l *Leaf) {
	if o.turns++; l.alone {
		o.sole.pays = true
		return
	}
	o.charge(l)
}

func (o *Order) joined(l *Leaf) *node {
	assert.That(l.node != nil && l.node.leaf == l, "the leaf is not joined")
	return l.node
}

func (o *Order) charge(l *Leaf) {
	for n := o.joined(l); n.parent != nil; n = n.parent {
		g := n.parent.group
		g.now = g.active.Min().tag
		n.tag = g.now + n.step()
		n.state, n.rank = backlogged, o.nextRank()
		g.active.Fix(n)
		o.expire(g)
		if n.strict > 0 {
			o.strict[n.strict-1].take(o.turns)
		}
	}
}
