// Package verify compares the scheduler with recordings of another one:
// Postfix's queue manager, which the core is to equal decision for decision
// when everything that goes beyond it is switched off.
//
// It is a host of the core in which nothing is left to chance: what the core
// asks of the spool or the router is answered on the spot, and deliveries start
// and end when the recording says so. It does no I/O: files are read by the
// command "posthaste verify" and by the tests.
//
// There are three kinds of recordings.
//
// # Golden vectors
//
// Directives, and the answers of Postfix's scheduler functions, which were
// driven one by one with a clock of their own: every decision, and every counter
// wherever a dump was asked for. See Golden and the table of directives.
//
//	set NAME VALUE    a parameter as in main.cf
//	var NAME VALUE    a global variable of the recorded program
//	now T, now +N     the clock; what is due on the way happens at its own second
//	msg ID RCPT…      a message arrives; the last label of a domain is the transport
//	msgn ID N DOM…    one with N recipients, who go round the domains
//	sel T             an agent of transport T is ready: what does it get?
//	done N HOW        delivery N ends: ok, soft, site or crash
//	xsel              which transport gets the next agent?
//	pend T N          so many agents of T are on their way
//	dump              every counter; see qmgr.Dump
//
// # Sequences
//
// One line each: parameters and the sizes of some messages, and the order in
// which a single agent delivers them. See Sequences.
//
// # Decision traces
//
// JSON files with what a running Postfix did in a controlled situation, together
// with the events to which it was the reaction. See Oracle.
package verify
