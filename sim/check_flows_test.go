package sim

import (
	"slices"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/fair"
)

// scarceRoom is a world of two tenants' flows with a backlog for one destination of a
// transport whose tenants have the weights 1 and 2.
func scarceRoom() *Scenario {
	s := oneSite(Behaviour{Transaction: Uniform(second*45/1000, second*55/1000)}, Arrivals{Messages: 1})
	s.Arrivals = nil
	for _, tenant := range []string{"one", "two"} {
		s.Arrivals = append(s.Arrivals, Arrivals{Class: tenant, To: []string{s.Sites[0].Name}, Messages: 400, Flow: mail.Flow{Tenant: tenant, Flow: "f"}, Flows: 3})
	}
	s.Arrivals = append(s.Arrivals, Arrivals{Class: "little", To: []string{s.Sites[0].Name}, Pattern: PatternRegular, From: second, Rate: 2, Messages: 8, Flow: mail.Flow{Tenant: "little"}})
	s.Runs[0].Core.Shares = fair.Rules{Tenants: map[string]int{"two": 2}}
	s.Runs[0].Core.DefaultTransport.Window.Limit = 5
	return s
}

// The checkers of fair shares find nothing in a core that is right, and look at something.
// They find it out if the core has other rules than those by which they judge, and if it
// leaves a slot free.
func TestFlowCheckers(t *testing.T) {
	for _, c := range []struct {
		name, rule, want string
		doctor           func(w *world, k *claims)
	}{
		{"a core that is right", "", "", func(*world, *claims) {}},
		{"the core gives a tenant twice its share", "turns", "/two of weight 1 has had 2 turns", func(_ *world, k *claims) { k.rules = &fair.Rules{} }},
		{"it starts another's mail before that of a flow that has nothing to pay", "sparse flows", "has little mail", func(w *world, k *claims) {
			to := k.contest(w.nexthops["site.test"])
			to.root.members = map[string]*contender{"late": {parent: &to.root, waiting: 1, history: history{sparse: true}}}
			k.sparse.started(w, to, &contender{parent: &to.root, waiting: 1})
			to.root.members = nil
		}},
		{"it leaves a slot free", "idle slots", "a slot of", func(w *world, k *claims) { k.contest(w.nexthops["site.test"]).busy-- }},
	} {
		s := scarceRoom()
		w, err := newWorld(s, &s.Runs[0], 1)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(w.watch.starts, func(s startWatcher) bool { _, is := s.(*claims); return is })
		k := w.watch.starts[i].(*claims)
		c.doctor(w, k)
		w.play()
		for _, found := range []checker{k.turns, k.sparse, k.idle} {
			switch got := found.violation(); {
			case found.name() != c.rule && c.rule != "":
			case (got == "") != (c.want == "") || !strings.Contains(got, c.want):
				t.Errorf("%s: %s says %q, want %q", c.name, found.name(), got, c.want)
			}
		}
		if k.compared == 0 {
			t.Errorf("%s: nothing was compared", c.name)
		}
	}
}
