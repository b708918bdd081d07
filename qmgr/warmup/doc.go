// Package warmup limits how many messages a new source address sends to each site on a
// day, and raises the limit from day to day while the site takes the mail well.
//
// Receivers judge by address. One that they have never seen, and that sends much at once,
// looks like a hijacked machine: its mail is deferred, refused or put with the spam.
// docs/warmup.md has what large senders publish about it, the reasons for the shipped
// plans, and the orders and settings for operators.
//
// # The rules
//
// A plan is a list of allowances: how many messages may be sent to one site on the plan's
// first day, on its second, and so on. A day is a UTC day, for every site and on every
// machine: receivers do not publish when their day begins, and one without daylight
// saving time always has 24 hours. A message is a transaction, however many recipients it
// has.
//
// A site is Warming from its first message on. Each message that is started counts
// (Take), and one that turns out not to have been attempted is given back (Give). When the
// allowance is used up the source is passed over for the site until the next day.
//
// The first use on a later day judges the last one on which anything was sent (Record.judge):
//
//  1. Deferred: more than Limits.DeferralPercent of the recipients with a reply were
//     deferred, and at least Limits.Failures. The day is bad; the site stays at its day of
//     the plan. After Limits.BadDays bad days in a row it goes back by one.
//  2. Bounced: likewise for permanent refusals.
//  3. Unused: fewer messages than Limits.UsedPercent of the allowance were delivered (that
//     is, accepted for at least one recipient). The site stays: receivers judge what they
//     see, not what we would have been allowed to send.
//  4. Otherwise it advances by one day of the plan. Behind the last it is Warm, and has no
//     limit.
//
// Days on which nothing was sent are not judged: who sends a newsletter on Tuesdays
// advances on Tuesdays. If nothing was sent for more than Limits.IdleDays days, warm or
// not, the site begins again, since receivers have forgotten the address.
//
// A share alone would let one bounce of two messages stop a plan, so at least Failures
// recipients must have failed. A minimum of samples instead would be blind where it
// matters: with a plan of 10 a day, ten bounces of ten would be too few to count.
//
// # What is kept
//
// One Record for each source and site, of about 250 bytes. A source has at most
// Config.SiteLimit; if one more is needed, the site that was not used for the longest time
// is forgotten. That is safe: to be forgotten means to begin again with the smallest
// allowance. A site that was used today is never forgotten, or it would get the day's
// allowance twice; if all were, further sites have to use other sources (Full). Nor is
// one that an operator has paused.
//
// Records are saved as they change (Changed, AppendKey, AppendRecord) and read at the start
// (Load). What was taken since the last save is lost in a crash, so the excess of a day is
// at most what was started within one interval of saves, for each crash.
//
// Nothing here depends on anything but the calls. A day never goes back: if the clock does,
// the day that was reached goes on.
package warmup
