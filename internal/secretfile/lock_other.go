//go:build !unix || solaris || aix || illumos

package secretfile

import (
	"os"
	"time"
)

// lockDirectory does nothing here: two changes at the same time may lose one of them.
func lockDirectory(string, time.Duration) (unlock func(), err error) { return func() {}, nil }

// inherit gives a file the mode of another one.
func inherit(f *os.File, from os.FileInfo) error { return f.Chmod(from.Mode().Perm()) }
