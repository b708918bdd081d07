// Package sink is an SMTP server that takes mail, throws it away and keeps
// account of it. It plays receivers for demonstrations and tests: good, slow,
// limited and faulty ones.
//
// The procedure. [Server.Serve] accepts connections on its listeners and turns
// away those beyond Config.ConnectionLimit with 421. Each connection has one
// goroutine, which runs a session of smtp/server, and answers its requests as
// Config says: late, not at all, or with a fault (fault.go). What is taken is
// told to Config.Taken before the client is, what is refused to
// Config.Refused, so that a test can account for every delivery.
//
// Of content only the header is looked at, for a field that names the message;
// what follows it is summed up, so that a test can report whether it came whole.
//
// Faults are drawn from a generator for each connection, seeded with
// Config.Seed and the connection's number; whether a recipient is refused for
// good depends on Config.Seed and the address alone, because a user who does
// not exist now does not exist at the next attempt either.
package sink
