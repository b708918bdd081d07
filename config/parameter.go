package config

import (
	"fmt"
	"reflect"

	"github.com/posthaste-mta/posthaste/internal/tomlfile"
)

// A parameter is one key of a table whose values are stored in an O: a Config, a
// Transport or a Destination. It is the only declaration of the key: parsing,
// defaults, messages and documents all come from it.
type parameter[O any] struct {
	name    string
	meaning string // what it is: a noun phrase with unit and effect, and further sentences if needed; none is longer than 45 words
	change  string // one sentence: when to change it
	restart bool   // a change needs a restart
	global  string // the parameter that gives the default: a top-level one for a transport, the transport's for a destination
	smtp    bool   // for transports that make connections; with pipe, for these two alone
	pipe    bool   // for transports of type pipe
	postfix string // Postfix's default, if it differs

	kind, unit, limits, allowed string

	reset func(*O) // sets the default
	set   func(*O, *tomlfile.Node) *flaw
	plain func(*O) any // the value as in TOML: string, bool, int64 or []string; nil if it is not set
}

// define returns a parameter whose value is stored in a field of O.
func define[O, T any](name string, k kind[T], field func(*O) *T, standard T, meaning, change string) parameter[O] {
	return parameter[O]{
		name: name, meaning: meaning, change: change,
		kind: k.name, unit: k.unit, limits: k.limits, allowed: k.allowed(),
		reset: func(o *O) { *field(o) = standard },
		plain: func(o *O) any { return k.plain(*field(o)) },
		set: func(o *O, n *tomlfile.Node) *flaw {
			v, f := k.read(n)
			if f == nil {
				*field(o) = v
			}
			return f
		},
	}
}

// transportParameter returns a parameter of a transport. Its default is that of the
// package that uses it.
func transportParameter[T any](name string, k kind[T], field func(*Transport) *T, meaning, change string) parameter[Transport] {
	return define(name, k, field, *field(standardTransport()), meaning, change)
}

// onRestart marks a parameter that a running program cannot change.
func (p parameter[O]) onRestart() parameter[O] {
	p.restart = true
	return p
}

// from names the top-level parameter that gives a transport's default.
func (p parameter[O]) from(global string) parameter[O] {
	p.global = global
	return p
}

// forSMTP marks a parameter that only transports of type smtp and lmtp have.
func (p parameter[O]) forSMTP() parameter[O] {
	p.smtp = true
	return p
}

// forPipe marks a parameter that only transports of type pipe have, or, with forSMTP, these
// as well.
func (p parameter[O]) forPipe() parameter[O] {
	p.pipe = true
	return p
}

// concerns reports whether transports of a type have the parameter.
func (p parameter[O]) concerns(t TransportType) bool {
	switch {
	case !p.smtp && !p.pipe:
		return true
	case t == TypePipe:
		return p.pipe
	}
	return p.smtp && t.connects()
}

// asGlobal returns the top-level parameter that sets the default of a transport's.
func asGlobal(p parameter[Transport]) parameter[Config] {
	g := parameter[Config]{
		name: p.global, meaning: p.meaning, change: p.change, restart: p.restart, postfix: p.postfix,
		kind: p.kind, unit: p.unit, limits: p.limits, allowed: p.allowed,
	}
	g.reset = func(c *Config) { p.reset(&c.Defaults) }
	g.set = func(c *Config, n *tomlfile.Node) *flaw { return p.set(&c.Defaults, n) }
	g.plain = func(c *Config) any { return p.plain(&c.Defaults) }
	return g
}

// unlike records Postfix's default where ours differs.
func (p parameter[O]) unlike(standard string) parameter[O] {
	p.postfix = standard
	return p
}

// equal reports whether a parameter has the same value in a and b.
func (p parameter[O]) equal(a, b *O) bool {
	return reflect.DeepEqual(p.plain(a), p.plain(b))
}

// literal writes a plain value in TOML.
func literal(plain any) string {
	switch v := plain.(type) {
	case nil:
		return "" // not set
	case string:
		return tomlfile.QuoteText(v)
	case []string:
		text := "["
		for i, s := range v {
			if i > 0 {
				text += ", "
			}
			text += tomlfile.QuoteText(s)
		}
		return text + "]"
	}
	return fmt.Sprint(plain)
}

