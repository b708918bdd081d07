// Package maincf reads the files in which Postfix is configured: main.cf, master.cf and the
// texts of its maps. It says what is in them and not what that means here, which is for
// package migrate.
//
// # Procedure
//
//  1. [ParseMain] reads main.cf, or what postconf -n prints, which has the same form:
//     parameters with their lines. [Main.Expand] puts values in place of $name.
//  2. [ParseMaster] reads master.cf, or what postconf -M prints: services with their options.
//  3. [ParseTables] takes the value of a parameter apart into maps and other words, and
//     [ParseSource], [ParseExpressions] and [ParseNetworks] read the texts from which maps are
//     made.
//
// All mistakes of a text are reported at once, each with its line, and what is right is
// returned beside them: an administrator wants to know all that is lost. The texts may be
// anything: they are limited in size by their reader, and no line, value or expression of
// theirs takes more than time in proportion to the limits in this package.
package maincf
