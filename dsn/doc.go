// Package dsn composes and parses delivery status notifications: the reports
// by which a mail system tells a sender what became of a message (RFC 3464,
// in the container of RFC 6522, on the terms of RFC 3461, and in the
// international form of RFC 6533).
//
// A Report says what happened, to whom; an Original is what is given back of
// the message. Composing goes like this:
//
//  1. RecipientOf turns each mail.RecipientOutcome into a Recipient.
//  2. ReadOriginal reads as much of the message as may be returned. It never
//     holds more than its limit.
//  3. Needs says what the report asks of the transport, for its envelope.
//  4. Composer.Compose writes the report: a text for people, the same in
//     fields for programs, and the Original.
//
// Parse goes the other way. For every Report r and Original o, composing and
// then parsing gives r.Clean() and o.Clean(): Clean is the one place that
// decides what a report can say, and everything that a sender or a remote
// server chose goes through it before it is written. That is why no reply,
// address or parameter can add a header field, end a part or break a line
// limit.
//
// Header fields are written here and not with a library because two rules of
// this format are the format's own: a reply of several lines is folded at its
// line ends (RFC 3461 9.2), and no other fold may look like one.
//
// Nothing in this package reads a clock or does I/O beyond the reader or
// writer that it is given; values may be shared between goroutines as long as
// nobody changes them.
package dsn
