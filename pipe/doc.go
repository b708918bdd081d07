// Package pipe delivers mail to programs on this machine, as Postfix's pipe(8) does: the
// agent of transports of type pipe.
//
// # Procedure
//
// For each delivery the agent
//
//  1. opens the content, which is verified by that, and writes it as the program wants
//     it (line ends, header fields in front) to a file without a name;
//  2. starts the program, without a shell, in a process group of its own, with that file
//     as its standard input, an environment of a few variables, and no other open file;
//  3. reads what the program writes, of which it keeps the end, until the program ends
//     or its time is over, which ends the whole group and, on Linux, every process
//     that still has the variable that marks this start (killMarked);
//  4. translates the exit status to outcomes (status.go).
//
// # Why a file, and not a pipe
//
// If this process is killed, the system closes its end of a pipe, and the program takes
// that for the end of the message: half a message is delivered. A file is complete
// before the program starts. So no program ever gets a part of a message, nothing is
// written to a program that does not read, and a message that turns out to be damaged
// while it is read starts no program at all. The file is in Config.Dir and lives as long
// as the delivery; it takes disk space, not memory.
//
// # What is not known
//
// A program that is killed, because its time is over, because this process is ending, or by
// another process, may already have delivered the message. Its outcome is Unknown, and it is
// started again later. If this process is killed, the programs that it has started continue,
// and are started again for their messages after the next start.
package pipe
