// Package sched is the scheduler: it decides whose mail is delivered next. It is
// Patrik Rak's design for Postfix (SCHEDULER_README), with the same decisions and the
// same counters, and with indexes where Postfix walks along lists.
//
// # Structures
//
// A [Lane] has the mail of one flow in one transport. A [Message] has a [Job] in each
// lane that is to carry some of it; a job has a [Peer] for each [Destination]; a peer has
// entries, each a batch of recipients for one transaction. An [Entry] waits, is busy,
// and ends. How many entries of a destination may be busy is none of the scheduler's
// business: the destination's [Outlet] says how much room there is.
//
// # Selection
//
// Jobs stand on the lane's list in the order in which their messages were admitted. A
// [Selection] takes the current job, or one that may go before it; within a job the
// destinations take turns. A job none of whose destinations has room is blocked, and is
// passed by until one of them has; a job that has nothing left to select is retired,
// and listed again when more of its recipients have been read.
//
// # Preemption
//
// For every k entries of a job that are selected (slot_cost) it earns one delivery slot,
// with which a job behind it may go first by one entry. A job that needs no more delivery
// slots than have been earned goes first; of several, the one that has waited longest for
// each of its entries. So mail with few
// recipients slips past mail with many, and the latter takes at most k/(k-1) times as
// long as it would alone, whatever is preempted by what.
//
// # Memory
//
// Most recipients of a large message stay in the spool. A recipient slot is the right to
// have one of them in core. A lane has a pool of recipient slots, its part of its
// transport's (package flows); the first job, by age, whose message has unread recipients
// gets all that are free, and passes on what it does not need.
//
// # One place for consequences
//
// What follows from the state of jobs and destinations (which have room, which jobs are
// blocked or must be looked at, how candidates are ordered) is not kept up to date by
// the code that changes that state. A change only marks a job or a destination as stale, and
// [Lane.Refresh] draws the consequences before anything is selected. So a new kind of
// change cannot forget one of them: at worst it forgets to mark, and [Lane.Check] finds out.
//
// # Reading order
//
//	lane.go, message.go, job.go, peer.go, entry.go, destination.go   the structures
//	assignment.go, selection.go                                      in and out
//	blockers.go, preempt.go, candidate.go, pool.go                   the theory
//	order.go, ring.go, spares.go                                     the indexes, and structures for reuse
//	definition.go                                                    the same without indexes
//	scheduler.go, roundrobin.go, runner.go                           schedulers to compare with
//	view.go                                                          what operators see
//	check.go, dump.go, probe.go                                      for tests
//
// docs/scheduler.md explains the algorithms by examples.
package sched
