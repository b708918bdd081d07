package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/near"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/route"
)

// A loader fills a Config from the tree of a file.
type loader struct {
	src    *tomlfile.File
	c      *Config
	broken bool                     // there are syntax errors: what seems to be missing may be in the unread part
	places map[string]tomlfile.Span // values by their parameters' full names
	failed map[string]bool          // parameters whose values cannot be used
	rules  []placedRule

	patterns map[string]string // owners of the destinations' patterns, by kind and pattern
}

// A placedRule is a rule of [routes] and its position.
type placedRule struct {
	route.Rule
	key string        // its full name
	at  tomlfile.Span // of its target
}

func (l *loader) load(root *tomlfile.Table) {
	l.broken, l.failed = l.src.Unread() > 0, make(map[string]bool)
	var transports, destinations, routes, senderRoutes, classes, tenants, sources, pools, warmups, listeners, certificates, headerRules, milters, keys, replyRules, verps, feedback *tomlfile.Entry
	for _, e := range root.Entries {
		switch e.Name {
		case tableTransport:
			transports = e
		case tableDestination:
			destinations = e
		case tableRoutes:
			routes = e
		case tableSenderRoutes:
			senderRoutes = e
		case tableClass:
			classes = e
		case tableTenant:
			tenants = e
		case tableSource:
			sources = e
		case tablePool:
			pools = e
		case tableWarmup:
			warmups = e
		case tableDKIM:
			keys = e
		case tableReplyRule:
			replyRules = e
		case tableListener:
			listeners = e
		case tableCertificate:
			certificates = e
		case tableHeaderRule:
			headerRules = e
		case tableMilter:
			milters = e
		case tableVERP:
			verps = e
		case tableFeedback:
			feedback = e
		case tableDNS, tableTLSReports, tableSpool, tableLog:
			if t := l.asTable(e, e.Name); t != nil {
				l.setAll(e.Name, t)
			}
		default:
			l.set(tableTop, e)
		}
	}
	l.certificates(certificates)
	l.listeners(listeners)
	l.headerRules(headerRules)
	l.milters(milters)
	l.transports(transports)
	l.destinations(destinations)
	l.c.Routes = l.routesIn(tableRoutes, routes, route.ParseRule)
	l.c.SenderRoutes = l.routesIn(tableSenderRoutes, senderRoutes, route.ParseSenderRule)
	l.c.Classes = nil // the standard ones are added after those of the file
	l.flows(classes, tenants)
	l.checkClassListeners()
	l.warmupPlans(warmups)
	l.sources(sources, pools)
	l.dkimKeys(keys)
	l.replyRules(replyRules)
	l.verpRules(verps)
	l.feedback(feedback)
}

// asTable returns the table of an entry, or complains if it is not a table.
func (l *loader) asTable(e *tomlfile.Entry, name string) *tomlfile.Table {
	if e.Value.Kind == tomlfile.KindTable {
		return e.Value.Table
	}
	header := "[" + name + "]"
	if namesTables(name) {
		header = "[" + name + ".NAME]"
	}
	p := tomlfile.Problem{Key: name, Message: "this is the name of a table, not of a parameter", Hint: "write its keys under " + header}
	if e.Value.Kind == tomlfile.KindList && len(e.Value.Items) > 0 && e.Value.Items[0].Kind == tomlfile.KindTable {
		p = tomlfile.Problem{Key: name, Message: "this is one table, not a list of tables", Hint: "write single brackets: " + header}
	}
	l.src.Complain(e.At, p)
	return nil
}

func (l *loader) setAll(table string, t *tomlfile.Table) {
	for _, e := range t.Entries {
		l.set(table, e)
	}
}

// set applies an entry of a table that is not a transport's.
func (l *loader) set(table string, e *tomlfile.Entry) {
	key := fullName(table, e.Name)
	for _, s := range sections {
		if s.table != table {
			continue
		}
		for _, p := range s.parameters {
			if p.name == e.Name {
				apply(l, p, l.c, key, e)
				return
			}
		}
	}
	l.unknown(key, table, e)
}

// apply sets a parameter, or complains about its value.
func apply[O any](l *loader, p parameter[O], o *O, key string, e *tomlfile.Entry) {
	f := p.set(o, e.Value)
	if f == nil {
		l.mark(key, e.Value.At)
		return
	}
	l.failed[key] = true
	for ; f != nil; f = f.next {
		at := f.at
		if at == (tomlfile.Span{}) {
			at = e.Value.At
		}
		l.src.Complain(at, tomlfile.Problem{Key: key, Message: f.message, Allowed: p.allowed, Hint: f.hint})
	}
}

