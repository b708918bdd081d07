package qmgrtest

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/fair"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/qmgr/source"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// config changes the configuration: before the world starts, or as a reload.
// Options of transports apply to those without options of their own, or to the one
// named by transport=.
func (s *script) config(tb testing.TB, l *golden.Line) {
	tb.Helper()
	s.coreOptions(tb, l)
	t := s.cfg.DefaultTransport
	name, named := l.Option("transport")
	if own, ok := s.cfg.Transports[name]; named && ok {
		t = own
	}
	transportOptions(tb, l, &t)
	if named {
		transports := map[string]qmgr.TransportConfig{name: t}
		for other, own := range s.cfg.Transports {
			if other != name {
				transports[other] = own
			}
		}
		s.cfg.Transports = transports
	} else {
		s.cfg.DefaultTransport = t
	}
	if s.world != nil {
		s.world.Step(qmgr.Configure{Config: s.cfg})
		s.settle()
	}
}

func (s *script) coreOptions(tb testing.TB, l *golden.Line) {
	tb.Helper()
	c := &s.cfg
	c.ActiveLimit = l.Int(tb, "active", c.ActiveLimit)
	c.RecipientLimit = l.Int(tb, "recipients", c.RecipientLimit)
	c.RecipientMinimum = l.Int(tb, "minimum", c.RecipientMinimum)
	c.FudgeFactor = l.Int(tb, "fudge", c.FudgeFactor)
	c.LookupLimit = l.Int(tb, "lookups", c.LookupLimit)
	c.MessageConcurrency = l.Int(tb, "message-concurrency", c.MessageConcurrency)
	c.VerifyLimit = l.Int(tb, "verify-limit", c.VerifyLimit)
	c.VerifyNetworkLimit = l.Int(tb, "verify-network-limit", c.VerifyNetworkLimit)
	c.VerifyDeadline = l.Duration(tb, "verify-deadline", c.VerifyDeadline)
	c.VerifySender = mail.Address(l.Str("verify-sender", string(c.VerifySender)))
	c.VerifyRejectReason = l.Str("reject-reason", c.VerifyRejectReason)
	c.VerifyDeferReason = l.Str("defer-reason", c.VerifyDeferReason)
	for key, field := range map[string]*time.Duration{"positive-time": &c.Addresses.PositiveTime, "positive-refresh": &c.Addresses.PositiveRefresh,
		"negative-time": &c.Addresses.NegativeTime, "negative-refresh": &c.Addresses.NegativeRefresh} {
		*field = l.Duration(tb, key, *field)
	}
	c.TenantFlows = l.Int(tb, "tenant-flows", c.TenantFlows)
	c.ConcurrencyScale = l.Int(tb, "concurrency-scale", c.ConcurrencyScale)
	c.ActionsPerStep = l.Int(tb, "actions", c.ActionsPerStep)
	c.ConnectionLimit = l.Int(tb, "connections", c.ConnectionLimit)
	c.Debug = c.Debug || l.Has("debug")
	c.AsPostfix = c.AsPostfix || l.Has("as-postfix")
	c.RoutesBySender = c.RoutesBySender || l.Has("by-sender")
	if text, given := l.Option("classes"); given {
		c.Shares.Classes = classes(tb, l, text)
	}
	if text, given := l.Option("tenants"); given {
		c.Shares.Tenants = make(map[string]int)
		for _, t := range classes(tb, l, text) {
			c.Shares.Tenants[t.Name] = t.Weight
		}
	}
	sourceOptions(tb, l, &c.Sources)
	warmupOptions(tb, l, &c.Warmup)
	b := &c.Backoff
	b.MinimalBackoffTime = l.Duration(tb, "backoff-min", b.MinimalBackoffTime)
	b.MaximalBackoffTime = l.Duration(tb, "backoff-max", b.MaximalBackoffTime)
	c.TransportRetryTime = l.Duration(tb, "transport-retry", c.TransportRetryTime)
	b.MaximalQueueLifetime = l.Duration(tb, "lifetime", b.MaximalQueueLifetime)
	b.BounceQueueLifetime = l.Duration(tb, "bounce-lifetime", b.BounceQueueLifetime)
	b.DelayWarningTime = l.Duration(tb, "warn", b.DelayWarningTime)
	switch l.Str("double-bounce", "") {
	case "":
	case "hold":
		c.DoubleBounce = qmgr.DoubleBounceHold
	case "discard":
		c.DoubleBounce = qmgr.DoubleBounceDiscard
	case "report":
		c.DoubleBounce = qmgr.DoubleBounceReport
	default:
		tb.Fatalf("%s: double-bounce= is hold, discard or report", l.Pos)
	}
}

// classes parses name:weight,name:weight:max-share: the latter is strict.
func classes(tb testing.TB, l *golden.Line, text string) (list []fair.Class) {
	tb.Helper()
	for _, part := range strings.Split(text, ",") {
		name, numbers, _ := strings.Cut(part, ":")
		weight, share, strict := strings.Cut(numbers, ":")
		c := fair.Class{Name: name, Strict: strict}
		var err, wrong error
		c.Weight, err = strconv.Atoi(weight)
		if strict {
			c.MaxShare, wrong = strconv.Atoi(share)
		}
		if err != nil || wrong != nil {
			tb.Fatalf("%s: cannot read %s", l.Pos, part)
		}
		list = append(list, c)
	}
	return list
}

