package fair

import "github.com/posthaste-mta/posthaste/internal/minheap"

// unit is the virtual time that one service takes at weight 1. It is divisible by 1 to 10
// and by the divisors of 1000, so that these weights are exact; others are rounded by
// 0.1 % at most. The package comment argues that virtual time does not overflow.
const unit = 504_000

// A state is what a node is for its parent.
type state uint8

const (
	absent     state = iota // not in the tree, or just made
	indebted                // idle, remembered until its tag is passed
	sparse                  // to be served, and with nothing to pay
	backlogged              // to be served
)

// A node is a class, a tenant or a flow, or the root. It exists while a leaf below it is
// joined, and while it is indebted.
type node struct {
	// What decides the order of turns comes first, so that it is fetched from memory together.
	tag    int64  // the virtual time of its parent at which its next service begins
	rank   uint64 // order of equal tags in equal states: the latest change of the tag
	state  state
	level  Level
	strict uint8 // index+1 in Order.strict of a class that is Strict
	weight uint16
	slot   minheap.Slot
	parent *node  // nil for the root
	group  *group // of the root, a class or a tenant, while it is active
	leaf   *Leaf  // of a flow, if joined
	served uint64 // services since the node was made
	name   string
}

// A group is the children of an active node. Invariant: now <= tag <= now + step for each
// active child, and a sparse child's tag is now. A node whose last active child leaves loses
// its group: virtual time only compares those who compete.
type group struct {
	now     int64 // virtual time: the tag of the latest service
	floor   int64 // the largest tag that was forgotten while it was beyond now
	weights int64 // of the active children
	active  minheap.Heap[node, byTurn]
	debtors minheap.Heap[node, byTurn]
	large   bool // has held more than smallMax children
}

// byTurn is the order of turns: by tag, sparse before backlogged, and first come first
// served among equals. Ranks are unique, so it is total.
type byTurn struct{}

func (byTurn) Before(a, b *node) bool {
	switch {
	case a.tag != b.tag:
		return a.tag < b.tag
	case a.state != b.state:
		return a.state < b.state
	}
	return a.rank < b.rank
}

func (byTurn) Slot(n *node) *minheap.Slot { return &n.slot }

// key finds a node. Parents are compared by identity: a parent outlives its children.
type key struct {
	parent *node
	name   string
}

func (n *node) active() bool { return n.state >= sparse }

// step is the virtual time of one service.
func (n *node) step() int64 { return (unit + int64(n.weight)/2) / int64(n.weight) }

func (o *Order) nextRank() uint64 {
	o.serial++
	return o.serial
}

// child returns the child of that name, which it makes if necessary.
func (o *Order) child(parent *node, name string) *node {
	if parent.group == nil {
		parent.group = o.spareGroups.Take()
	}
	k := key{parent, name}
	if n := o.nodes[k]; n != nil {
		return n
	}
	if o.nodes == nil {
		o.nodes = make(map[key]*node)
	}
	n := o.spareNodes.Take()
	n.name, n.parent, n.level = name, parent, parent.level+1
	o.weigh(n)
	o.nodes[k] = n
	o.large = o.large || len(o.nodes) > smallMax
	return n
}

// enter makes a child active. A node of which nothing is known may be one that was
// forgotten, and so has to pay as much as any of these.
func (o *Order) enter(n *node) {
	g := n.parent.group
	if n.state == indebted {
		g.debtors.Remove(n)
		o.debts--
	} else {
		n.tag = min(g.floor, g.now+n.step())
	}
	n.state, n.rank = backlogged, o.nextRank()
	if n.tag <= g.now {
		n.state, n.tag = sparse, g.now
	}
	g.active.Push(n)
	g.weights += int64(n.weight)
	g.large = g.large || g.active.Len() > smallMax
	if n.strict > 0 {
		o.strict[n.strict-1].node = n
	}
}

// exit makes a child idle. It returns its parent if that has no active child left, and is
// idle, too; otherwise nil.
func (o *Order) exit(n *node) *node {
	parent := n.parent
	g := parent.group
	g.active.Remove(n)
	g.weights -= int64(n.weight)
	if n.strict > 0 {
		o.strict[n.strict-1].node = nil
	}
	if g.active.Len() > 0 {
		o.retire(g, n)
		return nil
	}
	o.giveNode(n)
	for d := g.debtors.PopMin(); d != nil; d = g.debtors.PopMin() {
		o.debts--
		o.giveNode(d)
	}
	o.giveGroup(g)
	parent.group = nil
	return parent
}

// retire remembers an idle child that has to pay, if there is room: a group may have as
// many debtors as the Order has room for more. So one group gets half of the memory, and k
// that need more than there is get 1/(k+1) of it each. If there is none, the debtor that
// would be the first to have paid is forgotten.
func (o *Order) retire(g *group, n *node) {
	if n.tag <= g.now {
		o.giveNode(n)
		return
	}
	room := o.rules.memory() - o.debts
	n.state = indebted
	g.debtors.Push(n)
	g.large = g.large || g.debtors.Len() > smallMax
	o.debts++
	if g.debtors.Len() > room {
		o.forgetFirst(g)
	}
}

// forgetFirst forgets the debtor that would be the first to have paid, before it has.
func (o *Order) forgetFirst(g *group) {
	g.floor = max(g.floor, g.debtors.Min().tag)
	o.forget(g)
}

// expire forgets debtors that have paid. A service makes one debtor at most, so two for
// each service are enough, and no service has to forget many.
func (o *Order) expire(g *group) {
	for range 2 {
		if d := g.debtors.Min(); d == nil || d.tag > g.now {
			return
		}
		o.forget(g)
	}
}

func (o *Order) forget(g *group) {
	o.debts--
	o.giveNode(g.debtors.PopMin())
}

// giveNode takes a node out of the tree. It is in no heap.
func (o *Order) giveNode(n *node) {
	delete(o.nodes, key{n.parent, n.name})
	if len(o.nodes) == 0 && o.large {
		o.nodes, o.large = nil, false
	}
	if o.spareNodes.Len() < spareMax {
		*n = node{}
		o.spareNodes.Give(n)
	}
}

// giveGroup keeps an empty group for later, with the capacity of its heaps.
func (o *Order) giveGroup(g *group) {
	if o.spareGroups.Len() < spareMax && !g.large {
		g.now, g.floor = 0, 0
		o.spareGroups.Give(g)
	}
}
