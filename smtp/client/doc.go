// Package client is the sending side of an SMTP session without a socket:
// transactions go in and octets come out; octets go in and results come out.
// It does no I/O and reads no clock, so that one goroutine, a simulator or a
// fuzzer can drive it alike.
//
// # Procedure
//
// A host makes a Session for a connection it has opened, and then repeats:
//
//  1. take finished transactions from Next;
//  2. while there is Room and something to be sent, Start a transaction; if
//     the session is Idle and there is nothing to be sent, put it aside, Probe,
//     or Quit;
//  3. if Wanting names a transaction, Supply the next piece of its content, or
//     Withhold it if it cannot be had, and go to 2;
//  4. write what Out returns, and tell with Written how much of it was; if it
//     was anything, go to 1;
//  5. if Over, close the connection;
//  6. read, for as long as Wait's kind allows, and Feed what was read; or say
//     with End that the connection is lost or the time is up. Every kind of Wait
//     has a time but WaitNothing, in which only the host can make something happen.
//
// The order of 2 and 3 is what pipelines: a transaction that was started before
// the last piece of content of the one before it was supplied goes out in the
// same write as that. One that is started later goes out at once as well; it
// only takes a write of its own. A host whose pieces of content are in one
// buffer has to write between supplying one and filling the buffer with the
// next, that is to say, go from 3 to 4.
//
// Where the octets are cut between calls of Feed never matters; the state
// depends on the octets alone. What does matter is when the host calls Next:
// a reply that no command asked for throws doubt on refusals in a group before it
// as long as their transaction has not been taken.
//
// # Two goroutines
//
// A host may read in one goroutine and write in another, with a lock around
// the session that is held neither while reading nor while writing. At level
// Stream it should, since the server may stop reading while its replies are
// not read; at the other levels GroupMax keeps that from happening, except
// that the content of a message should not be more than the buffers of a
// connection take. Replies may be fed between Out and Written. A positive final
// reply that comes then counts once Written tells that the content was written
// to its end. When the reader finds the connection gone it should let the
// writer fail and tell Written how far it came, and only then call End: until
// then all that Out returned may have been written, so that more messages are
// in doubt than need be.
//
// # Replies
//
// A reply belongs to a command because of its place in the order, never
// because of its text or code (RFC 2920 3.1). The session keeps a first-in
// first-out list of slots, one for each command that is unanswered, with its
// kind, its transaction and its recipient. Each transaction has its own state;
// it is done as soon as its final reply was read, whatever else is unanswered.
//
// # Levels
//
//	LockStep  MAIL ← RCPT ← DATA ← content ←
//	Group     MAIL RCPT… DATA ← content ←
//	Overlap   MAIL RCPT… DATA ← content MAIL RCPT… DATA ← content …
//	Stream    RSET MAIL RCPT… BDAT content RSET MAIL RCPT… BDAT content … ←
//
// At level LockStep each command waits for the reply before it. At level Group
// MAIL, all RCPTs and DATA go out together (RFC 2920), as long as not more
// than GroupMax octets of commands are unanswered. At level Overlap a group
// begins with the content that the one before it has led to: one round trip
// for a message, and like at the levels below at most one message whose
// outcome is unknown if the connection is lost. The first transaction of a
// session is always written as at level Group.
//
// At level Stream small messages do not wait for anything, so that up to
// Config.InFlight of them may become doubtful at once. BDAT is written before
// it is known whether there is a recipient; a server that then takes the
// content for commands (there were some) would let the author of a message
// send others, so this level is for servers that were configured or probed.
// What the server then refuses it must not add to what it accepted before,
// and since some do (an envelope whose content was refused is left open, and
// the next MAIL gets 503), every MAIL is fenced with RSET.
//
// # Call-outs
//
// A transaction may only ask whether recipients would be taken (Callout). It is
// written as any other is at levels up to Overlap, with RSET in the place of DATA,
// so that its envelope never stays open. Nothing is written behind it until that is
// answered, and who was accepted is not believed to be before: a reply too many or
// too few shows there. The fence in front of its MAIL is that of any other.
//
// # When something is wrong
//
// A server that does not keep to the protocol is left: Over becomes true and
// Failure says why, and whether to speak to the server at a lower level next
// time. Every recipient of a transaction that was under way still gets exactly
// one Verdict:
//
//   - by the replies that were read, if these decide it. A final reply that was read
//     in full always does, whatever comes behind it;
//   - Doubtful, if the content was written to its end but the final reply is
//     not known: the server may have the message or not;
//   - Deferred, with the reason as a reply, if the transaction is the oldest,
//     so that the reason may lie in it;
//   - Again otherwise, since surely nothing was sent and it is not the
//     recipient's fault: the transaction was waiting behind another one; the
//     session had been used before and was gone before the first reply; the
//     server fell out of step with a group of commands; or it wants the
//     remaining recipients in a transaction of their own.
//
// 421 is the end of the session. If messages were streamed, the session only stops
// writing, and reads what the server says to the rest until it is gone: some say 421
// and go on.
//
// If MAIL was refused and yet a RCPT or DATA behind it was accepted, the server
// has attached our recipients to an older transaction. Then neither content nor
// a lone dot is sent, since both would be taken as that transaction's message
// (seen with Exim and Postfix when an envelope was left open). For the same
// reason an envelope that was left open is closed with RSET at the head of the
// next group. At level Stream the content may have been written already. Then
// nothing more is written, the replies that are missing are read, and messages
// that were taken under another envelope are marked (see Transaction.Astray).
package client
