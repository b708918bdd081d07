// Command posthaste is all of Posthaste in one program: the daemon, what an
// operator does with it, and what other programs call to hand in mail.
//
// # Procedure
//
// main looks at the name it was called by. Under the name of a program that
// Posthaste stands in for (sendmail, mailq, postqueue, postsuper, qshape) it
// reads that program's options and calls one of its own commands; under any
// other name it is a tree of commands, listed in root.go, each in a file of
// its own. An error that reaches main knows its exit code (exit.go), as in
// sysexits(3).
//
// serve is the composition root: it alone knows all packages, makes their
// parts from the configuration and joins them by the adapters in ports.go. The
// queue commands know only the administration API (admin/client), so they
// work on a daemon of any size, and sendmail only the daemon's submission
// socket.
package main
