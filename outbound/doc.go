// Package outbound delivers mail by SMTP: it looks up the hosts of a nexthop,
// dials them, and runs smtp/client sessions over the connections. It also has the
// agents that deliver without a connection: Discard, Error and Retry.
//
// # Procedure
//
// One Client serves all SMTP transports, each with its own TransportConfig. The
// caller decides which connection carries which message, and calls
//
//  1. Client.Hosts, which filters the hosts found in the DNS and adds the fallback
//     relays;
//  2. Client.Dial, which connects to one host and sends EHLO, and returns a Conn;
//  3. Conn.Run, which executes the transactions passed to Send until Hangup, or until
//     the server or the end of a context ends it. Transactions are begun in the order
//     of Send, as many at once as the level of pipelining allows, and their results
//     are reported in that order. The content of a message is opened, and so
//     verified, just before the server is sent anything about the message. If it
//     cannot be read completely after that, its end is not sent.
//
// A recipient that was not tried, through no fault of its own, is mail.Untried: the
// connection was lost before its turn, or the server accepts no more in this
// transaction or session. When the end of a content was written and its reply did
// not come, the outcome is Unknown.
//
// # Content that a server does not accept
//
// Content with octets above 127 is announced by BODY=8BITMIME, whether its sender has
// declared them or not; for a server without 8BITMIME its parts are converted to
// quoted-printable. Lines of more than 998 octets are broken. See package
// smtp/downgrade for details, and for what is not converted.
//
// # LMTP
//
// A transport may speak LMTP (RFC 2033) instead, for mailboxes: each recipient has an
// outcome of its own after the content, and those whose reply did not come are Unknown.
// A unix socket is a host like any other, with mail.SocketAddr for its address: so it has
// connections that are reused and pipelined, windows, limits and a state. Nothing
// about it depends on the network.
//
// # The goroutine of a connection
//
// Run reads, and writes without waiting: usually the system accepts all output into
// its buffers at once. The rest is written by a second goroutine, which exists only
// until the write is complete, while Run continues to read. So a server that does not
// read before it can write cannot block a connection, and a refusal in the middle of
// a large message does not go unnoticed; and an idle connection is one goroutine and
// a buffer of 2 KiB. Send and Hangup interrupt the read by setting the read deadline
// into the past. Unsolicited replies end the session, so a server's output takes no
// more memory than one reply.
//
// # Addresses that are never dialed
//
// The DNS is controlled by others: a domain's MX may point at this machine, its
// neighbors or a cloud's metadata service. Client.Hosts omits addresses that are not
// public unless the operator configured the nexthop (listed in Config.Trusted, or in
// brackets in a form that no recipient's address leads to), the relay is a fallback
// relay, or the transport permits private hosts.
package outbound
