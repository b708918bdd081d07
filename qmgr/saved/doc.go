// Package saved has what the core knows, and wants to know again after a restart, in the form in which it is saved.
//
// Hosts, warm-ups, measures and operators' orders are in tables of packages of their own (destdb, warmup, measure), which know
// nothing of each other. A host of the core saves all of them in one place, as pairs of a key and a value that it
// does not understand (mail.HostRecord). A [Feed] returns what has changed in any of the tables, and [Read] divides what was saved
// among them. What cannot be read is skipped: it is worth no more than a connection, or one day of a warm-up.
package saved
