package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/flow"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/outbound"
	"github.com/posthaste-mta/posthaste/qmgr/source"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
)

// A Source is a table [source.NAME].
type Source struct {
	source.Source
	Warmup      string // the name of a plan; "" if receivers know the source
	WarmupStart warmup.Day
}

// sourceParameters and poolParameters are the tables of the parameters of [source.NAME] and
// [pool.NAME].
var (
	sourceParameters = []parameter[Source]{
		define("address", list(sendingAddress(), "addresses"), func(s *Source) *[]netip.Addr { return &s.Addresses }, nil,
			"The addresses of this machine that connections of the source come from: one IPv4 address, one IPv6 address, or both; a receiver with addresses of another family only is not reached from the source.",
			"Set it to addresses that have a name in the DNS which leads back to them."),
		define("ehlo", optional(domain(), "for smtp_helo_name"), func(s *Source) *string { return &s.Hello }, "",
			"The name of the source in EHLO.",
			"Set it to the name that the DNS has for the source's addresses."),
		define("warmup", warmupPlan(), func(s *Source) *string { return &s.Warmup }, "",
			"The warm-up plan, which limits the number of messages per day from the source to each site; the limit grows while receivers accept the mail, and further mail leaves from the other sources of the pool (docs/warmup.md).",
			"Set it to conservative for an address that receivers do not know."),
		define("warmup_start", warmupStart(), func(s *Source) *warmup.Day { return &s.WarmupStart }, 0,
			"The day, in UTC, on which the warm-up begins, and before which nothing is sent from the source.",
			"Set it if the address is not to be used before a certain day."),
	}
	poolParameters = []parameter[source.Pool]{
		define("sources", list(member(), "sources"), func(p *source.Pool) *[]source.Member { return &p.Members }, nil,
			"The sources of the pool, each with its weight relative to the others after a colon, or without for 1: so many of the messages for a destination leave from it.",
			"Add sources to share mail among several addresses, and lower the weight of one that should send less."),
		define("class", list(flowName(flow.ClassNormal, flow.ClassBulk), "classes"), func(p *source.Pool) *[]string { return &p.Match.Classes }, nil,
			"The classes of mail that the pool is for.",
			"Set it to keep bulk mail from the addresses of other mail."),
		define("tenant", list(tenantPattern(), "patterns"), func(p *source.Pool) *[]string { return &p.Match.Tenants }, nil,
			"The tenants whose mail the pool is for, by the name in [tenant.NAME], in a header field or as shown by the queue commands; a star stands for any text.",
			"Set it if tenants send from addresses of their own."),
		define("sender", list(senderPattern(), "patterns"), func(p *source.Pool) *[]string { return &p.Match.Senders }, nil,
			"Envelope senders whose mail the pool is for: an address in which a star stands for any text, a domain, \".example.com\" for the domains below example.com, or \"<>\" for the null sender.",
			"Set it if senders have addresses of their own."),
		define("route", list(routePattern(), "patterns"), func(p *source.Pool) *[]string { return &p.Match.Routes }, nil,
			"Where the mail goes that the pool is for: a transport, and after a colon the nexthop. The nexthop is the domain of the recipient unless [routes] or relayhost says something else. A star stands for any text, \"smtp:.example.com\" is for all domains below example.com, and \"smtp:\" for all mail of the transport.",
			"Set it to send to certain receivers from other addresses."),
	}
)

func standardSource(name string) Source    { return Source{Source: source.Source{Name: name}} }
func standardPool(name string) source.Pool { return source.Pool{Name: name} }

func sourceName(s *Source) string    { return s.Name }
func poolName(p *source.Pool) string { return p.Name }

// sources returns the sources and pools for the core.
func (c *Config) sources() source.Config {
	all := source.Config{Pools: c.Pools}
	for i := range c.Sources {
		all.Sources = append(all.Sources, c.Sources[i].Source)
	}
	return all
}

