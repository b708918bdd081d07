// Package shape determines the limits of a destination that differ from those of
// its transport: a receiver's published rules, an internal server that supports
// more, a slow one that supports less.
//
// An operator names receivers by their domains, the names of their MX hosts, or
// their addresses. A Table is compiled from the configuration; Lookup finds the
// limits for mail to some hosts.
//
// # What matches
//
// A domain pattern is compared with the nexthop: "example.com" is that domain,
// ".example.com" all domains below it. If the nexthop is a host, the host's name
// counts, without brackets and port.
//
// An MX pattern is compared with the names of the hosts, and matches if one of them
// does: "mx.example.net" is that host, ".example.net" all hosts below that domain,
// and in "mx*.example.net" the star is any run of characters, dots included. After
// the last star there must be at least one whole label.
//
// A network matches if it contains the address of one of the hosts.
//
// That one matching host is enough errs on the side of respecting limits. It
// follows that a property of one host, such as the level of pipelining that it
// supports, must be looked up for that host alone; each field of Limits says which
// of the two it is.
//
// # What wins
//
// Each limit comes from the most specific destination that sets it: one that
// matches by a domain, then by the longest ".domain", by the name of an MX host, by
// the MX pattern with the most characters, by the longest prefix. Equally specific
// ones are in the order of their names. A limit that none of them sets is the
// transport's.
//
// # Cost
//
// A lookup takes a step for each label of the nexthop, and for each host a step for
// each label of its name, one for each pattern with a star under the same domain,
// and one for each distinct prefix length in use. The number of destinations does
// not matter.
package shape
