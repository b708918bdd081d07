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
//     verified, just before anything is said about the message. If it cannot be read
//     to its end after that, its end is not sent.
//
// A recipient that was not tried, for no fault of its own, is mail.Untried: the
// connection was lost before its turn, or the server takes no more in this
// transaction or session. When the end of a content was written and its reply did
// not come, the outcome is Unknown.
//
// # What a server does not take
//
// Content with octets above 127 is announced by BODY=8BITMIME, whether its sender has
// declared them or not; for a server without 8BITMIME its parts become
// quoted-printable. Lines of more than 998 octets are broken. Package smtp/downgrade
// says how, and what is not converted.
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
// # Addresses that are never dialled
//
// The DNS is other people's data: a domain's MX may point at this machine, its
// neighbours or a cloud's metadata service. Addresses that are not public are
// left out by Client.Hosts unless the nexthop was written by the operator (listed in
// Config.Trusted, or in brackets in a way in which no recipient's address leads
// there), the relay is a fallback relay, or the transport permits private hosts.
package outbound
