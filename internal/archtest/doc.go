// Package archtest keeps the architecture: its one test reads the whole tree
// and complains, with file and line and what to do, about
//
//   - imports that rules.txt does not allow: of our own packages, of the
//     standard library, of other modules;
//   - syntax that has no place in the pure half: goroutines, channels, recover,
//     the clock, package variables that change, iteration in map order,
//     floating-point products that a compiler may fuse into sums;
//   - structs of the core with more fields than a reader can keep in mind;
//   - names that say nothing, marks of unfinished work, tests that sleep;
//   - packages and exported names without a comment, documents with broken
//     links, or that name files or tests that do not exist, packages that
//     ARCHITECTURE.md does not name, a README that is too long.
//
// The pure half is what decides: it must be a function of its inputs, the same
// on every machine, or no trace of it could be replayed. rules.txt says which
// packages these are. A range over a map that gives the same result in every
// order says so, and why, on its line or the one above it:
//
//	for id := range q.live { //archtest:anyorder counted only
//
// # Procedure
//
// Load parses every Go file outside of testdata, whatever its build tags. Check
// runs every check over that tree. The pure packages are type-checked, with
// the compiler's export data for what they import; type errors are ignored,
// since the compiler reports them better.
package archtest
