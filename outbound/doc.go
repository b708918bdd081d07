// Package outbound delivers mail by SMTP: it resolves a nexthop, dials its
// hosts, runs smtp/client sessions over the connections, and keeps the
// connections for the next delivery. It also has the agents that deliver
// without a connection: Discard, Error and Retry.
//
// # Procedure
//
// One Client serves all SMTP transports, each with its own TransportConfig; an
// Agents value sends each delivery to the Client or another agent by the name
// of its transport. Client.Deliver runs in the caller's goroutine:
//
//  1. A session that lies idle for the same transport and nexthop is used at
//     once, beginning with MAIL; neither look-up nor RSET comes before it.
//  2. Else the nexthop's hosts are looked up and tried tier by tier, in random
//     order inside a tier. An idle session to the same address is used before
//     a new connection is made.
//  3. A recipient that is delivered or refused for good is settled. One that is
//     refused for now goes to the next host. MXAddressLimit bounds the
//     connections that are tried, MXSessionLimit the sessions that came as far
//     as a transaction.
//  4. After the last host the FallbackRelays are tried in the same way.
//  5. What is left then is deferred with the last reply about it.
//
// The result's Site is set if the last host to be tried could not be reached,
// greeted or held, no session of this delivery ran a transaction to its end,
// and some recipient is deferred: what Postfix reports to its queue manager
// as a failure of the site. Refusals of a message or a recipient are not.
//
// # Idle sessions
//
// A server may close an idle connection at any time. A session that turns out
// to be gone before the first reply of a transaction costs nothing but the
// attempt: the recipients go to the next idle session or to a new connection,
// and nothing is counted against the host.
//
// # Addresses that are never dialled
//
// The DNS is other people's data: a domain's MX may point at this machine, its
// neighbours or a cloud's metadata service. Addresses that are not public are
// left out unless the nexthop was written by the operator (in brackets, or listed
// in Config.Trusted), the relay is a fallback relay, or the transport permits
// private hosts.
//
// # Goroutines
//
// Deliver works in the caller's goroutine. There are two others: one that ends
// idle sessions when their time has come, which exists only while there are
// any, and one that reads while a large message is being written, so that a
// server can refuse it midway and neither end can block the other. Messages of
// one piece (64 KiB) are written without it, since they fit into the buffers of
// a connection.
package outbound
