// Package server is the server's side of an SMTP session without a socket, a
// clock or a disk: octets from the client go in, replies come out, and
// whatever has to be done in the world is a request to the host.
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
//		case *server.Rejected:  // a fact for the log
//		case *server.Early:     // likewise
//		case *server.Close:     // write out, hang up, stop
//		}
//	}
//
// Rules for the host:
//
//  1. Begin, Recipient, Content and Commit are answered once, before the next
//     Step. A zero reply means "done"; any other is sent to the client, and
//     the session draws the conclusions. A refused Commit leaves no draft.
//  2. Every draft that was begun ends in exactly one Commit or Abort request.
//     A client that is gone is announced with Interrupt, after which Step
//     returns what is left to do, and Close at the end.
//  3. Requests are valid until the next Step; Content's octets are a part of
//     the in that Step was given.
//  4. Step appends to out and looks at nothing in it. It asks for Flush once
//     out has [FlushSize] octets, so that a host that then writes it never
//     holds more than that and one reply. Until then replies are batched; Read
//     is asked for only when in holds nothing more to work on, which is when
//     RFC 2920 3.2 wants them to be sent.
//  5. The host need not read on while it is busy with a request: that is the
//     back-pressure on a client that pipelines.
//
// How the octets are cut into calls of Step makes no difference to replies
// and requests, except for the pieces in which content comes, and for the
// detection of input sent too early, which depends on it by nature.
//
// Transactions. A MAIL opens a draft, RCPT adds to it, content (by DATA or
// BDAT) is checked while it streams through, and the end of content commits.
// An empty transaction, one without an accepted recipient, does not survive a
// further MAIL, whatever becomes of that: so no recipient can ever be attached
// to another message's sender. The octets of a refused BDAT are read and
// thrown away, and the refusal ends the transaction.
package server
