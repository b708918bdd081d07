package destdb

import (
	"cmp"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Record is what is remembered of one host. It is a value: it can be compared,
// saved, and sent to other nodes. The zero Record is empty.
type Record struct {
	Used   mail.Instant // the last contact
	Health Health
	Closed Closing
	Levels Levels
	Limit  Limit
	Proof  Proof
	Pace   Pace
	Caps   Caps
}

// Health is the result of the last attempt to connect.
type Health struct {
	At       mail.Instant // when it ended; 0 if there was none
	Failures uint32       // consecutive failed attempts; 0 if the last one succeeded
	RetryAt  mail.Instant // Failures > 0: earliest retry
	Reason   mail.Reply   // Failures > 0: why the last one failed, with texts that may be truncated
}

// Closing describes the last of a host's connections. A later connection does not
// clear it; it only counts while there is none.
type Closing struct {
	MadeAt mail.Instant // when the connection became ready
	At     mail.Instant // when it was shut; 0 if there was none
}

// Levels are the holds that limit the level used with a host.
type Levels struct {
	// Holds[l] limits a host to level l.
	Holds   [mail.LevelStream]Hold
	Strikes uint8 // number of times that a hold began
}

// A Hold is in force if Until is later than Lifted. It is not lifted when it ends,
// but when enough messages have succeeded after that; Lifted is that instant.
type Hold struct {
	Until  mail.Instant // mail.Never: until an operator removes the record
	Lifted mail.Instant
}

// A Limit is the number of messages after which a host closes connections.
type Limit struct {
	Messages uint32 // 0: unknown
	At       mail.Instant
}

// A Proof is the result of a probe whether a host supports LevelStream.
type Proof struct {
	At       mail.Instant
	Result   mail.Proof
	Executes bool // it once executed refused content as commands; never forgotten
}

// Pace is how fast a host answers.
type Pace struct {
	At           mail.Instant  // of the last observation
	RTT          time.Duration // round trip, smoothed; 0 if unknown
	RTTMin       time.Duration // the floor of round trips
	Service      time.Duration // final reply less a round trip, smoothed; 0 if unknown
	ServiceFloor time.Duration // the floor of Service
}

// Caps is what a host offered last. It is used for planning and views; a session
// may only use what its own EHLO reply offers.
type Caps struct {
	At         mail.Instant
	Extensions mail.Extensions
	SizeMax    int64 // bytes (RFC 1870); 0 if the host declares no maximum
}

// Merge joins two nodes' records of one host. It is commutative, associative and
// idempotent; the package comment has the rules.
func Merge(a, b Record) Record {
	return Record{
		Used:   max(a.Used, b.Used),
		Health: later(a.Health, b.Health, compareHealth),
		Closed: Closing{MadeAt: max(a.Closed.MadeAt, b.Closed.MadeAt), At: max(a.Closed.At, b.Closed.At)},
		Levels: mergeLevels(a.Levels, b.Levels),
		Limit:  later(a.Limit, b.Limit, compareLimit),
		Proof:  mergeProof(a.Proof, b.Proof),
		Pace:   later(a.Pace, b.Pace, comparePace),
		Caps:   later(a.Caps, b.Caps, compareCaps),
	}
}

// later returns the greater of two. The order must be total, so that the choice is
// a merge.
func later[T any](a, b T, compare func(a, b T) int) T {
	if compare(a, b) < 0 {
		return b
	}
	return a
}

func compareHealth(a, b Health) int {
	return cmp.Or(
		cmp.Compare(a.At, b.At),
		cmp.Compare(a.Failures, b.Failures),
		cmp.Compare(a.RetryAt, b.RetryAt),
		compareReply(a.Reason, b.Reason))
}

func compareReply(a, b mail.Reply) int {
	return cmp.Or(
		cmp.Compare(a.Code, b.Code),
		cmp.Compare(a.Status.Class, b.Status.Class),
		cmp.Compare(a.Status.Subject, b.Status.Subject),
		cmp.Compare(a.Status.Detail, b.Status.Detail),
		strings.Compare(a.Text, b.Text),
		strings.Compare(a.By, b.By))
}

func mergeLevels(a, b Levels) Levels {
	merged := Levels{Strikes: max(a.Strikes, b.Strikes)}
	for l := range merged.Holds {
		merged.Holds[l] = Hold{
			Until:  max(a.Holds[l].Until, b.Holds[l].Until),
			Lifted: max(a.Holds[l].Lifted, b.Holds[l].Lifted),
		}
	}
	return merged
}

// compareLimit puts stricter limits last, no limit first.
func compareLimit(a, b Limit) int {
	return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(b.Messages-1, a.Messages-1))
}

func mergeProof(a, b Proof) Proof {
	merged := later(a, b, func(a, b Proof) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Result, b.Result))
	})
	merged.Executes = a.Executes || b.Executes
	return merged
}

func comparePace(a, b Pace) int {
	return cmp.Or(
		cmp.Compare(a.At, b.At),
		cmp.Compare(a.RTT, b.RTT),
		cmp.Compare(a.RTTMin, b.RTTMin),
		cmp.Compare(a.Service, b.Service),
		cmp.Compare(a.ServiceFloor, b.ServiceFloor))
}

func compareCaps(a, b Caps) int {
	return cmp.Or(
		cmp.Compare(a.At, b.At),
		cmp.Compare(a.Extensions, b.Extensions),
		cmp.Compare(a.SizeMax, b.SizeMax))
}

// state returns the state of a record without open connections, and the instant
// that belongs to it.
func (r *Record) state(cfg *Config, now mail.Instant) (State, mail.Instant) {
	switch h := &r.Health; {
	case h.Failures > 0 && now < h.RetryAt:
		return RetryLater, h.RetryAt
	case h.Failures > 0 && now < h.RetryAt.Add(cfg.RetryGrace):
		return RetryDue, h.RetryAt
	case r.Closed.At != 0 && now < r.Closed.At.Add(cfg.ClosedTTL):
		return Closed, r.Closed.MadeAt
	}
	return Unused, 0
}

// learned reports whether the record contains more than the state needs.
func (r *Record) learned() bool {
	return r.Levels != Levels{} || r.Limit != Limit{} || r.Proof != Proof{} || r.Pace != Pace{} || r.Caps != Caps{}
}

// keepUntil returns when the record expires.
func (r *Record) keepUntil(cfg *Config) mail.Instant {
	until := r.Used
	if r.Health.Failures > 0 {
		until = max(until, r.Health.RetryAt.Add(cfg.RetryGrace), r.Health.At.Add(cfg.FailureTTL))
	}
	if r.Closed.At != 0 {
		until = max(until, r.Closed.At.Add(cfg.ClosedTTL))
	}
	if r.learned() {
		until = max(until, r.Used.Add(cfg.FactsTTL))
	}
	if r.Proof.Executes {
		return mail.Never
	}
	for _, hold := range r.Levels.Holds {
		if hold.Until > hold.Lifted {
			until = max(until, hold.Until)
		}
	}
	return until
}
