package migrate

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/config/maincf"
	"github.com/posthaste-mta/posthaste/route"
)

// routesMax is the number of routes that are written into the result; a map with more is named in
// routes_file.
const routesMax = 500

// routes translates where mail goes.
func (t *translation) routes() {
	t.defaultRoute()
	t.transportMaps()
	t.senderRoutes()
	t.relayDomains()
	t.mailboxes()
	t.policyMaps()
	t.passwords()
}

// target returns a target of Postfix, transport:nexthop, as it is written here; the reason why there
// is none otherwise.
func (t *translation) target(text string) (target, why string) {
	name, nexthop, ok := strings.Cut(strings.TrimSpace(text), ":")
	if !ok {
		nexthop = ""
	}
	nexthop = strings.TrimSpace(nexthop)
	if socket, unix := strings.CutPrefix(nexthop, "unix:"); unix && !path.IsAbs(socket) {
		nexthop = "unix:" + t.inQueue(socket)
	}
	if name != "" {
		if why := t.use(name); why != "" {
			return "", why
		}
	}
	if s := t.service(name); (s != nil && isClient(s) || slices.Contains(builtin[:3], name)) && nexthop != "" && !strings.HasPrefix(nexthop, "unix:") {
		if _, err := route.ParseNexthops(strings.TrimPrefix(nexthop, "inet:")); err != nil {
			return "", err.Error()
		}
	}
	if name == "lmtp" || name != "" && t.isLMTP(name) {
		t.used[name] = true
	}
	return name + ":" + nexthop, ""
}

func (t *translation) isLMTP(name string) bool {
	s := t.service(name)
	return s != nil && s.Command == "lmtp"
}

// inQueue returns the path of a socket that is relative to Postfix's queue directory.
func (t *translation) inQueue(socket string) string {
	dir := t.get("queue_directory")
	return path.Join(dir.text, socket)
}

// defaultRoute translates where mail goes that no route sends elsewhere.
func (t *translation) defaultRoute() {
	if s := t.get("default_transport"); s.set {
		switch target, why := t.target(s.text); {
		case strings.HasPrefix(s.text, "randmap:") || strings.Contains(s.text, "{"):
			t.lost(s, "A transport is not chosen at random. To send from several addresses, write a [source.NAME] for each and a [pool.NAME] with all of them (docs/sources.md).")
		case why != "":
			t.lost(s, "default_transport = %q: %s.", s.text, why)
		case s.text == "smtp":
			t.notNeeded("The default transport is smtp", s.line())
		default:
			t.doc.top.set("default_transport", strings.TrimSuffix(target, ":"), s.line())
		}
	}
	s := t.get("relayhost")
	switch {
	case !s.set:
	case s.text == "":
		t.notNeeded("Mail goes to the domains of its recipients", s.line())
	default:
		if _, err := route.ParseNexthops(s.text); err != nil {
			t.lost(s, "relayhost = %q: %v.", s.text, err)
			return
		}
		t.doc.top.set("relayhost", strings.Join(maincf.Words(s.text), ", "), s.line())
	}
}

// transportMaps translates transport_maps to routes.
func (t *translation) transportMaps() {
	s := t.get("transport_maps")
	tables, err := maincf.ParseTables(s.text)
	if err != nil {
		t.remark(NotUnderstood, "The value cannot be read: "+err.Error()+".", s.line())
	}
	for _, one := range tables {
		switch {
		case one.IsText() || one.Type == maincf.TypeInline:
			t.routesOf(s, one, "routes", "routes_file", entries(t.keys(s, one)), route.ParseRule)
		case one.HasExpressions():
			t.expressionRoutes(s, one)
		case one.Type == maincf.TypeStatic:
			t.routesOf(s, one, "routes", "routes_file", entries([]maincf.Pair{{Key: "*", Value: one.Name}}), route.ParseRule)
		default:
			t.lost(s, "%s: %s. Write its entries to a text file, and name that in routes_file; a reload reads it again.", one.String(), external(one))
		}
	}
	if s.set && s.text == "" {
		t.notNeeded("There are no routes", s.line())
	}
}

// An entry is one of a map of routes.
type entry struct {
	maincf.Pair
	instead string // of its value, if that alone is not the target
}

func (e *entry) target() string {
	if e.instead != "" {
		return e.instead
	}
	return e.Value
}

func entries(pairs []maincf.Pair) []entry {
	all := make([]entry, len(pairs))
	for i, p := range pairs {
		all[i].Pair = p
	}
	return all
}

