// Package config turns one TOML file into the Config of every other package.
//
// # Procedure
//
//  1. [Parse] has internal/tomlfile read the file into a tree whose nodes know
//     their positions. After a syntax error, reading continues at the next line
//     that begins a new key or table.
//  2. Every key is looked up in one table of parameters (sections.go,
//     transport.go and destination.go), which reads its value, checks its range
//     and stores it in a [Config]. The same table provides the defaults, the
//     reference ([Reference], docs/config.md), the example file ([Example]), and
//     the output of [Config.Show] and [Diff].
//  3. Combinations of values are checked (check.go); finally each package
//     validates the configuration that it would get.
//  4. All mistakes are reported at once, in [tomlfile.Problems]: the position, the
//     mistake, the allowed values, and what was probably meant.
//  5. The methods [Config.Spool], [Config.Driver], [Config.Inbound] and so on
//     return the configurations of the packages (packages.go).
//
// # What overrides what
//
// A parameter of [transport.NAME] overrides the top-level parameter that gives
// its default, for this transport alone; one of [destination.NAME] overrides
// that of the transport, for these receivers alone. Nothing else overrides
// anything: there are no includes, no references between parameters, and no
// environment variables.
//
// # Why not the library's decoder
//
// It stops at the first value of a wrong type, so an administrator would have to
// fix a file one mistake at a time, and it does not report the position of a
// value that is well-formed but wrong.
package config
