//go:build !unix || solaris || aix || illumos

package users

import "os"

// lockDirectory does nothing here: two changes at the same time may lose one of them.
func lockDirectory(string) (unlock func(), err error) { return func() {}, nil }

// inherit gives a file the mode of another one.
func inherit(f *os.File, from os.FileInfo) error { return f.Chmod(from.Mode().Perm()) }
