package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/sim"
)

// A setting is a key of the daemon's configuration, where it stands here.
type setting struct {
	path  []string
	key   tomlfile.Span // of its last part
	value *tomlfile.Node
}

func (s *setting) name() string { return strings.Join(s.path, ".") }

// settings lists the keys below a table, those of inner tables included.
func settings(t *tomlfile.Table, path []string, skip ...string) []setting {
	var all []setting
	for _, e := range t.Entries {
		if slices.Contains(skip, e.Name) {
			continue
		}
		below := append(slices.Clone(path), e.Name)
		if e.Value.Kind == tomlfile.KindTable {
			all = append(all, settings(e.Value.Table, below)...)
			continue
		}
		all = append(all, setting{below, e.At, e.Value})
	}
	return all
}

// configure makes the runs.
func (l *loader) configure() {
	var base []setting
	if l.base != nil {
		base = settings(l.base, nil)
	}
	if len(l.runs) == 0 {
		l.run(&sim.Run{Name: "default"}, l.mode, base, nil)
	}
	names := make(map[string]bool)
	for i, t := range l.runs {
		run := &sim.Run{Name: strconv.Itoa(i + 1)}
		own := &tomlfile.Table{At: t.At}
		for _, e := range t.Entries {
			if slices.Contains(ownOfRun, e.Name) {
				own.Entries = append(own.Entries, e)
			}
		}
		how, flows := l.mode, true
		l.fields("run", own, []field{
			textField("name", "text", &run.Name),
			modeField(&how),
			flagField("flows", &flows),
			listField("without", `the name of arrivals, or a list such as ["a", "b"]`, &run.Without, l.withoutArrivals),
			tablesField("run", "reference", func(t *tomlfile.Table) { run.References = append(run.References, l.reference(t)) }),
		})
		if names[run.Name] {
			l.Complain(t.At, tomlfile.Problem{Key: "run.name", Message: fmt.Sprintf("there is another run called %q", run.Name)})
		}
		names[run.Name] = true
		run.Unclassified = !flows
		for _, name := range []string{"mode", "flows", "without"} {
			if e := t.Get(name); e != nil {
				run.Parameters = append(run.Parameters, sim.Parameter{Name: name, Value: strings.Trim(l.Text(e.Value.At), `"`)})
			}
		}
		l.run(run, how, base, settings(t, nil, ownOfRun...))
	}
}

func (l *loader) reference(t *tomlfile.Table) sim.Reference {
	r := sim.Reference{DeferredPct: -1, WindowMean: -1, WindowStddev: -1}
	l.fields("run.reference", t, []field{
		textField("source", "text", &r.Source),
		numberField("deferred_pct", 0, 100, &r.DeferredPct),
		numberField("window_mean", 0, 1e6, &r.WindowMean),
		numberField("window_stddev", 0, 1e6, &r.WindowStddev),
		textField("sequence", "digits and letters", &r.Sequence),
	})
	return r
}

// run configures one run: with what all of them have, and with its own.
func (l *loader) run(run *sim.Run, how mode, base, own []setting) {
	merged := slices.Clone(own)
	for _, s := range base {
		if !slices.ContainsFunc(own, func(o setting) bool { return o.name() == s.name() }) {
			merged = append(merged, s)
		}
	}
	cfg, ok := l.parseConfig(merged)
	if !ok {
		return
	}
	for _, s := range own {
		run.Parameters = append(run.Parameters, sim.Parameter{Name: s.name(), Value: s.value.Text})
	}
	run.Core = cfg.Driver().Qmgr
	l.relayed = l.relayed || how == modeRelay
	if how == modeAgents {
		run.Core = withAgents(run.Core)
	}
	run.Clients = make(map[string]sim.Client)
	for name, t := range cfg.Transports {
		run.Clients[name] = sim.Client{ConnectTimeout: t.SMTP.ConnectTimeout, GreetingTimeout: t.SMTP.HeloTimeout,
			CacheTime: max(t.Connections.IdleTime, 0), ReuseTime: max(t.Connections.ActiveTime, 0), ReuseCount: t.Connections.CountLimit, ReplyTimeout: t.SMTP.MailTimeout}
	}
	l.fallbacks(run, cfg)
	l.transports(slices.Sorted(maps.Keys(cfg.Transports)))
	l.s.Runs = append(l.s.Runs, *run)
}

// ownOfRun are the keys of [[run]] that are not parameters.
var ownOfRun = []string{"name", "reference", "mode", "flows", "without"}

// withoutArrivals reads the name of arrivals that a run is without.
func (l *loader) withoutArrivals(n *tomlfile.Node) (string, *flaw) {
	if n.Kind != tomlfile.KindText {
		return "", mismatch(n, "the name of arrivals")
	}
	for i := range l.s.Arrivals {
		if l.s.Arrivals[i].Class == n.Text {
			return n.Text, nil
		}
	}
	return "", flawf("there are no arrivals %q", n.Text)
}

