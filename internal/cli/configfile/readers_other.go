//go:build !unix

package configfile

import "io/fs"

// groupOf returns -1: files have no groups here.
func groupOf(fs.FileInfo) int { return -1 }
