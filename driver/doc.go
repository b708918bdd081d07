// Package driver is the production host of the core: it connects qmgr to the
// spool, to the agents that deliver, and to the wall clock.
//
// One goroutine owns the core (Driver.Run). It takes events from an inbox, steps
// the core, and distributes the actions:
//
//   - deliveries, lookups and connections to a pool of goroutines, which the core's
//     limits bound;
//   - changes to a committer, which makes all that have gathered durable at
//     once;
//   - reads of the spool to a few readers, reports to a few reporters;
//   - records of hosts and measures to one goroutine, and suspensions to another, which
//     save them.
//
// Each of them puts its answer into the inbox. The driver is the only package that
// turns errors into events, and the only one that knows both the core and the ports
// to the spool, the resolver and the sessions.
package driver