// mark records that the file sets a parameter, and the position of its value.
func (l *loader) mark(key string, at tomlfile.Span) {
	l.places[key] = at
	l.note(key, at)
}

// note records that the file contains a parameter or a table.
func (l *loader) note(key string, at tomlfile.Span) {
	l.c.explicit[key], l.c.lines[key] = true, l.src.Line(at)
}

func (l *loader) unknown(key, table string, e *tomlfile.Entry) {
	message := "unknown parameter"
	hint := suggest(e.Name, table)
	tables := e.Value.Kind == tomlfile.KindList && len(e.Value.Items) > 0 && e.Value.Items[0].Kind == tomlfile.KindTable
	if (e.Value.Kind == tomlfile.KindTable || tables) && table == tableTop {
		message = "unknown table"
		if guess := near.Name(e.Name, tableNames()); guess != "" {
			hint = "did you mean [" + guess + "]?"
			if slices.Contains(listedTables, guess) {
				hint = "did you mean [[" + guess + "]]?"
			}
		} else if hint == "" {
			hint = "the tables are " + tablesInWords()
		}
	}
	if hint == "" {
		hint = "posthaste config show lists all parameters"
	}
	l.src.Complain(e.At, tomlfile.Problem{Key: key, Message: message, Hint: hint})
}

// fullName returns the name of a parameter with its table.
func fullName(table, name string) string {
	if table == tableTop {
		return tomlfile.QuoteKey(name)
	}
	return table + "." + tomlfile.QuoteKey(name)
}

// transportTable returns the full name of a transport's table.
func transportTable(name string) string { return tableTransport + "." + tomlfile.QuoteKey(name) }

// tableName matches the valid names of transports and destinations.
var tableName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// transports creates the transports that the file defines. It runs after all other
// parameters have been read, because these are the defaults.
func (l *loader) transports(all *tomlfile.Entry) {
	tables := map[string]*tomlfile.Table{}
	if all != nil {
		if t := l.asTable(all, tableTransport); t != nil {
			tables = l.namedTables(tableTransport, t)
		}
	}
	names := slices.Sorted(maps.Keys(tables))
	l.c.addTransports(names)
	for _, name := range names {
		t := l.c.Transports[name]
		for _, e := range tables[name].Entries {
			l.setTransport(name, &t, e)
		}
		l.refuseOthers(name, &t, tables[name])
		l.c.Transports[name] = t
		l.note(transportTable(name), tables[name].At)
	}
}

// namedTables are the tables that contain tables with names.
var namedTables = []string{tableTransport, tableDestination, tableClass, tableTenant, tableSource, tablePool, tableWarmup, tableDKIM, tableReplyRule, tableVERP}

// listedTables are the lists of tables.
var listedTables = []string{tableListener, tableCertificate, tableHeaderRule, tableMilter, tableFeedback}

// namesTables reports whether a table contains tables with names.
func namesTables(name string) bool {
	return slices.Contains(namedTables, name)
}

// namedTables returns the tables of transports, for example, by name.
func (l *loader) namedTables(of string, t *tomlfile.Table) map[string]*tomlfile.Table {
	tables := make(map[string]*tomlfile.Table)
	for _, e := range t.Entries {
		key := fullName(of, e.Name)
		switch {
		case e.Value.Kind != tomlfile.KindTable && slices.Contains(namesOf(of), e.Name):
			l.src.Complain(e.At, tomlfile.Problem{Key: key, Message: "this must be set for a named " + of, Hint: "write it under [" + of + ".NAME]"})
		case e.Value.Kind != tomlfile.KindTable:
			l.asTable(e, key)
		case !tableName.MatchString(e.Name):
			l.src.Complain(e.At, tomlfile.Problem{Key: key, Message: "invalid name of a " + of, Allowed: "1 to 64 letters, digits, - and _"})
		default:
			tables[e.Name] = e.Value.Table
		}
	}
	return tables
}

func (l *loader) setTransport(name string, t *Transport, e *tomlfile.Entry) {
	key := fullName(transportTable(name), e.Name)
	for _, p := range transportParameters {
		if p.name != e.Name {
			continue
		}
		if kind, fixed := builtin()[name]; fixed && p.name == "type" && !typeMayChange(name) && e.Value.Text != kind.String() {
			l.src.Complain(e.Value.At, tomlfile.Problem{Key: key, Message: fmt.Sprintf("the type of this built-in transport is always %s", kind), Hint: "remove the type, or choose another name for the transport"})
			return
		}
		apply(l, p, t, key, e)
		return
	}
	l.unknown(key, tableTransport, e)
}

