package flows

import (
	"math"
	"math/bits"
	"time"
)

// counts is what has happened to the mail of a flow.
type counts struct {
	started uint64 // deliveries
	// waits counts deliveries by the time from a message's admission to the
	// start of a delivery. When one count is full, all are halved.
	waits [waits]uint16
}

// waits is the number of classes of waiting times. Class 0 is less than a millisecond, and
// each that follows has times up to twice as long; the last one, whatever is longer.
const waits = 24

// StartedAfter counts a delivery that started so long after its message was admitted.
func (c *counts) StartedAfter(wait time.Duration) {
	c.started++
	n := &c.waits[min(bits.Len64(uint64(max(wait, 0)/time.Millisecond)), waits-1)]
	if *n == math.MaxUint16 {
		for i := range c.waits {
			c.waits[i] /= 2
		}
	}
	*n++
}

// quantile returns a time that so many thousandths of the deliveries have not waited
// longer than: the upper end of a class; 0 if there were no deliveries.
func (c *counts) quantile(permille uint64) time.Duration {
	var total, sum uint64
	for _, n := range c.waits {
		total += uint64(n)
	}
	for i, n := range c.waits {
		if sum += uint64(n); n > 0 && sum*1000 >= total*permille {
			return time.Millisecond << i
		}
	}
	return 0
}
