//go:build !linux

package submit

import "os"

// syncDrop syncs a file. Its name is synced by file systems that keep the order of changes.
func syncDrop(f *os.File) error { return f.Sync() }
