// Package report makes the reports that senders are owed: it implements the
// driver's Reporter port with package dsn and a spool.
//
// A message's debts are the recipients whose outcome has a Report. They are
// paid like this:
//
//  1. The debts are read page by page and gathered in three groups: failures,
//     delays and successes. A sender who filters mail can so tell bad news from
//     good by the subject; delivered and relayed recipients share a report,
//     since RFC 3464 2.3 lets every recipient have an action of its own.
//  2. A group that is full, and in the end every group that is not empty,
//     becomes a message: null sender, one recipient, NOTIFY=NEVER
//     (RFC 3461 6.1). Its commit and the clearing of the debts that it pays
//     are one step, so that each recipient is reported exactly once whenever
//     the process stops.
//  3. Debts about which nothing may be said are cleared without a report.
//
// About mail that has the null sender itself nobody is told (RFC 5321 4.5.5).
// Its debts are cleared; if Config.DoubleBounceTo is set, a copy of the
// message goes there, with the null sender again. A copy that fails there is
// not copied again, so this cannot loop.
//
// Memory is bounded by Config.RecipientsMax and Config.ReturnMax, whatever the
// message: 100,000 recipients make 20 reports of 5,000.
package report
