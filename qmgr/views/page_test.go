package views

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/posthaste-mta/posthaste/qmgr/conns"
)

// Page after page shows each destination once, in the order of the list, and learns on each
// page how many there are.
func TestPages(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for run := range 50 {
		var all []Position
		for i := range r.IntN(40) {
			all = append(all, Position{Todo: r.IntN(4), Condition: Condition(r.IntN(int(conditions))), Transport: "smtp", Nexthop: fmt.Sprintf("d%d", i%17), Source: fmt.Sprint(i / 17)})
		}
		in := Conditions()[:r.IntN(3)]
		query := Query{Most: 1 + r.IntN(7), In: in, Match: func(_, nexthop string) bool { return nexthop != "d3" }}
		wanted := func(p Position) bool { return p.Nexthop != "d3" && (len(in) == 0 || slices.Contains(in, p.Condition)) }
		var seen []Position
		for more := true; more; {
			page := NewPage[int](&query)
			matched := 0
			for i, p := range all {
				if page.Wants(p.Transport, p.Nexthop) {
					page.Add(p, i)
					matched++
				}
			}
			var last Position
			list := page.List(func(at Position, i int) DestinationSummary {
				if all[i] != at {
					t.Fatalf("run %d: %+v comes with the value of %+v", run, at, all[i])
				}
				seen, last = append(seen, at), at
				return DestinationSummary{}
			})
			if list.Matched != matched || len(list.Destinations) > query.Most {
				t.Fatalf("run %d: %d of %d match, %d on a page of %d", run, list.Matched, matched, len(list.Destinations), query.Most)
			}
			more, query.After = list.More, &last
		}
		want := slices.DeleteFunc(slices.Clone(all), func(p Position) bool { return !wanted(p) })
		slices.SortFunc(want, func(a, b Position) int { return a.Compare(&b) })
		if !slices.Equal(seen, want) {
			t.Fatalf("run %d: pages have\n%+v\nwant\n%+v", run, seen, want)
		}
	}
}

// A destination stands as well as the best of the ways on which mail waits: others do not matter to mail, but where none
// waits.
func TestPositionsTogether(t *testing.T) {
	const ready, full, dead = ConditionReady, ConditionFull, ConditionDead
	for _, tc := range []struct {
		a, b Position
		want Position
	}{
		{Position{Todo: 2, Condition: full, Source: "a"}, Position{Todo: 3, Condition: dead, Source: "b"}, Position{Todo: 5, Condition: full}},
		{Position{Todo: 2, Condition: full, Source: "a"}, Position{Condition: ready, Source: "a"}, Position{Todo: 2, Condition: full, Source: "a"}},
		{Position{Condition: ready, Security: "x"}, Position{Todo: 1, Condition: dead, Security: "y"}, Position{Todo: 1, Condition: dead}},
		{Position{Condition: dead}, Position{Condition: full}, Position{Condition: full}},
	} {
		if got := tc.a.With(tc.b); got != tc.want {
			t.Errorf("%+v with %+v: %+v, want %+v", tc.a, tc.b, got, tc.want)
		}
	}
}

// What package conns says becomes a wait reason of its own word, and the numbers that go with it.
func TestReasonsFromSites(t *testing.T) {
	seen := make(map[WaitKind]bool)
	for why := range siteWaits {
		o := FromSite(conns.WaitView{Why: conns.Wait(why), Limit: 3}, 7, 9, false)
		seen[o.Kind] = true
		if window := conns.Wait(why) == conns.WaitWindow; window != (o.Limit == 7 && o.Most == 9) {
			t.Errorf("%d: %+v", why, o)
		}
		if o.Callouts != (conns.Wait(why) == conns.WaitCallout) {
			t.Errorf("%d: %+v", why, o)
		}
		if o.Kind.Condition() == ConditionReady {
			t.Errorf("a destination that waits for %v is ready", o.Kind)
		}
	}
	if len(seen) != len(siteWaits)-1 { // call-outs and mail wait for a busy host
		t.Errorf("%d reasons of %d", len(seen), len(siteWaits))
	}
	if o := FromSite(conns.WaitView{Why: conns.WaitSlot, Shared: true}, 0, 0, false); o.Kind != WaitConnectionLimit {
		t.Errorf("a slot that all transports share: %+v", o)
	}
	if o := FromSite(conns.WaitView{Why: conns.WaitNone}, 0, 0, true); o.Kind != WaitConnecting {
		t.Errorf("a connection is being opened: %+v", o)
	}
}

// Each reason of package conns has one here.
func TestEverySiteWaitIsKnown(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Errorf("package conns has reasons behind %v, siteWaits does not", conns.Wait(len(siteWaits)-1))
		}
	}()
	_ = conns.Wait(len(siteWaits)).String() // panics if there is none
}

// A destination is ready if nothing keeps its mail from going but other mail, or what the messages themselves wait for.
// A new reason that no case of Condition has would be ready, too.
func TestConditionOfEveryReason(t *testing.T) {
	ready := []WaitKind{WaitNone, WaitTurn, WaitReportTurn, WaitLookups}
	for _, k := range WaitKinds() {
		if (k.Condition() == ConditionReady) != slices.Contains(ready, k) {
			t.Errorf("a destination that waits for %v is %v", k, k.Condition())
		}
	}
}

// Only a window at its limit is kept there by a setting.
func TestSettings(t *testing.T) {
	for _, tc := range []struct {
		o    WaitReason
		want bool
	}{
		{WaitReason{Kind: WaitWindow, Limit: 5, Most: 5}, true},
		{WaitReason{Kind: WaitWindow, Limit: 4, Most: 5}, false},
		{WaitReason{Kind: WaitWindow, Limit: 5}, false},
		{WaitReason{Kind: WaitDestinationRate}, true},
		{WaitReason{Kind: WaitConnectionRate}, true},
		{WaitReason{Kind: WaitDestinationDelay}, true},
		{WaitReason{Kind: WaitHostLimit}, true},
		{WaitReason{Kind: WaitTurn}, false},
	} {
		if got := tc.o.Setting() != nil; got != tc.want {
			t.Errorf("%+v: %t", tc.o, got)
		}
	}
}
