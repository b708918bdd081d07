package warmup

import "fmt"

// A Record is what is remembered of one source and site: a value that can be compared and
// saved.
type Record struct {
	State State
	// Step is the day of the plan, from 0 on; it is less than the plan's length. Allowed
	// is that day's allowance, from which the day is found again if the plan is changed.
	// Both are 0 if the site is Warm.
	Step    uint16
	Allowed uint32
	// Bad is the number of bad days in a row until Day.
	Bad uint8
	// Paused means that an operator wants the plan not to change: no day is judged, and
	// nothing is forgotten.
	Paused bool
	// Last is what became of the last day that was judged.
	Last Verdict
	// Used is the last day on which a message was started, or on which an operator's order
	// for the site came.
	Used Day
	// Day is the day that Counts are of.
	Day Day
	Counts
}

// Counts are what happened on one day. A count that reaches its maximum stays there.
type Counts struct {
	Taken     uint32 // messages that were started, less those given back
	Delivered uint32 // messages that were accepted for at least one recipient
	Accepted  uint32 // recipients for whom a message was accepted (2yz)
	Deferred  uint32 // recipients whom the receiver deferred (4yz)
	Bounced   uint32 // recipients whom the receiver refused (5yz)
}

// A State is how far a site is with a source.
type State uint8

const (
	// Warming: the plan limits what is sent.
	Warming State = iota
	// Warm: there is no limit.
	Warm
)

// String returns the state's name.
func (s State) String() string {
	switch s {
	case Warming:
		return "warming"
	case Warm:
		return "warm"
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// A Verdict is what became of a day.
type Verdict uint8

const (
	// Unjudged: no day was judged yet, or the site began again.
	Unjudged Verdict = iota
	// Advanced: the day was used and good.
	Advanced
	// Unused: too few messages were delivered.
	Unused
	// Deferrals: too many recipients were deferred.
	Deferrals
	// Bounces: too many recipients were refused.
	Bounces
	// BackForDeferrals and BackForBounces: the same, and the plan went back by a day.
	BackForDeferrals
	BackForBounces
	verdicts
)

// String returns the verdict as a phrase for operators.
func (v Verdict) String() string {
	switch v {
	case Unjudged:
		return "not judged"
	case Advanced:
		return "advanced"
	case Unused:
		return "stayed: too few delivered"
	case Deferrals:
		return "stayed: too many deferrals"
	case Bounces:
		return "stayed: too many bounces"
	case BackForDeferrals:
		return "went back: too many deferrals"
	case BackForBounces:
		return "went back: too many bounces"
	}
	return fmt.Sprintf("verdict %d", uint8(v))
}

// badDaysMax bounds Record.Bad.
const badDaysMax = 100

// total is the number of recipients with a reply.
func (c *Counts) total() uint64 { return uint64(c.Accepted) + uint64(c.Deferred) + uint64(c.Bounced) }

// share returns which part of the recipients with a reply n are, in percent, rounded down.
func (c *Counts) share(n uint32) int { return int(uint64(n) * 100 / max(c.total(), 1)) }

// start sets the day of the plan, from 0 on; the plan's length means that the site is warm.
func (r *Record) start(p *Plan, step uint16) {
	r.Bad, r.Last = 0, Unjudged
	r.set(p, step)
}

func (r *Record) set(p *Plan, step uint16) {
	if step >= p.length() {
		r.State, r.Step, r.Allowed = Warm, 0, 0
		return
	}
	r.State, r.Step, r.Allowed = Warming, step, uint32(p.Allowances[step])
}

// fit makes a record that was made with another plan one of this plan.
func (r *Record) fit(p *Plan) {
	if r.State == Warming && (r.Step >= p.length() || r.Allowed != uint32(p.Allowances[r.Step])) {
		r.set(p, p.reached(r.Allowed))
	}
}

// roll brings a record to a day: it judges the last day, and begins again at step first if
// too many passed without use. It is the same whether it is called on each day or once.
func (r *Record) roll(p *Plan, first uint16, today Day) {
	if today <= r.Day {
		return
	}
	if r.State == Warming && !r.Paused && r.Counts != (Counts{}) {
		r.judge(p)
	}
	if !r.Paused && r.Used > 0 && today-r.Used > Day(p.IdleDays) {
		r.start(p, first)
	}
	r.Day, r.Counts = today, Counts{}
}

// judge decides what follows from a day on which something happened. The package comment
// has the rules.
func (r *Record) judge(p *Plan) {
	switch {
	case p.exceeds(r.Deferred, p.DeferralPercent, &r.Counts):
		r.bad(p, Deferrals, BackForDeferrals)
	case p.exceeds(r.Bounced, p.BouncePercent, &r.Counts):
		r.bad(p, Bounces, BackForBounces)
	case uint64(r.Delivered)*100 < uint64(p.UsedPercent)*uint64(r.Allowed):
		r.Bad, r.Last = 0, Unused
	default:
		r.Bad, r.Last = 0, Advanced
		r.set(p, r.Step+1)
	}
}

func (p *Plan) exceeds(failed uint32, percent int, c *Counts) bool {
	return failed >= uint32(p.Failures) && uint64(failed)*100 > uint64(percent)*c.total()
}

func (r *Record) bad(p *Plan, stayed, back Verdict) {
	r.Bad++
	r.Last = stayed
	if int(r.Bad) < p.BadDays {
		return
	}
	r.Bad = 0
	if r.Step > 0 {
		r.Last = back
		r.set(p, r.Step-1)
	}
}
