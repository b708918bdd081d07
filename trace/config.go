package trace

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/addrdb"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
	"github.com/posthaste-mta/posthaste/qmgr/fair"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/qmgr/shape"
	"github.com/posthaste-mta/posthaste/qmgr/source"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

var (
	bounceWords = []string{"hold", "discard", "report"}
	schedulers  = wordsUpTo(qmgr.Runner)
	agentWords  = []string{"own", "offered", "connections"}
	// warmupOrders are the kinds of orders about a warm-up.
	warmupOrders = wordsUpTo(warmup.Reset)
	unknowns     = wordsUpTo(qmgr.UnknownHold)
	ruleWords    = wordsUpTo(window.RuleReadme)
)

// config is a configuration: what all transports share, the default transport,
// then each named one, begun by its name.
func (c *codec) config(v *qmgr.Config) {
	number(c, "active-limit", &v.ActiveLimit)
	number(c, "recipient-limit", &v.RecipientLimit)
	number(c, "recipient-minimum", &v.RecipientMinimum)
	number(c, "lookups", &v.LookupLimit)
	number(c, "message-concurrency", &v.MessageConcurrency)
	number(c, "concurrency-scale", &v.ConcurrencyScale)
	number(c, "verifications", &v.VerifyLimit)
	number(c, "network-verifications", &v.VerifyNetworkLimit)
	c.duration("verify-deadline", &v.VerifyDeadline)
	c.address("verify-sender", &v.VerifySender)
	c.text("verify-reject-reason", &v.VerifyRejectReason)
	c.text("verify-defer-reason", &v.VerifyDeferReason)
	c.addressesConfig(&v.Addresses)
	number(c, "fudge", &v.FudgeFactor)
	c.flag("as-postfix", &v.AsPostfix)
	c.flag("debug", &v.Debug)
	c.duration("minimal-backoff", &v.Backoff.MinimalBackoffTime)
	c.duration("maximal-backoff", &v.Backoff.MaximalBackoffTime)
	c.duration("lifetime", &v.Backoff.MaximalQueueLifetime)
	c.duration("bounce-lifetime", &v.Backoff.BounceQueueLifetime)
	c.duration("delay-warning", &v.Backoff.DelayWarningTime)
	number(c, "jitter", &v.Backoff.JitterPercent)
	option(c, "double-bounce", bounceWords, &v.DoubleBounce)
	c.flag("routes-by-sender", &v.RoutesBySender)
	number(c, "connections", &v.ConnectionLimit)
	c.hostsConfig(&v.Hosts)
	list(c, "destinations", []string{"destination"}, &v.Destinations, func(d *shape.Destination, _ int) { c.destination(d) })
	number(c, "tenant-flows", &v.TenantFlows)
	c.sharesConfig(&v.Shares)
	c.warmupConfig(&v.Warmup)
	c.sourcesConfig(&v.Sources)
	number(c, "actions-per-step", &v.ActionsPerStep)
	c.duration("transport-retry", &v.TransportRetryTime)
	c.transportConfig(&v.DefaultTransport)
	names := slices.Sorted(maps.Keys(v.Transports))
	list(c, "transports", []string{"transport"}, &names, func(name *string, _ int) {
		c.always("transport", name)
		t := v.Transports[*name] // zero when reading
		c.transportConfig(&t)
		if !c.writing {
			if v.Transports == nil {
				v.Transports = make(map[string]qmgr.TransportConfig)
			}
			v.Transports[*name] = t
		}
	})
}

