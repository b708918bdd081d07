package sim

import (
	"math"

	"github.com/posthaste-mta/posthaste/internal/prng"
)

// The functions of this file give the same bits on every architecture, which
// those of package math do not promise: several processors have implementations
// of their own there. Every product is rounded by an explicit conversion, so
// that no compiler fuses it into a sum.

// unit returns a number in (0, 1].
func unit(r *prng.Source) float64 { return float64(r.Uint64()>>11+1) / (1 << 53) }

// normal returns a number of mean 0 and deviation 1, between -6 and 6: the sum
// of twelve numbers in [0, 1), less 6.
func normal(r *prng.Source) float64 {
	var sum uint64
	for range 6 {
		v := r.Uint64()
		sum += v>>32 + v&0xffffffff
	}
	return float64(sum)/(1<<32) - 6
}

const ln2 = 0.693147180559945309417232121458176568

// ln returns the natural logarithm of x, which must be positive: the exponent,
// and a series in (f-1)/(f+1) for the fraction f near 1.
func ln(x float64) float64 {
	f, e := math.Frexp(x)
	if f < math.Sqrt2/2 {
		f, e = f*2, e-1
	}
	s := (f - 1) / (f + 1)
	square := float64(s * s)
	sum, power := 0.0, s
	for n := 1; n <= 21; n += 2 {
		sum += power / float64(n)
		power = float64(power * square)
	}
	return float64(float64(e)*ln2) + float64(2*sum)
}

// exp returns e to the power of x: a power of two, and the exponential series
// for what is left.
func exp(x float64) float64 {
	k := math.Floor(x/ln2 + 0.5)
	rest := x - float64(k*ln2)
	sum, term := 1.0, 1.0
	for n := 1; n <= 16; n++ {
		term = float64(term * rest / float64(n))
		sum += term
	}
	return math.Ldexp(sum, int(k))
}

// percent returns true in p of 100 cases. Nothing is drawn if there are none.
func percent(r *prng.Source, p float64) bool { return p > 0 && unit(r)*100 <= p }
