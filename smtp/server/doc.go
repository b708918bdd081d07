// Package server is the server's side of an SMTP session without a socket, a
// clock or a disk: octets from the client go in, replies come out, and
// every effect outside the session is a request to the host.
//
// The procedure:
//
//	s := server.New(&config, peer)
//	for {
//		n, out, request := s.Step(in, out)   // in: what the client sent and Step has not yet taken
//		in = in[n:]
//		switch r := request.(type) {
//		case *server.Read:      // write out, then read more into in
//		case *server.Flush:     // write out
//		case *server.Pause:     // wait, then go on
//		case *server.Begin:     // open a draft; answer with Begun or Answer
//		case *server.Recipient: // add a recipient to it; Answer
//		case *server.Content:   // append octets to it; Answer
//		case *server.Commit:    // make it durable; Answer
//		case *server.Abort:     // forget it
//		case *server.StartTLS:  // is a handshake possible now? Answer
//		case *server.Handshake: // write out, forget in, TLS; answer with Encrypted or NotEncrypted
//		case *server.Identify:  // the client is another one; Identified or Answer
//		case *server.Authenticate: // AUTH; Challenge, Authenticated or Answer
//		case *server.Rejected:  // a fact for the log
//		case *server.Early:     // likewise
//		case *server.Close:     // write out, hang up, stop
//		}
//	}
//
// Rules for the host:
//
//  1. Begin, Recipient, Content, Commit, StartTLS, Handshake, Identify and Authenticate are answered once, before the next
//     Step. A zero reply means success; any other is sent to the client, and
//     the session changes its state accordingly. A refused Commit leaves no draft.
//  2. Every draft that was begun ends in exactly one Commit or Abort request.
//     If the client is gone, the host calls Interrupt, after which Step returns
//     the remaining requests, and Close at the end.
//  3. Requests are valid until the next Step; Content's octets are a part of
//     the argument in of Step.
//  4. Step appends to out and does not examine its contents. It asks for Flush
//     once out has [FlushSize] octets, so that a host that then writes it never
//     holds more than that and one reply. Until then replies are batched; Read
//     is returned only when in contains nothing more to process, which is when
//     RFC 2920 3.2 requires them to be sent.
//  5. The host need not read while it is busy with a request: that is the
//     back-pressure on a client that pipelines.
//  6. Input that a host has when Handshake is returned did not come by TLS. It must not
//     reach a later Step.
//
// How the octets are split between calls of Step makes no difference to replies
// and requests, except for the pieces in which content comes, and for the
// detection of input sent too early, which depends on it by nature.
//
// Transactions. MAIL opens a draft, RCPT adds to it, content (by DATA or BDAT) is
// checked while it streams through, and the end of content commits. A transaction
// without an accepted recipient ends at the next MAIL, whether or not that MAIL is
// accepted; so no recipient can ever be added to another message's sender. The
// octets of a refused BDAT are read and dropped, and the refusal ends the
// transaction.
package server
