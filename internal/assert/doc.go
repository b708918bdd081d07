// Package assert states what must be true, and stops the program where it is
// not.
//
// An assertion guards against a bug of ours, never against what a disk, a remote
// host or an operator may do: those give errors and events. A failed assertion
// panics with the values that broke it; the owner of a goroutine may turn that
// panic into an orderly end, but may not continue with a structure whose invariant
// is gone.
//
// Assertions stay on in production. A true one costs a comparison and about a
// nanosecond for each value, and never allocates, so hot paths may have them.
package assert
