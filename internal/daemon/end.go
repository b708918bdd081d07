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

// atPanic must be deferred by goroutines whose panic ends the program: it writes out the
// log first.
func (o *Options) atPanic() {
	if bug := recover(); bug != nil {
		if o.LastWords != nil {
			o.LastWords()
		}
		panic(bug)
	}
}
