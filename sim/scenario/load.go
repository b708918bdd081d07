package scenario

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/near"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/sim"
)

// fileMax is the largest file that is read.
const fileMax = 16 << 20

// Load reads a scenario file. Files that it names are looked for beside it. If
// it can be read and is wrong, the error is a *tomlfile.Problems.
func Load(path string) (*sim.Scenario, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("scenario: %w", err)
	}
	name := strings.TrimSuffix(filepath.Base(path), ".toml")
	return Parse(path, name, text, os.DirFS(filepath.Dir(path)))
}

// Parse reads the text of a scenario. file is what complaints call it, name what
// the scenario is called; files that it names are looked for in dir. If it is
// wrong the error is a *tomlfile.Problems.
func Parse(file, name string, text []byte, dir fs.FS) (*sim.Scenario, error) {
	l := &loader{File: tomlfile.New(file, nil), dir: dir, s: &sim.Scenario{Name: name, Seed: 1}}
	if len(text) > fileMax {
		l.Complain(tomlfile.Span{}, tomlfile.Problem{Message: fmt.Sprintf("the file is larger than %s", config.FormatSize(fileMax))})
		return nil, l.Problems()
	}
	l.File = tomlfile.New(file, text)
	root := l.Parse()
	l.broken = l.Wrong()
	l.load(root)
	l.CheckWhole()
	if err := l.Problems(); err != nil {
		return nil, err
	}
	if err := l.s.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return l.s, nil
}

// A loader fills a Scenario from a tree.
type loader struct {
	*tomlfile.File
	broken bool // there are syntax errors: what seems to be missing may be there
	dir    fs.FS
	s      *sim.Scenario
	base   *tomlfile.Table   // [config]
	runs   []*tomlfile.Table // [[run]]
	places []place
	mode   mode // of runs that do not say otherwise
	// agentsOf are the transports that [agents] names.
	agentsOf []place
	// forRelay are keys that mean something in mode relay only; relayed says that
	// some run is in it.
	forRelay []place
	relayed  bool
}

// A place is where a site or a transport is named that may not exist.
type place struct {
	key, name string
	at        tomlfile.Span
}

func (l *loader) load(root *tomlfile.Table) {
	if l.isConfiguration(root) {
		return
	}
	s := l.s
	l.fields("", root, []field{
		textField("description", "text", &s.Description),
		countField("seed", 0, 1<<62, &s.Seed),
		wordField("until", &s.Until, word[sim.Until]{"settled", sim.UntilSettled}, word[sim.Until]{"first round", sim.UntilFirstRound}),
		timeField("duration", &s.Duration),
		timeField("patience", &s.Patience),
		wordField("sabotage", &s.Sabotage, word[sim.Sabotage]{"lose", sim.SabotageLose}, word[sim.Sabotage]{"hang", sim.SabotageHang},
			word[sim.Sabotage]{"random", sim.SabotageRandom}),
		tableField("config", func(t *tomlfile.Table) { l.base = t }),
		tableField("disk", func(t *tomlfile.Table) {
			l.fields("disk", t, []field{spreadField("commit", &s.Disk.Commit), spreadField("read", &s.Disk.Read)})
		}),
		tableField("dns", l.dns),
		modeField(&l.mode),
		tablesField("", "outage", func(t *tomlfile.Table) { s.Outages = append(s.Outages, l.networkOutage(t)) }),
		tableField("agents", func(t *tomlfile.Table) { l.named("agents", t, l.agents) }),
		tableField("site", func(t *tomlfile.Table) { l.named("site", t, l.site) }),
		tableField("arrivals", func(t *tomlfile.Table) { l.named("arrivals", t, l.arrivals) }),
		tablesField("", "warmup", func(t *tomlfile.Table) { s.Orders = append(s.Orders, l.warmupOrder(t)) }),
		tablesField("", "run", func(t *tomlfile.Table) { l.runs = append(l.runs, t) }),
	})
	if l.broken {
		return
	}
	l.whole(root)
	l.configure()
	l.refuseForRelay()
}