// refuseOthers complains about parameters that transports of this type do not have.
func (l *loader) refuseOthers(name string, t *Transport, from *tomlfile.Table) {
	if l.failed[transportTable(name)+".type"] {
		return
	}
	for _, p := range transportParameters {
		e := from.Get(p.name)
		key := fullName(transportTable(name), p.name)
		if e == nil || p.concerns(t.Type) || l.failed[key] {
			continue
		}
		message := "a transport of type %s makes no connections, so this has no effect"
		if p.pipe {
			message = "a transport of type %s starts no programs, so this has no effect"
		}
		l.src.Complain(e.At, tomlfile.Problem{Key: key, Message: fmt.Sprintf(message, t.Type), Hint: "remove it"})
	}
}

// routesIn reads a table of routes: those of recipients, or those of senders.
func (l *loader) routesIn(table string, all *tomlfile.Entry, parse func(string) (route.Rule, error)) (routes []Route) {
	if all == nil {
		return nil
	}
	t := l.asTable(all, table)
	if t == nil {
		return nil
	}
	lines := make(map[string]int) // by the rules' canonical keys
	for _, e := range t.Entries {
		key := fullName(table, e.Name)
		rule, ok := l.rule(key, table, e, parse)
		if !ok {
			continue
		}
		line := l.src.Line(e.At)
		if first, found := lines[rule.Key]; found {
			l.src.Complain(e.At, tomlfile.Problem{Key: key, Message: fmt.Sprintf("there is a route for the same %s in line %d", routed(table), first), Hint: "remove one of them"})
			continue
		}
		lines[rule.Key] = line
		l.rules = append(l.rules, placedRule{rule, key, e.Value.At})
		l.mark(key, e.Value.At)
		routes = append(routes, Route{Pattern: e.Name, Target: e.Value.Text})
	}
	slices.SortStableFunc(routes, compareRoutes)
	return routes
}

// routed returns what the patterns of a table of routes are.
func routed(table string) string {
	if table == tableSenderRoutes {
		return "senders"
	}
	return "recipients"
}

// compareRoutes sorts by patterns; expressions come last, and stay in the order of the file, in
// which they are tried.
func compareRoutes(a, b Route) int {
	first, second := strings.HasPrefix(a.Pattern, "/"), strings.HasPrefix(b.Pattern, "/")
	switch {
	case first && second:
		return 0
	case first:
		return 1
	case second:
		return -1
	}
	return strings.Compare(a.Pattern, b.Pattern)
}

const routeForm = `"recipient" = "transport:nexthop", such as "example.com" = "smtp:[mail.example.net]:587"`

// rule reads one route.
func (l *loader) rule(key, table string, e *tomlfile.Entry, parse func(string) (route.Rule, error)) (route.Rule, bool) {
	fail := func(at tomlfile.Span, message, hint string) (route.Rule, bool) {
		l.src.Complain(at, tomlfile.Problem{Key: key, Message: message, Allowed: routeForm, Hint: hint})
		return route.Rule{}, false
	}
	if e.Value.Kind == tomlfile.KindTable {
		return fail(e.At, "the name of a domain must be in quotes", "write "+tomlfile.QuoteText(dottedName(e))+" =")
	}
	if topLevel(e.Name) { // a parameter appended to the file ends up in its last table
		return fail(e.At, "this is a parameter, not a recipient", "set "+tomlfile.QuoteKey(e.Name)+" above the first [table] of the file")
	}
	target, f := readText(e.Value, "a text")
	if f != nil {
		if slices.ContainsFunc(Parameters(), func(p Parameter) bool { return p.Name == e.Name }) {
			return fail(e.At, "this is a parameter, not a recipient", suggest(e.Name, table))
		}
		return fail(e.Value.At, f.message, f.hint)
	}
	if e.Name == "" || strings.ContainsAny(e.Name, " \t\r\n") {
		return fail(e.At, "this is not a recipient: it is empty or contains a space", "")
	}
	if _, err := parse(e.Name + " :"); err != nil {
		message, hint := explainRoute(e.Name+" :", err)
		return fail(e.At, message, hint)
	}
	line := e.Name + " " + target
	rule, err := parse(line)
	if err != nil {
		message, hint := explainRoute(line, err)
		return fail(e.Value.At, message, hint)
	}
	return rule, true
}

// dottedName returns the first name that TOML split at its dots, joined again.
func dottedName(e *tomlfile.Entry) string {
	name := e.Name
	for e.Value.Kind == tomlfile.KindTable && len(e.Value.Table.Entries) > 0 {
		e = e.Value.Table.Entries[0]
		name += "." + e.Name
	}
	return name
}
