package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/flow"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/fair"
	"github.com/posthaste-mta/posthaste/quota"
)

// flowParameters are those of all flows; classes and tenants have tables of their own.
func flowParameters() []parameter[Config] {
	return []parameter[Config]{
		define("flow_key", flowKey(), func(c *Config) *flow.Key { return &c.FlowKey }, flow.Key{},
			"The key that determines the flow of a message, within its class and tenant. With sender, it is the envelope sender without the parts that differ between the messages of one mailing (docs/flows.md), and with sender-domain the sender's domain. With header:NAME, it is that header field, or the sender if the field is missing. With none, all mail of a tenant in a class is one flow.",
			"Set it to \"header:NAME\" if your programs say in a field to which mailing a message belongs, or to \"sender-domain\" if one program sends under many addresses."),
		define("flow_header_clients", list(network(), "networks"), func(c *Config) *[]netip.Prefix { return &c.FlowHeaderClients }, flow.Config{}.WithDefaults().HeaderClients,
			"The clients, besides those of submission_socket, that may name the class and the tenant of a message in the fields X-Posthaste-Class and X-Posthaste-Tenant; the fields are removed from the mail of all clients.",
			"Add the machines of your own programs that know which mail is urgent, and nothing wider."),
	}
}

// classParameters and tenantParameters are the tables of the parameters of [class.NAME]
// and [tenant.NAME].
var (
	classParameters  = allClassParameters()
	tenantParameters = allTenantParameters()
)

func allClassParameters() []parameter[Class] {
	share := integer(limit[int]{min: 1, max: flow.StrictShareMax, zero: "none"})
	share.unit = "%"
	return append([]parameter[Class]{
		define("weight", weights(), func(c *Class) *int { return &c.Weight }, standardWeight,
			"The share of the class, relative to the weights of the other classes that have mail for the same destination.",
			"Raise it for mail that people wait for, and lower it for mail that can wait."),
		define("priority", words(word[bool]{"weighted", false}, word[bool]{"strict", true}), func(c *Class) *bool { return &c.Strict }, false,
			"Whether the class gets its share by weight, or everything that it asks for before the weighted classes, up to max_share.",
			"Set it to strict for a little mail that must never wait for other mail, such as one-time passwords."),
		define("max_share", share, func(c *Class) *int { return &c.MaxShare }, 0,
			"The percentage of the capacity that a class of priority strict may use before its turn.",
			"Set it, with priority strict, to somewhat more than the class needs, so that a flood in it cannot stop all other mail; that of all classes together is at most 90."),
		define("sender", list(senderPattern(), "patterns"), func(c *Class) *[]string { return &c.Match.Senders }, nil,
			"Envelope senders of the class: an address in which a star stands for any text, a domain, \".example.com\" for the domains below example.com, or \"<>\" for the null sender.",
			"Set it if the kinds of mail have senders of their own."),
		define("tenant", list(tenantPattern(), "patterns"), func(c *Class) *[]string { return &c.Match.Tenants }, nil,
			"Tenants of the class, by the name in [tenant.NAME], in a header field or as shown by the queue commands; a star stands for any text.",
			"Set it to give a tenant's mail, together with the other conditions, a class of its own."),
		define("header", wholeList(headerPattern(), "header fields"), func(c *Class) *[]string { return &c.Match.Headers }, nil,
			"Header fields of the class: a name, or a name, a colon and a pattern for the value, in which a star stands for any text.",
			"Set it if your programs mark their mail in the header."),
		define("listener", list(flowListener(), "addresses"), func(c *Class) *[]flow.Listener { return &c.Match.Listeners }, nil,
			"The local addresses and ports, or the names of listeners, on which mail of the class arrives.",
			"Set it if programs with urgent mail connect to a port of their own."),
		define("client", list(network(), "networks"), func(c *Class) *[]netip.Prefix { return &c.Match.Clients }, nil,
			"The clients whose mail is of the class.",
			"Set it if the kinds of mail come from different machines."),
		define("user", list(flowUser(), "users"), func(c *Class) *[]string { return &c.Match.Users }, nil,
			"The users whose mail is of the class; \"uid:33\" is the user with this number on submission_socket.",
			"Set it if programs on this host run as users of their own."),
		define("min_recipients", integer(limit[int]{min: 1, max: 1_000_000, zero: "any number"}), func(c *Class) *int { return &c.Match.MinRecipients }, 0,
			"The number of recipients from which on a message is of the class.",
			"Set it to treat messages to many recipients as bulk mail."),
		define("min_mt_priority", integer(limit[int]{min: 1, max: mail.PriorityMax, zero: "any priority"}), func(c *Class) *int { return &c.Match.MinPriority }, 0,
			"The priority given by MT-PRIORITY (RFC 6710) from which on a message is of the class; listeners offer it with mt_priority_max.",
			"Set it, on a class with more weight, if programs say in this way what is urgent."),
		define("max_mt_priority", integer(limit[int]{min: mail.PriorityMin, max: -1, zero: "any priority"}), func(c *Class) *int { return &c.Match.MaxPriority }, 0,
			"The priority given by MT-PRIORITY (RFC 6710) up to which a message is of the class.",
			"Set it, on a class with less weight, if programs say in this way what can wait."),
	}, quotaParameters(quotaWords{of: "the class", default_: "no limit"}, func(c *Class) *quota.Limits { return &c.Quota })...)
}