// A mode says who decides on connections.
type mode uint8

const (
	modeAgents mode = iota // none: every delivery is made by an agent, as in Postfix
	modeRelay              // the core, as in the daemon
)

// String returns the word for it.
func (m mode) String() string { return [...]string{"agents", "relay"}[m] }

func modeField(to *mode) field {
	return wordField("mode", to, word[mode]{modeAgents.String(), modeAgents}, word[mode]{modeRelay.String(), modeRelay})
}

// fallbacks notes which sites are fallback relays, and complains about those that
// are none.
func (l *loader) fallbacks(run *sim.Run, cfg *config.Config) {
	var domains []string
	for i := range l.s.Sites {
		domains = append(domains, l.s.Sites[i].Domains()...)
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Transports)) {
		for _, relay := range strings.FieldsFunc(cfg.Transports[name].SMTP.FallbackRelay, func(r rune) bool { return r == ',' || r == ' ' }) {
			domain, _, _ := strings.Cut(strings.TrimPrefix(relay, "["), "]")
			if !slices.Contains(domains, domain) {
				p := tomlfile.Problem{Key: "fallback_relay", Message: fmt.Sprintf("no site has the domain %q", domain), Hint: "a site NAME has the domain NAME.test"}
				if at := l.Find(tomlfile.QuoteText(relay)); !l.Complained(at, p.Message) {
					l.Complain(at, p)
				}
				continue
			}
			if run.Fallbacks == nil {
				run.Fallbacks = make(map[string][]string)
			}
			run.Fallbacks[name] = append(run.Fallbacks[name], domain)
		}
	}
}

// withAgents has every transport deliver by agents, as Postfix does: a delivery is a
// connection of its own, or goes on with one that another has left.
func withAgents(core qmgr.Config) qmgr.Config {
	for name, t := range core.Transports {
		t.Agents = qmgr.AgentsOwn
		core.Transports[name] = t
	}
	return core
}

// transports complains about sites and agents whose transport does not exist.
func (l *loader) transports(names []string) {
	for i := range l.s.Sites {
		site := &l.s.Sites[i]
		if site.Transport == "" || slices.Contains(names, site.Transport) {
			continue
		}
		l.Complain(l.Find(tomlfile.QuoteText(site.Transport)), tomlfile.Problem{Key: "site." + site.Name + ".transport", Message: noTransport(site.Transport),
			Allowed: "one of " + strings.Join(names, ", "), Hint: fmt.Sprintf("add a table [config.transport.%s]", site.Transport)})
		site.Transport = ""
	}
	for _, p := range l.agentsOf {
		if !slices.Contains(names, p.name) && !l.Complained(p.at, noTransport(p.name)) {
			l.Complain(p.at, tomlfile.Problem{Key: p.key, Message: noTransport(p.name), Allowed: "one of " + strings.Join(names, ", ")})
		}
	}
}

func noTransport(name string) string { return fmt.Sprintf("there is no transport %q", name) }

// parseConfig has package config read the settings, and brings its complaints
// back to where they belong.
func (l *loader) parseConfig(all []setting) (*config.Config, bool) {
	var text strings.Builder
	columns := make([]int, len(all)) // where the values begin
	for i, s := range all {
		value := l.Text(s.value.At)
		if strings.Contains(value, "\n") {
			l.Complain(s.value.At, tomlfile.Problem{Key: s.name(), Message: "this value has several lines", Hint: "write it in one line"})
			return nil, false
		}
		key := make([]string, len(s.path))
		for j, part := range s.path {
			key[j] = strconv.Quote(part)
		}
		line := strings.Join(key, ".") + " = "
		columns[i] = len([]rune(line)) + 1
		text.WriteString(line + value + "\n")
	}
	cfg, err := config.Parse(l.Name(), []byte(text.String()), config.Environment{Hostname: "sim.test"})
	if err == nil {
		return cfg, true
	}
	problems, known := err.(*tomlfile.Problems)
	if !known {
		l.Complain(tomlfile.Span{}, tomlfile.Problem{Message: err.Error()})
		return nil, false
	}
	for _, p := range problems.List {
		if p.Line < 1 || p.Line > len(all) {
			l.Complain(tomlfile.Span{}, p)
			continue
		}
		s := &all[p.Line-1]
		at := s.key
		if from := p.Column - columns[p.Line-1]; from >= 0 {
			at = tomlfile.Span{Start: s.value.At.Start + from, End: s.value.At.Start + from + p.Length}
		}
		if !l.Complained(at, p.Message) { // every run complains about what all of them have
			l.Complain(at, p)
		}
	}
	return nil, false
}
