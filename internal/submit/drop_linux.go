package submit

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncDrop syncs a file and its name. Its directory cannot be opened, so its whole file system
// is synced; that takes longer, and happens only while no server runs.
func syncDrop(f *os.File) error {
	return errors.Join(f.Sync(), unix.Syncfs(int(f.Fd())))
}
