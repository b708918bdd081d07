package mail

import (
	"errors"
	"time"
)

// A QueueID names one message for as long as it is in the spool, and is never
// reused. The high 52 bits are the time of assignment in microseconds since 1970,
// the low 12 bits make it unique, so IDs sort by age. The zero QueueID names no
// message.
type QueueID uint64

const queueIDLetters = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// queueIDLength is the number of letters in the text form: 13 × 5 bits ≥ 64.
const queueIDLength = 13

// NewQueueID returns the ID for a time, with a serial below 4096.
func NewQueueID(at Instant, serial uint16) QueueID {
	return QueueID(uint64(int64(at)/int64(time.Microsecond))<<12 | uint64(serial&0xfff))
}

// CalloutID returns the ID of the n-th call-out. Call-outs are scheduled like
// messages, but are never in a spool: their IDs are the highest possible, of one
// second in the year 2112, and repeat after some four thousand million.
func CalloutID(n uint32) QueueID { return ^QueueID(n) }

// Time returns the instant at which the ID was assigned, to the microsecond.
func (q QueueID) Time() Instant {
	return Instant(int64(q>>12) * int64(time.Microsecond))
}

// String returns the text form: 13 letters out of 32 (digits and upper-case
// letters without I, L, O and U, which are easily misread), in an order that
// sorts as the IDs do. It is what logs, commands and Received fields show.
func (q QueueID) String() string {
	var b [queueIDLength]byte
	v := uint64(q)
	for i := queueIDLength - 1; i >= 0; i-- {
		b[i] = queueIDLetters[v&31]
		v >>= 5
	}
	return string(b[:])
}

// ErrQueueID means that a text is not a queue ID.
var ErrQueueID = errors.New("not a queue ID: want 13 letters out of " + queueIDLetters)

// ParseQueueID parses the text form. Any text that String does not return is an
// ErrQueueID.
func ParseQueueID(s string) (QueueID, error) {
	if len(s) != queueIDLength {
		return 0, ErrQueueID
	}
	var v uint64
	for i := 0; i < len(s); i++ {
		d := letterValue(s[i])
		if d < 0 || (i == 0 && d > 15) {
			return 0, ErrQueueID
		}
		v = v<<5 | uint64(d)
	}
	return QueueID(v), nil
}

func letterValue(c byte) int {
	for i := 0; i < len(queueIDLetters); i++ {
		if queueIDLetters[i] == c {
			return i
		}
	}
	return -1
}
