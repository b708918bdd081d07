package sched

// Scheduler is a way to choose what is delivered next.
type Scheduler uint8

const (
	// Preemptive is Postfix's qmgr(8): first come, first served, but mail with few
	// recipients may overtake mail with many.
	Preemptive Scheduler = iota
	// RoundRobin is Postfix's oqmgr(8): destinations take turns, and within one it
	// is first come, first served. It is there for comparison: mail to a
	// destination with a backlog waits for all of it, however small it is.
	RoundRobin
	// Runner is what mail systems did before: one message after the other, each
	// to all its destinations before the next is begun. It is there for
	// comparison: one destination that does not answer holds up all others.
	Runner
)

// String returns the scheduler's name.
func (s Scheduler) String() string { return [...]string{"preemptive", "round-robin", "runner"}[s] }
