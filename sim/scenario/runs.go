package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/sim"
)

// A setting is a key of the daemon's configuration, where it stands here.
type setting struct {
	path  []string
	key   span // of its last part
	value *node
}

func (s *setting) name() string { return strings.Join(s.path, ".") }

// settings lists the keys below a table, those of inner tables included.
func settings(t *table, path []string, skip ...string) []setting {
	var all []setting
	for _, e := range t.entries {
		if slices.Contains(skip, e.name) {
			continue
		}
		below := append(slices.Clone(path), e.name)
		if e.value.kind == nodeTable {
			all = append(all, settings(e.value.table, below)...)
			continue
		}
		all = append(all, setting{below, e.at, e.value})
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
		l.run(&sim.Run{Name: "default"}, base, nil)
	}
	names := make(map[string]bool)
	for i, t := range l.runs {
		run := &sim.Run{Name: strconv.Itoa(i + 1)}
		own := &table{at: t.at}
		for _, e := range t.entries {
			if e.name == "name" || e.name == "reference" {
				own.entries = append(own.entries, e)
			}
		}
		l.fields("run", own, []field{
			textField("name", "text", &run.Name),
			tablesField("run", "reference", func(t *table) { run.References = append(run.References, l.reference(t)) }),
		})
		if names[run.Name] {
			l.complain(t.at, config.Problem{Key: "run.name", Message: fmt.Sprintf("there is another run called %q", run.Name)})
		}
		names[run.Name] = true
		l.run(run, base, settings(t, nil, "name", "reference"))
	}
}

func (l *loader) reference(t *table) sim.Reference {
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
func (l *loader) run(run *sim.Run, base, own []setting) {
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
		run.Parameters = append(run.Parameters, sim.Parameter{Name: s.name(), Value: s.value.text})
	}
	run.Core = withAgents(cfg.Driver().Qmgr)
	run.Clients = make(map[string]sim.Client)
	for name, t := range cfg.Transports {
		run.Clients[name] = sim.Client{ConnectTimeout: t.SMTP.ConnectTimeout, GreetingTimeout: t.SMTP.HeloTimeout,
			CacheTime: t.SMTP.CacheTimeLimit, ReuseTime: t.SMTP.ReuseTimeLimit, ReuseCount: t.SMTP.ReuseCountLimit}
	}
	l.transports(slices.Sorted(maps.Keys(cfg.Transports)))
	l.s.Runs = append(l.s.Runs, *run)
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
		at := span{}
		if n := strings.Index(string(l.text), strconv.Quote(site.Transport)); n >= 0 {
			at = span{n, n + len(strconv.Quote(site.Transport))}
		}
		l.complain(at, config.Problem{Key: "site." + site.Name + ".transport", Message: noTransport(site.Transport),
			Allowed: "one of " + strings.Join(names, ", "), Hint: fmt.Sprintf("add a table [config.transport.%s]", site.Transport)})
		site.Transport = ""
	}
	for _, p := range l.agentsOf {
		if !slices.Contains(names, p.name) && !l.known(p.at, noTransport(p.name)) {
			l.complain(p.at, config.Problem{Key: p.key, Message: noTransport(p.name), Allowed: "one of " + strings.Join(names, ", ")})
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
		value := string(l.text[s.value.at.start:s.value.at.end])
		if strings.Contains(value, "\n") {
			l.complain(s.value.at, config.Problem{Key: s.name(), Message: "this value has several lines", Hint: "write it in one line"})
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
	cfg, err := config.Parse(l.name, []byte(text.String()), config.Environment{Hostname: "sim.test"})
	if err == nil {
		return cfg, true
	}
	problems, known := err.(*config.Problems)
	if !known {
		l.complain(span{}, config.Problem{Message: err.Error()})
		return nil, false
	}
	for _, p := range problems.List {
		if p.Line < 1 || p.Line > len(all) {
			l.complain(span{}, p)
			continue
		}
		s := &all[p.Line-1]
		at := s.key
		if from := p.Column - columns[p.Line-1]; from >= 0 {
			at = span{s.value.at.start + from, s.value.at.start + from + p.Length}
		}
		if !l.known(at, p.Message) { // every run complains about what all of them have
			l.complain(at, p)
		}
	}
	return nil, false
}

func (l *loader) known(at span, message string) bool {
	return slices.ContainsFunc(l.problems, func(p placed) bool { return p.at.start == at.start && p.Message == message })
}