// sourceOptions parses sources=NAME,NAME and pools=NAME=SOURCE+SOURCE*WEIGHT;class:C,NAME=…
// A source has an IPv4 address, one whose name ends in 6 an IPv6 address, and in 46 both;
// conditions of a pool are class:, tenant:, sender: and route:. "none" is none of them.
func sourceOptions(tb testing.TB, l *golden.Line, c *source.Config) {
	tb.Helper()
	if text, given := l.Option("sources"); given {
		c.Sources = nil
		for i, name := range list(text) {
			s := source.Source{Name: name}
			if !strings.HasSuffix(name, "6") || strings.HasSuffix(name, "46") {
				s.Addresses = append(s.Addresses, netip.AddrFrom4([4]byte{203, 0, 113, byte(i + 1)}))
			}
			if strings.HasSuffix(name, "6") {
				s.Addresses = append(s.Addresses, netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 15: byte(i + 1)}))
			}
			c.Sources = append(c.Sources, s)
		}
	}
	if text, given := l.Option("pools"); given {
		c.Pools = nil
		for _, part := range list(text) {
			c.Pools = append(c.Pools, pool(tb, l, part))
		}
	}
}

// warmupOptions parses warmup=SOURCE:10+20+40,…: sources that are new, with their allowances
// of each day.
func warmupOptions(tb testing.TB, l *golden.Line, c *warmup.Config) {
	tb.Helper()
	text, given := l.Option("warmup")
	if !given {
		return
	}
	c.Sources = nil
	for _, one := range list(text) {
		name, plan, _ := strings.Cut(one, ":")
		s := warmup.Source{Name: name, Plan: warmup.Plan{Name: "plan"}}
		for word := range strings.SplitSeq(plan, "+") {
			n, err := strconv.Atoi(word)
			if err != nil {
				tb.Fatalf("%s: cannot read %s", l.Pos, one)
			}
			s.Plan.Allowances = append(s.Plan.Allowances, n)
		}
		c.Sources = append(c.Sources, s)
	}
}

func list(text string) []string {
	if text == "none" {
		return nil
	}
	return strings.Split(text, ",")
}

func pool(tb testing.TB, l *golden.Line, text string) source.Pool {
	tb.Helper()
	name, rest, _ := strings.Cut(text, "=")
	parts := strings.Split(rest, ";")
	p := source.Pool{Name: name}
	for _, one := range strings.Split(parts[0], "+") {
		member, weight, weighted := strings.Cut(one, "*")
		m := source.Member{Source: member, Weight: 1}
		var err error
		if weighted {
			m.Weight, err = strconv.Atoi(weight)
		}
		if err != nil {
			tb.Fatalf("%s: cannot read %s", l.Pos, one)
		}
		p.Members = append(p.Members, m)
	}
	for _, one := range parts[1:] {
		kind, pattern, _ := strings.Cut(one, ":")
		for k, texts := range p.Match.Lists() {
			if k == kind {
				*texts = append(*texts, pattern)
			}
		}
	}
	return p
}

func transportOptions(tb testing.TB, l *golden.Line, t *qmgr.TransportConfig) {
	tb.Helper()
	for key, field := range map[string]*int{
		"process": &t.ProcessLimit, "entry": &t.RecipientLimit, "slot-cost": &t.SlotCost, "slot-loan": &t.SlotLoan,
		"slot-discount": &t.SlotDiscount, "slot-minimum": &t.MinimumSlots, "pool": &t.RecipientPool, "extra": &t.ExtraRecipients,
		"refill": &t.RefillLimit, "window": &t.Window.Initial, "limit": &t.Window.Limit, "cohorts": &t.Window.FailedCohortLimit,
	} {
		*field = l.Int(tb, key, *field)
	}
	t.RefillDelay = l.Duration(tb, "refill-delay", t.RefillDelay)
	t.RateDelay = l.Duration(tb, "rate-delay", t.RateDelay)
	t.TransportRateDelay = l.Duration(tb, "transport-rate-delay", t.TransportRateDelay)
	for key, field := range map[string]*rate.Limits{"rate": &t.Rate, "transport-rate": &t.TransportRate, "connection-rate": &t.Connections.OpenRate} {
		text, given := l.Option(key)
		if !given {
			continue
		}
		limits, err := rate.Parse(text)
		if err != nil {
			tb.Fatalf("%s: %v", l.Pos, err)
		}
		*field = limits
	}
	for key, field := range map[string]*window.Feedback{"positive": &t.Window.Positive, "negative": &t.Window.Negative} {
		text, given := l.Option(key)
		if !given {
			continue
		}
		f, err := window.ParseFeedback(text)
		if err != nil {
			tb.Fatalf("%s: %v", l.Pos, err)
		}
		*field = f
	}
	switch l.Str("scheduler", "") {
	case "":
	case qmgr.Preemptive.String():
		t.Scheduler = qmgr.Preemptive
	case qmgr.RoundRobin.String():
		t.Scheduler = qmgr.RoundRobin
	case qmgr.Runner.String():
		t.Scheduler = qmgr.Runner
	default:
		tb.Fatalf("%s: scheduler= is %v, %v or %v", l.Pos, qmgr.Preemptive, qmgr.RoundRobin, qmgr.Runner)
	}
	switch l.Str("agents", "") {
	case "":
	case "own":
		t.Agents = qmgr.AgentsOwn
	case "offered":
		t.Agents = qmgr.AgentsOffered
	case "connections":
		t.Agents = qmgr.AgentsConnections
	default:
		tb.Fatalf("%s: agents= is own, offered or connections", l.Pos)
	}
	connectionOptions(tb, l, t)
	t.MergeDomains = t.MergeDomains || l.Has("merge-domains")
	t.FeedbackDebug = t.FeedbackDebug || l.Has("feedback-debug")
	t.PerRecipientQueues = t.PerRecipientQueues || l.Has("per-recipient")
}
