package scenario

import (
	"fmt"
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/sim"
)

var faults = []word[sim.Fault]{
	{"refuse", sim.FaultRefuse}, {"timeout", sim.FaultTimeout}, {"silent", sim.FaultSilent}, {"421", sim.FaultBusy}, {"drop", sim.FaultDrop},
	{"close", sim.FaultClose},
}

// behaviour is the keys that a site, its hosts and their changes share.
func behaviour(b *sim.Behaviour) []field {
	return []field{
		spreadField("connect", &b.Connect),
		spreadField("transaction", &b.Transaction),
		spreadField("recipient", &b.Recipient),
		spreadField("rtt", &b.RTT),
		wordField("pipelining", &b.Pipelining, word[mail.Level]{"lockstep", mail.LevelLockStep}, word[mail.Level]{"group", mail.LevelGroup},
			word[mail.Level]{"overlap", mail.LevelOverlap}, word[mail.Level]{"stream", mail.LevelStream}),
		countField("mails_per_connection", 0, 1e6, &b.MailsPerConnection),
		flagField("announce_mails", &b.AnnounceMails),
		timeField("idle_limit", &b.IdleLimit),
		countField("connection_limit", 0, 1e6, &b.ConnectionLimit),
		countField("processes", 0, 1e6, &b.Processes),
		countField("backlog", 0, 1e6, &b.Backlog),
		wordField("overflow", &b.Overflow, word[sim.Overflow]{"refuse", sim.OverflowRefuse},
			word[sim.Overflow]{"drop-syn", sim.OverflowDropSYN}, word[sim.Overflow]{"drop-ack", sim.OverflowDropACK}),
		listField("retransmit", `a list of times such as ["3s", "6s"]`, &b.Retransmit, duration),
		countField("servers", 1, 1e6, &b.Servers),
		countField("bad_servers", 0, 1e6, &b.BadServers),
		wordField("balance", &b.Random, word[bool]{"turn", false}, word[bool]{"random", true}),
		wordField("bad", &b.Bad, faults...),
		timeField("greylist", &b.Greylist),
		countField("tolerance", 0, 1e9, &b.Tolerance),
		numberField("tolerance_growth", 1, 1000, &b.ToleranceGrowth),
		textField("known_source", "the name of a source", &b.KnownSource),
		textField("refused_source", "the name of a source", &b.RefusedSource),
		numberField("soft_percent", 0, 100, &b.SoftPercent),
		numberField("hard_percent", 0, 100, &b.HardPercent),
		numberField("drop_percent", 0, 100, &b.DropPercent),
	}
}

func (l *loader) site(where, name string, t *tomlfile.Table, at tomlfile.Span) {
	site := sim.Site{Name: name, Behaviour: sim.Behaviour{Pipelining: mail.LevelOverlap}}
	var changes, hosts []*tomlfile.Table
	fields := append(behaviour(&site.Behaviour),
		countField("copies", 1, 1e6, &site.Copies),
		textField("transport", "the name of a transport", &site.Transport),
		flagField("shared_hosts", &site.SharedHosts),
		timeField("within", &site.Within),
		flagField("nameless", &site.Nameless),
		tablesField(where, "host", func(t *tomlfile.Table) { hosts = append(hosts, t) }),
		tablesField(where, "change", func(t *tomlfile.Table) { changes = append(changes, t) }),
		tablesField(where, "outage", func(t *tomlfile.Table) { site.Outages = append(site.Outages, l.outage(where, t)) }),
	)
	l.fields(where, t, fields)
	l.noteForRelay(where, t)
	l.servers(where, at, &site.Behaviour)
	site.Changes = l.changes(where, site.Behaviour, changes)
	for i, t := range hosts {
		site.Hosts = append(site.Hosts, l.host(where, i, t, &site, changes))
	}
	l.hostNames(where, &site, hosts)
	l.s.Sites = append(l.s.Sites, site)
}

// host reads one of a site's hosts, which behaves as the site does where it does
// not say otherwise.
func (l *loader) host(where string, n int, t *tomlfile.Table, site *sim.Site, shared []*tomlfile.Table) sim.Host {
	h := sim.Host{Name: fmt.Sprint("mx", n+1), Behaviour: site.Behaviour}
	key := where + ".host"
	var own []*tomlfile.Table
	fields := append(behaviour(&h.Behaviour),
		textField("name", "letters, digits and hyphens", &h.Name),
		countField("copies", 1, 1e6, &h.Copies),
		countField("preference", 0, 65535, &h.Preference),
		tablesField(key, "change", func(t *tomlfile.Table) { own = append(own, t) }),
		tablesField(key, "outage", func(t *tomlfile.Table) { h.Outages = append(h.Outages, l.outage(key, t)) }),
	)
	l.fields(key, t, fields)
	l.noteForRelay(key, t)
	l.servers(key, t.At, &h.Behaviour)
	h.Changes = l.changes(key, h.Behaviour, own)
	if !l.Wrong() && len(shared) > 0 { // or mistakes in the site's would be reported again
		h.Changes = l.changes(key, h.Behaviour, inTime(append(slices.Clone(shared), own...)))
	}
	return h
}

