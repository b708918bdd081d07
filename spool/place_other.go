//go:build !unix

package spool

import "github.com/cockroachdb/pebble/v2/vfs"

// identify identifies no file: a directory that is in use cannot be moved away here.
func identify(vfs.FileInfo) (id fileID, names uint64, ok bool) { return fileID{}, 0, false }
