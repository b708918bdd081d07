package directory

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

type destination struct {
	key  Key
	link Link[destination]
}

// Whatever comes and goes: each is found by its key, by its name and in its order, which is what a list of all says.
func TestAgainstList(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	dir := New[destination]()
	var all []*destination // as they came about
	several := 0
	for range 20_000 {
		k := Key{Name: fmt.Sprint("d", r.IntN(4)), Source: []string{"", "a", "b"}[r.IntN(3)], Security: []string{"", "verify"}[r.IntN(2)]}
		at := slices.IndexFunc(all, func(d *destination) bool { return d.key == k })
		switch d := dir.Get(k); {
		case (d != nil) != (at >= 0) || d != nil && d != all[at]:
			t.Fatalf("%v is found as %v", k, d)
		case d == nil:
			d = &destination{key: k}
			dir.Add(k, &d.link, d)
			all = append(all, d)
		case r.IntN(3) == 0:
			dir.Turned(&d.link)
			all = append(slices.Clone(all[at+1:]), all[:at+1]...)
		default:
			dir.Drop(k, &d.link, d)
			all = slices.Delete(all, at, at+1)
		}
		if got := slices.Collect(dir.All()); !slices.Equal(got, all) || dir.Len() != len(all) {
			t.Fatalf("the order is %v, want %v", got, all)
		}
		var named, variants []*destination
		for d := range dir.Named(k.Name) {
			named = append(named, d)
		}
		secured := false
		for _, d := range all {
			if d.key.Name == k.Name && !d.key.plain() {
				variants = append(variants, d)
				secured = secured || d.key.Security != ""
			}
		}
		v := dir.Variants(k.Name)
		plain := dir.Get(Key{Name: k.Name})
		if len(v.All()) != len(variants) || v.Secured() != secured || len(named) > 0 && plain != nil && named[0] != plain {
			t.Fatalf("of %s there are %v, want %v; secured: %t", k.Name, v.All(), variants, v.Secured())
		}
		for _, d := range variants {
			if !slices.Contains(v.All(), d) || !slices.Contains(named, d) {
				t.Fatalf("%v is not among those of its name", d.key)
			}
		}
		if len(variants) > 1 {
			several++
		}
		dir.Check(func(d *destination) Key { return d.key })
	}
	if several == 0 {
		t.Error("no name had several destinations")
	}
}

// A destination may go while those of its name are looked at.
func TestDropWhileYielded(t *testing.T) {
	dir := New[destination]()
	for _, s := range []string{"", "a", "b", "c"} {
		d := &destination{key: Key{Name: "d", Source: s}}
		dir.Add(d.key, &d.link, d)
	}
	var seen []string
	for d := range dir.Named("d") {
		seen = append(seen, d.key.Source)
		dir.Drop(d.key, &d.link, d)
	}
	if !slices.Equal(seen, []string{"", "a", "b", "c"}) || dir.Len() != 0 {
		t.Errorf("seen are %v, and %d are left", seen, dir.Len())
	}
}