// hostNames complains about hosts with one name.
func (l *loader) hostNames(where string, site *sim.Site, tables []*tomlfile.Table) {
	known := make(map[string]bool)
	for i, h := range site.Hosts {
		at := tables[i].At
		switch {
		case !siteName.MatchString(h.Name):
			l.Complain(at, tomlfile.Problem{Key: where + ".host.name", Message: fmt.Sprintf("%q cannot be a name", h.Name), Allowed: "letters, digits and hyphens between them, at most 42"})
		case known[h.Name]:
			l.Complain(at, tomlfile.Problem{Key: where + ".host.name", Message: fmt.Sprintf("there is another host called %q", h.Name)})
		}
		known[h.Name] = true
	}
}

// changes reads what is different from an instant on; all else stays.
func (l *loader) changes(where string, before sim.Behaviour, tables []*tomlfile.Table) []sim.Change {
	var all []sim.Change
	for _, t := range tables {
		c := sim.Change{Behaviour: before}
		l.fields(where+".change", t, append(behaviour(&c.Behaviour), timeField("at", &c.At)))
		l.noteForRelay(where+".change", t)
		l.servers(where+".change", t.At, &c.Behaviour)
		if n := len(all); n > 0 && c.At < all[n-1].At {
			l.Complain(t.At, tomlfile.Problem{Key: where + ".change", Message: "this change comes before the one above it", Hint: "write changes in the order of time"})
		}
		all = append(all, c)
		before = c.Behaviour
	}
	return all
}

// inTime sorts tables of changes.
func inTime(tables []*tomlfile.Table) []*tomlfile.Table {
	at := func(t *tomlfile.Table) time.Duration {
		if e := t.Get("at"); e != nil {
			d, _ := duration(e.Value) // it has been read before
			return d
		}
		return 0
	}
	slices.SortStableFunc(tables, func(a, b *tomlfile.Table) int { return int(min(max(at(a)-at(b), -1), 1)) })
	return tables
}

func (l *loader) servers(where string, at tomlfile.Span, b *sim.Behaviour) {
	if b.BadServers > max(b.Servers, 1) {
		l.Complain(at, tomlfile.Problem{Key: where + ".bad_servers", Message: fmt.Sprintf("%d of %d servers cannot be bad", b.BadServers, max(b.Servers, 1))})
	}
}

// outageFields are the keys of every outage.
func outageFields(o *sim.Outage) []field {
	return []field{timeField("from", &o.From), timeField("until", &o.Until), wordField("fault", &o.Fault, faults...),
		wordField("open", &o.Open, word[sim.Open]{"stay", sim.OpenStays}, word[sim.Open]{"break", sim.OpenBreaks}, word[sim.Open]{"hang", sim.OpenHangs})}
}

func (l *loader) outage(where string, t *tomlfile.Table) sim.Outage {
	var o sim.Outage
	l.fields(where+".outage", t, outageFields(&o))
	l.ends(where+".outage", t, o.From, o.Until)
	return o
}

// networkOutage reads an outage of our own network.
func (l *loader) networkOutage(t *tomlfile.Table) sim.Outage {
	o := sim.Outage{Fault: sim.FaultTimeout, Open: sim.OpenHangs}
	l.fields("outage", t, append(outageFields(&o), flagField("names", &o.Names)))
	l.ends("outage", t, o.From, o.Until)
	return o
}

// noteForRelay notes the keys of a table that are about how long a connection lasts:
// to the simulated agents they mean nothing.
func (l *loader) noteForRelay(where string, t *tomlfile.Table) {
	for _, name := range []string{"mails_per_connection", "announce_mails", "idle_limit"} {
		if e := t.Get(name); e != nil {
			l.forRelay = append(l.forRelay, place{join(where, name), name, e.At})
		}
	}
}

// refuseForRelay complains about these if they are not used.
func (l *loader) refuseForRelay() {
	if l.relayed || l.Wrong() {
		return
	}
	for _, p := range l.forRelay {
		l.Complain(p.at, tomlfile.Problem{Key: p.key, Message: "this means nothing in mode agents", Hint: `write mode = "relay" above the first table, or remove it`})
	}
}
