package fair

import "slices"

// A strictClass is the credit of a class that goes first. It exists as long as the rules
// say so, whether the class is active or not, so that leaving the Order does not renew it.
type strictClass struct {
	name  string
	share int64 // per mille
	node  *node // while the class is active

	// credit is what the class had at turn at, in thousandths of a service. Each turn of
	// the Order adds share, up to that of strictBurst turns; each turn of the class takes
	// a thousand, down to 0.
	credit int64
	at     uint64
}

// strictClasses returns the classes that are Strict by the rules, with the credit that
// they had. New ones have all of it.
func (r *Rules) strictClasses(old []strictClass, turns uint64) (list []strictClass) {
	if r == nil {
		return nil
	}
	for i := range r.Classes {
		c := &r.Classes[i]
		if !c.Strict {
			continue
		}
		s := strictClass{name: c.Name, share: int64(c.maxShare()), at: turns}
		s.credit = s.share * strictBurst
		if i := slices.IndexFunc(old, func(o strictClass) bool { return o.name == s.name }); i >= 0 {
			s.credit = min(s.credit, old[i].creditAt(turns))
		}
		list = append(list, s)
	}
	return list
}

func (s *strictClass) creditAt(turns uint64) int64 {
	return min(s.credit+s.share*int64(turns-s.at), s.share*strictBurst)
}

// first reports whether the class may go first.
func (s *strictClass) first(turns uint64) bool {
	return s.node != nil && s.creditAt(turns) >= serviceInCredit
}

// take pays for a turn of the class, the one that makes the number of turns what it is
// now.
func (s *strictClass) take(turns uint64) {
	s.credit = max(0, s.creditAt(turns)-serviceInCredit)
	s.at = turns
}

// nextClass returns the class whose turn it is: of the strict ones that may go first the
// one whose turn by weight would come first, otherwise the first by weight.
func (o *Order) nextClass() *node {
	var next *node
	for i := range o.strict {
		if s := &o.strict[i]; s.first(o.turns) && (next == nil || byTurn{}.Before(s.node, next)) {
			next = s.node
		}
	}
	if next == nil {
		next = o.root.group.active.Min()
	}
	return next
}

// strictWait returns the number of turns before the turn-th one of a class from now, at
// most, where it is wait by weight alone. Other strict classes go first in as many of n
// turns as their credit and n times their shares pay for: n <= wait + (credit + share*n)/1000.
// If the class is the only strict one, it goes first as soon as its own credit pays for all
// of its turns. At the limit of its credit it earns nothing, but then each turn is its own.
func (o *Order) strictWait(class *node, turn, wait int64) int64 {
	var credit, share int64
	var own *strictClass
	for i := range o.strict {
		switch s := &o.strict[i]; s.node {
		case nil:
		case class:
			own = s
		default:
			credit += s.creditAt(o.turns)
			share += s.share
		}
	}
	wait = (serviceInCredit*wait + credit) / (1000 - share)
	if own != nil && share == 0 {
		lacking := max(0, serviceInCredit*turn-own.creditAt(o.turns))
		wait = min(wait, turn-1+(lacking+own.share-1)/own.share)
	}
	return wait
}
