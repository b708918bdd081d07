// Package inbound receives mail by SMTP: it listens, runs one session of
// smtp/server for each connection, and passes messages to a [Sink].
//
// Procedure. [Server.Serve] accepts connections and admits them (admission.go:
// limits for all, per address and per prefix). Each connection has one goroutine,
// which steps its session and carries out its requests (connection.go): it reads
// and writes, asks the [Policy] about recipients, waits at the [Gate] before a
// message begins, and moves recipients and content into a [Draft]. The reply to the
// end of content is written after Draft.Commit has returned. The time limits of
// clients are in patience.go.
//
// Memory. A connection without pending input or output holds no buffers (input.go);
// with its goroutine it uses a few KiB. A client can make the server hold at most
// one input buffer, one output buffer, and a bounded list of recipients seen.
//
// Back-pressure. While the Gate, the Sink or the client's own reading of replies is
// slow, the connection does not read on, so that TCP slows the client down. Nothing
// is queued in between.
//
// Shutdown. When Serve's context ends, listeners close, idle clients get 421 4.3.2,
// content in transfer may be completed within Config.Grace, and remaining
// connections are cut off. No message for which a 250 was written is lost by this,
// because the 250 is written only after the commit.
package inbound
