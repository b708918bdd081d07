// Package mail holds the nouns that every other package shares: message
// identities, envelopes, recipients, routes, replies, outcomes and instants.
//
// It has values only. Nothing here reads a clock, does I/O, takes a lock or
// starts a goroutine, and every other package may import it. The words are
// those of docs/glossary.md; where a word has a meaning in an RFC, that
// meaning is used and the section is cited.
package mail
