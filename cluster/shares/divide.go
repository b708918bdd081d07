package shares

import (
	"cmp"
	"slices"
	"strings"
)

// LimitMax is the largest limit.
const LimitMax = 1 << 30

// Floors returns the floor of each node: the limit divided by their number, and the
// remainder one by one to the nodes in an order that depends on key, so that small
// limits of many keys are not all with the same nodes.
func Floors(limit int64, key string, nodes []string) map[string]int64 {
	order := slices.Clone(nodes)
	slices.SortFunc(order, func(a, b string) int {
		return cmp.Or(cmp.Compare(hash(key, a), hash(key, b)), strings.Compare(a, b))
	})
	floors := make(map[string]int64, len(nodes))
	n := int64(len(nodes))
	for i, node := range order {
		floors[node] = limit / n
		if int64(i) < limit%n {
			floors[node]++
		}
	}
	return floors
}

// hash is FNV-1a of both texts, mixed once more, since the last bytes of names differ
// most and would only change the low bits.
func hash(key, node string) uint64 {
	h := uint64(14695981039346656037)
	for _, text := range [...]string{key, "\x00", node} {
		for i := range len(text) {
			h = (h ^ uint64(text[i])) * 1099511628211
		}
	}
	h ^= h >> 32
	return h * 0x9e3779b97f4a7c15
}

// Divide divides an amount among those who need something, in proportion to their
// needs, with the largest remainders rounded up. No node gets more than it needs.
func Divide(amount int64, needs []int64) []int64 {
	total := int64(0)
	for _, need := range needs {
		total += need
	}
	out := make([]int64, len(needs))
	if total <= amount {
		copy(out, needs)
		return out
	}
	type remainder struct {
		i    int
		rest int64
	}
	var rests []remainder
	left := amount
	for i, need := range needs {
		out[i] = amount * need / total
		left -= out[i]
		rests = append(rests, remainder{i, amount * need % total})
	}
	slices.SortFunc(rests, func(a, b remainder) int {
		return cmp.Or(cmp.Compare(b.rest, a.rest), cmp.Compare(a.i, b.i))
	})
	for _, r := range rests[:left] {
		out[r.i]++
	}
	return out
}

// Targets returns the share that each node should have: what it wants up to its floor,
// then the rest in proportion to what each wants beyond that, and what no node wants goes
// back to the floors it came from. Their sum is at most that of the floors.
func Targets(floors, wants []int64) []int64 {
	limit, rest := int64(0), int64(0)
	for _, floor := range floors {
		limit += floor
	}
	rest = limit
	out, needs := make([]int64, len(floors)), make([]int64, len(floors))
	for i, floor := range floors {
		want := min(wants[i], limit)
		out[i] = min(want, floor)
		needs[i] = want - out[i]
		rest -= out[i]
	}
	for i, more := range Divide(rest, needs) {
		out[i] += more
		rest -= more
	}
	for i, floor := range floors {
		needs[i] = max(0, floor-out[i])
	}
	for i, back := range Divide(rest, needs) {
		out[i] += back
	}
	return out
}

// matched returns what the lender at index self lends to each node so that all have
// their targets, if all nodes come to the same result: lenders serve borrowers in order.
func matched(floors, targets []int64, self int) []int64 {
	out := make([]int64, len(floors))
	j := 0
	need := int64(0)
	for i := 0; i <= self; i++ {
		for spare := floors[i] - targets[i]; spare > 0; {
			for need <= 0 {
				if j == len(floors) {
					return out
				}
				need = targets[j] - floors[j]
				j++
			}
			n := min(spare, need)
			if i == self {
				out[j-1] += n
			}
			spare, need = spare-n, need-n
		}
	}
	return out
}
