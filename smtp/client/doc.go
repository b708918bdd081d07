// Package client is the sending side of an SMTP session without a socket:
// transactions go in and octets come out; octets go in and results come out.
// It does no I/O and reads no clock, so that one goroutine, a simulator or a
// fuzzer can drive it in the same way.
//
// # Procedure
//
// A host creates a Session for a connection that it has opened, and then repeats
// these steps:
//
//  1. take finished transactions from Next;
//  2. while there is Room and mail to send, Start a transaction; if the session
//     is Idle and there is no mail to send, keep it for later, Probe, or Quit;
//  3. if Wanting returns a transaction, Supply the next piece of its content, or
//     Withhold it if the content is not available, and go to 2;
//  4. write what Out returns, and report with Written how much was written; if
//     there was any output, go to 1;
//  5. if Over, close the connection;
//  6. read, for at most the time allowed for the kind of Wait, and Feed the input;
//     or call End if the connection was lost or the time has passed. Every kind of
//     Wait has a time limit except WaitNothing, where the session waits for the
//     host.
//
// The order of 2 and 3 is what pipelines: a transaction that is started before
// the last piece of the previous content is supplied is sent in the same write
// as that piece. A transaction started later is sent at once as well, but in a
// write of its own. A host with a single buffer for content must write each
// piece before it fills the buffer with the next, that is, go from 3 to 4.
//
// How the input is split between calls of Feed makes no difference; the state
// depends on the octets alone. The moment of a call of Next does matter: a reply
// that no command asked for makes earlier refusals in a group uncertain as long
// as their transaction has not been taken with Next.
//
// # Two goroutines
//
// A host may read in one goroutine and write in another, with a lock around
// the session that is not held while reading or writing. At level Stream it
// should, because the server may stop reading while its replies are not read.
// At the other levels GroupMax prevents that, provided that the content of a
// message fits into the buffers of the connection. Replies may be fed between
// Out and Written. A positive final reply that arrives then counts once Written
// reports that all of the content was written. A reader that finds the connection
// lost should let the writer fail and report its progress with Written before it
// calls End. Otherwise all that Out returned may have been written, and more
// messages are in doubt than necessary.
//
// # Replies
//
// A reply belongs to a command because of its position in the order, never
// because of its text or code (RFC 2920 3.1). The session keeps a first-in
// first-out list of slots, one for each unanswered command, with its kind, its
// transaction and its recipient. Each transaction has its own state; it is done
// as soon as its final reply is read, whatever else is unanswered.
//
// # Levels
//
//	LockStep  MAIL ← RCPT ← DATA ← content ←
//	Group     MAIL RCPT… DATA ← content ←
//	Overlap   MAIL RCPT… DATA ← content MAIL RCPT… DATA ← content …
//	Stream    RSET MAIL RCPT… BDAT content RSET MAIL RCPT… BDAT content … ←
//
// At level LockStep each command waits for the reply to the previous one. At level
// Group MAIL, all RCPTs and DATA are sent together (RFC 2920), as long as no more
// than GroupMax octets of commands are unanswered. At level Overlap a group begins
// with the content of the previous message: one round trip per message, and, as at
// the lower levels, at most one message whose outcome is unknown if the connection
// is lost. The first transaction of a session is always written as at level Group.
//
// At level Stream small messages wait for no reply, so up to Config.InFlight of
// them may become doubtful at once. BDAT is written before it is known whether any
// recipient was accepted. A server that then interprets the content as commands
// (there were some) would let the author of a message send others, so this level
// is for servers that were configured or probed. Content that the server refuses
// must not be added to an envelope that it accepted before. Some servers do this
// (they leave an envelope whose content was refused open, and answer the next MAIL
// with 503), so every MAIL is preceded by RSET as a fence.
//
// # LMTP
//
// LMTP (RFC 2033) differs in this: the client says LHLO, and the server replies to the
// content once for each recipient that it has accepted, in their order. Each recipient
// is settled by its own reply. One that refuses comes before the end of the content, too,
// which then goes on for the others. If the session ends before all of them have come, those that
// are missing are Doubtful; 421 in the place of one settles that one. Replies are counted,
// so a server that sends too few would have the reply to the next MAIL taken for a
// delivery. Therefore nothing is written behind a content to several recipients until the
// server was seen to send all replies to one.
//
// # Call-outs
//
// A transaction may only ask whether recipients would be accepted (Callout). It
// is written like any other at levels up to Overlap, with RSET in place of DATA,
// so that its envelope never stays open. Nothing is written after that RSET until
// it is answered, and acceptances count only then: a surplus or missing reply is
// noticed there. The fence before its MAIL is the same as for other transactions.
//
// # Errors
//
// A server that violates the protocol is abandoned: Over becomes true, and Failure
// returns the reason and whether to use a lower level with this server next time.
// Every recipient of a transaction that was under way still gets exactly one
// Verdict:
//
//   - by the replies that were read, if they decide it. A final reply that was read
//     in full always does, whatever follows it;
//   - Doubtful, if all of the content was written but the final reply is not known:
//     the server may or may not have the message;
//   - Deferred, with the reason as a reply, if the transaction is the oldest,
//     so that it may be the cause;
//   - Again otherwise, because the message was certainly not sent and the recipient
//     is not the cause: the transaction was waiting for an earlier one; the
//     session had been used before and was lost before the first reply; the
//     server lost step with a group of commands; or it wants the remaining
//     recipients in a separate transaction.
//
// 421 ends the session. If messages were streamed, the session stops writing but
// reads the replies to the others until the server closes: some servers send 421
// and continue.
//
// If MAIL was refused and yet a following RCPT or DATA was accepted, the server
// has added our recipients to an older transaction. Then neither content nor
// a lone dot is sent, because both would be taken as that transaction's message
// (seen with Exim and Postfix when an envelope was left open). For the same
// reason an envelope that was left open is closed with RSET at the start of the
// next group. At level Stream the content may already have been written. Then
// nothing more is written, the missing replies are read, and messages that were
// accepted under another envelope are marked (see Transaction.Astray).
package client
