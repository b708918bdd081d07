// Package config turns one TOML file into the Config of every other package.
//
// # Procedure
//
//  1. [Parse] has internal/tomlfile read the file into a tree whose nodes know
//     where they stand. Behind a syntax error that goes on at the next line that
//     begins something new.
//  2. Every key is looked up in one table of parameters (sections.go,
//     transport.go and destination.go), which reads its value, checks its range and puts it into a
//     [Config]. The same table gives the defaults, the reference
//     ([Reference], docs/config.md), the example file ([Example]), and the
//     answers of [Config.Show] and [Diff].
//  3. What values mean together is checked (check.go); at last each package
//     judges what it would get.
//  4. Everything that is wrong is reported at once, in [tomlfile.Problems]: where, what,
//     what would be right, and what was probably meant.
//  5. The methods [Config.Spool], [Config.Driver], [Config.Inbound] and so on
//     give the packages what is theirs (packages.go).
//
// # What overrides what
//
// A parameter of [transport.NAME] takes the place of the top-level parameter
// that gives its default, for this transport alone; one of [destination.NAME]
// that of the transport, for these receivers alone. Nothing else overrides
// anything: there are no includes, no references between parameters, no
// environment variables.
//
// # Why not the library's decoder
//
// It stops at the first value of a wrong type, so an administrator would mend a
// file in as many rounds as it has mistakes, and it cannot tell the place of a
// value that is well-formed and wrong.
package config
