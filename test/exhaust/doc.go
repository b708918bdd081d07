// Command exhaust shows that the program survives a queue directory in which no
// file can be made or nothing more can be written. It runs the real program on
// file systems of its own, takes away all inodes or all space in the middle of
// the load, and gives them back.
//
// The procedure, for each of the two: mount a file system with few inodes and
// little space, and start the program on it; have clients send messages, which stay
// in the queue because no server listens at their destination; use up what is left
// of the file system, again and again for some seconds, while the mail in the queue
// is tried again and again; free it; wait until every client has had its messages
// accepted; kill the program, start it again, and let a receiver take the mail.
//
// The program must stay alive, and take mail again soon after there is room. Every
// message that was accepted must be delivered, and the log may not have errors but
// the want of room.
//
// Then it starts the program again and again on a file system that is full but for a few
// pages. Each start must succeed, or end and say where there is no room; with room again,
// no message is missing.
//
// Seen failing: a version that could not make a new log without inodes died within
// a second; one that waited for room in a start, or flushed again forever, neither worked
// nor ended.
package main
