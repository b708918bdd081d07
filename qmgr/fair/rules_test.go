package fair

import (
	"fmt"
	"strings"
	"testing"
)

// All mistakes are found at once, and the zero Rules are valid.
func TestValidate(t *testing.T) {
	if err := (&Rules{}).Validate(); err != nil {
		t.Errorf("the zero Rules: %v", err)
	}
	good := Rules{
		Classes: []Class{{Name: "a", Weight: 1000, Strict: true}, {Name: "b", Weight: 1, Strict: true, MaxShare: 400}, {MaxShare: 10}, {Name: "d", MaxShare: 900}},
		Tenants: map[string]int{"t": 1}, Flows: map[string]int{"f": 1000}, Memory: 1,
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	bad := Rules{
		Classes: []Class{
			{Name: "a", Weight: 1001, Strict: true, MaxShare: 901}, {Name: "a", Weight: -1},
			{Name: "s", MaxShare: 9}, {Name: "u", Strict: true, MaxShare: -5},
		},
		Tenants: map[string]int{"t": 0, "u": 1001}, Flows: map[string]int{"f": -1}, Memory: -1,
	}
	want := []string{
		`weight 1001 of class "a"`, `share 901 of class "a"`, `class "a": defined twice`, `weight -1 of class "a"`,
		`share 9 of class "s"`, `share -5 of class "u"`, `weight 0 of tenant "t"`, `weight 1001 of tenant "u"`, `weight -1 of flow "f"`,
		`memory -1`,
	}
	for _, w := range want {
		if err := bad.Validate(); !strings.Contains(err.Error(), w) {
			t.Errorf("no complaint about %s in: %v", w, err)
		}
	}
	sum := Rules{Classes: []Class{{Name: "a", Strict: true}, {Name: "b", Strict: true, MaxShare: 401}}}
	if err := sum.Validate(); err == nil || !strings.Contains(err.Error(), "the sum is 901") {
		t.Errorf("maximum shares of 901 in sum: %v", err)
	}
}

// A leaf that is in two places, or in none, would be served for another flow.
func TestMisuse(t *testing.T) {
	for name, f := range map[string]func(o *Order, joined, other *Leaf){
		"join twice":             func(o *Order, joined, _ *Leaf) { o.Join(joined, Path{Flow: "b"}) },
		"two leaves of one flow": func(o *Order, _, other *Leaf) { o.Join(other, Path{Flow: "a"}) },
		"leave":                  func(o *Order, _, other *Leaf) { o.Leave(other) },
		"serve":                  func(o *Order, _, other *Leaf) { o.Serve(other) },
		"forfeit":                func(o *Order, _, other *Leaf) { o.Forfeit(other) },
		"view":                   func(o *Order, _, other *Leaf) { o.View(other) },
		"wait":                   func(o *Order, _, other *Leaf) { o.Wait(other) },
	} {
		var o Order
		var joined, other Leaf
		o.Join(&joined, Path{Flow: "a"})
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f(&o, &joined, &other)
		}()
	}
}

// Two Orders may share rules; the zero Order has none, and nil takes them away again.
func TestConfigureNil(t *testing.T) {
	rules := &Rules{Classes: []Class{{Name: "s", Strict: true, Weight: 7}}}
	var a, b Order
	var la, lb Leaf
	a.Join(&la, Path{Class: "s"})
	b.Configure(rules)
	b.Join(&lb, Path{Class: "s"})
	a.Configure(rules)
	for _, o := range []*Order{&a, &b} {
		o.Check()
		if o.strict[0].node == nil || o.All()[0].Weight != 7 {
			t.Error("a class that was active before its rules does not have them")
		}
		o.Configure(nil)
		o.Check()
		if o.All()[0].Weight != 1 || o.nextClass() == nil {
			t.Error("without rules a class still has some")
		}
	}
}

// An Order that has less Memory than before forgets what is too much at once. A flow that was
// forgotten has to pay all the same.
func TestConfigureLessMemory(t *testing.T) {
	var o Order
	var waits, served [5]Leaf
	for i := range waits {
		o.Join(&waits[i], Path{Tenant: "t", Flow: fmt.Sprint("w", i)})
		o.Join(&served[i], Path{Tenant: "t", Flow: fmt.Sprint("f", i)})
		o.Serve(&served[i])
		o.Leave(&served[i])
	}
	o.Check()
	if o.debts != 5 {
		t.Fatalf("%d flows are remembered, want 5", o.debts)
	}
	o.Configure(&Rules{Memory: 2})
	o.Check()
	if o.debts != 2 {
		t.Errorf("%d flows are remembered, want 2", o.debts)
	}
	o.Join(&served[0], Path{Tenant: "t", Flow: "f0"})
	if o.joined(&served[0]).state != backlogged {
		t.Error("a flow that was forgotten before it had paid is sparse")
	}
}
