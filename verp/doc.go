// Package verp puts a recipient into the envelope sender of the message that goes to him,
// and gets him out again (variable envelope return path). A report that comes back to such
// an address says by its envelope alone who it is about, even if nothing in it can be
// understood:
//
//	sender bounces@shop.example, recipient jane@example.net:
//	bounces+jane=example.net@shop.example
//
// The form is Postfix's (VERP_README), which other programs read, too: the sender's local part,
// a first delimiter, the recipient's local part, a second delimiter in place of the "@", and
// the recipient's domain.
//
// # Sending
//
// Whether a message is sent with such senders is part of its envelope (mail.VERP), set by its client or by
// Rules. The envelope keeps its own sender; Sender encodes the recipient where a transaction begins.
//
// # Tags
//
// Anybody can write such an address. A Codec with secrets adds a tag, a keyed hash of the
// sender and the recipient, between the first delimiter and another one like it:
//
//	bounces+mzxw6ytb+jane=example.net@shop.example
//
// Then only those to whom mail was sent from it, and those who handled that mail, know an
// address that is read. It says nothing of who sends the report, and never expires, since
// reports may come after weeks. List software that reads the addresses itself does not
// know tags, so there are none without secrets.
//
// # Length
//
// RFC 5321 4.5.3.1.1 lets a server refuse local parts of more than 64 octets. Nearly all take them,
// and Postfix does not look, so Encode writes longer ones up to the limit of a path.
package verp
