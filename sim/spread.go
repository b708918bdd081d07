package sim

import (
	"time"

	"github.com/posthaste-mta/posthaste/internal/prng"
)

// A Spread is a distribution of times. The zero Spread is always 0.
type Spread struct {
	shape shape
	a, b  time.Duration
	sigma float64
}

type shape uint8

const (
	shapeFixed       shape = iota // a
	shapeUniform                  // from a to b
	shapeExponential              // mean a, at most b
	shapeLogNormal                // median a, at most b
)

// tail bounds the distributions that have no end by themselves: so many times
// the mean, or the median. A time of years would end a run by itself.
const tail = 1000

// Fixed is always d.
func Fixed(d time.Duration) Spread { return Spread{a: d} }

// Uniform is anything from low to high, both included.
func Uniform(low, high time.Duration) Spread {
	return Spread{shape: shapeUniform, a: low, b: max(low, high)}
}

// Exponential is the time until something that happens at any moment with the
// same probability.
func Exponential(mean time.Duration) Spread {
	return Spread{shape: shapeExponential, a: mean, b: tail * mean}
}

// LogNormal is the usual shape of response times: as often below the median as
// above it, and now and then far above. sigma is the standard deviation of the
// logarithm: 0.5 is moderate, 1.5 is wild.
func LogNormal(median time.Duration, sigma float64) Spread {
	return Spread{shape: shapeLogNormal, a: median, b: tail * median, sigma: sigma}
}

// IsZero reports whether the time is always 0.
func (s Spread) IsZero() bool { return s.a == 0 && s.b == 0 }

// draw returns one time.
func (s Spread) draw(r *prng.Source) time.Duration {
	switch s.shape {
	case shapeUniform:
		return r.Between(s.a, s.b)
	case shapeExponential:
		return min(s.b, time.Duration(float64(s.a)*-ln(unit(r))))
	case shapeLogNormal:
		return min(s.b, time.Duration(float64(s.a)*exp(s.sigma*normal(r))))
	}
	return s.a
}

// drawSum returns the sum of n times.
func (s Spread) drawSum(r *prng.Source, n int) time.Duration {
	if s.shape == shapeFixed {
		return time.Duration(n) * s.a
	}
	var sum time.Duration
	for range n {
		sum += s.draw(r)
	}
	return sum
}
