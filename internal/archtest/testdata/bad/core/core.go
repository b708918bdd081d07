package core // bad: no package of core has a comment

import (
	"fmt"
	"maps"
	"os" // bad
	"slices"
	"time"

	"bad.example/bad/nouns"
	"bad.example/bad/world" // bad
	"example.org/elsewhere" // bad
)

var counter int // bad

var table = map[string]int{"a": 1} // bad: changed below

var pointed = [2]int{} // bad: its address is taken

var (
	set   = new(machine) // bad: step may change it
	moved machine        // bad: no value
)

type machine struct{ steps int }

func (m *machine) step() { m.steps++ }

type Undocumented struct{} // a comment behind it will do

type Naked struct { // a comment inside does not count, so this is bad
	a int
}

func Exported() {} // bad

const Lonely = 1 + 1

func run(m map[nouns.Noun]int, x, y float64) float64 {
	counter++
	table["b"] = 2
	p := &pointed
	set.step()
	go set.step()       // bad
	c := make(chan int) // bad
	select {            // bad
	case <-c:
	default:
	}
	defer func() {
		recover() // bad
	}()
	for k := range m { // bad
		fmt.Println(k, p)
	}
	for k := range m { //archtest:anyorder
		fmt.Println(k) // bad: the line above gives no reason
	}
	for k := range maps.Keys(m) { // bad
		fmt.Println(k)
	}
	list := slices.Collect(maps.Values(m)) // bad
	fmt.Println(list, os.Args, world.Now(), elsewhere.X)
	if time.Now().IsZero() { // bad
		return x*y + 1 // bad
	}
	z := 1 - (x * y) // bad
	z += x * x       // bad
	var d time.Time  // bad
	_ = d
	return z // TODO: bad
}

type wide struct { // bad
	a, b int
	c    string
	d    bool
}

//archtest:fields
type silent struct{ a, b, c, d int } // bad: no reason

//archtest:fields they are independent of each other
type excused struct{ a, b, c, d int }

type narrow struct{ a, b, c int }
