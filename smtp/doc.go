// Package smtp is the wire grammar of SMTP: commands and their arguments,
// paths, parameters, replies, and the two ways in which content travels
// (dot-stuffed behind DATA, counted behind BDAT). It knows nothing of
// sessions, which are in its subpackages client and server, and nothing of
// sockets.
//
// A receiver reads a line, cuts the verb off with [ParseCommand], and the
// argument with [ParseMail], [ParseRcpt] or [ParseChunk]. What is wrong with a
// line is a [Fault], an enum whose Reply is what a server answers. Content
// goes through an [Unstuffer] (DATA only), a [HeaderScan] and a [LineScan];
// what is wrong with it is a set of [Flaw] bits, collected to the end of the
// content so that the verdict does not depend on how the network cut it.
//
// Nothing here keeps a reference to a slice that it was given, unless the
// comment says so. Everything is for one goroutine at a time.
package smtp