func allTenantParameters() []parameter[Tenant] {
	return append([]parameter[Tenant]{
		define("weight", weights(), func(t *Tenant) *int { return &t.Weight }, 1,
			"The share of the tenant, relative to the other tenants that have mail of the same class for the same destination.",
			"Raise it for a tenant that has paid for more."),
		define("sender", list(senderPattern(), "patterns"), func(t *Tenant) *[]string { return &t.Match.Senders }, nil,
			"Envelope senders of the tenant: an address in which a star stands for any text, a domain, or \".example.com\" for the domains below example.com.",
			"Set it if tenants have domains of their own."),
		define("client", list(network(), "networks"), func(t *Tenant) *[]netip.Prefix { return &t.Match.Clients }, nil,
			"The clients whose mail belongs to the tenant.",
			"Set it if tenants send from machines of their own."),
		define("user", list(flowUser(), "users"), func(t *Tenant) *[]string { return &t.Match.Users }, nil,
			"The users whose mail belongs to the tenant; \"uid:33\" is the user with this number on submission_socket.",
			"Set it if tenants' programs run on this host as users of their own."),
	}, quotaParameters(quotaWords{of: "the tenant", default_: "the limit of every tenant (tenant_%s)"}, func(t *Tenant) *quota.Limits { return &t.Quota })...)
}

// standardWeight is the weight of a class, except for bulk.
const standardWeight = 4

func weights() kind[int] { return integer(limit[int]{min: 1, max: flow.WeightMax}) }

// standardClass returns what [class.NAME] has without parameters.
func standardClass(name string) Class {
	for _, c := range flow.StandardClasses() {
		if c.Name == name {
			return Class{Class: c}
		}
	}
	return Class{Class: flow.Class{Name: name, Weight: standardWeight}}
}

func standardTenant(name string) Tenant { return Tenant{Tenant: flow.Tenant{Name: name, Weight: 1}} }

// Flows returns the configuration of package flow.
func (c *Config) Flows() flow.Config {
	f := flow.Config{Key: c.FlowKey, Dash: c.VERP.Delimiters.Before == '-', HeaderClients: c.FlowHeaderClients}
	for i := range c.Classes {
		f.Classes = append(f.Classes, c.Classes[i].Class)
	}
	for i := range c.Tenants {
		if t := &c.Tenants[i]; t.conditional() {
			f.Tenants = append(f.Tenants, t.Tenant)
		}
	}
	return f
}

// shares returns the weights for the core, where a class or tenant without a rule has
// the weight 1.
func (c *Config) shares() fair.Rules {
	var r fair.Rules
	for _, k := range c.Classes {
		one := fair.Class{Name: k.Name, Weight: k.Weight, Strict: k.Strict, MaxShare: 10 * k.MaxShare} // per mille
		if one != (fair.Class{Name: k.Name, Weight: 1}) {
			r.Classes = append(r.Classes, one)
		}
	}
	for _, t := range c.Tenants {
		if t.Weight == 1 {
			continue
		}
		if r.Tenants == nil {
			r.Tenants = make(map[string]int)
		}
		r.Tenants[t.Name] = t.Weight
	}
	return r
}