// routesOf writes the entries of a map as routes, or names its file if it has many.
func (t *translation) routesOf(s setting, from maincf.Table, kind, file string, pairs []entry, parse func(string) (route.Rule, error)) {
	many := len(pairs) > routesMax && from.IsText()
	wrong, changed := 0, 0
	for _, p := range pairs {
		key, ok := routeKey(p.Key, kind)
		target, why := t.target(p.target())
		line := t.entryLine(s, from, p.Pair)
		if ok && why == "" {
			if _, err := parse(key + " " + target); err != nil {
				why = err.Error()
			}
		}
		switch {
		case !ok:
			wrong++
			t.remark(Lost, fmt.Sprintf("The route of %q has no place here: keys are addresses, domains, .domains and *.", p.Key), line)
		case why != "":
			wrong++
			t.remark(Lost, fmt.Sprintf("The route of %q to %q: %s.", p.Key, p.Value, strings.TrimSuffix(why, ".")), line)
		case many && (key != p.Key || target != p.Value || p.instead != ""):
			changed++
		case many || t.doc.table(kind, "").has(key):
		default:
			t.doc.table(kind, "").set(key, target, line)
			t.domains[key] = true
		}
	}
	switch {
	case !many:
		t.written(s, kind)
	case wrong+changed > 0:
		t.lost(s, "%s has %d routes, too many for the result, and %d of them are not as they are written here. Write all to a file, and its path into %s.", from.String(), len(pairs), wrong+changed, file)
	default:
		l := t.doc.top.get(file)
		if l == nil {
			l = t.doc.top.set(file, []string{}, s.line())
			l.value = "[" + literal(from.Name) + "]"
			return
		}
		l.value = strings.TrimSuffix(l.value, "]") + ", " + literal(from.Name) + "]"
	}
}

// written notes that a parameter has become a table.
func (t *translation) written(s setting, kind string) {
	one := t.doc.table(kind, "")
	if line := s.line(); line != "" && !slices.Contains(one.origins, line) {
		one.origins = append(one.origins, line)
	}
	if len(one.settings) == 0 {
		one.origins = nil
		t.otherwise("There is nothing in these maps that is a route", s.line())
	}
}

// entryLine returns the line of an entry of a map, for comments.
func (t *translation) entryLine(s setting, from maincf.Table, p maincf.Pair) string {
	if p.Line == 0 {
		return s.line()
	}
	return cut(fmt.Sprintf("%s:%d: %s %s", path.Base(from.Name), p.Line, p.Key, p.Value))
}

// routeKey returns a key of a map as the pattern of a route.
func routeKey(key, kind string) (string, bool) {
	switch {
	case key == "*":
		return key, kind == "routes"
	case key == "<>":
		return key, kind == "sender_routes"
	case strings.HasPrefix(key, "@"):
		return key[1:], len(key) > 1 && kind == "sender_routes"
	}
	return key, strings.Contains(key, "@") || kind == "routes"
}

// expressionRoutes writes the expressions of a map as routes.
func (t *translation) expressionRoutes(s setting, from maincf.Table) {
	file, text, ok := t.read(s, from)
	if !ok {
		return
	}
	all, wrong := maincf.ParseExpressions(file, text)
	t.understood(wrong)
	for _, e := range all {
		line := cut(fmt.Sprintf("%s:%d: /%s/%s %s", path.Base(from.Name), e.Line, e.Pattern, e.Flags, e.Value))
		key := "/" + strings.ReplaceAll(e.Pattern, `\/`, `/`) + "/"
		if e.Pattern == "^" || e.Pattern == "." || e.Pattern == ".*" || e.Pattern == "^.*$" {
			key = "*"
		}
		target, why := t.target(e.Value)
		if why == "" {
			if _, err := route.ParseRule(key + " " + target); err != nil {
				why = err.Error()
			}
		}
		switch {
		case e.Not || e.Within || e.Flags != "" || strings.Contains(e.Value, "$"):
			t.remark(Lost, "Expressions with \"!\", flags, if or a $ in their result must be written as routes by hand.", line)
		case strings.ContainsAny(e.Pattern, " \t"):
			t.remark(Lost, "A route cannot have a space in its expression; write \\s.", line)
		case why != "":
			t.remark(Lost, fmt.Sprintf("The route cannot be used: %s.", strings.TrimSuffix(why, ".")), line)
		case t.doc.table("routes", "").has(key):
		default:
			t.doc.table("routes", "").set(key, target, line)
		}
	}
	t.written(s, "routes")
}

