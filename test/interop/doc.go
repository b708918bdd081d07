// Command interop exchanges mail between the daemon and other mail software, and
// accounts for every message. The script run starts it, in namespaces of its own
// that has the other programs.
//
// The procedure. One daemon runs all the time, and one receiver of ours
// (account.go), Postfix (postfix.go) and Exim (exim.go) beside it. A case
// (cases.go) sends letters, whose content and recipients are known (letter.go):
//
//   - from other programs into the daemon, which delivers them to our receiver:
//     swaks, curl, Python's smtplib, Postfix's smtp-source, Postfix and Exim as
//     relays, and our own sendmail command;
//   - from the daemon to other servers: Postfix and Exim, which pass them on to
//     our receiver, also with limits that make them answer 421 and 452 in the
//     middle of things, and Postfix's smtp-sink, also without pipelining and
//     without ESMTP;
//   - from the daemon into mailboxes: Dovecot by LMTP (dovecot.go), whose mailboxes are
//     the account;
//   - contents that such servers may not take as they are, through Postfix and Exim
//     without 8BITMIME and with other gaps in what they offer (samples.go); Python's
//     email package decodes what arrives;
//   - to users that do not exist at Postfix and Exim; the reports about them go
//     back through these servers to our receiver, where Python's email package
//     reads them;
//   - with VERP: the daemon and Postfix get the same mail with XVERP, and make the same
//     senders of it; and Postfix bounces mail of the daemon, which recognizes the recipients
//     (verp.go);
//   - to servers that refuse at random (refusals.go), at MAIL, RCPT, DATA and the
//     end of content, for now, for good, and by hanging up: Postfix, Exim, Sendmail,
//     OpenSMTPD and three versions of go-smtp, each spoken to at every level of
//     pipelining that it supports, over connections that last and over some that a
//     proxy (tap.go) cuts at any byte. The proxy also reports how transactions were
//     pipelined (wire.go).
//
// A case is good if each recipient got each letter exactly once, under its own
// envelope, which its body repeats, with that body unchanged to the octet, and no other
// recipient got anything. Where servers refuse, a recipient may instead be named in one
// report of failure, but only if the server has refused this very letter for good; and it
// may get the letter again, or not at all if it is held, as often as the log says that
// it cannot be known whether the server had taken it.
package main