func (c *codec) transportConfig(t *qmgr.TransportConfig) {
	option(c, "scheduler", schedulers, &t.Scheduler)
	number(c, "process-limit", &t.ProcessLimit)
	number(c, "entry-limit", &t.RecipientLimit)
	number(c, "slot-cost", &t.SlotCost)
	number(c, "slot-loan", &t.SlotLoan)
	number(c, "slot-discount", &t.SlotDiscount)
	number(c, "minimum-slots", &t.MinimumSlots)
	number(c, "pool", &t.RecipientPool)
	number(c, "extra", &t.ExtraRecipients)
	number(c, "refill-limit", &t.RefillLimit)
	c.duration("refill-delay", &t.RefillDelay)
	option(c, "agents", agentWords, &t.Agents)
	c.flag("merge-domains", &t.MergeDomains)
	c.flag("per-recipient", &t.PerRecipientQueues)
	number(c, "initial", &t.Window.Initial)
	number(c, "limit", &t.Window.Limit)
	c.windowFeedback("positive", &t.Window.Positive)
	c.windowFeedback("negative", &t.Window.Negative)
	number(c, "failed-cohorts", &t.Window.FailedCohortLimit)
	option(c, "rule", ruleWords, &t.Window.Rule)
	c.flag("feedback-debug", &t.FeedbackDebug)
	c.duration("rate-delay", &t.RateDelay)
	value(c, "rate", &t.Rate, rate.Limits.String, rate.Parse)
	value(c, "transport-rate", &t.TransportRate, rate.Limits.String, rate.Parse)
	c.duration("transport-delay", &t.TransportRateDelay)
	option(c, "unknown-outcome", unknowns, &t.UnknownOutcome)
	c.groupConfig(&t.Connections)
}

func (c *codec) sharesConfig(r *fair.Rules) {
	list(c, "classes", []string{"class"}, &r.Classes, func(k *fair.Class, _ int) {
		c.always("class", &k.Name)
		number(c, "weight", &k.Weight)
		c.flag("strict", &k.Strict)
		number(c, "max-share", &k.MaxShare)
	})
	c.weights("tenants", "tenant", &r.Tenants)
	c.weights("flows", "flow", &r.Flows)
	number(c, "idle-flows", &r.Memory)
}

// weights is a map of weights by name, in the order of the names.
func (c *codec) weights(name, key string, v *map[string]int) {
	names := slices.Sorted(maps.Keys(*v))
	list(c, name, []string{key}, &names, func(one *string, _ int) {
		c.always(key, one)
		weight := (*v)[*one] // zero when reading
		number(c, "weight", &weight)
		if !c.writing {
			if *v == nil {
				*v = make(map[string]int)
			}
			(*v)[*one] = weight
		}
	})
}

func (c *codec) sourcesConfig(v *source.Config) {
	list(c, "sources", []string{"source"}, &v.Sources, func(s *source.Source, _ int) {
		c.always("source", &s.Name)
		list(c, "addresses", []string{"at"}, &s.Addresses, func(a *netip.Addr, _ int) {
			value(c, "at", a, netip.Addr.String, netip.ParseAddr)
		})
		c.text("hello", &s.Hello)
	})
	list(c, "pools", []string{"of-pool"}, &v.Pools, func(p *source.Pool, _ int) {
		c.always("of-pool", &p.Name)
		list(c, "members", []string{"member"}, &p.Members, func(m *source.Member, _ int) {
			c.always("member", &m.Source)
			number(c, "weight", &m.Weight)
		})
		for key, texts := range p.Match.Lists() {
			list(c, "match-"+key, []string{"match-" + key}, texts, func(text *string, _ int) { c.always("match-"+key, text) })
		}
	})
}

// warmupConfig is the sources that are warmed up, each with its plan.
func (c *codec) warmupConfig(w *warmup.Config) {
	list(c, "warmups", []string{"warmup"}, &w.Sources, func(s *warmup.Source, _ int) {
		c.always("warmup", &s.Name)
		number(c, "start", &s.Start)
		c.text("plan", &s.Plan.Name)
		c.integers("allowances", &s.Plan.Allowances)
		number(c, "used-percent", &s.Plan.UsedPercent)
		number(c, "deferral-percent", &s.Plan.DeferralPercent)
		number(c, "bounce-percent", &s.Plan.BouncePercent)
		number(c, "failures", &s.Plan.Failures)
		number(c, "bad-days", &s.Plan.BadDays)
		number(c, "idle-days", &s.Plan.IdleDays)
	})
	number(c, "warmup-sites", &w.SiteLimit)
}

// integers is a pair with whole numbers.
func (c *codec) integers(key string, v *[]int) {
	text := strings.Trim(strings.ReplaceAll(fmt.Sprint(*v), " ", ","), "[]")
	if c.text(key, &text); c.writing || text == "" {
		return
	}
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(word)
		if err != nil {
			c.fail("%s=%s: %w", key, text, err)
		}
		*v = append(*v, n)
	}
}

