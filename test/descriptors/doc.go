// Command descriptors shows that the program lives within its limit of file
// descriptors: it runs the real program with a small limit, and more clients at
// once than that has room for, each with a message that takes a file of its own.
//
// The procedure, for each limit, on a queue of its own: start the program with
// the limit; have every client connect at the same moment and send its message,
// again and again for as long as it is turned away; wait until the receiver has
// what was accepted; stop the program.
//
// The program must be alive at the end, every message must have been accepted in
// the end, and have been delivered once, and the log may not have errors.
package main
