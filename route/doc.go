// Package route decides where a recipient goes, and which hosts serve the
// place it goes to. It is pure: it reads no file, asks no name server, knows
// no clock and draws no random number of its own.
//
// The way of a recipient has three steps.
//
//  1. A [Table], built once from configuration, maps the recipient's address to
//     a transport and a nexthop ([Table.Route]). Rules are looked up as in a
//     Postfix transport map: the exact address, the exact domain, the longest
//     ".suffix", then "*".
//  2. A nexthop is a text with a small grammar ([ParseNexthop]): a domain whose
//     MX records are to be looked up, a host or an address in brackets that is
//     used as it is, or a set of MX hosts that several domains share ([Site]).
//  3. For a domain, package resolve asks for the MX records and lets
//     [NewPlan] choose whose addresses are worth asking for, asks for these, and
//     lets [Plan.Tiers] arrange what it found in tiers of hosts, best first, or
//     say in a reply why there is no host (RFC 5321 5.1, RFC 7505).
//
// Domains are compared without regard to case, as A-labels (RFC 5890 2.3.2.1),
// and are lower-case ASCII wherever this package returns one.
package route
