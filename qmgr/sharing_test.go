package qmgr_test

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"testing"
	"unsafe"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/shape"
)

// memory is what can be changed through a value: by the address where it is, the
// way there. Ways from a beginning without a name have none, which is much faster.
type memory map[unsafe.Pointer]string

// extended returns a way that is longer by a step.
func extended(way, step string) string {
	if way == "" {
		return ""
	}
	return way + step
}

// unchanging are values that everybody shares and nobody changes, as their comments say.
var unchanging = map[reflect.Type]bool{reflect.TypeFor[*mail.OrderedRoute](): true, reflect.TypeFor[*mail.Doubts](): true}

// add adds what can be reached from v.
func (m memory) add(v reflect.Value, way string) {
	switch v.Kind() {
	case reflect.Interface:
		if !v.IsNil() {
			m.add(v.Elem(), way)
		}
	case reflect.Pointer:
		if v.IsNil() || unchanging[v.Type()] || !m.note(v.UnsafePointer(), way) {
			return
		}
		m.add(v.Elem(), way)
	case reflect.Struct:
		m.addFields(v, way)
	case reflect.Array:
		for i := range v.Len() {
			m.add(v.Index(i), way)
		}
	case reflect.Slice:
		if v.Cap() == 0 || !m.note(v.UnsafePointer(), way) || !leads(v.Type().Elem().Kind()) {
			return
		}
		for i := range v.Len() {
			if way == "" {
				m.add(v.Index(i), "")
				continue
			}
			m.add(v.Index(i), fmt.Sprintf("%s[%d]", way, i))
		}
	case reflect.Map:
		if v.IsNil() || !m.note(v.UnsafePointer(), way) {
			return
		}
		for it := v.MapRange(); it.Next(); {
			m.add(it.Key(), extended(way, "[key]"))
			m.add(it.Value(), extended(way, "[]"))
		}
	}
}

func (m memory) addFields(v reflect.Value, way string) {
	step := v.Type().Name() == "step"
	for i := range v.NumField() {
		f := v.Field(i)
		if !leads(f.Kind()) {
			continue
		}
		further := way
		if step || way != "" {
			name := v.Type().Field(i).Name
			if step && name == "actions" { // which is the host's until the next Step
				continue
			}
			further = extended(way, "."+name)
		}
		m.add(f, further)
	}
}

// leads reports whether something that can be changed may be reached from a value.
func leads(k reflect.Kind) bool {
	switch k {
	case reflect.Interface, reflect.Pointer, reflect.Struct, reflect.Array, reflect.Slice, reflect.Map:
		return true
	}
	return false
}

func (m memory) note(p unsafe.Pointer, way string) (fresh bool) {
	if _, known := m[p]; known {
		return false
	}
	m[p] = way
	return true
}

// netip.Addr has a pointer to what all addresses have in common.
func (m memory) without(common memory) memory {
	for p := range common {
		delete(m, p)
	}
	return m
}

var addresses = func() memory {
	m := make(memory)
	m.add(reflect.ValueOf(netip.MustParseAddr("192.0.2.1")), "")
	m.add(reflect.ValueOf(netip.MustParseAddr("2001:db8::1")), "")
	return m
}()

// checkSharing compares what an event and its actions consist of with what the core
// consists of after the Step.
func checkSharing(t *testing.T, core *qmgr.Qmgr, values ...any) {
	t.Helper()
	theirs := make(memory)
	for _, value := range values {
		theirs.add(reflect.ValueOf(value), reflect.TypeOf(value).String())
	}
	if theirs.without(addresses); len(theirs) == 0 {
		return
	}
	ours := make(memory)
	ours.add(reflect.ValueOf(core), "")
	maps.DeleteFunc(theirs, func(p unsafe.Pointer, _ string) bool { _, shared := ours[p]; return !shared })
	if len(theirs) == 0 {
		return
	}
	clear(ours)
	ours.add(reflect.ValueOf(core), "Qmgr")
	for p, way := range theirs {
		t.Errorf("%s is also %s", way, ours[p])
	}
}

// The fourth rule of the contract: the core keeps no reference to what an event
// consists of, and lends none in an action. A host may use its buffers again.
func TestNothingIsShared(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= uint64(golden.Runs(1)) && !t.Failed(); seed++ {
		c := newChaos(t, seed)
		watch := c.w.Stepped
		c.w.Stepped = func(ev qmgr.Event, actions []qmgr.Action) {
			watch(ev, actions)
			values := []any{ev}
			for _, a := range actions {
				values = append(values, a)
			}
			checkSharing(t, c.w.Core, values...)
		}
		feed := c.w.Core.NewHostFeed()
		for range 200 {
			c.step()
		}
		cfg := c.cfg
		cfg.Destinations = []shape.Destination{{Name: "all", Domains: []string{"d1.test"}, MX: []string{"mx.test", ".mx.test"},
			Networks: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, Limits: shape.Limits{ConcurrencyLimit: shape.Some(3)}}}
		c.w.Step(qmgr.Configure{Config: cfg})
		for i := range 100 {
			c.step()
			if i%10 > 0 {
				continue
			}
			checkSharing(t, c.w.Core, c.w.Core.View(10))
			checkSharing(t, c.w.Core, c.w.Core.Destinations(qmgr.DestinationQuery{Most: 10}))
			checkSharing(t, c.w.Core, c.w.Core.Explain(c.ids, 10))
			if changes := feed.Changes(nil, 1000); len(changes) > 0 {
				checkSharing(t, c.w.Core, changes)
				c.w.Step(qmgr.Learned{Hosts: changes})
				c.w.Step(qmgr.Heard{Hosts: changes})
			}
		}
	}
}
