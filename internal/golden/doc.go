// Package golden runs test scripts: text files of commands, each block of
// them followed by the answer that was recorded for it.
//
//	# A comment says the situation, and why it matters.
//	arrive m1 to=10*distinct
//	arrive m2 to=2*distinct
//	----
//	0s fetch incoming 3
//
//	run lanes=1 print=sequence
//	----
//	1 1 2 2 1 1
//
// A block is one or more command lines, a line of four hyphens, and the
// answer, which ends at an empty line. An answer that has empty lines of its
// own is set between two pairs of such hyphen lines. Lines that begin with
// "#" are comments outside of answers.
//
// A command line is a name, then words, each a bare word or key=value; a
// value with spaces is written as a Go string, key="a b". A key that the
// handler does not look at fails the test, so that a misspelt option cannot
// go unnoticed.
//
// UPDATE=1 in the environment makes Run write the answers that it got into the
// file instead of comparing them. Read the difference before committing it: a
// script records what the program does, which is not always what it should do.
package golden
