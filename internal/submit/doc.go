// Package submit hands a message to the local server, as the sendmail command
// does for programs that know no SMTP.
//
// # Procedure
//
// [Compose] reads a message and makes it fit to be sent: lines end in CRLF,
// Bcc is gone, From, Date and Message-ID are there. If asked, it takes the
// recipients from the header. Message and recipients are kept in memory up to
// a bound and in unnamed temporary files beyond it, so neither a message of
// gigabytes nor a million recipients takes more than a few megabytes. Nothing
// is sent before the input has been read to its end: a program that dies
// halfway sends nothing.
//
// [Send] speaks SMTP over a connection to the server. It asks for what the message
// needs (8BITMIME, SMTPUTF8, DSN), writes RCPTs in groups where the server allows
// that, and splits the recipients among several transactions if they are more than
// the server takes in one. Nothing is sent unless every recipient of a transaction
// is accepted, so that a caller who gets a failure may simply try again; only
// between transactions can a failure come too late for that, and the [Refusal] then
// says how many were served.
package submit
