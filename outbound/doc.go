// Package outbound delivers mail by SMTP: it looks up the hosts of a nexthop,
// dials them, and runs smtp/client sessions over the connections. It also has the
// agents that deliver without a connection: Discard, Error and Retry.
//
// # Procedure
//
// One Client serves all SMTP transports, each with its own TransportConfig. Who
// decides which connection carries which message calls
//
//  1. Client.Hosts, which filters what the DNS says and adds the fallback relays;
//  2. Client.Dial, which connects to one host and says EHLO: a Conn;
//  3. Conn.Run, which carries what is sent to it until Hangup, or until the server
//     or the end of a context ends it. Transactions are begun in the order in which
//     they were sent, as many at once as the level of pipelining allows, and their
//     results are told in that order. The content of a message is opened, and so
//     verified, just before anything is said about the message.
//
// A recipient that was not tried, for no fault of its own, is mail.Untried: the
// connection was lost before its turn, or the server takes no more in this
// transaction or session. When the end of a content was written and its reply did
// not come, the outcome is Unknown.
//
// # The goroutine of a connection
//
// Run reads, and writes without waiting: the system takes what is written into its
// buffers at once, as a rule. What it does not take is written by a second
// goroutine, which lives until it is taken, while Run goes on reading. So a server
// that does not read before it could write cannot block a connection, nor can a
// refusal in the middle of a large message go unnoticed; and an idle connection is
// one goroutine and a buffer of 2 KiB. Who has something for a connection ends its
// read by setting the read deadline into the past. Replies that nothing asked for
// end the session, so that what a server says takes no more memory than one reply.
//
// # Deliver
//
// Client.Deliver decides on its own. An Agents value sends each delivery to the
// Client or another agent by the name of its transport. It runs in the caller's
// goroutine:
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
// # Goroutines of Deliver
//
// Deliver works in the caller's goroutine. There are two others: one that ends
// idle sessions when their time has come, which exists only while there are
// any, and one that reads while a large message is being written, so that a
// server can refuse it midway and neither end can block the other. Messages of
// one piece (64 KiB) are written without it, since they fit into the buffers of
// a connection.
package outbound
