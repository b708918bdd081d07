//go:build unix

package keyring

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Adopt gives a file or directory that root has made to the owner of the directory that it
// is in. Other users cannot give anything away, and own what they make.
func Adopt(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("the owner of " + filepath.Dir(path) + " is not known")
	}
	if err := os.Lchown(path, int(stat.Uid), int(stat.Gid)); err != nil {
		return fmt.Errorf("give the file to the owner of its directory: %w", err)
	}
	return nil
}
