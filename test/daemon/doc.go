// Package daemon runs the program under test for other tests: one process after
// the other on the same queue directory, each of which may be killed.
//
// It is not a simulation of anything: the processes are started with a
// configuration file, as an administrator starts them, and are asked over the
// sockets that they offer. Whatever a daemon says goes to one log, which Errors
// looks through.
package daemon