// isConfiguration reports whether the file is one of the daemon's, and complains of that
// alone: a complaint about each of its keys would not help.
func (l *loader) isConfiguration(root *tomlfile.Table) bool {
	for _, own := range []string{"site", "arrivals", "config", "run"} {
		if root.Get(own) != nil {
			return false
		}
	}
	names := []string{"transport", "destination", "routes", "spool", "log"}
	for _, p := range config.Parameters() {
		if p.Table == "" {
			names = append(names, p.Name)
		}
	}
	for _, name := range names {
		if root.Get(name) != nil {
			l.Only(root.Entries[0].At, tomlfile.Problem{Message: "this looks like a configuration of the daemon, not like a scenario",
				Hint: "a scenario has sites and arrivals, and parameters under [config]; posthaste sim show readme-421 prints one"})
			return true
		}
	}
	return false
}

// whole complains about what is missing.
func (l *loader) whole(root *tomlfile.Table) {
	end := l.End()
	if root.Get("site") == nil {
		l.Complain(end, tomlfile.Problem{Message: "there is no site", Hint: "add a table [site.NAME]"})
	}
	if root.Get("arrivals") == nil {
		l.Complain(end, tomlfile.Problem{Message: "no mail arrives", Hint: "add a table [arrivals.NAME]"})
	}
	var names []string
	for i := range l.s.Sites {
		names = append(names, l.s.Sites[i].Name)
	}
	for _, p := range l.places {
		if slices.Contains(names, p.name) {
			continue
		}
		hint := "the sites are " + strings.Join(names, ", ")
		if guess := near.Name(p.name, names); guess != "" {
			hint = fmt.Sprintf("did you mean %q?", guess)
		}
		l.Complain(p.at, tomlfile.Problem{Key: p.key, Message: fmt.Sprintf("there is no site %q", p.name), Hint: hint})
	}
}

