// Package mail defines the values that every other package shares: message
// identities, envelopes, recipients, routes, replies, outcomes and instants.
//
// It has values only. Nothing here reads a clock, does I/O, takes a lock or
// starts a goroutine, and every other package may import it. The terms are
// those of docs/glossary.md; a term with a meaning in an RFC has that
// meaning, and the section is cited.
package mail