// senderRoutes translates the maps that choose a way by the sender: one has a nexthop for each, the other
// a transport and perhaps a nexthop.
func (t *translation) senderRoutes() {
	relay, transport := t.get("sender_dependent_relayhost_maps"), t.get("sender_dependent_default_transport_maps")
	standard := t.get("default_transport")
	name, _, _ := strings.Cut(standard.text, ":")
	if name == "" || t.use(name) != "" {
		name = "smtp"
	}
	ways := make(map[string]string) // by pattern, of the second
	for _, s := range []setting{transport, relay} {
		tables, ok := t.tables(s)
		if !ok {
			continue
		}
		for _, one := range tables {
			if !one.IsText() && one.Type != maincf.TypeInline {
				t.lost(s, "%s: %s. Write its entries to a text file, and name that in sender_routes_file; a reload reads it again.", one.String(), external(one))
				continue
			}
			var pairs []entry
			for _, p := range entries(t.keys(s, one)) {
				key, _ := routeKey(p.Key, "sender_routes")
				switch before, known := ways[key]; {
				case strings.EqualFold(p.Value, "DUNNO"):
					p.instead = ":"
				case s.Name == transport.Name && (strings.Contains(p.Value, "{") || strings.HasPrefix(p.Value, "randmap:")):
					t.lost(s, "A transport is not chosen at random. To send from several addresses, write a [source.NAME] for each and a [pool.NAME] with all of them (docs/sources.md).")
					continue
				case s.Name == transport.Name:
					ways[key] = p.Value
				case known && strings.HasSuffix(before, ":"): // that has the transport, this the nexthop
					if l := t.doc.table("sender_routes", "").get(key); l != nil {
						l.value = literal(before + p.Value)
						l.add(t.entryLine(s, one, p.Pair))
					}
					continue
				case known:
					continue // the other has a nexthop, too, which counts
				default:
					p.instead = name + ":" + p.Value
				}
				pairs = append(pairs, p)
			}
			t.routesOf(s, one, "sender_routes", "sender_routes_file", pairs, route.ParseSenderRule)
		}
	}
}

// relayDomains translates the domains for which anybody may send mail, and the way of their mail.
func (t *translation) relayDomains() {
	s, way := t.get("relay_domains"), t.get("relay_transport")
	var names, routed []string
	local := t.localDomains()
	for _, d := range t.domainList(s) {
		if slices.Contains(local, d) {
			continue // $mydestination; mailboxes says what becomes of these
		}
		names, routed = append(names, d), append(routed, d)
		if below := "." + strings.TrimPrefix(d, "."); below != d && t.matchesSubdomains("relay_domains") {
			names, routed = append(names, below), append(routed, below)
		}
	}
	t.relayFor(names, s.line())
	if s.set && len(names) == 0 {
		t.otherwise("There are no domains for which anybody may send mail", s.line())
	}
	if len(names) == 0 {
		return
	}
	target, why := t.target(way.text)
	switch {
	case why != "":
		t.lost(way, "relay_transport = %q: %s.", way.text, why)
	case target == "relay:" && !t.unlike("relay"):
	default:
		for _, d := range routed {
			t.routeTo(d, target, s.line(), way.line())
		}
	}
}

// matchesSubdomains reports whether a domain of a list, such as relay_domains, stands for those below it, too.
func (t *translation) matchesSubdomains(list string) bool {
	s := t.get("parent_domain_matches_subdomains")
	return slices.Contains(s.words(), list)
}

// unlike reports whether a transport has limits of its own.
func (t *translation) unlike(name string) bool {
	if one := t.doc.find("transport", name); one != nil && len(one.settings) > 0 {
		return true
	}
	return slices.ContainsFunc(t.in.Main.Entries, func(e maincf.Entry) bool {
		rest, ok := strings.CutPrefix(e.Name, name+"_")
		return ok && slices.ContainsFunc(schedulingParameters, func(p parameter) bool { return p.postfix == rest })
	})
}

// relayFor has mail accepted for domains.
func (t *translation) relayFor(names []string, origins ...string) {
	if len(names) == 0 {
		return
	}
	l := t.doc.top.get("relay_domains")
	if l == nil {
		l = t.doc.top.set("relay_domains", []string{})
	}
	l.add(origins...)
	t.accepted = append(t.accepted, names...)
	slices.Sort(t.accepted)
	t.accepted = slices.Compact(t.accepted)
	l.value = literal(t.accepted)
}

// routeTo writes a route for a domain, unless there is one.
func (t *translation) routeTo(domain, target string, origins ...string) {
	if t.domains[domain] {
		return
	}
	t.domains[domain] = true
	t.doc.table("routes", "").set(domain, target, origins...)
}

// mailboxes translates the domains whose mail Postfix delivers itself, or whose addresses are all
// aliases.
func (t *translation) mailboxes() {
	t.localMailboxes()
	t.virtualMailboxes()
	t.virtualAliases()
}

// noMailboxes is what to do about mail for mailboxes.
const noMailboxes = "There are no mailboxes here. Name the server of the mailboxes in a route for each domain, such as \"example.com\" = \"lmtp:unix:/run/dovecot/lmtp\", and list the domains in relay_domains if others may send mail to them; or give the addresses others (virtual_alias_maps)"

