package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/route"
)

// A loader fills a Config from the tree of a file.
type loader struct {
	src    *source
	c      *Config
	broken bool            // there are syntax errors: what seems to be missing may be there
	places map[string]span // values by their parameters' full names
	failed map[string]bool // parameters whose values cannot be used
	rules  []placedRule

	patterns map[string]string // of destinations, with their kind in front: whose they are
}

// A placedRule is a rule of [routes] and where it stands.
type placedRule struct {
	route.Rule
	key string // its full name
	at  span   // of its target
}

func (l *loader) load(root *table) {
	l.broken, l.failed = len(l.src.found) > 0, make(map[string]bool)
	var transports, destinations, routes *entry
	for _, e := range root.entries {
		switch e.name {
		case tableTransport:
			transports = e
		case tableDestination:
			destinations = e
		case tableRoutes:
			routes = e
		case tableDNS, tableSpool, tableLog:
			if t := l.asTable(e, e.name); t != nil {
				l.setAll(e.name, t)
			}
		default:
			l.set(tableTop, e)
		}
	}
	l.transports(transports)
	l.destinations(destinations)
	l.routes(routes)
}

// asTable returns the table that an entry must be.
func (l *loader) asTable(e *entry, name string) *table {
	if e.value.kind == nodeTable {
		return e.value.table
	}
	header := "[" + name + "]"
	if name == tableTransport || name == tableDestination {
		header = "[" + name + ".NAME]"
	}
	p := Problem{Key: name, Message: "this is the name of a table, not of a parameter", Hint: "write its keys under " + header}
	if e.value.kind == nodeList && len(e.value.items) > 0 && e.value.items[0].kind == nodeTable {
		p = Problem{Key: name, Message: "this is one table, not a list of tables", Hint: "write single brackets: " + header}
	}
	l.src.complain(e.at, p)
	return nil
}

func (l *loader) setAll(table string, t *table) {
	for _, e := range t.entries {
		l.set(table, e)
	}
}

// set applies an entry of a table that is not a transport's.
func (l *loader) set(table string, e *entry) {
	key := fullName(table, e.name)
	for _, s := range sections {
		if s.table != table {
			continue
		}
		for _, p := range s.parameters {
			if p.name == e.name {
				apply(l, p, l.c, key, e)
				return
			}
		}
	}
	l.unknown(key, table, e)
}

// apply sets a parameter, or complains about its value.
func apply[O any](l *loader, p parameter[O], o *O, key string, e *entry) {
	f := p.set(o, e.value)
	if f == nil {
		l.places[key], l.c.explicit[key] = e.value.at, true
		return
	}
	l.failed[key] = true
	for ; f != nil; f = f.next {
		at := f.at
		if at == (span{}) {
			at = e.value.at
		}
		l.src.complain(at, Problem{Key: key, Message: f.message, Allowed: p.allowed, Hint: f.hint})
	}
}

func (l *loader) unknown(key, table string, e *entry) {
	message := "there is no such parameter"
	hint := suggest(e.name, table)
	if e.value.kind == nodeTable && table == tableTop {
		message = "there is no such table"
		if guess := nearest(e.name, tableNames()); guess != "" {
			hint = "did you mean [" + guess + "]?"
		} else if hint == "" {
			hint = "the tables are [transport.NAME], [destination.NAME], [routes], [dns], [spool] and [log]"
		}
	}
	if hint == "" {
		hint = "posthaste config show lists all parameters"
	}
	l.src.complain(e.at, Problem{Key: key, Message: message, Hint: hint})
}

// fullName returns what a parameter is called outside of its table.
func fullName(table, name string) string {
	if table == tableTop {
		return quoteKey(name)
	}
	return table + "." + quoteKey(name)
}

// transportTable returns the full name of a transport's table.
func transportTable(name string) string { return tableTransport + "." + quoteKey(name) }

// tableName is what a transport or a destination may be called.
var tableName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// transports makes the transports that the file names. It comes after all
// other parameters, because these are the defaults.
func (l *loader) transports(all *entry) {
	tables := map[string]*table{}
	if all != nil {
		if t := l.asTable(all, tableTransport); t != nil {
			tables = l.namedTables(tableTransport, t)
		}
	}
	names := slices.Sorted(maps.Keys(tables))
	l.c.addTransports(names)
	for _, name := range names {
		t := l.c.Transports[name]
		for _, e := range tables[name].entries {
			l.setTransport(name, &t, e)
		}
		l.refuseSMTP(name, &t, tables[name])
		l.c.Transports[name] = t
		l.c.explicit[transportTable(name)] = true
	}
}

