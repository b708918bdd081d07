// Package prng is a small seeded random number generator whose numbers are
// the same on every machine and in every release.
//
// It is xoshiro256++ (Blackman and Vigna 2019), its state filled from the seed
// by SplitMix64 as its authors advise. The standard library's generators are
// as good, but their derived methods (IntN, Shuffle) are not promised to stay
// the same, and a recorded trace must replay forever. It is not for secrets.
package prng
