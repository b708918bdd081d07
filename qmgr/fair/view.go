package fair

import (
	"cmp"
	"math/bits"
	"slices"
)

// A View is an active class, tenant or flow, for display.
type View struct {
	Level    Level
	Path     Path // the names below Level are empty
	Weight   int
	Siblings int    // active children of its parent, itself included
	Share    int    // what it is entitled to among those that are active now, per mille
	Served   uint64 // services since it was last idle with nothing to pay
	Sparse   bool
}

// whole is the share of the root. Shares below 1 per mille count in the product of three
// levels.
const whole = 1_000_000_000_000

// waitMax is the largest answer of Wait, so that its products do not overflow: many hours at
// any rate.
const waitMax = 1_000_000_000

// siblingsMax is the number of siblings Wait looks at one by one.
const siblingsMax = 256

// View returns what is known of a joined leaf's class, tenant and flow. It takes constant
// time, but for the strict classes.
func (o *Order) View(l *Leaf) (class, tenant, flow View) {
	o.accompany()
	f := o.joined(l)
	t := f.parent
	ofClass := o.classShare(t.parent)
	ofTenant := below(ofClass, t)
	return view(t.parent, ofClass), view(t, ofTenant), view(f, below(ofTenant, f))
}

// All returns a View of everything that is active, sorted by path: a class, then its
// tenants, each before its flows.
func (o *Order) All() (list []View) {
	if o.accompany(); o.root.group == nil {
		return nil
	}
	for class := range o.root.group.active.All() {
		ofClass := o.classShare(class)
		list = append(list, view(class, ofClass))
		for tenant := range class.group.active.All() {
			ofTenant := below(ofClass, tenant)
			list = append(list, view(tenant, ofTenant))
			for flow := range tenant.group.active.All() {
				list = append(list, view(flow, below(ofTenant, flow)))
			}
		}
	}
	slices.SortFunc(list, func(a, b View) int {
		return cmp.Or(
			cmp.Compare(a.Path.Class, b.Path.Class),
			cmp.Compare(min(a.Level, LevelTenant), min(b.Level, LevelTenant)), // the class itself
			cmp.Compare(a.Path.Tenant, b.Path.Tenant),
			cmp.Compare(a.Level, b.Level), // the tenant itself
			cmp.Compare(a.Path.Flow, b.Path.Flow))
	})
	return list
}

func view(n *node, share int64) View {
	v := View{
		Level: n.level, Weight: int(n.weight), Siblings: n.parent.group.active.Len(),
		Share: int((share*1000 + whole/2) / whole), Served: n.served, Sparse: n.state == sparse,
	}
	for ; n.parent != nil; n = n.parent {
		switch n.level {
		case LevelClass:
			v.Path.Class = n.name
		case LevelTenant:
			v.Path.Tenant = n.name
		default:
			v.Path.Flow = n.name
		}
	}
	return v
}

// below returns a node's part of its parent's share.
func below(share int64, n *node) int64 { return share * int64(n.weight) / n.parent.group.weights }

// classShare returns the share of an active class. A strict class has the larger of its
// MaxShare and its share by weight of what the strict ones with more than that leave.
func (o *Order) classShare(class *node) int64 {
	rest, weights := int64(whole), o.root.group.weights
	first := make([]bool, len(o.strict))
	for found := true; found; {
		found = false
		for i := range o.strict {
			s := &o.strict[i]
			maxShare := s.share * (whole / 1000)
			if s.node == nil || first[i] || maxShare <= rest*int64(s.node.weight)/weights {
				continue
			}
			if s.node == class {
				return maxShare
			}
			rest -= maxShare
			weights -= int64(s.node.weight)
			first[i], found = true, true
		}
	}
	return rest * int64(class.weight) / weights
}

// Wait returns the number of services that the Order gives to others before a joined leaf's
// next one, at most, if each is Next's and no leaf joins. It may be less because others
// leave, because ties are counted against the leaf's ancestors, and because a strict class
// may go first. Answers beyond a thousand million are that. It takes time proportional to
// the number of active siblings of the leaf and of its ancestors, up to siblingsMax for each of these: of more
// siblings only the sum of their weights counts, which gives at most one service for each too many, and a thousandth.
func (o *Order) Wait(l *Leaf) int {
	o.accompany()
	n := o.joined(l)
	before := int64(0) // services of n before the one that is asked for
	for ; n.level > LevelClass; n = n.parent {
		before = min(before+servicesBefore(n, before+1), waitMax)
	}
	wait := min(before+servicesBefore(n, before+1), waitMax)
	return int(min(o.strictWait(n, before+1, wait), waitMax))
}

// servicesBefore returns the number of services of n's siblings before n's next one if turn
// is 1, before the one after that if it is 2, and so on.
func servicesBefore(n *node, turn int64) (services int64) {
	g, tag := n.parent.group, n.tag+(turn-1)*n.step()
	if others := g.active.Len() - 1; others >= siblingsMax {
		// One of weight w is served every unit/w, and its first tag is now or later. Steps
		// are rounded by 0.1 % at most.
		high, low := bits.Mul64(uint64(tag-g.now), uint64(g.weights-int64(n.weight)))
		if high >= unit {
			return waitMax
		}
		sum, _ := bits.Div64(high, low, unit)
		return min(int64(min(sum, waitMax))*1001/1000+1+int64(others), waitMax)
	}
	for s := range g.active.All() {
		switch {
		case s == n || s.tag > tag:
		case turn > 1: // of equal tags the sibling's may come first
			services += (tag-s.tag)/s.step() + 1
		case byTurn{}.Before(s, n): // its later tags come after n's if they are equal
			services += max(1, (tag-s.tag+s.step()-1)/s.step())
		}
	}
	return services
}