func (c *codec) groupConfig(g *conns.GroupConfig) {
	number(c, "conn-limit", &g.Limit)
	number(c, "host-limit", &g.HostLimit)
	number(c, "conn-initial", &g.Initial)
	c.duration("conn-idle", &g.IdleTime)
	c.duration("conn-active", &g.ActiveTime)
	number(c, "conn-count", &g.CountLimit)
	option(c, "level", levels, &g.Level)
	number(c, "in-flight", &g.InFlight)
	value(c, "conn-rate", &g.OpenRate, rate.Limits.String, rate.Parse)
	c.flag("no-probe", &g.NoProbe)
}

// destination is a receiver's limits. Their keys are none of a transport's,
// which come next.
func (c *codec) destination(d *shape.Destination) {
	c.always("destination", &d.Name)
	list(c, "domains", []string{"domain"}, &d.Domains, func(s *string, _ int) { c.always("domain", s) })
	list(c, "mx", []string{"mx"}, &d.MX, func(s *string, _ int) { c.always("mx", s) })
	list(c, "networks", []string{"network"}, &d.Networks, func(p *netip.Prefix, _ int) {
		value(c, "network", p, netip.Prefix.String, netip.ParsePrefix)
	})
	l := &d.Limits
	optional(c, "their-initial", &l.InitialConcurrency, strconv.Itoa, strconv.Atoi)
	optional(c, "their-limit", &l.ConcurrencyLimit, strconv.Itoa, strconv.Atoi)
	optional(c, "their-entry-limit", &l.RecipientLimit, strconv.Itoa, strconv.Atoi)
	optional(c, "their-delay", &l.RateDelay, time.Duration.String, time.ParseDuration)
	optional(c, "their-rate", &l.Rate, rate.Limits.String, rate.Parse)
	optional(c, "their-conn-rate", &l.ConnectionRate, rate.Limits.String, rate.Parse)
	optional(c, "their-host-limit", &l.HostConcurrencyLimit, strconv.Itoa, strconv.Atoi)
	optional(c, "their-level", &l.Level, func(v mail.Level) string { return wordFor(levels, v) }, func(s string) (mail.Level, error) {
		return mail.Level(c.index(levels, s)), c.err
	})
	optional(c, "their-active", &l.ReuseTimeLimit, time.Duration.String, time.ParseDuration)
	optional(c, "their-count", &l.ReuseCountLimit, strconv.Itoa, strconv.Atoi)
}

// optional is a pair that is there if the value is set, even if it is zero.
func optional[T any](c *codec, key string, o *shape.Opt[T], format func(T) string, parse func(string) (T, error)) {
	if c.writing {
		if o.Set {
			c.put(key, format(o.Value))
		}
		return
	}
	if v, ok := parsePair(c, key, parse); ok {
		*o = shape.Some(v)
	}
}

func (c *codec) hostsConfig(h *destdb.Config) {
	c.duration("host-retry-min", &h.RetryMin)
	c.duration("host-retry-max", &h.RetryMax)
	c.duration("host-retry-grace", &h.RetryGrace)
	c.duration("host-failure-ttl", &h.FailureTTL)
	c.duration("host-closed-ttl", &h.ClosedTTL)
	c.duration("host-facts-ttl", &h.FactsTTL)
	number(c, "hosts", &h.HostLimit)
	c.duration("step-down", &h.StepDownTTL)
	c.duration("step-down-max", &h.StepDownMax)
	number(c, "step-up-messages", &h.StepUpMessages)
	number(c, "step-up-conns", &h.StepUpConns)
	number(c, "tarpit", &h.TarpitFactor)
}

func (c *codec) addressesConfig(a *addrdb.Config) {
	number(c, "addresses", &a.Limit)
	c.duration("address-positive", &a.PositiveTime)
	c.duration("address-positive-refresh", &a.PositiveRefresh)
	c.duration("address-negative", &a.NegativeTime)
	c.duration("address-negative-refresh", &a.NegativeRefresh)
}

func (c *codec) windowFeedback(key string, f *window.Feedback) {
	value(c, key, f, window.Feedback.String, window.ParseFeedback)
}
