// Package measure has what tests of the whole program share that hold what they
// measure against budgets: a table of figures, receivers, and a stream of good mail
// whose latency shows what other mail costs it.
package measure