// flows creates the classes and tenants that the file defines, in its order.
func (l *loader) flows(classes, tenants *tomlfile.Entry) {
	loadNamed(l, tableClass, classes, classParameters, standardClass, func(t *tomlfile.Table, c Class, whole bool) {
		l.c.Classes = append(l.c.Classes, c)
		if whole {
			l.checkClass(t, &c)
		}
	})
	loadNamed(l, tableTenant, tenants, tenantParameters, standardTenant, func(t *tomlfile.Table, c Tenant, whole bool) {
		l.c.Tenants = append(l.c.Tenants, c)
		if whole {
			l.checkTenant(t, &c)
		}
	})
	l.c.addClasses()
	l.checkShares()
}

// checkShares complains about the class with which the shares of strict classes become
// too large.
func (l *loader) checkShares() {
	sum := 0
	for i := range l.c.Classes {
		c := &l.c.Classes[i]
		if sum += c.MaxShare; sum > flow.StrictShareMax {
			l.complain(fmt.Sprintf("with this class the sum of all max_share is %d, and it must be at most %d", sum, flow.StrictShareMax), "",
				fullName(fullName(tableClass, c.Name), "max_share"))
			return
		}
	}
}

// addClasses adds the standard classes that the file does not define, after its own.
func (c *Config) addClasses() {
	for _, standard := range flow.StandardClasses() {
		if !slices.ContainsFunc(c.Classes, func(one Class) bool { return one.Name == standard.Name }) {
			c.Classes = append(c.Classes, Class{Class: standard})
		}
	}
}

// loadNamed reads the tables [of.NAME], in the file's order. A table is not whole if
// something in it is unknown or wrong, or could not be read: what seems to be missing
// may be meant by that.
func loadNamed[O any](l *loader, of string, all *tomlfile.Entry, parameters []parameter[O], standard func(name string) O, add func(t *tomlfile.Table, o O, whole bool)) {
	if all == nil {
		return
	}
	t := l.asTable(all, of)
	if t == nil {
		return
	}
	tables := l.namedTables(of, t)
	for _, e := range t.Entries {
		if tables[e.Name] == nil {
			continue
		}
		o, table, whole := standard(e.Name), fullName(of, e.Name), !l.broken
		for _, one := range tables[e.Name].Entries {
			key := fullName(table, one.Name)
			i := slices.IndexFunc(parameters, func(p parameter[O]) bool { return p.name == one.Name })
			if i < 0 {
				l.unknown(key, of, one)
				whole = false
				continue
			}
			apply(l, parameters[i], &o, key, one)
			whole = whole && !l.failed[key]
		}
		l.note(table, tables[e.Name].At)
		add(tables[e.Name], o, whole)
	}
}

func (l *loader) checkClass(t *tomlfile.Table, c *Class) {
	key := fullName(fullName(tableClass, c.Name), "max_share")
	switch {
	case c.Strict && c.MaxShare == 0:
		l.src.Complain(t.At, tomlfile.Problem{Key: key, Message: "a class of priority strict needs a limit, or a flood in it would stop all other mail", Hint: "add such as max_share = 20"})
	case !c.Strict && c.MaxShare != 0:
		l.src.Complain(l.places[key], tomlfile.Problem{Key: key, Message: "the limit has no effect while priority is weighted", Hint: `set priority = "strict" too`})
	}
}

func (l *loader) checkTenant(t *tomlfile.Table, c *Tenant) {
	table := fullName(tableTenant, c.Name)
	if !c.conditional() && c.Quota == (quota.Limits{}) {
		l.src.Complain(t.At, tomlfile.Problem{Key: table, Message: "this tenant has no mail", Hint: `add sender, client or user, such as sender = ["example.com"], or a quota for mail that names the tenant in its header`})
	}
}

// byName returns classes or tenants as a map, and their names in order.
func byName[O any](all []O, name func(*O) string) (tables map[string]O, names []string) {
	tables = make(map[string]O, len(all))
	for i := range all {
		names = append(names, name(&all[i]))
		tables[names[i]] = all[i]
	}
	return tables, names
}

func className(c *Class) string   { return c.Name }
func tenantName(t *Tenant) string { return t.Name }

// diffNamed compares the tables [of.NAME] of which the first that matches applies: a
// new order is a change, too.
func diffNamed[O any](of string, before, after []O, name func(*O) string, parameters []parameter[O]) []Change {
	old, oldNames := byName(before, name)
	now, nowNames := byName(after, name)
	all := diffTables(of, old, now, parameters)
	stays := func(other map[string]O) func(string) bool {
		return func(name string) bool { _, ok := other[name]; return !ok }
	}
	oldNames, nowNames = slices.DeleteFunc(oldNames, stays(now)), slices.DeleteFunc(nowNames, stays(old))
	if !slices.Equal(oldNames, nowNames) {
		all = append(all, Change{Key: of, Old: literal(oldNames), New: literal(nowNames)})
	}
	return all
}

