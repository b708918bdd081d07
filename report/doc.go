// Package report makes the reports that are owed to senders: it implements the
// driver's Reporter port with package dsn and a spool.
//
// A message's debts are the recipients whose outcome has a Report. They are
// paid as follows:
//
//  1. The debts are read page by page and collected in three groups: failures,
//     delays and successes, so that a sender who filters mail can distinguish
//     them by the subject. Delivered and relayed recipients share a report,
//     because RFC 3464 2.3 gives every recipient its own action.
//  2. A group that is full, and in the end every group that is not empty,
//     becomes a message: null sender, one recipient, NOTIFY=NEVER
//     (RFC 3461 6.1). Its commit and the clearing of the debts that it pays
//     are one step, so that each recipient is reported exactly once whenever
//     the process stops.
//     A message with VERP senders (package verp) has one for each failed recipient, which
//     goes to the recipient's VERP sender.
//  3. Debts that must not be reported are cleared without a report.
//
// No report is sent about mail that itself has the null sender (RFC 5321 4.5.5).
// Its debts are cleared; if Config.DoubleBounceTo is set, a copy of the
// message goes there, again with the null sender. If that copy fails it is not
// copied again, so this cannot loop.
//
// Memory is bounded by Config.RecipientsMax and Config.ReturnMax, whatever the
// message: 100,000 recipients make 20 reports of 5,000.
package report
