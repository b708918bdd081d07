// Package sim runs the production queue manager in virtual time: the host of
// package qmgr whose world is a model. Sites, disk, name servers and arrivals
// are data; a day of mail takes a minute, and one seed decides everything.
//
// # Procedure
//
// A Scenario says what the world is like, and which schedulers or parameters are
// compared in it. Simulate makes each Run of it in a world of its own, with the
// same arrivals, and measures how much was deferred, the rate and the delay of
// deliveries, and what the windows did.
//
// A world is an event heap around one core. What is due next, a wake of the
// core or an event of the model, moves the clock; the event is stepped into the
// core; each action that comes out is answered at once, or after the time that
// the model takes for it. There is no other order of things: no goroutine, no
// clock and no map decides, so that the same seed gives the same run on every
// machine. Package prng gives random numbers and this package's own logarithm
// and exponential shape them, since those of package math differ between
// architectures.
//
// While it runs, checkers watch events and actions. Each is a small type with one
// rule, such as that no recipient is delivered twice; what they find is in the
// report under their names. The model is the oracle of none of them beyond its
// configuration: it may be configured to lose a message (Sabotage), and then the
// checkers must find out.
package sim
