package config

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/inbound"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/qmgr/shape"
	"github.com/posthaste-mta/posthaste/qmgr/source"
	"github.com/posthaste-mta/posthaste/quota"
)

// A Warning is about a value that is allowed but has no effect, or less effect than
// it seems to have.
type Warning struct {
	Key     string // the parameter, in full
	Line    int    // of the file
	Message string
}

// String returns the warning on one line.
func (w Warning) String() string { return w.Key + ": " + w.Message }

// Warnings returns the values in the file that have no effect, in the order of
// transports and of destinations. It does not warn of defaults.
func (c *Config) Warnings() []Warning {
	w := warner{c: c, standard: Default(c.env), ways: newWays(c)}
	w.retry()
	w.common()
	for _, name := range slices.Sorted(maps.Keys(c.Transports)) {
		t := c.Transports[name]
		w.transport(name, &t)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Destinations)) {
		d := c.Destinations[name]
		w.destination(name, &d)
	}
	w.sources()
	w.names()
	w.quotas()
	w.listeners()
	w.records()
	w.ports()
	w.requireTLS()
	w.replyRules()
	w.tlsReports()
	w.feedback()
	w.verp()
	w.milters()
	w.remote()
	w.metrics()
	return w.list
}

// listeners warns of listeners that other servers cannot use.
func (w *warner) listeners() {
	for i := range w.c.Listeners {
		l := &w.c.Listeners[i]
		w.useless(l)
		w.etrn(l)
		if l.Purpose == inbound.PurposeRelay && l.Address.TCP.Port() == 25 && w.c.UseOfTLS(l) == inbound.TLSRequire {
			w.about(fullName(fullName(tableListener, l.Name), "tls"), "servers that cannot encrypt cannot send mail to this port, which a host that receives mail from the Internet must allow (RFC 3207 4)")
		}
		if l.Purpose == inbound.PurposeRelay && l.futureRelease() > 0 && len(w.c.RelayDomains) > 0 {
			w.about(fullName(fullName(tableListener, l.Name), "future_release_max"), "strangers who send to relay_domains may have their mail kept in your queue, too; RFC 4865 is for submission")
		}
		if l.Purpose == inbound.PurposeRelay && l.deliverBy() && len(w.c.RelayDomains) > 0 {
			w.about(fullName(fullName(tableListener, l.Name), "deliver_by"), "strangers who send to relay_domains may have reports on their mail sent to whomever they name as its sender, as soon as it is late or passed on")
		}
		if l.Purpose == inbound.PurposeRelay && l.Submission.Priority.Or(0) > 0 && len(w.c.RelayDomains) > 0 {
			w.about(fullName(fullName(tableListener, l.Name), "mt_priority_max"), "strangers who send to relay_domains may ask for this priority, too; RFC 6710 has positive ones for clients that are authorized")
		}
	}
}

// quotas warns of rates that others imply.
func (w *warner) quotas() {
	of := func(prefix string, l *quota.Limits) {
		w.rates(prefix+"message_rate", l.MessageRate)
		w.rates(prefix+"recipient_rate", l.RecipientRate)
	}
	of("tenant_", &w.c.EachTenant)
	of("flow_", &w.c.EachFlow)
	for i := range w.c.Classes {
		of(fullName(tableClass, w.c.Classes[i].Name)+".", &w.c.Classes[i].Quota)
	}
	for i := range w.c.Tenants {
		of(fullName(tableTenant, w.c.Tenants[i].Name)+".", &w.c.Tenants[i].Quota)
	}
}

// sources warns of sources that this machine does not have, or that send nothing.
func (w *warner) sources() {
	for i := range w.c.Sources {
		s := &w.c.Sources[i]
		for _, a := range s.Addresses {
			here := func(own netip.Addr) bool { return own.Unmap() == a || own.IsLoopback() && a.IsLoopback() && a.Is4() }
			if len(w.c.env.Addresses) > 0 && !slices.ContainsFunc(w.c.env.Addresses, here) {
				w.about(fullName(fullName(tableSource, s.Name), "address"), "%s is not an address of this machine, and the program does not start without it", a)
			}
		}
		if !slices.ContainsFunc(w.c.Pools, func(p source.Pool) bool { return p.Has(s.Name) }) {
			w.about(fullName(tableSource, s.Name), "it is in no pool, and sends nothing")
		}
	}
	for i := range w.c.Pools {
		p := &w.c.Pools[i]
		for j := range w.c.Pools[:i] {
			if before := &w.c.Pools[j]; before.Match.Given() && takesAll(poolLists(&before.Match), poolLists(&p.Match)) {
				w.about(fullName(tablePool, p.Name), "it gets no mail: [pool.%s] before it takes all that meets its conditions", before.Name)
				break
			}
		}
	}
	for i := range w.c.WarmupPlans {
		name := w.c.WarmupPlans[i].Name
		if !slices.ContainsFunc(w.c.Sources, func(s Source) bool { return s.Warmup == name }) {
			w.about(fullName(tableWarmup, name), "no source has this plan; set warmup = %q under [source.NAME]", name)
		}
	}
}

