// Package core decides.
package core

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"good.example/good/nouns"

	"example.org/tables/small"
)

// ErrNone is an error, so it may be a variable.
var ErrNone = errors.New("none")

var weekdays = [...]string{"Monday", "Tuesday"}

var replacer = strings.NewReplacer("a", "b")

var _ fmt.Stringer = Name("")

const patience = 3 * time.Second

// A Name is a noun's.
type Name string

// String returns the name.
func (n Name) String() string { return replacer.Replace(string(n)) }

// Run is as pure as can be. The word TODOLIST is no mark.
func Run(m map[nouns.Noun]int, x, y float64) (float64, time.Duration) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fmt.Sprint(k, weekdays[0], small.Table)
	}
	for k := range m { //archtest:anyorder all are deleted
		delete(m, k)
	}
	//archtest:anyorder copied into a map
	for k, v := range maps.All(m) {
		m[k] = v
	}
	copied := maps.Collect(maps.All(m))
	ordered := slices.SortedFunc(maps.Values(copied), func(a, b int) int { return b - a })
	local := map[string]int{}
	local["a"]++
	sum := float64(x*y) + 1 + float64(2*3.5)
	n := len(ordered)*2 + 1
	return sum + float64(n), min(patience, time.Minute)
}

// A Failure is an error.
type Failure struct{}

func (Failure) Error() string { return "failed" }
