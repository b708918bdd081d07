// Package near guesses what a misspelt name was meant to be.
//
// Of the names that there are, one is near if at most a third of its letters have
// to be put in, left out, replaced or swapped with their neighbours.
package near

import (
	"cmp"
	"slices"
	"strings"
)

// Name returns the name that is most like the given one, "" if none is like it.
// Names are in lower case.
func Name(name string, names []string) string {
	if all := Names(name, names, 1); len(all) > 0 {
		return all[0]
	}
	return ""
}

// Names returns at most most names that are like the given one, the nearest first;
// those that are as near come in the order in which they were given.
func Names(name string, names []string, most int) []string {
	limit := max(1, len(name)/3) + 1
	type guess struct {
		name     string
		distance int
	}
	var all []guess
	for _, known := range names {
		if d := distance(strings.ToLower(name), known, limit); d < limit {
			all = append(all, guess{known, d})
		}
	}
	slices.SortStableFunc(all, func(a, b guess) int { return cmp.Compare(a.distance, b.distance) })
	var found []string
	for _, g := range all[:min(len(all), most)] {
		found = append(found, g.name)
	}
	return found
}

// distance returns how many letters must be put in, left out, replaced or swapped
// with their neighbour to make b of a; distances up to limit are exact.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	before, last, now := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		now[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			now[j] = min(last[j]+1, now[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				now[j] = min(now[j], before[j-2]+1)
			}
		}
		before, last, now = last, now, before
	}
	return min(last[len(b)], limit)
}
