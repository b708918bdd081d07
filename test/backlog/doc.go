// Command backlog shows what large numbers cost: it runs the real program, gives it a
// backlog of a million messages, a message with a million recipients and
// thousands of idle connections, and holds what it measures against budgets.
//
// The procedure, one part after the other, each on a queue of its own:
//
//   - backlog: submit messages for a destination that refuses connections,
//     watch memory while they pile up and processor time when they rest; kill
//     the program, start it again and wait for its first answers; kill it once
//     more, wait until a message is due, and see how soon after a start it is
//     tried; then deliver everything and count.
//   - recipients: submit one message with very many recipients through the
//     submission socket, deliver it and count; the same through the sendmail
//     command.
//   - idle: open connections that do nothing.
//   - bounces: submit messages for a destination that refuses connections, let it
//     refuse all recipients instead, and send other mail at a fixed rate until
//     every sender has been told; once with a senders' host that takes reports at
//     once, and once with a slow one.
//   - sender: one sender submits a million recipients, as messages of 1,000 recipients
//     and as four large ones, to 50 destinations; another sender submits single messages
//     to one of these. It runs only if -parts names it: its latencies need a machine
//     without other work.
//   - waiting: one sender's messages, many more than there is room for in core, wait for
//     a destination that takes 50 ms for each, 400 a second; another sender submits single
//     messages to the same destination and to another; again after a kill and a start. It
//     runs only if -parts names it.
//   - suspended: submit messages of which half are for a domain that an operator has
//     suspended, and half for a destination that refuses connections; kill the program,
//     start it again, resume the domain, and see how long it takes until its last message
//     has gone, while another sender submits single messages. It runs only if -parts
//     names it.
//
// Counting is exact: every message and every recipient must arrive once. The
// table at the end has a line for each figure; a missed budget makes the exit
// status 1.
package main
