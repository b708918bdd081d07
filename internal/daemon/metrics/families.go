package metrics

import (
	"crypto/tls"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/posthaste-mta/posthaste/inbound"
	"github.com/posthaste-mta/posthaste/internal/histogram"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
	"github.com/posthaste-mta/posthaste/replies"
)

// A kind is a type of Prometheus' metrics.
type kind uint8

const (
	gauge kind = iota
	counter
	histogramKind
)

// String returns the word that the text format has.
func (k kind) String() string { return [...]string{"gauge", "counter", "histogram"}[k] }

func (k kind) value() prometheus.ValueType {
	if k == counter {
		return prometheus.CounterValue
	}
	return prometheus.GaugeValue
}

// An emit passes on one time series with the values of the family's labels.
type emit func(v float64, labels ...string)

// A family is the metrics with one name.
type family struct {
	name   string // after the prefix
	kind   kind
	help   string
	labels []string
	// values or histograms is set.
	values     func(f *Facts, out emit)
	histograms func(f *Facts, out func(v histogram.Values, labels ...string))
	bounds     []int // of a histogram's buckets, as powers of two
}

const prefix = "posthaste_"

func (f *family) fullName() string { return prefix + f.name }

// The upper bounds of buckets, as powers of two: of delays of mail, from a millisecond to three days; of
// what disks and name servers take, from 60 µs to 16 s; and of numbers.
var (
	delays    = []int{-10, -7, -4, -2, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18}
	latencies = []int{-14, -12, -10, -8, -6, -4, -2, 0, 2, 4}
	numbers   = []int{0, 1, 2, 3, 4, 5, 6, 8, 10}
)

