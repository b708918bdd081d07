package fair

import "github.com/posthaste-mta/posthaste/internal/assert"

// Check panics where an invariant does not hold. Tests call it; it takes linear time.
func (o *Order) Check() {
	if l := o.sole.leaf; l != nil {
		assert.That(l.alone && l.node == nil && o.root.group == nil && len(o.strict) == 0, "%v is the only leaf, and has nodes", o.sole.path)
	}
	nodes, debts := o.checkGroup(&o.root)
	assert.That(nodes == len(o.nodes), "%d nodes in the tree, %d by name", nodes, len(o.nodes))
	assert.That(debts == o.debts && debts <= o.rules.memory(), "%d nodes are indebted, counted %d, with room for %d", debts, o.debts, o.rules.memory())
	for i := range o.strict {
		s := &o.strict[i]
		assert.That(s.at <= o.turns && s.credit >= 0 && s.credit <= s.share*strictBurst, "class %q: credit %d at turn %d of %d", s.name, s.credit, s.at, o.turns)
		active := o.nodes[key{&o.root, s.name}]
		if active != nil && !active.active() {
			active = nil
		}
		assert.That(s.node == active, "class %q: its credit is not the active node's", s.name)
	}
}

func (o *Order) checkGroup(parent *node) (nodes, debts int) {
	g := parent.group
	if g == nil {
		return 0, 0
	}
	g.active.Check()
	g.debtors.Check()
	assert.That(g.active.Len() > 0, "%q has a group, and no active child", parent.name)
	weights := int64(0)
	for n := range g.active.All() {
		o.checkNode(n, parent)
		assert.That(n.state == sparse && n.tag == g.now || n.state == backlogged && g.now <= n.tag && n.tag <= g.now+n.step(),
			"%q in state %d has tag %d at %d", n.name, n.state, n.tag, g.now)
		assert.That((n.group != nil) == (n.level < LevelFlow) && (n.leaf != nil) == (n.level == LevelFlow), "%q at level %d has the children of another", n.name, n.level)
		assert.That(n.leaf == nil || n.leaf.node == n, "the leaf of %q is elsewhere", n.name)
		weights += int64(n.weight)
		below, owing := o.checkGroup(n)
		nodes += below
		debts += owing
	}
	for n := range g.debtors.All() {
		o.checkNode(n, parent)
		assert.That(n.state == indebted && n.tag > 0 && n.group == nil && n.leaf == nil, "%q in state %d is idle with tag %d", n.name, n.state, n.tag)
	}
	assert.That(weights == g.weights, "%q: the weights are %d, counted %d", parent.name, weights, g.weights)
	return nodes + g.active.Len() + g.debtors.Len(), debts + g.debtors.Len()
}

func (o *Order) checkNode(n, parent *node) {
	assert.That(n.parent == parent && n.level == parent.level+1 && o.nodes[key{parent, n.name}] == n, "%q is not below %q", n.name, parent.name)
	assert.That(int(n.weight) == o.rules.weight(n.level, n.name), "%q has weight %d", n.name, n.weight)
	assert.That(n.strict == 0 || n.level == LevelClass && o.strict[n.strict-1].name == n.name, "%q is not strict class %d", n.name, n.strict)
}
