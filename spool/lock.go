package spool

import (
	"math/bits"
	"sync"

	"github.com/posthaste-mta/posthaste/mail"
)

// The messageLocks serialize read-modify-write of a message between concurrent
// Applies: the driver's and those of reports. Messages share locks by a hash of
// their ID. A lock is held during the commit, so different messages still share the
// sync.
type messageLocks [lockCount]sync.Mutex

const lockCount = 1024

// A lockSet is a set of locks.
type lockSet [lockCount / 64]uint64

func (set *lockSet) add(id mail.QueueID) {
	n := uint64(id) * 0x9e3779b97f4a7c15 >> 54 // the top 10 bits: Fibonacci hashing
	set[n/64] |= 1 << (n % 64)
}

// lock takes all locks of a set in ascending order, so that no two callers
// can wait for each other.
func (l *messageLocks) lock(set *lockSet) {
	set.each(func(n int) { l[n].Lock() })
}

func (l *messageLocks) unlock(set *lockSet) {
	set.each(func(n int) { l[n].Unlock() })
}

func (set *lockSet) each(do func(n int)) {
	for i, word := range set {
		for ; word != 0; word &= word - 1 {
			do(i*64 + bits.TrailingZeros64(word))
		}
	}
}
