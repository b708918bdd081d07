// Package feedback reads what comes back about mail that was sent: delivery status notifications
// (DSN, RFC 3464 and RFC 6533) and complaints of readers (ARF, RFC 5965), and counts it.
//
// # What is understood
//
//   - Delivery status notifications, by package dsn, wherever they are in a message: gateways and
//     lists put text around them.
//   - Feedback reports, also those of failed authentication (RFC 6591), and the older form of one
//     large receiver, which returns the message with a field that names the recipient.
//   - Automatic replies (RFC 3834), as far as that they are such.
//
// All else is not understood, and says so (ErrUnknown): a bounce in words of its own is
// for people, because programs that guess at such words are wrong too often.
//
// # Who it is about
//
// A report may say it in several places, of which receivers change or hide some (RFC 6590). The
// best is the address that the report came to, or that the message had as its sender, if a
// recipient was put into it (package verp): no host on the way rewrites that. Next come the
// recipient as the sender gave it, and the recipient as the receiver knew him.
//
// # Trust
//
// Anybody can write a report. So reports are counted and shown, and change nothing in the
// queue: no recipient is refused and no destination is slowed because of one.
//
// # Bounds
//
// A message of any content takes memory in proportion to its length, which the caller limits, and
// time likewise: the depth of parts, their number, and those of fields and recipients are
// bounded. A Book has bounded memory.
package feedback
