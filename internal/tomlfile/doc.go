// Package tomlfile reads a TOML file as a tree in which every key and value
// knows where it stands, and collects what is wrong with it.
//
// A user who writes a file by hand wants all mistakes reported at once, each with
// the line it is in. So reading has three steps, each of which records its
// complaints with the File and goes on:
//
//   - Parse makes the tree, and goes on behind syntax errors.
//   - The caller walks the tree, takes the values it knows and complains, by
//     Complain, of those that are wrong or unknown.
//   - CheckWhole, if nothing is wrong so far, applies the rest of TOML's rules.
//
// Problems then returns everything in the order of the file, as an error that
// prints well. Nothing here knows what a key means.
//
// A File is used by one goroutine at a time.
package tomlfile
