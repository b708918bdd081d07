package trace

import "github.com/posthaste-mta/posthaste/qmgr"

// A kind knows one type of event or action: its name, and how its fields are
// written and read. I is qmgr.Event or qmgr.Action.
type kind[I any] struct {
	name string
	zero I
	// visit writes *v and reports whether it is of this kind, or reads it.
	visit func(c *codec, v *I) bool
}

// kindOf makes the kind of one type of event or action out of a function that visits its
// fields.
func kindOf[I, T any](name string, fields func(*codec, *T)) kind[I] {
	var zero T
	return kind[I]{name, any(zero).(I), func(c *codec, v *I) bool {
		var t T
		if c.writing {
			var is bool
			if t, is = any(*v).(T); !is {
				return false
			}
			c.begin(name)
			fields(c, &t)
			return true
		}
		fields(c, &t)
		*v = any(t).(I)
		return true
	}}
}

// unknown is written for a type that this package does not know. Reading refuses
// it: better no replay than an incomplete one.
const unknown = "unknown"

// event writes or reads an event.
func (c *codec) event(ev *qmgr.Event) { anyKind(c, "event", eventKinds, ev) }

// action writes or reads an action.
func (c *codec) action(a *qmgr.Action) { anyKind(c, "action", actionKinds, a) }

func anyKind[I any](c *codec, what string, kinds []kind[I], v *I) {
	if c.writing {
		for i := range kinds {
			if kinds[i].visit(c, v) {
				return
			}
		}
		c.begin(unknown)
		return
	}
	name := ""
	c.word("name", &name)
	for i := range kinds {
		if kinds[i].name == name {
			kinds[i].visit(c, v)
			return
		}
	}
	c.fail("unknown %s %q", what, name)
}

// begin writes the name of an event or action.
func (c *codec) begin(name string) {
	if !c.json {
		c.out = append(append(c.out, ' '), name...)
	}
}

// nameOf returns the name of a value's kind.
func nameOf[I comparable](kinds []kind[I], v I) string {
	c := codec{writing: true}
	for i := range kinds {
		if c.out = c.out[:0]; kinds[i].visit(&c, &v) {
			return kinds[i].name
		}
	}
	return unknown
}