// families is the table of all metrics, in the order of docs/metrics.md.
var families = []family{
	always("build_info", gauge, "1, with the version of the program.", []string{"version"}, func(f *Facts, out emit) { out(1, f.Version) }),
	always("ready", gauge, "1 if mail is accepted and delivered, as /readyz says, otherwise 0.", nil, func(f *Facts, out emit) { out(truth(f.Unready == "")) }),
	always("core_up", gauge, "1 if the scheduler answers within 5 s, otherwise 0; then all metrics of the core are missing.", nil, func(f *Facts, out emit) { out(truth(f.Core != nil)) }),

	always("queue_messages", gauge, "Messages in the spool by area (incoming: not tried yet; deferred; hold; corrupt). Missing until they are counted after a start.", []string{"area"}, func(f *Facts, out emit) {
		eachArea(f, func(area mail.Area) { out(float64(f.Totals.Messages[area]), area.String()) })
	}),
	always("queue_oldest_age_seconds", gauge, "Age of the oldest message by area, 0 if there is none; it may be a minute too high, and up to an hour where there is mail of a month or more.", []string{"area"}, func(f *Facts, out emit) {
		eachArea(f, func(area mail.Area) { out(f.age(f.Totals.Oldest[area]), area.String()) })
	}),
	always("spool_free_bytes", gauge, "Free disk space of the spool.", nil, func(f *Facts, out emit) { out(float64(f.Store.Free)) }),
	always("spool_headroom_bytes", gauge, "Free disk space above queue_minfree; negative while mail is refused.", nil, func(f *Facts, out emit) { out(float64(f.Store.Free - f.MinFree)) }),
	always("spool_full", gauge, "1 while new mail is refused because of too little disk space, otherwise 0.", nil, func(f *Facts, out emit) { out(truth(f.Store.Full)) }),
	always("spool_commits_total", counter, "Synced commits: accepted messages, and batches of changes.", nil, func(f *Facts, out emit) { out(float64(f.Store.Commits)) }),
	always("spool_syncs_total", counter, "Syncs of the log; commits at the same time share one, so commits by syncs is the size of a group.", nil, func(f *Facts, out emit) { out(float64(f.Store.Syncs)) }),
	shape("spool_commit_seconds", "Time of a synced commit.", nil, latencies, func(f *Facts, out func(histogram.Values, ...string)) { out(f.Commits) }),
	always("spool_stalls_total", counter, "Times that writers had to wait for the store.", nil, func(f *Facts, out emit) { out(float64(f.Store.Stalls)) }),
	always("spool_compaction_debt_bytes", gauge, "Data that the store still has to compact.", nil, func(f *Facts, out emit) { out(float64(f.Store.Debt)) }),
	always("spool_read_amplification", gauge, "Sources that the store searches for one key; above 20 is high.", nil, func(f *Facts, out emit) { out(float64(f.Store.ReadAmp)) }),
	shape("change_batch_changes", "Changes of messages (outcomes, deferrals, removals) that were made durable together.", nil, numbers, func(f *Facts, out func(histogram.Values, ...string)) { out(f.Driver.Batch) }),
	shape("change_batch_seconds", "Time to make a batch of changes durable, with all repetitions.", nil, latencies, func(f *Facts, out func(histogram.Values, ...string)) { out(f.Driver.Commit) }),
	always("unrecorded_messages", gauge, "Messages whose outcomes cannot be written to the spool at present.", nil, func(f *Facts, out emit) { out(float64(f.Unrecorded)) }),

	core("core_messages", gauge, "Messages in core: being tried, or about to be.", nil, func(v *qmgr.View, out emit) { out(float64(v.Messages)) }),
	core("core_recipients", gauge, "Recipients in core.", nil, func(v *qmgr.View, out emit) { out(float64(v.Recipients)) }),
	core("core_busy", gauge, "Deliveries under way.", nil, func(v *qmgr.View, out emit) { out(float64(v.Busy)) }),
	core("core_behind", gauge, "1 while new mail waits in the spool because the core is full, otherwise 0.", nil, func(v *qmgr.View, out emit) { out(truth(v.Behind)) }),
	core("core_offline", gauge, "1 while hardly any host can be reached, so that our own network is considered down, otherwise 0.", nil, func(v *qmgr.View, out emit) { out(truth(v.Offline != 0)) }),
	always("suspensions", gauge, "Suspensions that operators have ordered, by scope.", []string{"scope"}, func(f *Facts, out emit) {
		if f.Core == nil {
			return
		}
		all := make(map[measure.Scope]int)
		for i := range f.Suspensions {
			all[f.Suspensions[i].Scope]++
		}
		for _, scope := range measure.Scopes() {
			out(float64(all[scope]), scope.String())
		}
	}),
	core("lookups", gauge, "Lookups of routes by state: busy, or waiting for their turn.", []string{"state"}, func(v *qmgr.View, out emit) {
		out(float64(v.Lookups.Busy), "busy")
		out(float64(v.Lookups.Waiting), "waiting")
	}),
	core("arrived_messages_total", counter, "Messages that came into the queue, reports included.", nil, func(v *qmgr.View, out emit) { out(float64(v.Counts.Arrived)) }),
	core("attempts_started_total", counter, "Deliveries that were started, those by the transports retry and error included, which only defer and return mail.", nil, func(v *qmgr.View, out emit) { out(float64(v.Counts.Started)) }),
	core("recipients_total", counter, "Recipients by result (sent, deferred, bounced); those that are deferred count each time, also if a destination is dead or suspended and nothing was tried.", []string{"result"}, func(v *qmgr.View, out emit) {
		for r := mail.Delivered; r <= mail.Failed; r++ {
			out(float64(v.Counts.Outcomes[r]), r.String())
		}
	}),
	core("unknown_recipients_total", counter, "Recipients that may have a message or not: it was sent completely, and no reply came.", nil, func(v *qmgr.View, out emit) { out(float64(v.Counts.Unknown)) }),
	core("reports_total", counter, "Rounds of reports (delivery status notifications) made.", nil, func(v *qmgr.View, out emit) { out(float64(v.Counts.Reports)) }),
	core("rule_suspensions_total", counter, "Times that a rule on replies has suspended a destination or a domain.", nil, func(v *qmgr.View, out emit) { out(float64(v.Counts.RuleSuspensions)) }),
	core("preemptions_total", counter, "Times that a message went first at the expense of a larger one.", nil, func(v *qmgr.View, out emit) { out(float64(v.Counts.Preemptions)) }),
	always("refused_recipients_total", counter, "Recipients that a receiver, or a route to the transport error, has refused, by result and class of the reply.", []string{"result", "reply_class"}, func(f *Facts, out emit) {
		for _, r := range []mail.Result{mail.Deferred, mail.Failed} {
			for class := replies.ClassOther; class < replies.Classes; class++ {
				out(float64(f.Driver.Outcomes[r][class]), r.String(), class.String())
			}
		}
	}),
	always("message_events_total", counter, "What has become of messages, apart from deliveries.", []string{"event"}, func(f *Facts, out emit) {
		for _, k := range []qmgr.NoteKind{qmgr.NoteDeferred, qmgr.NoteRemoved, qmgr.NoteExpired, qmgr.NoteOverdue, qmgr.NoteLate, qmgr.NoteHeld, qmgr.NoteReleased, qmgr.NoteDropped, qmgr.NoteCorrupt} {
			out(float64(f.Driver.Notes[k]), k.String())
		}
	}),
	always("destination_deaths_total", counter, "Times that a destination or a transport was found dead, and was not tried for a while.", nil, func(f *Facts, out emit) { out(float64(f.Driver.Notes[qmgr.NoteDead])) }),
	shape("first_attempt_delay_seconds", "Time from the arrival of a message to the start of its first attempts, by class of mail; mail that was put off before it was ever tried does not count.", []string{"class"}, delays, func(f *Facts, out func(histogram.Values, ...string)) {
		for _, c := range f.Driver.First {
			out(c.Times, label(c.Class))
		}
	}),
	shape("delivery_delay_seconds", "Time from the arrival of a message to the end of a transaction that has delivered it.", nil, delays, func(f *Facts, out func(histogram.Values, ...string)) { out(f.Driver.Delivery) }),
	shape("attempt_seconds", "The delays of the log's delivery lines, for each attempt at a destination: before it, connect (lookup and connection, if there was none), send.", []string{"phase"}, delays, func(f *Facts, out func(histogram.Values, ...string)) {
		out(f.Driver.Before, "before")
		out(f.Driver.Connect, "connect")
		out(f.Driver.Send, "send")
	}),

	core("transport_up", gauge, "1 if a transport is in use, 0 while it is dead.", []string{"transport"}, func(v *qmgr.View, out emit) {
		for i := range v.Transports {
			out(truth(v.Transports[i].Until == 0), v.Transports[i].Name)
		}
	}),
	core("transport_busy", gauge, "Deliveries under way by transport.", []string{"transport"}, func(v *qmgr.View, out emit) {
		for i := range v.Transports {
			out(float64(v.Transports[i].Busy), v.Transports[i].Name)
		}
	}),
	core("transport_destinations", gauge, "Destinations in core by transport and state.", []string{"transport", "state"}, func(v *qmgr.View, out emit) {
		for i := range v.Transports {
			t := &v.Transports[i]
			for _, c := range qmgr.Conditions() {
				out(float64(t.All.In[c]), t.Name, c.String())
			}
		}
	}),
	sites("destination_window", "Window of a destination: how much of its mail may be under way. It is 0 while it is dead.", nil, func(s *site, out emit) { out(float64(s.Window)) }),
	sites("destination_busy", "Deliveries under way to a destination.", nil, func(s *site, out emit) { out(float64(s.Busy)) }),
	sites("destination_waiting", "Entries in core that wait for a destination; more may wait in the spool.", nil, func(s *site, out emit) { out(float64(s.Todo)) }),
	sites("destination_dead", "Whether a destination is dead: 1 or 0; of \"other\" how many are.", nil, func(s *site, out emit) {
		if s.name != other {
			out(truth(s.Dead > 0))
			return
		}
		out(float64(s.Dead))
	}),
	sites("destination_connections", "Connections to a destination by state: ready, or connecting.", []string{"state"}, func(s *site, out emit) {
		out(float64(s.Ready), "ready")
		out(float64(s.Connecting), "connecting")
	}),
	classes("class_messages", "Messages in core by class.", func(t *qmgr.TenantView) int { return t.Messages }),
	classes("class_waiting", "Entries in core that wait for their turn, by class.", func(t *qmgr.TenantView) int { return t.Waiting }),
	classes("class_busy", "Deliveries under way by class.", func(t *qmgr.TenantView) int { return t.Busy }),
	tenants("tenant_messages", "Messages in core by tenant.", func(t *qmgr.TenantView) int { return t.Messages }),
	tenants("tenant_waiting", "Entries in core that wait for their turn, by tenant.", func(t *qmgr.TenantView) int { return t.Waiting }),
	tenants("tenant_busy", "Deliveries under way by tenant.", func(t *qmgr.TenantView) int { return t.Busy }),

	always("outbound_connects_total", counter, "Connections to receivers by result: ok, failed (no connection), or no_session (the session did not begin).", []string{"result"}, func(f *Facts, out emit) {
		out(float64(f.Outbound.Connects-f.Outbound.HandshakeFails), "ok")
		out(float64(f.Outbound.ConnectFailures), "failed")
		out(float64(f.Outbound.HandshakeFails), "no_session")
	}),
	core("outbound_closed_total", counter, "Connections that have ended by reason: asked (by us), idle, busy, lost, step, mixed, wrong; see docs/connections.md.", []string{"reason"}, func(v *qmgr.View, out emit) {
		for why, n := range v.Closings {
			out(float64(n), mail.CloseReason(why).String())
		}
	}),
	always("outbound_transactions_total", counter, "Transactions that were begun by connection: new, or reused after another transaction.", []string{"connection"}, func(f *Facts, out emit) {
		out(float64(f.Outbound.Transactions-min(f.Outbound.Reused, f.Outbound.Transactions)), "new")
		out(float64(f.Outbound.Reused), "reused")
	}),
	shape("outbound_connection_transactions", "Transactions of a connection that has ended.", nil, numbers, func(f *Facts, out func(histogram.Values, ...string)) { out(f.Outbound.Carried) }),
	shape("outbound_pipeline_depth", "Transactions under way on a connection when one more begins, itself included: 1 is no pipelining.", nil, numbers, func(f *Facts, out func(histogram.Values, ...string)) { out(f.Outbound.Depth) }),
	always("outbound_stale_connections_total", counter, "Idle connections that turned out to be closed when they were used again.", nil, func(f *Facts, out emit) { out(float64(f.Outbound.Stale)) }),
	always("outbound_blocked_total", counter, "Addresses that were not dialed because they are private.", nil, func(f *Facts, out emit) { out(float64(f.Outbound.Blocked)) }),
	always("outbound_login_failures_total", counter, "Connections on which we could not authenticate.", nil, func(f *Facts, out emit) { out(float64(f.Outbound.AuthFailures)) }),
	always("tls_handshakes_total", counter, "TLS handshakes that succeeded by direction (in, out) and version.", []string{"direction", "version"}, func(f *Facts, out emit) {
		for i := range f.Outbound.TLS {
			version := tls.VersionName(tls.VersionTLS10 + uint16(i))
			out(float64(f.Inbound.TLSVersions[i]), "in", version)
			out(float64(f.Outbound.TLS[i]), "out", version)
		}
	}),
	always("tls_failures_total", counter, "TLS handshakes that failed by direction (in, out).", []string{"direction"}, func(f *Facts, out emit) {
		out(float64(f.Inbound.TLSFailed), "in")
		out(float64(f.Outbound.TLSFailures), "out")
	}),

	always("dns_lookups_total", counter, "Lookups of hosts by where the answer came from: cache or query.", []string{"from"}, func(f *Facts, out emit) {
		out(float64(f.Resolve.Hits), "cache")
		out(float64(f.Resolve.Lookups-min(f.Resolve.Hits, f.Resolve.Lookups)), "query")
	}),
	always("dns_questions_total", counter, "Questions put to name servers.", nil, func(f *Facts, out emit) { out(float64(f.Resolve.Questions)) }),
	always("dns_failures_total", counter, "What went wrong with questions: no usable answer (failed), a message without an answer (timeout), an answer such as SERVFAIL (refused), one to another question (forged).", []string{"reason"}, func(f *Facts, out emit) {
		out(float64(f.Resolve.Failures), "failed")
		out(float64(f.Resolve.Timeouts), "timeout")
		out(float64(f.Resolve.Refusals), "refused")
		out(float64(f.Resolve.Forged), "forged")
	}),
	shape("dns_question_seconds", "Time of a question, with all repetitions.", nil, latencies, func(f *Facts, out func(histogram.Values, ...string)) { out(f.Resolve.Latency) }),
	always("dns_cache_entries", gauge, "Entries of the cache by what they are: hosts of nexthops, or records.", []string{"kind"}, func(f *Facts, out emit) {
		out(float64(f.Resolve.Nexthops), "nexthops")
		out(float64(f.Resolve.Records), "records")
	}),
	always("dns_stale_answers_total", counter, "Expired records that were used because there was no answer.", nil, func(f *Facts, out emit) { out(float64(f.Resolve.Stale)) }),
	always("dns_silent", gauge, "1 while no name server answers anything, otherwise 0.", nil, func(f *Facts, out emit) { out(truth(!f.Resolve.SilentSince.IsZero())) }),

	always("inbound_open_sessions", gauge, "Sessions of clients that are open.", nil, func(f *Facts, out emit) { out(float64(f.Inbound.Open)) }),
	always("inbound_sessions_total", counter, "Sessions of clients that were begun.", nil, func(f *Facts, out emit) { out(float64(f.Inbound.Connections)) }),
	always("inbound_lost_sessions_total", counter, "Connections that were refused or ended by us: because of a limit, to make room for others (shed), because the client was too slow (timeout), because a proxy sent no proper header (proxy), or because of a bug.", []string{"reason"}, func(f *Facts, out emit) {
		out(float64(f.Inbound.Refused), "limit")
		out(float64(f.Inbound.Shed), "shed")
		out(float64(f.Inbound.Timeouts), "timeout")
		out(float64(f.Inbound.ProxyFailed), "proxy")
		out(float64(f.Inbound.Panics), "bug")
	}),
	always("inbound_messages_total", counter, "Messages that were accepted from clients.", nil, func(f *Facts, out emit) { out(float64(f.Inbound.Messages)) }),
	always("inbound_recipients_total", counter, "Recipients of messages that were accepted from clients.", nil, func(f *Facts, out emit) { out(float64(f.Inbound.Recipients)) }),
	always("inbound_content_bytes_total", counter, "Content of messages that were accepted from clients.", nil, func(f *Facts, out emit) { out(float64(f.Inbound.Octets)) }),
	always("inbound_refusals_total", counter, "Commands, recipients and messages of clients that were refused, by reason.", []string{"reason"}, func(f *Facts, out emit) {
		for reason, n := range f.Inbound.Refusals {
			out(float64(n), inbound.RefusalReason(reason).String())
		}
	}),
	always("inbound_logins_total", counter, "Logins of clients by result: ok, failed, or later (not tried because of a limit).", []string{"result"}, func(f *Facts, out emit) {
		out(float64(f.Inbound.Logins), "ok")
		out(float64(f.Inbound.LoginFailed), "failed")
		out(float64(f.Inbound.LoginLater), "later")
	}),
	always("inbound_errors_total", counter, "Errors of our own while mail was taken in.", nil, func(f *Facts, out emit) { out(float64(f.Inbound.Failures)) }),
	milters("milter_connections_total", "Connections to a milter.", nil, func(m *Milter, out emit) { out(float64(m.Connections)) }),
	milters("milter_messages_total", "Messages that a milter has let pass, changed or not.", nil, func(m *Milter, out emit) { out(float64(m.Messages)) }),
	milters("milter_rulings_total", "What a milter has done otherwise: refused, deferred, discarded, held, changed.", []string{"ruling"}, func(m *Milter, out emit) {
		out(float64(m.Refused), "refused")
		out(float64(m.Deferred), "deferred")
		out(float64(m.Discarded), "discarded")
		out(float64(m.Held), "held")
		out(float64(m.Changed), "changed")
	}),
	milters("milter_failures_total", "Times that a milter could not be asked, or gave an invalid answer.", nil, func(m *Milter, out emit) { out(float64(m.Failures)) }),
}

