// Package inbound takes mail in by SMTP: it listens, runs one session of
// smtp/server for each connection, and hands messages to a [Sink].
//
// The procedure. [Server.Serve] accepts connections and admits them
// (admission.go: limits for all, per address and per prefix). Each connection
// has one goroutine, which steps its session and does what that asks for
// (connection.go): it reads and writes, asks the [Policy] about recipients,
// waits at the [Gate] before a message is begun, and moves recipients and
// content into a [Draft]. The reply to the end of content is written after
// Draft.Commit returned. How long a client may take for what is decided in
// patience.go.
//
// Memory. A connection without input or output in hand holds no buffers
// (input.go); with its goroutine it takes a few KiB. What a client can make
// the server hold is one input buffer, one output buffer, and a bounded list
// of recipients seen.
//
// Back-pressure. Whatever is slow, be it Gate, Sink or the client's own
// reading of replies, the connection does not read on meanwhile, so that TCP
// slows the client down. Nothing is queued in between.
//
// End. When Serve's context ends, listeners close, idle clients are told 421
// 4.3.2, content that is in transfer is taken to its end within Config.Grace,
// and what remains is cut off. Nothing for which a 250 was written is lost by
// any of this, because that is written after the commit only.
package inbound