var siteName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,40}[A-Za-z0-9])?$`)

// named reads the tables below [site], [arrivals] or [agents].
func (l *loader) named(kind string, t *tomlfile.Table, read func(where, name string, t *tomlfile.Table, at tomlfile.Span)) {
	for _, e := range t.Entries {
		where := kind + "." + e.Name
		switch {
		case e.Value.Kind != tomlfile.KindTable:
			l.Complain(e.At, tomlfile.Problem{Key: where, Message: "this is " + e.Value.Kind.String() + ", not a table", Hint: "write its keys under [" + kind + ".NAME]"})
		case !siteName.MatchString(e.Name):
			l.Complain(e.At, tomlfile.Problem{Key: where, Message: "this cannot be a name", Allowed: "letters, digits and hyphens between them, at most 42"})
		default:
			read(where, e.Name, e.Value.Table, e.At)
		}
	}
}

func (l *loader) dns(t *tomlfile.Table) {
	d := &l.s.DNS
	l.fields("dns", t, []field{
		spreadField("delay", &d.Delay), timeField("ttl", &d.TTL), numberField("failure_percent", 0, 100, &d.FailurePercent),
		flagField("by_delivery", &d.ByDelivery),
	})
}

// agents reads when the agents of a transport cannot be started.
func (l *loader) agents(where, name string, t *tomlfile.Table, at tomlfile.Span) {
	l.fields(where, t, []field{tablesField(where, "outage", func(t *tomlfile.Table) {
		o := sim.AgentOutage{Transport: name}
		l.fields(where+".outage", t, []field{timeField("from", &o.From), timeField("until", &o.Until)})
		l.ends(where+".outage", t, o.From, o.Until)
		l.s.Agents = append(l.s.Agents, o)
	})})
	l.agentsOf = append(l.agentsOf, place{where, name, at})
}

// ends complains about an outage of which the end is missing, or before its begin.
func (l *loader) ends(key string, t *tomlfile.Table, from, until time.Duration) {
	switch {
	case t.Get("until") == nil:
		l.Complain(t.At, tomlfile.Problem{Key: key, Message: "until is missing: when does this outage end?", Hint: "until is a time after the start of the run, not a length"})
	case until <= from:
		l.Complain(t.At, tomlfile.Problem{Key: key, Message: "this outage ends before it begins", Hint: "until is a time after the start of the run, not a length"})
	}
}

// warmupOrder reads an operator's order about a warm-up.
func (l *loader) warmupOrder(t *tomlfile.Table) (o sim.WarmupOrder) {
	l.fields("warmup", t, []field{
		timeField("at", &o.At), textField("source", "the name of a source", &o.Source), textField("site", "the domain of a site", &o.Site),
		countField("day", 1, 1e6, &o.Day),
	})
	if t.Get("source") == nil || t.Get("day") == nil {
		l.Complain(t.At, tomlfile.Problem{Key: "warmup", Message: "an order about a warm-up needs a source and a day"})
	}
	return o
}

func (l *loader) arrivals(where, name string, t *tomlfile.Table, at tomlfile.Span) {
	a := sim.Arrivals{Class: name, Min: 1, Max: 1}
	var file string
	fields := []field{
		listField("to", `the name of a site, or a list such as ["a", "b"]`, &a.To, func(n *tomlfile.Node) (string, *flaw) {
			if n.Kind != tomlfile.KindText {
				return "", mismatch(n, "the name of a site")
			}
			l.places = append(l.places, place{where + ".to", n.Text, n.At})
			return n.Text, nil
		}),
		wordField("order", &a.Random, word[bool]{"turn", false}, word[bool]{"random", true}),
		rangeField("recipients", 1, 1e6, &a.Min, &a.Max),
		wordField("pattern", &a.Pattern, word[sim.Pattern]{"once", sim.PatternOnce}, word[sim.Pattern]{"regular", sim.PatternRegular},
			word[sim.Pattern]{"poisson", sim.PatternPoisson}, word[sim.Pattern]{"bursts", sim.PatternBursts},
			word[sim.Pattern]{"backlog", sim.PatternBacklog}, word[sim.Pattern]{"recorded", sim.PatternRecorded}),
		timeField("from", &a.From),
		timeField("until", &a.Until),
		countField("messages", 1, 1e9, &a.Messages),
		rateField("rate", &a.Rate),
		listField("curve", "a list of numbers from 0 to 1000, for so many equal parts of a day", &a.Curve, func(n *tomlfile.Node) (factor float64, f *flaw) {
			f = numberField("curve", 0, 1000, &factor).set(n)
			return factor, f
		}),
		countField("burst", 1, 1e9, &a.Burst),
		timeField("every", &a.Every),
		spreadField("age", &a.Age),
		spreadField("due", &a.Due),
		flagField("null_sender", &a.NullSender),
		flagField("poison", &a.Poison),
		countField("size", 1, 1<<40, &a.Size),
		textField("class", "text", &a.Flow.Class),
		textField("tenant", "text", &a.Flow.Tenant),
		textField("flow", "text", &a.Flow.Flow),
		countField("tenants", 1, 1e6, &a.Tenants),
		countField("flows", 1, 1e7, &a.Flows),
		listField("records", recordForm, &a.Records, func(n *tomlfile.Node) (sim.Record, *flaw) { return l.record(where, n) }),
		textField("file", "the name of a file beside this one", &file),
	}
	l.fields(where, t, fields)
	if file != "" {
		l.recorded(where, t.Get("file").Value, file, &a)
	}
	l.complete(where, at, t, &a)
	l.s.Arrivals = append(l.s.Arrivals, a)
}

// complete complains about keys that the pattern needs and that are missing.
func (l *loader) complete(where string, at tomlfile.Span, t *tomlfile.Table, a *sim.Arrivals) {
	missing := func(key, why string) {
		if t.Get(key) != nil {
			return // it is wrong, which has been told
		}
		l.Complain(at, tomlfile.Problem{Key: where + "." + key, Message: "this key is missing: " + why})
	}
	if len(a.To) == 0 {
		missing("to", "it names the sites that the mail goes to")
	}
	switch a.Pattern {
	case sim.PatternOnce, sim.PatternBacklog:
		a.Messages = max(a.Messages, 1)
	case sim.PatternRegular, sim.PatternPoisson:
		if a.Rate <= 0 {
			missing("rate", "this pattern needs it")
		}
	case sim.PatternBursts:
		if a.Burst < 1 {
			missing("burst", "this pattern needs the number of messages at once")
		}
		if a.Every <= 0 {
			missing("every", "this pattern needs the time from one burst to the next")
		}
	case sim.PatternRecorded:
		if len(a.Records) == 0 {
			missing("records", "this pattern needs them, or file")
		}
		return
	}
	if a.Pattern != sim.PatternOnce && a.Pattern != sim.PatternBacklog && a.Messages == 0 && a.Until == 0 && l.s.Duration == 0 {
		missing("messages", "without it, or until, or a duration of the scenario, the mail has no end")
	}
}

// rateField reads a rate. Units of time are those of rates in the configuration;
// unlike there the number may be a fraction.
func rateField(name string, to *float64) field {
	const form = `a number of messages per second, or such as "10/s", "600/min", "5/10s" or "5000000/d"`
	return field{name, form, func(n *tomlfile.Node) *flaw {
		text, per := n.Text, time.Second
		if n.Kind == tomlfile.KindText {
			number, unit, divided := strings.Cut(n.Text, "/")
			if !divided {
				return flawf("%q is not a rate", n.Text)
			}
			limits, err := rate.Parse("1/" + unit)
			var wrong *rate.ParseError
			switch {
			case errors.As(err, &wrong):
				return &flaw{fmt.Sprintf("%q is not a rate", n.Text), wrong.Why}
			case len(limits.All()) != 1:
				return flawf("%q is more than one rate", n.Text)
			}
			text, per = number, limits.All()[0].Per
		} else if n.Kind != tomlfile.KindInteger && n.Kind != tomlfile.KindFloat {
			return mismatch(n, "a rate")
		}
		v, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(text), "_", ""), 64)
		if err != nil || !(v > 0 && v <= 1e9) {
			return flawf("%s is not a rate", n.Text)
		}
		*to = v / per.Seconds()
		return nil
	}}
}

const recordForm = `texts such as "1500ms 20" or "90s 1 SITE": time after the start, recipients, site`

func (l *loader) record(where string, n *tomlfile.Node) (sim.Record, *flaw) {
	if n.Kind != tomlfile.KindText {
		return sim.Record{}, mismatch(n, "a record")
	}
	r, f := parseRecord(n.Text)
	if f == nil && r.To != "" {
		l.places = append(l.places, place{where + ".records", r.To, n.At})
	}
	return r, f
}

func parseRecord(text string) (sim.Record, *flaw) {
	words := strings.Fields(text)
	if len(words) != 2 && len(words) != 3 {
		return sim.Record{}, flawf("%q is not a record", text)
	}
	at, f := durationText(words[0])
	if f != nil {
		return sim.Record{}, f
	}
	recipients, err := strconv.Atoi(words[1])
	if err != nil || recipients < 1 || recipients > 1e6 {
		return sim.Record{}, flawf("%q is not a number of recipients", words[1])
	}
	r := sim.Record{At: at, Recipients: recipients}
	if len(words) == 3 {
		r.To = words[2]
	}
	return r, nil
}

// recorded reads the file of a recording: a record in each line, empty lines
// and those that begin with "#" left out.
func (l *loader) recorded(where string, n *tomlfile.Node, file string, a *sim.Arrivals) {
	fail := func(format string, args ...any) {
		l.Complain(n.At, tomlfile.Problem{Key: where + ".file", Message: fmt.Sprintf(format, args...), Allowed: recordForm})
	}
	text, err := fs.ReadFile(l.dir, filepath.ToSlash(file))
	if err != nil {
		fail("%v", err)
		return
	}
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		r, f := parseRecord(line)
		if f != nil {
			fail("%s:%d: %s", file, i+1, f.message)
			return
		}
		if r.To != "" {
			l.places = append(l.places, place{where + ".file", r.To, n.At})
		}
		a.Records = append(a.Records, r)
	}
}
