// Package textmap reads maps from text files: what to put in place of an address.
//
// # Procedure
//
// [Read] reads a file in the format of postmap(1), a key and a value in each line, and
// [ReadExpressions] one in the format of regexp_table(5), with regular expressions as RE2 has
// them. Both report all mistakes of a file at once, with their lines. The caller opens the
// file, and says which values are right.
//
// A [Map] of keys is one block of text and a table of hashes into it, so that a million lines
// take their own size and 20 MB more, and a garbage collector sees a handful of pointers.
package textmap