// A Parameter describes a key of the file.
type Parameter struct {
	Table   string // "", "spool", "dns", "log", or such as "transport" for [transport.NAME] and "listener" for [[listener]]
	Name    string
	Type    string
	Unit    string // of a number written without a unit; "" if it has none
	Range   string // "" if every value of the type is allowed
	Allowed string // type, range and form, as in error messages
	Default string // in TOML; for a transport's parameter, the name of the top-level one that gives it
	Postfix string // Postfix's default as in main.cf, if it differs
	Meaning string // what it is
	Change  string // when to change it
	Restart bool   // whether a change needs a restart
}

// Parameters returns all parameters in the order of the reference.
func Parameters() []Parameter {
	var all []Parameter
	standard := Default(Environment{})
	for _, s := range sections {
		for _, p := range s.parameters {
			all = append(all, describe(p, s.table, literal(p.plain(standard))))
		}
	}
	for _, p := range transportParameters {
		from := p.global
		if from == "" {
			from = literal(p.plain(&standard.Defaults))
		}
		all = append(all, describe(p, tableTransport, from))
	}
	for _, p := range destinationParameters {
		all = append(all, describe(p, tableDestination, destinationDefault(p)))
	}
	class, tenant := standardClass(""), standardTenant("")
	for _, p := range classParameters {
		all = append(all, describe(p, tableClass, literal(p.plain(&class))))
	}
	for _, p := range tenantParameters {
		all = append(all, describe(p, tableTenant, literal(p.plain(&tenant))))
	}
	one, pool := standardSource(""), standardPool("")
	for _, p := range sourceParameters {
		all = append(all, describe(p, tableSource, literal(p.plain(&one))))
	}
	for _, p := range poolParameters {
		all = append(all, describe(p, tablePool, literal(p.plain(&pool))))
	}
	plan := standardWarmupPlan("")
	for _, p := range warmupParameters {
		all = append(all, describe(p, tableWarmup, literal(p.plain(&plan))))
	}
	key := standardDKIMKey("")
	for _, p := range dkimKeyParameters {
		all = append(all, describe(p, tableDKIM, literal(p.plain(&key))))
	}
	reply := standardReplyRule("")
	for _, p := range replyRuleParameters {
		all = append(all, describe(p, tableReplyRule, literal(p.plain(&reply))))
	}
	for _, p := range listenerParameters {
		all = append(all, describe(p, tableListener, listenerDefault(p)))
	}
	pair := standardCertificate()
	for _, p := range certificateParameters {
		all = append(all, describe(p, tableCertificate, literal(p.plain(&pair))))
	}
	rule := standardHeaderRule()
	for _, p := range headerRuleParameters {
		all = append(all, describe(p, tableHeaderRule, literal(p.plain(&rule))))
	}
	personal := standardVERPRule("")
	for _, p := range verpRuleParameters {
		all = append(all, describe(p, tableVERP, standardText(p.plain(&personal))))
	}
	desk := standardFeedback()
	for _, p := range feedbackParameters {
		all = append(all, describe(p, tableFeedback, standardText(p.plain(&desk))))
	}
	filter := standardMilter()
	for _, p := range milterParameters {
		all = append(all, describe(p, tableMilter, literal(p.plain(&filter))))
	}
	return all
}

// standardText writes a default, which need not be set.
func standardText(plain any) string {
	if plain == nil {
		return "not set"
	}
	return literal(plain)
}

// destinationDefault describes the value that applies if a destination does not set
// a parameter.
func destinationDefault(p parameter[Destination]) string {
	if p.global == "" {
		return literal([]string{})
	}
	return "the transport's " + p.global
}

func describe[O any](p parameter[O], table, standard string) Parameter {
	if p.name == nameHostname {
		standard = "this machine's name"
	}
	return Parameter{
		Table: table, Name: p.name, Type: p.kind, Unit: p.unit, Range: p.limits, Allowed: p.allowed,
		Default: standard, Postfix: p.postfix, Meaning: p.meaning, Change: p.change, Restart: p.restart,
	}
}
