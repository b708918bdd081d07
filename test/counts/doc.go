// Command counts kills the daemon at random moments, with kill -9, while quotas on the
// queue are in force, and compares what is counted for them with what is in the spool.
//
// The procedure. Clients submit messages of some hundred senders, seven tenants and two
// classes; the receiver defers half of them, and refuses some for good, so that they are
// tried again, bounce and expire after seconds. Operators hold, release, drop and return
// messages, and single recipients of messages, all the time. Each round starts the daemon,
// reloads it a few times with quotas of other kinds or none, and kills it after a random
// time, now and then while it still starts; in some it is asked to stop instead. Then the
// spool is opened by this program. The counts of each class, tenant and flow must be what
// its messages add up to, and be there at once: messages are counted again only where the
// kill came in the middle of a counting or before it.
//
// With -full, something else uses up all space of the file system of the queue and gives it
// back, again and again. That needs a small file system; the script run makes one.
package main
