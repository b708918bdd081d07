package chart

import (
	"fmt"
	"math"
	"time"
)

// A scale maps values from low to high to places from..to, in equal steps or in
// equal factors.
type scale struct {
	low, high float64
	from, to  float64
	log       bool
}

func (s scale) at(v float64) float64 {
	v = min(max(v, s.low), s.high)
	part := 0.0
	switch {
	case s.high <= s.low:
	case s.log:
		part = math.Log(v/s.low) / math.Log(s.high/s.low)
	default:
		part = (v - s.low) / (s.high - s.low)
	}
	return s.from + part*(s.to-s.from)
}

// ticks are round values of an even scale, about count of them.
func (s scale) ticks(count int) []float64 {
	raw := (s.high - s.low) / float64(count)
	if raw <= 0 {
		return nil
	}
	step := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, factor := range [...]float64{1, 2, 5, 10} {
		if step*factor >= raw {
			step *= factor
			break
		}
	}
	var out []float64
	for i := math.Ceil(s.low / step); i*step <= s.high*(1+1e-9); i++ {
		out = append(out, i*step)
	}
	return out
}

// timeTicks are round times of an even scale in seconds, about count of them.
func (s scale) timeTicks(count int) []float64 {
	raw := (s.high - s.low) / float64(count)
	steps := [...]float64{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600,
		7200, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 2 * 86400, 5 * 86400, 10 * 86400}
	step := steps[len(steps)-1]
	for _, candidate := range steps {
		if candidate >= raw {
			step = candidate
			break
		}
	}
	var out []float64
	for i := math.Ceil(s.low / step); i*step <= s.high*(1+1e-9); i++ {
		out = append(out, i*step)
	}
	return out
}

// logTicks are the times between low and high that people use, as many as have
// room.
func (s scale) logTicks() []float64 {
	const room = 48 // pixels for one label
	var out []float64
	last := math.Inf(-1)
	for _, v := range [...]float64{1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300,
		600, 1200, 1800, 3600, 7200, 4 * 3600, 8 * 3600, 86400, 2 * 86400, 5 * 86400} {
		if at := s.at(v); v >= s.low && v <= s.high && at-last >= room {
			out, last = append(out, v), at
		}
	}
	return out
}

// seconds writes a time for an axis.
func seconds(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 1e-3:
		return fmt.Sprintf("%gµs", math.Round(v*1e9)/1e3)
	case v < 1:
		return fmt.Sprintf("%gms", math.Round(v*1e6)/1e3)
	case v < 120:
		return fmt.Sprintf("%gs", math.Round(v*1e3)/1e3)
	case v < 7200:
		return fmt.Sprintf("%gm", math.Round(v/60*10)/10)
	case v < 3*86400:
		return fmt.Sprintf("%gh", math.Round(v/3600*10)/10)
	}
	return fmt.Sprintf("%gd", math.Round(v/86400*10)/10)
}

func inSeconds(d time.Duration) float64 { return d.Seconds() }
