package source

import (
	"cmp"
	"slices"
)

// A rotation is the order in which the members of a pool take turns: a sequence in which
// each occurs as often as its weight says, at equal distances as far as that is possible,
// and which begins again at its end. A destination has a position in it. Members that
// cannot be used are passed over, so that the others take turns as if the sequence did not
// have them.
type rotation struct {
	members []Member
	slots   []uint16 // whose turn it is at each position
	first   int      // position of the next destination that is new
	refused []bool   // by member: what a pick has found out
}

// newRotation returns the rotation of some members. The k-th of w turns of a member, from 0 on,
// belongs to the part (k+½)/w of the sequence; of equal ones the first member's comes first.
// The sequence is as long as the sum of the weights divided by what all have in common: one
// million at most (MembersMax, WeightMax), and their number if they are equal.
func newRotation(members []Member) *rotation {
	type slot struct{ member, k int }
	r := &rotation{members: slices.Clone(members), refused: make([]bool, len(members))}
	common := 0
	for _, m := range members {
		common = divisor(common, m.Weight)
	}
	var all []slot
	for i, m := range members {
		for k := range m.Weight / common {
			all = append(all, slot{i, k})
		}
	}
	slices.SortFunc(all, func(a, b slot) int {
		return cmp.Or(cmp.Compare((2*a.k+1)*members[b.member].Weight, (2*b.k+1)*members[a.member].Weight), cmp.Compare(a.member, b.member))
	})
	r.slots = make([]uint16, len(all))
	for i, s := range all {
		r.slots[i] = uint16(s.member)
	}
	return r
}

// divisor returns the greatest common divisor.
func divisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// pick takes the next turn of a member that is usable, from a position on.
func (r *rotation) pick(next *int, usable func(member int) bool) (member int, ok bool) {
	at := *next
	member = int(r.slots[at])
	if at = r.after(at); usable(member) {
		*next = at
		return member, true
	}
	clear(r.refused)
	for left := len(r.members) - 1; left > 0; left-- {
		r.refused[member] = true
		for r.refused[member] {
			member, at = int(r.slots[at]), r.after(at)
		}
		if usable(member) {
			*next = at
			return member, true
		}
	}
	return 0, false
}

// after returns the position behind one.
func (r *rotation) after(at int) int {
	if at++; at == len(r.slots) {
		return 0
	}
	return at
}

// A move takes positions in one rotation to another one of the same pool.
type move struct {
	to *rotation
	// at is where each position comes to, and members which number each member has; nil if
	// nothing changes.
	at      []int
	members []int // -1: removed
}

// newMove returns how positions come to a rotation with other members or weights: to the turn
// of the same member that is as far on, or of the next member that remains.
func newMove(from *rotation, members []Member) *move {
	if slices.Equal(from.members, members) {
		return &move{to: from}
	}
	m := &move{to: newRotation(members), at: make([]int, len(from.slots)), members: make([]int, len(from.members))}
	for i := range from.members {
		m.members[i] = slices.IndexFunc(members, func(other Member) bool { return other.Source == from.members[i].Source })
	}
	before, now := from.positions(), m.to.positions()
	next := 0 // none remains: the new rotation begins
	for range 2 {
		for at := len(from.slots) - 1; at >= 0; at-- {
			if i := int(from.slots[at]); m.members[i] >= 0 {
				there := now[m.members[i]]
				k, _ := slices.BinarySearch(before[i], at)
				next = there[k*len(there)/len(before[i])]
			}
			m.at[at] = next
		}
	}
	m.to.first = m.at[from.first]
	return m
}

// positions returns the positions of each member, in their order.
func (r *rotation) positions() [][]int {
	list := make([][]int, len(r.members))
	for at, i := range r.slots {
		list[i] = append(list[i], at)
	}
	return list
}

// turn moves a destination.
func (m *move) turn(now *turn) {
	if m.at == nil {
		return
	}
	now.next = m.at[now.next]
	if now.given = m.members[now.given]; now.given < 0 {
		now.given, now.message = 0, 0
	}
}
