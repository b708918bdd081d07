// Package live samples the figures that people watch: once a second it asks the core and the spool
// what they hold, derives rates, and remembers the last minutes and hours.
//
// # Procedure
//
// The Sampler asks through the functions in its Config. The totals take the core microseconds, so they are
// taken each second. The views of destinations and flows take time in proportion to their number, so
// the pause after one is at least a hundred times what it took (costShare): with 100,000
// destinations in core they are taken every few seconds instead of each second. The core knows nothing
// of all this; it has counters, and a rate is the difference of two samples.
//
// # Memory
//
// Everything is bounded, whatever mail comes in: totals are kept in two rings (a second for 10
// minutes, ten seconds for 6 hours), 350 KB together. Each of at most 256 destinations has two rings for its window (a second
// for 5 minutes, ten seconds for 2 hours), 16 KB, and its last 64 moves, 14 KB. That is less than 8 MB for
// all. If there are more destinations, those that were seen longest ago are forgotten.
package live
