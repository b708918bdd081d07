package warmup

import (
	"cmp"
	"slices"

	"github.com/posthaste-mta/posthaste/internal/mistakes"
)

// A Plan says how a source's allowance for each site grows. It is not changed once it is
// in use; tables share it.
type Plan struct {
	// Name is how the configuration calls it.
	Name string
	// Allowances are how many messages may be sent to one site on each day of the plan,
	// the first one first: 1 to 366 of them, each 1 to 1,000,000,000 and none smaller than
	// the one before.
	Allowances []int
	Limits
}

// Limits say what becomes of a day. A zero value stands for its default.
type Limits struct {
	// UsedPercent is the part of its allowance that must have been delivered on a day for
	// the plan to advance: 1 to 100, default 75. With a growth by g a receiver never sees
	// more than g/UsedPercent times as much as on the last day that counted. Lower it
	// where volume varies much from day to day.
	UsedPercent int
	// DeferralPercent and BouncePercent are the largest parts of a day's recipients that
	// may be deferred and refused by the receiver for the plan to advance: 1 to 100,
	// default 10 and 5.
	DeferralPercent, BouncePercent int
	// Failures is the number of recipients that must have been deferred, or refused, for these to
	// apply: at least 1, default 3.
	Failures int
	// BadDays is after how many bad days in a row the plan goes back by one day: at least
	// 1, default 2.
	BadDays int
	// IdleDays is after how many days without a message a site begins again: 1 to 366,
	// default 30.
	IdleDays int
}

const (
	allowanceMax = 1_000_000_000
	planDaysMax  = 366
)

// WithDefaults returns l with defaults in place of zero values.
func (l Limits) WithDefaults() Limits {
	l.UsedPercent = cmp.Or(l.UsedPercent, 75)
	l.DeferralPercent = cmp.Or(l.DeferralPercent, 10)
	l.BouncePercent = cmp.Or(l.BouncePercent, 5)
	l.Failures = cmp.Or(l.Failures, 3)
	l.BadDays = cmp.Or(l.BadDays, 2)
	l.IdleDays = cmp.Or(l.IdleDays, 30)
	return l
}

// Validate returns all errors of a plan, nil if there are none. Zero limits are valid.
func (p *Plan) Validate() error {
	var wrong mistakes.List
	wrong.Unless(len(p.Allowances) >= 1 && len(p.Allowances) <= planDaysMax, "%d allowances: want 1 to %d", len(p.Allowances), planDaysMax)
	before := 1
	for i, a := range p.Allowances {
		wrong.Unless(a >= before && a <= allowanceMax, "allowance %d of day %d: want a number from %d to %d", a, i+1, before, allowanceMax)
		before = min(max(a, before), allowanceMax)
	}
	full := p.Limits.WithDefaults()
	for _, f := range [...]struct {
		name        string
		value, most int
	}{
		{"used percent", full.UsedPercent, 100}, {"deferral percent", full.DeferralPercent, 100}, {"bounce percent", full.BouncePercent, 100},
		{"failures", full.Failures, allowanceMax}, {"bad days", full.BadDays, badDaysMax}, {"idle days", full.IdleDays, planDaysMax},
	} {
		wrong.Unless(f.value >= 1 && f.value <= f.most, "%s %d: want a number from 1 to %d", f.name, f.value, f.most)
	}
	return wrong.Join()
}

// Grow returns the allowances of a plan of some days that begins with start, and grows by
// a percentage each day. Each is computed from the one before, rounded down, so that it
// can be followed on paper; it grows by at least 1, or a small start would never grow.
// What would exceed 1,000,000,000 is that.
func Grow(start, percent, days int) []int {
	list := make([]int, days)
	for i := range list {
		list[i] = start
		grown := int64(start) + int64(start)*int64(percent)/100 // beyond an int of 32 bits
		start = int(min(max(grown, int64(start)+1), allowanceMax))
	}
	return list
}

// What the shipped plans are made of (Grow).
const (
	ConservativeStart, ConservativeGrowth, ConservativeDays = 50, 30, 30
	FastStart, FastGrowth, FastDays                         = 200, 60, 14
)

// Conservative returns the plan for most senders: from 50 messages for each site to about
// 100,000 in 30 days, by 30 % a day. docs/warmup.md has the reasons.
func Conservative() Plan {
	return Plan{Name: "conservative", Allowances: Grow(ConservativeStart, ConservativeGrowth, ConservativeDays), Limits: Limits{}.WithDefaults()}
}

// Fast returns the plan for senders whose domain and recipients the receivers know
// already: from 200 messages for each site to about 90,000 in 14 days, by 60 % a day.
// docs/warmup.md has the reasons.
func Fast() Plan {
	return Plan{Name: "fast", Allowances: Grow(FastStart, FastGrowth, FastDays), Limits: Limits{UsedPercent: 80, DeferralPercent: 15}.WithDefaults()}
}

// Plans returns the shipped plans.
func Plans() []Plan { return []Plan{Conservative(), Fast()} }

// clone returns a copy that shares no memory with p.
func (p *Plan) clone() *Plan {
	c := *p
	c.Allowances = slices.Clone(p.Allowances)
	return &c
}

// length returns the number of days of the plan.
func (p *Plan) length() uint16 { return uint16(len(p.Allowances)) }

// reached returns the last day of the plan, from 0 on, whose allowance is at most allowed:
// where a site that has come so far by another plan goes on. It is 0 if there is none.
func (p *Plan) reached(allowed uint32) uint16 {
	step := 0
	for i, a := range p.Allowances {
		if uint32(a) <= allowed {
			step = i
		}
	}
	return uint16(step)
}
