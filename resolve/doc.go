// Package resolve finds the hosts that serve a nexthop by asking the DNS, and
// remembers the answers.
//
// The conclusions are package route's; this package gathers the facts. A look-up
// goes down through four layers, each of which may know the answer:
//
//  1. [Resolver.Hosts] keeps finished host sets, and verdicts, by nexthop. This
//     is all that a busy destination ever touches.
//  2. Questions (a name and a type) have a cache of their own, since many
//     domains name the same MX hosts. Equal questions that are under way at the
//     same time are asked once.
//  3. A question follows aliases, tries each server in turn, falls back from
//     EDNS to plain messages and from UDP to TCP.
//  4. An [Exchange] carries one message to one server and brings one back. Tests
//     put a zone in its place.
//
// Go's own resolver is no use here. It does not tell an absent name from absent
// records (one is a permanent failure, the other means that the domain itself
// is the host, RFC 5321 5.1), and it does not tell how long an answer lasts.
//
// When no server answers, answers whose time is over are used for a while
// longer (RFC 8767), so that a dead name server does not stop mail at once. Only
// answers that lead to hosts are: nothing is refused on the strength of an old
// one.
package resolve