// namedTables returns the tables of transports or of destinations by name.
func (l *loader) namedTables(of string, t *table) map[string]*table {
	tables := make(map[string]*table)
	for _, e := range t.entries {
		key := fullName(of, e.name)
		switch {
		case e.value.kind != nodeTable && slices.Contains(namesOf(of), e.name):
			l.src.complain(e.at, Problem{Key: key, Message: "it is not said for which " + of, Hint: "write it under [" + of + ".NAME]"})
		case e.value.kind != nodeTable:
			l.asTable(e, key)
		case !tableName.MatchString(e.name):
			l.src.complain(e.at, Problem{Key: key, Message: "this cannot be the name of a " + of, Allowed: "1 to 64 letters, digits, - and _"})
		default:
			tables[e.name] = e.value.table
		}
	}
	return tables
}

func (l *loader) setTransport(name string, t *Transport, e *entry) {
	key := fullName(transportTable(name), e.name)
	for _, p := range transportParameters {
		if p.name != e.name {
			continue
		}
		if kind, fixed := builtin()[name]; fixed && p.name == "type" && name != "smtp" && name != "relay" {
			l.src.complain(e.value.at, Problem{Key: key, Message: fmt.Sprintf("this transport always exists, and its type is %s", kind), Hint: "leave the type out, or choose another name for the transport"})
			return
		}
		apply(l, p, t, key, e)
		return
	}
	l.unknown(key, tableTransport, e)
}

// refuseSMTP complains about parameters that mean nothing to a transport that
// does not speak SMTP.
func (l *loader) refuseSMTP(name string, t *Transport, from *table) {
	if t.Type == TypeSMTP || l.failed[transportTable(name)+".type"] {
		return
	}
	for _, p := range transportParameters {
		if e := from.get(p.name); e != nil && p.smtp {
			l.src.complain(e.at, Problem{
				Key:     fullName(transportTable(name), p.name),
				Message: fmt.Sprintf("this means nothing to a transport of type %s, which connects to nobody", t.Type),
				Hint:    "remove it",
			})
		}
	}
}

func (l *loader) routes(all *entry) {
	if all == nil {
		return
	}
	t := l.asTable(all, tableRoutes)
	if t == nil {
		return
	}
	lines := make(map[string]int) // by the rules' canonical keys
	for _, e := range t.entries {
		key := fullName(tableRoutes, e.name)
		rule, ok := l.rule(key, e)
		if !ok {
			continue
		}
		line := l.src.lineAt(e.at.start) + 1
		if first, found := lines[rule.Key]; found {
			l.src.complain(e.at, Problem{Key: key, Message: fmt.Sprintf("there is a route for the same recipients in line %d", first), Hint: "remove one of them"})
			continue
		}
		lines[rule.Key] = line
		l.rules = append(l.rules, placedRule{rule, key, e.value.at})
		l.places[key], l.c.explicit[key] = e.value.at, true
		l.c.Routes = append(l.c.Routes, Route{Pattern: e.name, Target: e.value.text})
	}
	slices.SortFunc(l.c.Routes, func(a, b Route) int { return strings.Compare(a.Pattern, b.Pattern) })
}

const routeForm = `"recipient" = "transport:nexthop", such as "example.com" = "smtp:[mail.example.net]:587"`

// rule reads one route.
func (l *loader) rule(key string, e *entry) (route.Rule, bool) {
	fail := func(at span, message, hint string) (route.Rule, bool) {
		l.src.complain(at, Problem{Key: key, Message: message, Allowed: routeForm, Hint: hint})
		return route.Rule{}, false
	}
	if e.value.kind == nodeTable {
		return fail(e.at, "the name of a domain goes in quotes", "write "+quoteText(dottedName(e))+" =")
	}
	if topLevel(e.name) { // whoever appends a parameter to the file puts it into its last table
		return fail(e.at, "this is a parameter, not a recipient", "set "+quoteKey(e.name)+" above the first [table] of the file")
	}
	target, f := readText(e.value, "a text")
	if f != nil {
		return fail(e.value.at, f.message, f.hint)
	}
	if e.name == "" || strings.ContainsAny(e.name, " \t\r\n") {
		return fail(e.at, "this is not a recipient: it is empty, or there is a space in it", "")
	}
	if _, err := route.ParseRule(e.name + " :"); err != nil {
		message, hint := explainRoute(e.name+" :", err)
		return fail(e.at, message, hint)
	}
	line := e.name + " " + target
	rule, err := route.ParseRule(line)
	if err != nil {
		message, hint := explainRoute(line, err)
		return fail(e.value.at, message, hint)
	}
	return rule, true
}

// dottedName returns the first name that was taken apart at its dots.
func dottedName(e *entry) string {
	name := e.name
	for e.value.kind == nodeTable && len(e.value.table.entries) > 0 {
		e = e.value.table.entries[0]
		name += "." + e.name
	}
	return name
}