// sourceAddresses returns the sources for package outbound.
func (c *Config) sourceAddresses() map[string]outbound.SourceConfig {
	if len(c.Sources) == 0 {
		return nil
	}
	all := make(map[string]outbound.SourceConfig, len(c.Sources))
	for i := range c.Sources {
		s := &c.Sources[i]
		all[s.Name] = outbound.SourceConfig{IPv4: s.Address(source.IPv4), IPv6: s.Address(source.IPv6), Hello: s.Hello}
	}
	return all
}

// sources creates the sources and pools that the file defines, in its order.
func (l *loader) sources(sources, pools *tomlfile.Entry) {
	loadNamed(l, tableSource, sources, sourceParameters, standardSource, func(t *tomlfile.Table, s Source, whole bool) {
		l.c.Sources = append(l.c.Sources, s)
		if whole {
			l.checkSource(t, &s)
		}
	})
	loadNamed(l, tablePool, pools, poolParameters, standardPool, func(t *tomlfile.Table, p source.Pool, whole bool) {
		l.c.Pools = append(l.c.Pools, p)
		if whole {
			l.checkPool(t, &p)
		}
	})
}

func (l *loader) checkSource(t *tomlfile.Table, s *Source) {
	l.checkSourceWarmup(s)
	key := fullName(fullName(tableSource, s.Name), "address")
	if len(s.Addresses) == 0 {
		l.src.Complain(t.At, tomlfile.Problem{Key: key, Message: "this source has no address", Hint: `add such as address = ["192.0.2.1"]`})
		return
	}
	for i, a := range s.Addresses {
		if j := slices.IndexFunc(s.Addresses[:i], func(b netip.Addr) bool { return source.FamilyOf(a) == source.FamilyOf(b) }); j >= 0 {
			l.src.Complain(l.places[key], tomlfile.Problem{Key: key, Message: fmt.Sprintf("%s and %s are both %s addresses, and a source has one of each family", s.Addresses[j], a, source.FamilyOf(a)),
				Hint: "add a [source.NAME] for each address, and name all of them in the pool"})
			return
		}
	}
	for _, other := range l.c.Sources[:len(l.c.Sources)-1] {
		for _, a := range s.Addresses {
			if slices.Contains(other.Addresses, a) {
				l.src.Complain(l.places[key], tomlfile.Problem{Key: key, Message: fmt.Sprintf("%s is an address of [source.%s] too, and receivers would take both for one", a, other.Name)})
				return
			}
		}
	}
}

func (l *loader) checkPool(t *tomlfile.Table, p *source.Pool) {
	table := fullName(tablePool, p.Name)
	about := func(name, message, hint string) {
		key := fullName(table, name)
		at, ok := l.places[key]
		if !ok {
			at = t.At
		}
		l.src.Complain(at, tomlfile.Problem{Key: key, Message: message, Hint: hint})
	}
	if len(p.Members) == 0 {
		about("sources", "this pool has no sources", `add such as sources = ["NAME"], with a [source.NAME]`)
	}
	var names []string
	for i := range l.c.Sources {
		names = append(names, l.c.Sources[i].Name)
	}
	for i, m := range p.Members {
		switch {
		case slices.ContainsFunc(p.Members[:i], func(other source.Member) bool { return other.Source == m.Source }):
			about("sources", fmt.Sprintf("source %s is in the list twice", m.Source), "write "+tomlfile.QuoteText(m.Source+":2")+" for a double weight")
		case !slices.Contains(names, m.Source):
			hint := didYouMean(m.Source, names)
			if hint == "" {
				hint = "add a table [source." + m.Source + "]"
			}
			about("sources", fmt.Sprintf("there is no source %q", m.Source), hint)
		}
	}
	for _, text := range p.Match.Routes {
		name, _, _ := strings.Cut(text, ":")
		var smtp []string
		for other, t := range l.c.Transports {
			if t.Type.connects() {
				smtp = append(smtp, other)
			}
		}
		if !strings.Contains(name, "*") && !slices.Contains(smtp, name) {
			slices.Sort(smtp)
			about("route", fmt.Sprintf("there is no transport %q of type smtp", name), didYouMean(name, smtp))
		}
	}
	for _, name := range p.Match.Classes {
		if classes := l.classNames(); !slices.Contains(classes, name) {
			about("class", fmt.Sprintf("there is no class %q", name), didYouMean(name, classes))
		}
	}
	l.checkReached(p, about)
}

