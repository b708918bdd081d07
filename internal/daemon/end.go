package daemon

import (
	"os"
)

// exitDisk is the exit code when the queue's disk fails: EX_IOERR of sysexits(3).
const exitDisk = 74

// end ends the process at once, but for its log.
func (o *Options) end(code int) {
	if o.LastWords != nil {
		o.LastWords()
	}
	os.Exit(code)
}

// atPanic is to be deferred by goroutines whose panic is the end of the program:
// what is in the log is written out first.
func (o *Options) atPanic() {
	if bug := recover(); bug != nil {
		if o.LastWords != nil {
			o.LastWords()
		}
		panic(bug)
	}
}
