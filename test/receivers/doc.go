//go:build unix

// Command receivers shows what bad receivers cost the mail of others: it runs the real
// program with its default configuration against receivers that are hostile, dead or
// unreliable, and holds what good mail then gets against budgets.
//
// The procedure, one part after the other, each trial on a queue of its own:
//
//   - hostile: receivers take some messages as good ones do, so that they are given
//     many connections, and then stall at one stage of every session (sink.Rogue). Six
//     of them at a time; then twenty messages are submitted for a healthy destination.
//   - slow: the same with receivers that take a minute for the end of each message,
//     and so never time out.
//   - crowd: all kinds of hostile receivers at once; then again, while each is a busy
//     server that is well until some instant within ten seconds.
//   - dead: one message to very many domains, found by DNS, of whose hosts half refuse
//     connections and half never answer. While it is tried, and again when it is flushed,
//     one message goes to a healthy host that has rested since its last one, and one to
//     a host that was never spoken to.
//   - flood: very many messages to a hundred such hosts, submitted as fast as they are
//     taken, and then all tried again by an order, beside a stream of good mail.
//   - cuts: a receiver of 20 connections that closes some of them in the middle of
//     transactions, and the same one without cuts, for comparison.
//
// Hosts that never answer are listening sockets on loopback addresses whose queue of
// connections is full: the kernel drops what comes for them, as a firewall does.
//
// The table at the end has a line for each figure; a missed budget makes the exit
// status 1.
package main
