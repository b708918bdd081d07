package fair

import (
	"maps"
	"slices"

	"github.com/posthaste-mta/posthaste/internal/minheap"
	"github.com/posthaste-mta/posthaste/internal/mistakes"
)

// Rules are what an operator decides about an Order. The zero Rules, and nil, give equal
// weights to all. They may be shared by Orders, and must not change while they are in use:
// Configure replaces them.
type Rules struct {
	// Classes has the classes that differ from Class{Weight: 1}.
	Classes []Class
	// Tenants and Flows have weights other than 1, from 1 to 1000: of a tenant within
	// each of its classes, and of a flow within its tenant. The weight of a flow takes
	// nothing from other tenants, so a name that another tenant uses as well does no harm.
	Tenants, Flows map[string]int
	// Memory is the number of idle classes, tenants and flows of one Order that are
	// remembered until they have paid for their services; 0 means 2048, half of which
	// one tenant may use. Lower it to bound the delay by invented flows more tightly;
	// raise it where a tenant has more than a thousand honest flows that all send now and
	// then. Each takes up to 200 bytes and its name.
	Memory int
}

// A Class is the rules for the class of one name.
type Class struct {
	Name   string
	Weight int // from 1 to 1000; 0 means 1
	// Strict gives the class every turn while it has had less than MaxShare of the
	// services; see the package comment.
	Strict bool
	// MaxShare is per mille, from 10 to 900; 0 means 500. The sum over all classes that
	// are Strict is at most 900, so that the others always get a tenth.
	MaxShare int
}

const (
	weightMax       = 1000
	memoryDefault   = 2048
	shareDefault    = 500
	shareMin        = 10 // a share of strictBurst turns that is one service
	shareMax        = 900
	strictBurst     = 100
	serviceInCredit = 1000
)

// A Level is the depth of a node below the root.
type Level uint8

// The levels, from the root, which is at 0.
const (
	LevelClass Level = 1 + iota
	LevelTenant
	LevelFlow
)

// Validate returns all errors of r, nil if there are none.
func (r *Rules) Validate() error {
	var wrong mistakes.List
	sum := 0
	for i, c := range r.Classes {
		wrong.Unless(c.Weight >= 0 && c.Weight <= weightMax, "weight %d of class %q: must be from 1 to %d, or 0 for 1", c.Weight, c.Name, weightMax)
		twice := slices.ContainsFunc(r.Classes[:i], func(d Class) bool { return d.Name == c.Name })
		wrong.Unless(!twice, "class %q: defined twice", c.Name)
		wrong.Unless(c.maxShare() >= shareMin && c.maxShare() <= shareMax,
			"maximum share %d of class %q: must be from %d to %d per mille", c.MaxShare, c.Name, shareMin, shareMax)
		if c.Strict {
			sum += c.maxShare()
		}
	}
	wrong.Unless(sum <= shareMax, "maximum shares of strict classes: the sum is %d, and must be at most %d per mille", sum, shareMax)
	weights := func(what string, of map[string]int) {
		for _, name := range slices.Sorted(maps.Keys(of)) {
			wrong.Unless(of[name] >= 1 && of[name] <= weightMax, "weight %d of %s %q: must be from 1 to %d", of[name], what, name, weightMax)
		}
	}
	weights("tenant", r.Tenants)
	weights("flow", r.Flows)
	wrong.Unless(r.Memory >= 0, "memory %d: must be at least 1, or 0 for %d", r.Memory, memoryDefault)
	return wrong.Join()
}

// Clone returns a copy that shares nothing with r.
func (r Rules) Clone() Rules {
	r.Classes, r.Tenants, r.Flows = slices.Clone(r.Classes), maps.Clone(r.Tenants), maps.Clone(r.Flows)
	return r
}

func (c *Class) maxShare() int {
	if c.MaxShare == 0 {
		return shareDefault
	}
	return c.MaxShare
}

func (r *Rules) memory() int {
	if r == nil || r.Memory == 0 {
		return memoryDefault
	}
	return r.Memory
}

func (r *Rules) class(name string) (c Class) {
	if i := slices.IndexFunc(r.Classes, func(c Class) bool { return c.Name == name }); i >= 0 {
		c = r.Classes[i]
	}
	return c
}

func (r *Rules) weight(at Level, name string) int {
	w := 0
	switch {
	case r == nil:
	case at == LevelClass:
		w = r.class(name).Weight
	case at == LevelTenant:
		w = r.Tenants[name]
	default:
		w = r.Flows[name]
	}
	return max(w, 1)
}

// Configure replaces the rules, which must be valid; nil is the zero Rules. All keep their
// tags, but a tag is reduced to one step of the new weight beyond virtual time. Idle nodes for
// which there is no room any more are forgotten. It takes O(n log n) for n nodes.
func (o *Order) Configure(r *Rules) {
	o.accompany()
	o.rules = r
	o.strict = r.strictClasses(o.strict, o.turns)
	if o.root.group != nil {
		o.reweigh(o.root.group)
	}
}

// reweigh gives the children of a group, and all below them, their new weights. It takes
// them out of their heaps and puts them back, since their order changes.
func (o *Order) reweigh(g *group) {
	g.weights = 0
	for _, h := range []*minheap.Heap[node, byTurn]{&g.active, &g.debtors} {
		var children []*node
		for n := h.PopMin(); n != nil; n = h.PopMin() {
			children = append(children, n)
		}
		for _, n := range children {
			o.weigh(n)
			n.tag = min(n.tag, g.now+n.step())
			h.Push(n)
			if !n.active() {
				continue
			}
			g.weights += int64(n.weight)
			if n.strict > 0 {
				o.strict[n.strict-1].node = n
			}
			if n.group != nil {
				o.reweigh(n.group)
			}
		}
	}
	for o.debts > o.rules.memory() && g.debtors.Len() > 0 { // there is less room than before
		o.forgetFirst(g)
	}
}

// weigh sets what the rules say about a node.
func (o *Order) weigh(n *node) {
	n.weight = uint16(o.rules.weight(n.level, n.name))
	if n.level == LevelClass {
		n.strict = uint8(1 + slices.IndexFunc(o.strict, func(s strictClass) bool { return s.name == n.name }))
	}
}