// localMailboxes translates mydestination.
func (t *translation) localMailboxes() {
	s := t.get("mydestination")
	all := t.localDomains()
	if len(all) == 0 {
		if s.set {
			t.notNeeded("No domain is local", s.line())
		}
		return
	}
	way := t.get("mailbox_transport")
	if way.text == "" {
		if other := t.get("local_transport"); other.set && !strings.HasPrefix(other.text, "local") {
			way = other
		}
	}
	real := slices.DeleteFunc(slices.Clone(all), func(d string) bool { return d == "localhost" || strings.HasPrefix(d, "localhost.") })
	if s.set && len(real) > 0 {
		t.doc.top.set("user_domains", real, s.line()).comment = "Keys of maps without a domain are for users of these domains, too."
	}
	if way.text != "" {
		if target, why := t.target(way.text); why == "" {
			t.relayFor(real, s.line())
			for _, d := range real {
				t.routeTo(d, target, s.line(), way.line())
			}
			t.socketTodo(way, target)
			return
		} else if way.set {
			t.lost(way, "%s = %q: %s.", way.Name, way.text, why)
		}
	}
	t.remark(Lost, fmt.Sprintf("Mail for users at %s is delivered on this machine. %s.", strings.Join(all, ", "), noMailboxes), nonEmpty(s.line())...)
}

// socketTodo reminds of a socket within Postfix's queue directory, which must be moved.
func (t *translation) socketTodo(way setting, target string) {
	if _, socket, ok := strings.Cut(target, ":unix:"); ok && strings.HasPrefix(socket, t.inQueue("")+"/") {
		t.todo(way, "The socket %s is in the queue directory of Postfix. Have the server listen at another path too, such as /run/dovecot/lmtp, accessible to the user of this program, and write that into the routes.", socket)
	}
}

// virtualMailboxes translates virtual_mailbox_domains.
func (t *translation) virtualMailboxes() {
	s, way := t.get("virtual_mailbox_domains"), t.get("virtual_transport")
	if !s.set {
		if way.set {
			t.notNeeded("There are no domains in virtual_mailbox_domains", way.line())
		}
		return
	}
	all := t.domainList(s)
	target, why := t.target(way.text)
	if why != "" {
		t.remark(Lost, fmt.Sprintf("Mail for %s is delivered by the transport %s: %s. %s.", orSuch(all), way.text, why, noMailboxes), nonEmpty(s.line(), way.line())...)
		return
	}
	if len(all) == 0 {
		t.remark(Todo, fmt.Sprintf("Write the domains of the mailboxes into relay_domains, and for each a route such as \"example.com\" = \"%s\".", target), nonEmpty(s.line(), way.line())...)
		t.socketTodo(way, target)
		return
	}
	t.relayFor(all, s.line())
	for _, d := range all {
		t.routeTo(d, target, s.line(), way.line())
	}
	t.socketTodo(way, target)
}

func orSuch(domains []string) string {
	if len(domains) == 0 {
		return "the domains of mailboxes"
	}
	const most = 5
	if more := len(domains) - most; more > 0 {
		return fmt.Sprintf("%s and %d more domains", strings.Join(domains[:most], ", "), more)
	}
	return strings.Join(domains, ", ")
}

// virtualAliases translates virtual_alias_domains: all that is not an alias does not exist.
func (t *translation) virtualAliases() {
	s := t.get("virtual_alias_domains")
	origin := s
	if !s.set {
		origin = t.get("virtual_alias_maps")
	}
	var all []string
	tables, _ := maincf.ParseTables(s.text) // maps are complained of elsewhere
	for _, one := range tables {
		switch {
		case s.set && (one.Type == "" || one.IsText() || one.Type == maincf.TypeInline):
			one := setting{s.Entry, one.Type + ":" + one.Name, true}
			one.text = strings.TrimPrefix(one.text, ":")
			all = append(all, t.domainList(one)...)
		case one.IsText(): // names without @ are domains, as in virtual(5)
			if _, text, err := t.in.Read("virtual_alias_maps", one); err == nil {
				pairs, _ := maincf.ParseSource(one.Name, text)
				for _, p := range pairs {
					if !strings.Contains(p.Key, "@") && strings.Contains(p.Key, ".") {
						all = append(all, strings.ToLower(p.Key))
					}
				}
			}
		case s.set:
			t.lost(s, "%s: %s. Write the domains into relay_domains, and for each a route such as \"example.com\" = \"error:5.1.1 no such user\".", one.String(), external(one))
		}
	}
	if s.set && len(all) == 0 {
		t.otherwise("No domain has only aliases", s.line())
	}
	t.relayFor(all, origin.line())
	for _, d := range all {
		t.routeTo(d, "error:5.1.1 User unknown in virtual alias table", origin.line())
	}
	if len(all) > 0 {
		t.verify("Recipients in domains of aliases who are no alias are refused at RCPT.", origin.line())
	}
}
