// Package debts paces the reports that senders are owed. Each report is a message of its
// own, so a flood of failures becomes a flood of mail, nearly always to a few
// hosts: those of the senders. Without a limit such a flood fills the core twice,
// with messages that wait for their report to be made, and with reports that wait
// for a slow host; all other mail would then wait for room.
//
// So reports are asked for only while few messages are in core on their account ([Book.May]).
// A message whose turn does not come leaves the core: its outcomes are durable,
// and what it owes is part of them. If nothing else is left to do for it, its ID is
// kept in a line ([Book.Park]), and it is opened again when its turn comes. If some
// recipient will be tried again, the report is made at the next attempt. A core
// that is started anew finds all of them in the spool.
//
// A slow host must not keep the reports for all other senders waiting, either, so one
// report is made every 20 ms however many wait for delivery.
package debts
