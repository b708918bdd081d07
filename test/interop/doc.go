// Command interop exchanges mail between the daemon and other mail software, and
// accounts for every message. The script run starts it, in namespaces of its own
// in which the other programs are to be found.
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
//   - to users that do not exist at Postfix and Exim; the reports about them go
//     back through these servers to our receiver, where Python's email package
//     reads them.
//
// A case is good if each recipient got each letter exactly once, with its body
// unchanged to the octet, and nobody else got anything.
package main
