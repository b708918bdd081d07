// Command crash kills the daemon at random moments, with kill -9, and then
// accounts for every message.
//
// The procedure. Receivers (receivers.go) take mail for eight domains and for
// the sender, with delays and with faults: refusals for now and for good, lost
// connections, lost replies. Clients (load.go) submit messages all the time,
// over many connections: small and large ones, with one and with hundreds of
// recipients, some that must be refused, and some that they break off. Each
// round starts the daemon (daemon.go) and kills it after a random time, now and
// then while it is still starting; in a few it is asked to stop instead, which
// excuses no second delivery. After the last round the receivers stop
// making trouble, the daemon works off what is left, and the ledger (ledger.go)
// must balance:
//
//   - accepted, that is 250 was read: every recipient got the message whole, or
//     the sender got a report about the recipient;
//   - refused, or broken off before its end: no recipient ever got it;
//   - unknown, that is lost between the end of the content and the reply: all
//     recipients got it, or none;
//   - twice: only if the outcome of the first delivery was unknown to the daemon,
//     because its reply was lost on the way, or because the daemon was killed so
//     shortly afterwards that it cannot have been written down. How shortly is
//     the flag -window; the table shows how close the kills really were, which
//     is what the disk takes for a sync.
//
// This tests the program, not the disk: the operating system goes on running,
// so data that was written but not synced survives. What a loss of power does
// to the spool is tested in the package spool, with a file system that forgets.
package main
