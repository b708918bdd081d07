package prng

import (
	"math/bits"
	"time"

	"github.com/posthaste-mta/posthaste/internal/assert"
)

// A Source is the state of a generator: a value, so that a copy of the
// structure that holds it goes on with the same numbers. It belongs to one
// goroutine. The zero Source gives zeros forever: use New.
type Source struct {
	s [4]uint64
}

// New returns a generator. Different seeds, even neighbours, give unrelated
// sequences.
func New(seed uint64) Source {
	var r Source
	for i := range r.s {
		seed += 0x9e3779b97f4a7c15
		z := seed
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		r.s[i] = z ^ z>>31
	}
	return r
}

// Uint64 returns a number in [0, 2⁶⁴).
func (r *Source) Uint64() uint64 {
	s := &r.s
	out := bits.RotateLeft64(s[0]+s[3], 23) + s[0]
	t := s[1] << 17
	s[2] ^= s[0]
	s[3] ^= s[1]
	s[1] ^= s[2]
	s[0] ^= s[3]
	s[2] ^= t
	s[3] = bits.RotateLeft64(s[3], 45)
	return out
}

// Uint64N returns a number in [0, n), each with the same probability. n must
// not be 0.
//
// It is Lemire's method: the high half of a 128-bit product, drawn again in
// the few cases that would favour some numbers.
func (r *Source) Uint64N(n uint64) uint64 {
	assert.That(n > 0, "a number out of none")
	hi, lo := bits.Mul64(r.Uint64(), n)
	if lo < n {
		for reject := -n % n; lo < reject; {
			hi, lo = bits.Mul64(r.Uint64(), n)
		}
	}
	return hi
}

// IntN returns a number in [0, n), each with the same probability. n must be
// positive.
func (r *Source) IntN(n int) int {
	assert.That(n > 0, "a number out of %d", n)
	return int(r.Uint64N(uint64(n)))
}

// Permille returns true in p of 1000 cases; never for p ≤ 0, always for p ≥ 1000.
// It draws one number in every case, so that changing p does not shift what is
// drawn afterwards.
func (r *Source) Permille(p int) bool {
	return r.IntN(1000) < p
}

// Between returns a duration from low to high, both included, each with the
// same probability. low must not exceed high.
func (r *Source) Between(low, high time.Duration) time.Duration {
	assert.That(low <= high, "between %d and %d", int64(low), int64(high))
	span := uint64(high) - uint64(low) + 1
	if span == 0 { // all 2⁶⁴ of them
		return time.Duration(r.Uint64())
	}
	return time.Duration(uint64(low) + r.Uint64N(span))
}
