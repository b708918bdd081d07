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

// eventKind makes the kind of one type of event out of a function that visits
// its fields.
func eventKind[E qmgr.Event](name string, fields func(*codec, *E)) kind[qmgr.Event] {
	var zero E
	return kind[qmgr.Event]{name, zero, func(c *codec, v *qmgr.Event) bool {
		var e E
		if c.writing {
			var is bool
			if e, is = (*v).(E); !is {
				return false
			}
			c.begin(name)
			fields(c, &e)
			return true
		}
		fields(c, &e)
		*v = e
		return true
	}}
}

// actionKind does for actions what eventKind does for events.
func actionKind[A qmgr.Action](name string, fields func(*codec, *A)) kind[qmgr.Action] {
	var zero A
	return kind[qmgr.Action]{name, zero, func(c *codec, v *qmgr.Action) bool {
		var a A
		if c.writing {
			var is bool
			if a, is = (*v).(A); !is {
				return false
			}
			c.begin(name)
			fields(c, &a)
			return true
		}
		fields(c, &a)
		*v = a
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
