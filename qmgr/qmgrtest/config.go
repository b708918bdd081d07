package qmgrtest

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/fair"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
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
	if text, given := l.Option("classes"); given {
		c.Shares.Classes = classes(tb, l, text)
	}
	if text, given := l.Option("tenants"); given {
		c.Shares.Tenants = make(map[string]int)
		for _, t := range classes(tb, l, text) {
			c.Shares.Tenants[t.Name] = t.Weight
		}
	}
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