// flowTables shows classes and tenants in their order.
func (s *shower) flowTables() []shownTable {
	return append(showNamed(s, tableClass, s.c.Classes, className, standardClass, classParameters),
		showNamed(s, tableTenant, s.c.Tenants, tenantName, standardTenant, tenantParameters)...)
}

// showNamed shows the tables [of.NAME]. Conditions that are not set are left out. A
// table of the file is shown even if it sets nothing, because of its place among the
// others.
func showNamed[O any](s *shower, of string, all []O, name func(*O) string, standard func(string) O, parameters []parameter[O]) []shownTable {
	var shown []shownTable
	for i := range all {
		t := shownTable{path: []string{of, name(&all[i])}}
		usual := standard(name(&all[i]))
		for _, p := range parameters {
			if p.plain(&all[i]) == nil {
				continue
			}
			line, ok := showLine(s, p, &all[i], &usual, fullName(fullName(of, name(&all[i])), p.name), "default")
			if texts, list := line.value.([]string); ok && (!list || len(texts) > 0) {
				t.lines = append(t.lines, line)
			}
		}
		if len(t.lines) > 0 || s.c.explicit[fullName(of, name(&all[i]))] {
			shown = append(shown, t)
		}
	}
	return shown
}

// flowKey is the kind of the parameter flow_key.
func flowKey() kind[flow.Key] {
	return kind[flow.Key]{
		name: "flow key", closed: true, form: `"sender", "sender-domain", "header:NAME" or "none"`,
		plain: func(k flow.Key) any { return k.String() },
		read: func(n *tomlfile.Node) (flow.Key, *flaw) {
			s, f := readText(n, "a flow key")
			if f != nil {
				return flow.Key{}, f
			}
			k, err := flow.ParseKey(s)
			if err != nil {
				message, _, _ := strings.Cut(err.Error(), ": want")
				hint := didYouMean(s, []string{"sender", "sender-domain", "none"})
				if strings.HasPrefix(s, "header") {
					hint = `name the field, as in "header:Feedback-ID"`
				}
				return k, &flaw{message: message, hint: hint}
			}
			return k, nil
		},
	}
}

// wholeList is list for values that contain spaces: a text is one value.
func wholeList(item kind[string], name string) kind[[]string] {
	k := list(item, name)
	inner := k.read
	k.read = func(n *tomlfile.Node) ([]string, *flaw) {
		if n.Kind == tomlfile.KindText {
			n = &tomlfile.Node{Kind: tomlfile.KindList, At: n.At, Text: n.Text, Items: []*tomlfile.Node{n}}
		}
		return inner(n)
	}
	return k
}

func headerPattern() kind[string] {
	return text("header field", `such as ["X-Campaign", "Precedence: bulk", "Feedback-ID: *:shop"]`, func(s string) (string, string) {
		if flow.CheckHeader(s) != nil {
			return tomlfile.QuoteText(s) + " does not begin with the name of a header field", ""
		}
		return "", ""
	})
}

// patternMax is the length of the longest pattern.
const patternMax = 320

func senderPattern() kind[string] {
	return text("pattern", `such as ["otp@*", "example.com", ".example.net", "<>"]`, func(s string) (string, string) {
		switch {
		case s == "" || len(s) > patternMax:
			return "the pattern is empty or longer than an address", ""
		case len(s) > 2 && s[0] == '<' && s[len(s)-1] == '>':
			return tomlfile.QuoteText(s) + " is not an address", "write " + tomlfile.QuoteText(s[1:len(s)-1])
		case s[0] == '@':
			return tomlfile.QuoteText(s) + " is not an address", "write " + tomlfile.QuoteText(s[1:]) + " for the domain"
		}
		return "", ""
	})
}

func tenantPattern() kind[string] {
	return text("pattern", `such as ["shop", "192.0.2.0/24", "uid:33"]`, func(s string) (string, string) {
		if s == "" || len(s) > patternMax {
			return "the pattern is empty or longer than a tenant's name", ""
		}
		return "", ""
	})
}

func flowUser() kind[string] {
	return text("user", `such as ["jane", "uid:33"]`, func(s string) (string, string) {
		if s == "" {
			return "the name of the user is empty", ""
		}
		return "", ""
	})
}
