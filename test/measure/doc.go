// Package measure has what tests of the whole program share: their main function, and
// for those that hold what they measure against budgets a table of figures, receivers,
// messages submitted over several connections, and a stream of good mail whose latency
// shows what other mail costs it.
package measure
