package source

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// pooled is a configuration of n sources in one pool.
func pooled(n int) *Config {
	c := &Config{Pools: []Pool{{Name: "main"}}}
	for i := range n {
		name := fmt.Sprint("s", i)
		c.Sources = append(c.Sources, Source{Name: name, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})}})
		c.Pools[0].Members = append(c.Pools[0].Members, Member{Source: name, Weight: 1})
	}
	return c
}

// The choice by its definition: the source of the last message at the destination if it is the same message, or that of its other
// recipients, if it may be used; else in a circle, from the one whose turn it is, the first that may, and else the first that may
// though the destination is dead.
func TestChooseAgainstTwin(t *testing.T) {
	for run := range uint64(50) {
		r := rand.New(rand.NewPCG(run, 1))
		n := 1 + r.IntN(7)
		var f Fleet
		f.Configure(pooled(n))
		p := f.Pool(Way{Flow: &mail.Flow{}})
		next, last, lastMessage, message := 0, -1, uint64(0), uint64(1)
		for pick := range 300 {
			uses := make(map[*State]Use)
			for _, s := range f.All() {
				uses[s] = Use(r.IntN(3))
			}
			var beside iter.Seq[*State]
			var other *State
			if r.IntN(3) == 0 {
				other = f.All()[r.IntN(n)]
				beside = slices.Values([]*State{other})
			}
			if r.IntN(2) == 0 {
				message++
			}
			want := func() int {
				if last >= 0 && lastMessage == message && uses[f.All()[last]] == UseWell {
					return last
				}
				if other != nil && uses[other] == UseWell {
					return f.Place(other)
				}
				for _, least := range []Use{UseWell, UseDead} {
					if last >= 0 && lastMessage == message && uses[f.All()[last]] >= least {
						return last
					}
					for k := range n {
						if i := (next + k) % n; uses[f.All()[i]] >= least {
							next, last, lastMessage = (i+1)%n, i, message
							return i
						}
					}
				}
				return -1
			}()
			got := f.Choose(Choice{Pool: p, Transport: "smtp", Name: "a.test", Message: message, Beside: beside}, func(s *State) Use { return uses[s] })
			if f.Place(got) != want {
				t.Fatalf("run %d, pick %d: source %d, want %d", run, pick, f.Place(got), want)
			}
		}
	}
}

// Pauses that end within a second end together, at the end of the first; others do not.
func TestPausesEndTogether(t *testing.T) {
	var f Fleet
	f.Configure(pooled(3))
	for i, after := range []time.Duration{0, 999 * time.Millisecond, 1001 * time.Millisecond} {
		first, ok := f.Withdraw(f.All()[i], IPv4, mail.Reply{Text: "down"}, noon.Add(after))
		if !first || !ok {
			t.Fatalf("source %d is not withdrawn", i)
		}
		f.Check()
	}
	end := noon.Add(5 * time.Second)
	if f.Next() != end || f.TryDue(end-1) != nil {
		t.Errorf("the first pause ends at %v, want %v", f.Next(), end)
	}
	if tried := f.TryDue(end); len(tried) != 2 || tried[0] != f.All()[0] || tried[1] != f.All()[1] {
		t.Errorf("tried are %v", tried)
	}
	f.Check()
	if f.Next() != end.Add(1001*time.Millisecond) || f.All()[2].Up() || !f.All()[1].Up() {
		t.Errorf("the next pause ends at %v", f.Next())
	}
	f.Configure(pooled(3))
	f.Check()
	if f.Next() != mail.Never {
		t.Error("a reload does not try what was withdrawn")
	}
}

// A reload keeps what is known of sources. One that is gone stays for the mail that is under way, and is used no more.
func TestReloadOfTheFleet(t *testing.T) {
	var f Fleet
	if f.HasPools() || f.Pool(Way{Flow: &mail.Flow{}}) != nil || f.Next() != mail.Never {
		t.Error("there are pools without a configuration")
	}
	f.Configure(pooled(3))
	was := slices.Clone(f.All())
	less := pooled(3)
	less.Sources, less.Pools[0].Members = less.Sources[1:], less.Pools[0].Members[1:]
	less.Sources[1].Hello = "other.test"
	changed := f.Configure(less)
	if len(changed) != 1 || changed[0] != was[2] {
		t.Errorf("changed are %v", changed)
	}
	if got := f.All(); len(got) != 3 || got[0] != was[1] || got[2] != was[0] || was[0].Up() || f.Named("s0") != was[0] {
		t.Errorf("the sources are %v", got)
	}
	if got := f.Members(f.Pool(Way{Flow: &mail.Flow{}})); !slices.Equal(got, was[1:]) {
		t.Errorf("the pool has %v", got)
	}
	f.Check()
}

// What is tried again is the mail since the first that found no source.
func TestRescue(t *testing.T) {
	var f Fleet
	f.Strand(noon)
	f.Strand(noon.Add(time.Second))
	if since := f.Rescue(); since != noon || f.Rescue() != 0 {
		t.Errorf("stranded since %v", since)
	}
}