// conditions are lists of a table by their kind. Mail must meet one of each list that is not
// empty.
type conditions map[string][]string

func poolLists(m *source.Match) conditions {
	all := make(conditions)
	for kind, list := range m.Lists() {
		all[kind] = *list
	}
	return all
}

// takesAll reports whether all mail that meets narrow meets wide, as far as their conditions
// are the same words, or a star.
func takesAll(wide, narrow conditions) bool {
	for kind, list := range wide {
		if len(list) == 0 || slices.Contains(list, "*") {
			continue
		}
		has := func(s string) bool {
			return slices.ContainsFunc(list, func(other string) bool { return strings.EqualFold(s, other) })
		}
		if len(narrow[kind]) == 0 || slices.ContainsFunc(narrow[kind], func(s string) bool { return !has(s) }) {
			return false
		}
	}
	return true
}

// A warner gathers warnings. One parameter that several transports inherit is
// reported once.
type warner struct {
	c, standard *Config
	ways        ways
	list        []Warning
}

// about records a warning.
func (w *warner) about(key, format string, args ...any) {
	warning := Warning{Key: key, Line: w.c.lines[key], Message: fmt.Sprintf(format, args...)}
	if key != "" && !slices.Contains(w.list, warning) {
		w.list = append(w.list, warning)
	}
}

// top returns the key of a top-level parameter if the file sets it.
func (w *warner) top(name string) string {
	if w.c.explicit[name] {
		return name
	}
	return ""
}

// of returns the key that gives a transport a value: its own, or the top-level one;
// "" if the file sets neither.
func (w *warner) of(transport, name string) string {
	if key := transportTable(transport) + "." + name; w.c.explicit[key] {
		return key
	}
	for _, p := range transportParameters {
		if p.name == name && p.global != "" {
			return w.top(p.global)
		}
	}
	return ""
}

func (w *warner) retry() {
	r := &w.c.Retry
	if r.MaximalLifetime > 0 && r.MaximalLifetime <= r.MinimalBackoff {
		w.about("maximal_queue_lifetime", "mail is returned before its second attempt: minimal_backoff_time is %s", FormatDuration(r.MinimalBackoff))
	}
}

func (w *warner) common() {
	q := &w.c.Queue
	if q.MessageConcurrency >= w.c.SMTPConnectionLimit {
		w.about(w.top("max_message_concurrency"), "it is never reached: smtp_connection_limit is %d", w.c.SMTPConnectionLimit)
	}
}

func (w *warner) transport(name string, t *Transport) {
	standard := &w.standard.Defaults
	if t.Window.Limit > t.ProcessLimit && t.Window.Limit != standard.Window.Limit {
		w.about(w.of(name, "destination_concurrency_limit"), "%d is never reached: process_limit is %d", t.Window.Limit, t.ProcessLimit)
	}
	w.concurrency(func(key string) string { return w.of(name, key) }, t.Window.Initial, t.Window.Limit, t.RateDelay, standard)
	w.rates(w.of(name, "destination_rate"), t.Rate)
	w.rates(w.of(name, "transport_rate"), t.TransportRate)
	w.paused(w.of(name, "destination_rate"), t.Rate, "destination_rate_delay", t.RateDelay)
	w.paused(w.of(name, "transport_rate"), t.TransportRate, "transport_rate_delay", t.TransportRateDelay)
	if t.Window.FailedCohortLimit != standard.Window.FailedCohortLimit {
		// Only agents that connect by themselves report that a destination has failed (mail.DeliveryResult.Site), and no
		// type of transport has such agents.
		w.about(w.of(name, "destination_concurrency_failed_cohort_limit"), "it has no effect: a destination is dead when none of its hosts may be tried (docs/scheduler.md#windows)")
	}
	if t.Type.connects() {
		w.smtp(name, t, standard)
	}
}