// checkReached complains about a pool that gets no mail, because one before it takes all.
func (l *loader) checkReached(p *source.Pool, about func(name, message, hint string)) {
	for i := range l.c.Pools[:len(l.c.Pools)-1] {
		if other := &l.c.Pools[i]; !other.Match.Given() {
			about("sources", fmt.Sprintf("this pool gets no mail: [pool.%s] before it has no conditions and takes all", other.Name), "move it before that one")
			return
		}
	}
}

func (l *loader) classNames() []string {
	var names []string
	for i := range l.c.Classes {
		names = append(names, l.c.Classes[i].Name)
	}
	return names
}

// sendingAddress is an address of this machine.
func sendingAddress() kind[netip.Addr] {
	k := address()
	k.form = `such as ["192.0.2.1", "2001:db8::1"]`
	inner := k.read
	k.read = func(n *tomlfile.Node) (netip.Addr, *flaw) {
		a, f := inner(n)
		if f == nil && (a.IsUnspecified() || a.IsMulticast()) {
			f = &flaw{message: a.String() + " is not an address that connections can come from"}
		}
		return a.Unmap(), f
	}
	return k
}

// member is a source and its weight.
func member() kind[source.Member] {
	return kind[source.Member]{
		name: "source", form: `such as ["a", "b:3"]`,
		plain: func(m source.Member) any {
			if m.Weight == 1 {
				return m.Source
			}
			return m.Source + ":" + strconv.Itoa(m.Weight)
		},
		read: func(n *tomlfile.Node) (m source.Member, f *flaw) {
			s, f := readText(n, "a source")
			if f != nil {
				return m, f
			}
			name, weight, weighted := strings.Cut(s, ":")
			m = source.Member{Source: name, Weight: 1}
			if !tableName.MatchString(name) {
				return m, &flaw{message: tomlfile.QuoteText(name) + " is not the name of a source"}
			}
			if weighted {
				w, err := strconv.Atoi(weight)
				if err != nil || w < 1 || w > source.WeightMax {
					return m, &flaw{message: fmt.Sprintf("the weight %q of source %s is not a number from 1 to %d", weight, name, source.WeightMax)}
				}
				m.Weight = w
			}
			return m, nil
		},
	}
}

// flowName is the name of a class, for example.
func flowName(examples ...string) kind[string] {
	return text("name", fmt.Sprintf("such as %s", literal(examples)), func(s string) (string, string) {
		if !tableName.MatchString(s) {
			return tomlfile.QuoteText(s) + " is not a name of 1 to 64 letters, digits, - and _", ""
		}
		return "", ""
	})
}

func routePattern() kind[string] {
	return text("pattern", `such as ["bulk:", "smtp:example.com", "*:.example.net"]`, func(s string) (string, string) {
		transport, nexthop, _ := strings.Cut(s, ":")
		switch {
		case transport == "" || len(s) > patternMax:
			return tomlfile.QuoteText(s) + " does not begin with a transport", "write " + tomlfile.QuoteText("*:"+nexthop) + " for all transports"
		case strings.IndexByte(s, '@') >= 0:
			return tomlfile.QuoteText(s) + " is an address, not a route", "write a transport and a domain, with a colon between them"
		}
		return "", ""
	})
}

// sourceTables shows sources and pools in their order.
func (s *shower) sourceTables() []shownTable {
	return append(showNamed(s, tableSource, s.c.Sources, sourceName, standardSource, sourceParameters),
		showNamed(s, tablePool, s.c.Pools, poolName, standardPool, poolParameters)...)
}
