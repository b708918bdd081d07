// Package courier keeps the counts of package tlsrpt from one run to the next, and sends the
// reports on them when their day is over (RFC 8460).
//
// # One day
//
// Sessions are counted in memory, by UTC day. The counts are written to one file, which is
// replaced as a whole every ten minutes and at the end: what a crash loses is ten minutes of
// counts, which no mail depends on. (The queue's store was the alternative. Its records are
// 4 KB, and these are rewritten all day.) Each line has a checksum; a damaged one costs the counts
// of one domain on one day.
//
// After the end of a day the courier waits for a part of Config.Spread that depends on the day and the
// host's name, so that not all senders report at midnight (RFC 8460 4.1), and so that a restart does
// not begin to wait anew. Then it asks the DNS where each domain wants its reports, and sends
// them: by mail, which it composes and gives to Config.Mail, and by HTTPS. What fails is
// tried again, from five minutes to an hour apart, for 24 hours; then the log says that the report is
// dropped.
//
// # Not twice
//
// Before a report goes to a destination, a line that says so is appended to the file and synced. A
// process that dies in between sends that report to that destination never, rather than
// twice; what replaces the file meanwhile has the line, too. What has failed is open again with the next replacement of the file. Reports also have the
// same ID whenever they are made.
//
// # What others choose
//
// The owner of a domain chooses the web server. Connections are made only to addresses that
// the program's own resolver found and Config.Permit allows; no proxy, redirect or cookie is
// used, a response is read up to its header, and all of it has a time limit. Of a domain's destinations
// ten are used.
package courier
