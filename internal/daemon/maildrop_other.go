//go:build !unix

package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
)

// maildropUnsupported says what to do where files have no owners that could be believed.
func maildropUnsupported() error {
	return fmt.Errorf("a maildrop is not supported on this operating system; set maildrop = \"off\": %w", errors.ErrUnsupported)
}

func openDropped(string) (*os.File, error) { return nil, maildropUnsupported() }

func ownerOf(fs.FileInfo) (user uint32, only bool) { return 0, false }

func socketPair() (a, b net.Conn, err error) { return nil, nil, maildropUnsupported() }
