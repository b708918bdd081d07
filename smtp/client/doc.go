// Package client is the sending side of an SMTP session without a socket:
// transactions go in and octets come out; octets go in and results come out.
// It does no I/O and reads no clock, so that one goroutine, a simulator or a
// fuzzer can drive it alike.
//
// # Procedure
//
// A host makes a Session for a connection it has opened, and then repeats:
//
//  1. write what Out returns, and say so with Written;
//  2. if Wanting names a transaction, Supply the next piece of its content,
//     and go to 1;
//  3. take finished transactions from Next;
//  4. if Over, close the connection;
//  5. if Idle, Start a transaction, or Quit, and go to 1; or put the session
//     aside;
//  6. read, for as long as Wait's kind allows, and Feed what was read; or say
//     with End that the connection is lost or the time is up.
//
// Where the octets are cut between calls of Feed never matters; the state
// depends on the octets alone. What does matter is when the host calls Next:
// octets that no command asked for throw doubt on a final reply before them
// as long as its transaction has not been taken.
//
// # Replies
//
// A reply belongs to a command because of its place in the order, never
// because of its text or code (RFC 2920 3.1). The session keeps a first-in
// first-out list of slots, one for each command that is unanswered, with its
// kind, its transaction and its recipient. Each transaction has its own state,
// and nothing in the list says that there is only one: pipelining the content
// of one message with the envelope of the next needs further slots in the
// list, and no other shape.
//
// # Groups
//
// At level LockStep each command waits for the reply before it. At level Group
// MAIL, all RCPTs and DATA go out together (RFC 2920), as long as not more
// than GroupMax octets of commands are unanswered, so that neither side can
// block on a full connection while the other does.
//
// # When something is wrong
//
// A server that does not keep to the protocol is left at once: Over becomes
// true and Failure says why. Every recipient of a transaction that was under
// way still gets exactly one Verdict:
//
//   - Again, if surely nothing was sent, and it is not the recipient's fault:
//     the connection had been idle and was gone before the first reply; the
//     server fell out of step with a group of commands; or the server wants
//     the remaining recipients in a transaction of their own;
//   - Doubtful, if the content was sent to its end but the final reply is not
//     known: the server may have the message or not;
//   - Deferred otherwise, with the reason as a reply.
//
// If MAIL was refused and yet a RCPT or DATA behind it was accepted, the server
// has attached our recipients to an older transaction. Then neither content nor
// a lone dot is sent, since both would be taken as that transaction's message
// (seen with Exim and Postfix when an envelope was left open). For the same
// reason an envelope that was left open is closed with RSET at the head of the
// next group.
package client
