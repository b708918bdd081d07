// Package route decides the route of a recipient, and which hosts serve its
// nexthop. It is pure: it reads no file, queries no name server, reads no clock
// and draws no random numbers of its own.
//
// Routing a recipient has three steps.
//
//  1. A [Table], built once from configuration, maps the recipient's address to
//     a transport and a nexthop ([Table.Route]). Rules are looked up as in a
//     Postfix transport map: the exact address, the exact domain, the longest
//     ".suffix", then "*".
//  2. A nexthop is a text with a small grammar ([ParseNexthop]): a domain whose
//     MX records must be looked up, a host or an address in brackets that is
//     used as it is, or a set of MX hosts that several domains share ([Site]).
//  3. For a domain, package resolve looks up the MX records, lets [NewPlan] choose
//     the hosts whose addresses are needed, looks these up, and lets [Plan.Tiers]
//     arrange the results in tiers of hosts, best first, or return a reply with the
//     reason why there is no host (RFC 5321 5.1, RFC 7505).
//
// Domains are compared without regard to case, as A-labels (RFC 5890 2.3.2.1),
// and are lower-case ASCII wherever this package returns one.
package route
