//go:build unix && !solaris && !aix && !illumos

package secretfile

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lockPause is the time between attempts to lock.
const lockPause = 20 * time.Millisecond

// lockDirectory keeps other changes in a directory waiting. The lock is on the directory,
// since the file is replaced, and ends with the process. Any user who can read the directory can
// lock it, so lockDirectory does not wait forever.
func lockDirectory(dir string, wait time.Duration) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(wait); ; time.Sleep(lockPause) {
		err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if errors.Is(err, syscall.EWOULDBLOCK) && time.Now().Before(end) {
			continue
		}
		d.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("another program has locked it for %s: end that program, which fuser or lsof names", wait)
		}
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
