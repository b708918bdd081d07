//go:build !unix

package secretfile

import "os"

// ofOurGroup reports whether a file belongs to a group of this process.
func ofOurGroup(os.FileInfo) bool { return false }

// trusted leaves it to the system who may own a file.
func trusted(os.FileInfo) bool { return true }
