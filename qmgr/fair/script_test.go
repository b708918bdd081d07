package fair

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/golden"
)

// The scripts are the manual of the order: read them before the code. This file is the
// manual of their language. A PATH is CLASS/TENANT/FLOW; a tenant or class that is left
// out is the one without a name.
func TestScripts(t *testing.T) {
	golden.RunAll(t, "testdata/*.txt", func() golden.Handler {
		s := &script{}
		return s.handle
	})
}

// A script has one Order at a time.
type script struct {
	o     *Order
	rules Rules
	flows map[string]*flow
	out   strings.Builder
}

func (s *script) handle(tb testing.TB, b *golden.Block) string {
	s.out.Reset()
	for _, l := range b.Lines {
		s.command(tb, l)
		s.o.Check()
	}
	return s.out.String()
}

func (s *script) command(tb testing.TB, l *golden.Line) {
	tb.Helper()
	switch l.Name {
	case "new": // new [memory=N]: an empty order, with these rules
		s.o, s.flows = &Order{}, make(map[string]*flow)
		s.rules = Rules{Memory: l.Int(tb, "memory", 0), Tenants: map[string]int{}, Flows: map[string]int{}}
		s.configure(tb)
	case "class": // class NAME [weight=N] [strict] [share=N]: what the rules say from now on
		c := Class{Name: l.Word(tb, 0), Weight: l.Int(tb, "weight", 0), Strict: l.Has("strict"), MaxShare: l.Int(tb, "share", 0)}
		s.rules.Classes = append(slices.DeleteFunc(slices.Clone(s.rules.Classes), func(o Class) bool { return o.Name == c.Name }), c)
		s.configure(tb)
	case "tenant", "flow": // tenant|flow NAME weight=N
		weights := &s.rules.Flows
		if l.Name == "tenant" {
			weights = &s.rules.Tenants
		}
		*weights = maps.Clone(*weights)
		(*weights)[l.Word(tb, 0)] = l.Int(tb, "weight", 1)
		s.configure(tb)
	case "join": // join PATH…
		for _, word := range l.Words {
			f := s.flow(word)
			s.o.Join(&f.Leaf, f.path)
		}
	case "leave": // leave PATH…
		for _, word := range l.Words {
			s.o.Leave(&s.flow(word).Leaf)
		}
	case "serve": // serve PATH…: whether it is their turn or not
		for _, word := range l.Words {
			s.o.Serve(&s.flow(word).Leaf)
		}
	case "forfeit": // forfeit: who loses the turn
		n := s.o.Next()
		s.o.Forfeit(n)
		fmt.Fprintf(&s.out, "%v forfeits\n", s.name(n))
	case "turns": // turns N [once] [back=PATH]: who is served; all leave then, or one does and comes back at once
		s.turns(l.Words[0], l.Has("once"), l.Str("back", ""))
	case "show": // show: what is active, and for how many services each flow waits at most
		s.show()
	case "memory": // memory: how many idle ones are remembered
		fmt.Fprintf(&s.out, "%d remembered\n", s.o.debts)
	default:
		tb.Fatalf("%s: no such command: %s", l.Pos, l.Name)
	}
}

func (s *script) configure(tb testing.TB) {
	tb.Helper()
	r := s.rules
	if err := r.Validate(); err != nil {
		tb.Fatal(err)
	}
	s.o.Configure(&r)
}

func (s *script) flow(word string) *flow {
	f := s.flows[word]
	if f == nil {
		names := append([]string{"", ""}, strings.Split(word, "/")...)
		names = names[len(names)-3:]
		f = &flow{path: Path{Class: names[0], Tenant: names[1], Flow: names[2]}}
		f.Owner = f
		s.flows[word] = f
	}
	return f
}

func (s *script) name(l *Leaf) string {
	if l == nil {
		return "-"
	}
	return shortName(l.Owner.(*flow).path)
}

func shortName(p Path) string { return strings.TrimLeft(p.Class+"/"+p.Tenant+"/"+p.Flow, "/") }

func (s *script) turns(count string, once bool, back string) {
	var n int
	fmt.Sscan(count, &n)
	var names []string
	for range n {
		l := s.o.Next()
		names = append(names, s.name(l))
		if l == nil {
			break
		}
		s.o.Serve(l)
		if once || names[len(names)-1] == back {
			s.o.Leave(l)
		}
		if names[len(names)-1] == back {
			f := s.flow(back)
			s.o.Join(&f.Leaf, f.path)
		}
	}
	s.out.WriteString(strings.Join(names, " ") + "\n")
}

func (s *script) show() {
	leaves := make(map[Path]*Leaf)
	for _, f := range s.flows {
		if f.Joined() {
			leaves[f.path] = &f.Leaf
		}
	}
	for _, v := range s.o.All() {
		names := []string{"", v.Path.Class, v.Path.Tenant, v.Path.Flow}
		name := fmt.Sprintf("%s%s %q", strings.Repeat("  ", int(v.Level)-1), []string{"", "class", "tenant", "flow"}[v.Level], names[v.Level])
		state := "backlogged"
		if v.Sparse {
			state = "sparse"
		}
		fmt.Fprintf(&s.out, "%-22s weight %-4d %4d per mille, one of %d, %-10s served %d", name, v.Weight, v.Share, v.Siblings, state+",", v.Served)
		if v.Level == LevelFlow {
			fmt.Fprintf(&s.out, ", next after %d", s.o.Wait(leaves[v.Path]))
		}
		s.out.WriteString("\n")
	}
}
