// Package dsn composes and parses delivery status notifications: the reports
// that inform a sender of the outcome of a message (RFC 3464,
// in the container of RFC 6522, under the rules of RFC 3461, and in the
// international form of RFC 6533).
//
// A Report holds the outcomes of recipients; an Original is the part of the message
// that is returned. Composing takes these steps:
//
//  1. RecipientOf turns each mail.RecipientOutcome into a Recipient.
//  2. ReadOriginal reads as much of the message as may be returned. It never
//     holds more than its limit.
//  3. Needs returns the extensions that the report needs, for its envelope.
//  4. Composer.Compose writes the report: a human-readable text, the same
//     information in machine-readable fields, and the Original.
//
// Parse is the inverse. For every Report r and Original o, composing and then parsing
// yields r.Clean() and o.Clean(). Clean alone decides what a report can contain, and
// everything that a sender or a remote server chose passes through it before it is
// written. So no reply, address or parameter can add a header field, end a part or
// exceed a line limit.
//
// Header fields are written here and not with a library because two rules are
// specific to this format: a reply of several lines is folded at its line ends
// (RFC 3461 9.2), and no other fold may look like one.
//
// Nothing in this package reads a clock or does I/O except with its reader or writer
// arguments; values may be shared between goroutines as long as they are not
// modified.
package dsn
