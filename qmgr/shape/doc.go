// Package shape says which limits hold for a destination where they are not
// those of its transport: a receiver's published rules, a server of one's own
// that bears more, a slow one that bears less.
//
// An operator names receivers by what is known of them: their domains, the
// names of their MX hosts, or their addresses. A Table is compiled from all
// that was written; Lookup finds what holds for mail to some hosts.
//
// # What matches
//
// A domain pattern is compared with the nexthop: "example.com" is that domain,
// ".example.com" all domains below it. Of a nexthop that is a host, the host's
// name counts, without brackets and port.
//
// An MX pattern is compared with the names of the hosts, and matches if one of
// them does: "mx.example.net" is that host, ".example.net" all hosts below that
// domain, and in "mx*.example.net" the star is any run of characters, dots
// included. Behind the last star there must be at least one whole label.
//
// A network matches if it has the address of one of the hosts.
//
// That one host is enough errs on the side of limits that hold. It follows that
// what is a matter of one host, such as the level of pipelining that it bears,
// must be looked up for that host alone; each field of Limits says which of the
// two it is.
//
// # What wins
//
// Each limit comes from the most specific destination that sets it: one that
// matches by a domain, then by the longest ".domain", by the name of an MX
// host, by the MX pattern with the most characters, by the longest prefix. What
// is as specific comes in the order of the names. A limit that none of them
// sets is the transport's.
//
// # Cost
//
// A look-up takes a step for each label of the nexthop, and for each host a
// step for each label of its name, one for each pattern with a star under the
// same domain, and one for each different length of prefixes in use. How many
// destinations there are does not matter.
package shape
