package mail

import (
	"fmt"
	"math"
	"time"
)

// An Instant is a point in time in nanoseconds since 1970-01-01T00:00:00Z.
//
// It is an integer so that instants compare with ==, order with <, and print
// the same on every machine. The zero Instant means "not set". Only hosts of
// the core convert the wall clock to Instants; everything below gets them as
// arguments.
type Instant int64

// Never is later than every instant that occurs.
const Never Instant = math.MaxInt64

// Add returns the instant d after i. It saturates at Never.
func (i Instant) Add(d time.Duration) Instant {
	sum := i + Instant(d)
	if d > 0 && sum < i {
		return Never
	}
	return sum
}

// Sub returns the time from j to i; negative if i is before j.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Seconds returns the whole seconds since 1970, rounded down.
func (i Instant) Seconds() int64 {
	s := int64(i) / int64(time.Second)
	if int64(i)%int64(time.Second) < 0 {
		s--
	}
	return s
}

// String prints seconds and nanoseconds since 1970, as in "12.000000345s", or
// "never". Traces use it because it does not depend on a time zone.
func (i Instant) String() string {
	if i == Never {
		return "never"
	}
	s := i.Seconds()
	n := int64(i) - s*int64(time.Second)
	if n == 0 {
		return fmt.Sprintf("%ds", s)
	}
	return fmt.Sprintf("%d.%09ds", s, n)
}
