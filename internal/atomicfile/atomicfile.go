// Package atomicfile replaces files so that a crash leaves either the old contents or the new ones.
package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
)

// Replace gives a file new contents, whole and durable. It makes the file if there is none; the new
// one has mode 0600 and belongs to this process, unless prepare, if not nil, changes that before
// anything is written. Symbolic links are not followed: a link is replaced, not what it points to.
//
// The new contents are first in a file of another name in the same directory, which begins with a
// dot. An error removes that file; only a crash leaves it behind.
//
// Of two calls at the same time the later one wins, and neither harms the other.
func Replace(path string, contents []byte, prepare func(*os.File) error) error {
	fresh, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	if prepare != nil {
		err = prepare(fresh)
	}
	if err == nil {
		_, err = fresh.Write(contents)
	}
	if err == nil {
		err = fresh.Sync()
	}
	if err = errors.Join(err, fresh.Close()); err == nil {
		err = os.Rename(fresh.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(fresh.Name()))
	}
	return SyncDirectory(filepath.Dir(path))
}

// SyncDirectory makes durable which files a directory has.
func SyncDirectory(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
