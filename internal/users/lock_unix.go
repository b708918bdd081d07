//go:build unix && !solaris && !aix && !illumos

package users

import (
	"os"
	"syscall"
)

// lockDirectory keeps other changes in a directory waiting. The lock is on the directory,
// since the file is replaced, and ends with the process.
func lockDirectory(dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX); err != nil {
		d.Close()
		return nil, err
	}
	return func() { d.Close() }, nil
}

// inherit gives a file the owner, group and mode of another one.
func inherit(f *os.File, from os.FileInfo) error {
	if s, ok := from.Sys().(*syscall.Stat_t); ok {
		if err := f.Chown(int(s.Uid), int(s.Gid)); err != nil {
			return err
		}
	}
	return f.Chmod(from.Mode().Perm())
}
