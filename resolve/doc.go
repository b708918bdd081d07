// Package resolve finds the hosts that serve a nexthop by querying the DNS, and
// caches the answers.
//
// The conclusions are drawn by package route; this package collects the facts. A
// lookup passes through four layers, each of which may have the answer:
//
//  1. [Resolver.Hosts] caches finished host sets, and verdicts, by nexthop. A busy
//     destination never needs more.
//  2. Questions (a name and a type) have a cache of their own, since many
//     domains name the same MX hosts. Equal questions under way at the same time
//     are asked once.
//  3. A question follows aliases, tries each server in turn, falls back from
//     EDNS to plain messages and from UDP to TCP.
//  4. An [Exchange] sends one message to one server and returns the answer. Tests
//     replace it with a zone.
//
// Go's own resolver is not suitable. It does not distinguish a name that does not
// exist from one without records (the first is a permanent failure, the second means
// that the domain itself is the host, RFC 5321 5.1), and it does not return TTLs.
//
// # DNSSEC
//
// This package does not validate signatures: that is the work of the name servers,
// which say so by the AD bit (RFC 4035 3.2.3). The bit is worth as much as the path to
// the server, so it is asked for and believed only if all servers are on loopback
// addresses or the operator vouches for them (Config.TrustAD). [Resolver.Find] says
// whether the hosts of a domain are secure, [Resolver.Addresses] whether the addresses of
// a host are, and [Resolver.TLSA] what a host demands of its certificate. What is bogus
// fails: validating servers answer with SERVFAIL.
//
// # Without an answer
//
// When no server answers, expired answers are used for a limited time (RFC 8767),
// so that a dead name server does not stop mail at once. This applies only to
// answers that lead to hosts: no mail is refused because of an expired one.
package resolve
