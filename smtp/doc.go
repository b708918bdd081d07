// Package smtp is the wire grammar of SMTP: commands and their arguments,
// paths, parameters, replies, and the two encodings of content (dot-stuffed
// after DATA, counted after BDAT). It contains no sessions, which are in its
// subpackages client and server, and no sockets.
//
// A receiver reads a line, splits off the verb with [ParseCommand], and parses
// the argument with [ParseMail], [ParseRcpt] or [ParseChunk]. An error in a
// line is a [Fault], an enum whose Reply method returns the server's answer.
// Content passes through an [Unstuffer] (DATA only), a [HeaderScan] and a
// [LineScan]. Their findings are a set of [Flaw] bits, collected until the end
// of the content so that the verdict does not depend on how the network split
// it.
//
// Unless its comment says otherwise, nothing here keeps a reference to a slice
// argument. No value may be used by several goroutines at once.
package smtp