// always is a family of what is always known.
func always(name string, k kind, help string, labels []string, values func(*Facts, emit)) family {
	return family{name: name, kind: k, help: help, labels: labels, values: values}
}

// shape is a family of histograms.
func shape(name, help string, labels []string, bounds []int, of func(*Facts, func(histogram.Values, ...string))) family {
	return family{name: name, kind: histogramKind, help: help, labels: labels, bounds: bounds, histograms: of}
}

// core is a family of what the core knows.
func core(name string, k kind, help string, labels []string, values func(*qmgr.View, emit)) family {
	return always(name, k, help, labels, func(f *Facts, out emit) {
		if f.Core != nil {
			values(f.Core, out)
		}
	})
}

// sites is a family with the first destinations and the sum of the others; labels are further ones.
func sites(name, help string, labels []string, values func(*site, emit)) family {
	return family{name: name, help: help, labels: append([]string{"transport", "destination", "source"}, labels...), values: func(f *Facts, out emit) {
		for i := range f.sites {
			s := &f.sites[i]
			values(s, func(v float64, labels ...string) {
				out(v, append([]string{s.transport, s.name, s.source}, labels...)...)
			})
		}
	}}
}

func classes(name, help string, value func(*qmgr.TenantView) int) family {
	return always(name, gauge, help, []string{"class"}, func(f *Facts, out emit) {
		for i := range f.classes {
			c := &f.classes[i]
			out(float64(value(c)), c.Class)
		}
	})
}

func tenants(name, help string, value func(*qmgr.TenantView) int) family {
	return always(name, gauge, help, []string{"class", "tenant"}, func(f *Facts, out emit) {
		for i := range f.tenants {
			t := &f.tenants[i]
			out(float64(value(t)), t.Class, t.Tenant)
		}
	})
}

func milters(name, help string, labels []string, values func(*Milter, emit)) family {
	return always(name, counter, help, append([]string{"milter"}, labels...), func(f *Facts, out emit) {
		for i := range f.milters {
			m := &f.milters[i]
			values(m, func(v float64, labels ...string) { out(v, append([]string{m.Name}, labels...)...) })
		}
	})
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func eachArea(f *Facts, visit func(mail.Area)) {
	if f.Totals == nil {
		return
	}
	for area := mail.AreaIncoming; area <= mail.AreaCorrupt; area++ {
		visit(area)
	}
}

// age returns the seconds since an instant, 0 for 0.
func (f *Facts) age(at mail.Instant) float64 {
	if at == 0 {
		return 0
	}
	return max(mail.Instant(f.Now.UnixNano()).Sub(at), 0).Seconds()
}