func (w *warner) smtp(name string, t, standard *Transport) {
	w.rates(w.of(name, "connection_rate"), t.Connections.OpenRate)
	if t.ProcessLimit > w.c.SMTPConnectionLimit {
		w.about(w.of(name, "process_limit"), "%d is never reached: smtp_connection_limit is %d", t.ProcessLimit, w.c.SMTPConnectionLimit)
	}
	if t.Connections.HostLimit > t.ProcessLimit && t.Connections.HostLimit != standard.Connections.HostLimit {
		w.about(w.of(name, "destination_host_concurrency_limit"), "%d is never reached: process_limit is %d", t.Connections.HostLimit, t.ProcessLimit)
	}
	if t.Connections.InFlight != standard.Connections.InFlight && t.Connections.Level < mail.LevelStream && !w.streams() {
		w.about(w.of(name, "pipelining_in_flight"), `it has no effect: pipelining is %s, not "stream"`, tomlWord(t.Connections.Level))
	}
	if t.Connections.CountLimit == 1 && t.Connections.Level > mail.LevelGroup {
		w.about(w.of(name, "pipelining"), `%s has no more effect than "group": connection_reuse_count_limit is 1, so no connection carries a second message`, tomlWord(t.Connections.Level))
	}
}

func tomlWord(l mail.Level) string { return `"` + l.String() + `"` }

// streams reports whether a destination has the level stream.
func (w *warner) streams() bool {
	for _, d := range w.c.Destinations { // in any order
		if d.Limits.Level.Or(mail.LevelLockStep) == mail.LevelStream {
			return true
		}
	}
	return false
}

// concurrency checks limits that bound each other; of returns the key of a
// parameter, or "" if it is not set.
func (w *warner) concurrency(of func(name string) string, initial, limit int, delay time.Duration, standard *Transport) {
	if limit > 0 && initial > limit && initial != standard.Window.Initial {
		w.about(of("initial_destination_concurrency"), "%d exceeds destination_concurrency_limit, which is %d", initial, limit)
	}
	if delay > 0 && limit != 1 && limit != standard.Window.Limit {
		w.about(of("destination_concurrency_limit"), "it has no effect: with destination_rate_delay there is one delivery at a time")
	}
}

// rates warns of rate limits that others imply: at most 10 in any second means at
// most 600 in any span of 1 min.
func (w *warner) rates(key string, limits rate.Limits) {
	all := limits.All()
	for _, one := range all {
		for _, other := range all {
			if one == other {
				continue
			}
			if implies(other, one) {
				w.about(key, "%v has no effect: %v is at least as strict", one, other)
				break
			}
		}
	}
}

// implies reports whether one limit is at least as strict as another.
func implies(tight, loose rate.Limit) bool {
	spans := (loose.Per + tight.Per - 1) / tight.Per
	return int64(tight.N) <= int64(loose.N)/int64(spans)
}

// paused warns of rate limits that a pause before each delivery implies: with a
// pause of 1 s there is at most one in any second. It does not warn of the opposite
// case, since the pause also keeps deliveries to one at a time.
func (w *warner) paused(key string, limits rate.Limits, by string, delay time.Duration) {
	if delay <= 0 {
		return
	}
	for _, one := range limits.All() {
		if implies(rate.Limit{N: 1, Per: delay}, one) {
			w.about(key, "%v has no effect: %s, which is %s, is at least as strict", one, by, FormatDuration(delay))
		}
	}
}

func (w *warner) destination(name string, d *Destination) {
	table := tableDestination + "." + name
	of := func(parameter string) string { return table + "." + parameter }
	w.misled(of("domains"), d)
	l := &d.Limits
	if (*l == shape.Limits{}) && !d.Security.Set {
		w.about(table, "it sets no limit and no tls_security_level, so it has no effect")
		return
	}
	most := 0
	for _, t := range w.c.Transports { // in any order
		most = max(most, t.ProcessLimit)
	}
	if n := l.ConcurrencyLimit; n.Set && n.Value > most {
		w.about(of("destination_concurrency_limit"), "%d is never reached: no transport has a process_limit of more than %d", n.Value, most)
	}
	limit := l.ConcurrencyLimit.Or(w.c.Defaults.Window.Limit)
	if n := l.InitialConcurrency; n.Set && limit > 0 && n.Value > limit {
		w.about(of("initial_destination_concurrency"), "%d exceeds destination_concurrency_limit, which is %d", n.Value, limit)
	}
	if n := l.ConcurrencyLimit; n.Set && n.Value != 1 && l.RateDelay.Or(0) > 0 {
		w.about(of("destination_concurrency_limit"), "it has no effect: with destination_rate_delay there is one delivery at a time")
	}
	w.rates(of("destination_rate"), l.Rate.Or(rate.Limits{}))
	w.paused(of("destination_rate"), l.Rate.Or(rate.Limits{}), "destination_rate_delay", l.RateDelay.Or(0))
	w.rates(of("connection_rate"), l.ConnectionRate.Or(rate.Limits{}))
}

// Warn returns the warnings, and others, as text, each line with the file's name and the line
// number in front.
func (c *Config) Warn(file string, others []Warning) string {
	var b strings.Builder
	for _, w := range append(c.Warnings(), others...) {
		fmt.Fprintf(&b, "%s:%d: warning: %v\n", file, w.Line, w)
	}
	return b.String()
}
