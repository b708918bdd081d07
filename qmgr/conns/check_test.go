package conns

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/internal/prng"
)

// unbound are the fields of which any value can be right: what the caller has said, what
// has been measured, and whose turn it is.
var unbound = []string{
	"Conn.broken", "Conn.lastCallout", "Conn.level", "Conn.rtt", "Conn.service",
	"Group.slowTurn",
	"Pool.halted", "Pool.lastReset",
	"Site.cause", "Site.single", "Site.trust", "Site.until", "Site.upgrades", "Site.used", "Site.yielded",
	"host.accepted", "host.fullAt", "host.most", "host.mostAt", "host.noise", "host.oddAt",
}

// Whatever is wrong with a number, a flag or a state is found by Check in some pool, unless
// the field is one that nothing else determines.
func TestCheckFindsEveryMutation(t *testing.T) {
	missed := make(map[string]bool)
	found := make(map[string]bool)
	complete := func() bool {
		for name := range missed {
			if !found[name] && !slices.Contains(unbound, name) {
				return false
			}
		}
		return true
	}
	// A plain run ends when all has been found.
	for seed := uint64(1); seed <= 32 && (seed <= 4 || !complete() || golden.Runs(0) > 0); seed++ {
		r := prng.New(seed)
		w := newTwins(&r, t.Fatalf)
		for step := range 240 {
			if w.step(); step%40 == 39 {
				w.mutate(found, missed)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(missed)) {
		if !found[name] && !slices.Contains(unbound, name) {
			t.Errorf("%s: no mutation is found", name)
		}
	}
	for _, name := range unbound {
		if found[name] || !missed[name] {
			t.Errorf("%s is listed as one of which any value can be right, and is not", name)
		}
	}
}

// mutate changes each field of each object, has it checked and changes it back; once a
// mutation of a field was found, only those that should never be are tried again.
func (w *twins) mutate(found, missed map[string]bool) {
	try := func(name string, f reflect.Value, mutate func()) {
		if found[name] && !slices.Contains(unbound, name) {
			return
		}
		old := reflect.ValueOf(f.Interface())
		mutate()
		defer f.Set(old)
		defer func() {
			if recover() != nil {
				found[name] = true
			} else {
				missed[name] = true
			}
		}()
		w.p.Check(w.sites())
	}
	all := []any{w.p}
	for _, g := range w.g {
		all = append(all, g)
	}
	for _, s := range w.s {
		all = append(all, s.Site)
	}
	for c := range w.p.All() {
		all = append(all, c)
	}
	for _, h := range w.p.hosts { //archtest:anyorder each is tried
		all = append(all, h)
	}
	for _, a := range w.p.addresses { //archtest:anyorder each is tried
		all = append(all, a)
	}
	for _, object := range all {
		v := reflect.ValueOf(object).Elem()
		fields(v.Type().Name(), v, func(name string, f reflect.Value) {
			switch {
			case f.Kind() == reflect.Bool:
				try(name, f, func() { f.SetBool(!f.Bool()) })
			case f.CanInt():
				try(name, f, func() { f.SetInt(f.Int() + 1) })
				try(name, f, func() { f.SetInt(0) })
			case f.CanUint():
				try(name, f, func() { f.SetUint(f.Uint() ^ 1) })
			}
		})
	}
}

// fields yields the fields of a structure, and of those of this package in it.
func fields(name string, v reflect.Value, yield func(name string, f reflect.Value)) {
	for i := range v.NumField() {
		f, of := v.Field(i), v.Type().Field(i)
		f = reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
		t := f.Type()
		if f.Kind() != reflect.Struct {
			yield(name+"."+of.Name, f)
		} else if strings.HasSuffix(t.PkgPath(), "qmgr/conns") && !strings.HasSuffix(t.Name(), "Config") && t != reflect.TypeFor[timer]() && t != reflect.TypeFor[survey]() && t != reflect.TypeFor[endings]() {
			inner := name
			if !of.Anonymous {
				inner += "." + of.Name
			}
			fields(inner, f, yield)
		}
	}
}
