package record

import (
	"fmt"
	"io"
	"os"
)

// File returns what opens a file for New. Only its owner may read it, since it
// names senders and recipients. A file of that name is kept as path.old: it is the
// trace of the run before, which may have ended in a crash, after which the daemon
// was started again before anybody looked.
func File(path string) func() (io.WriteCloser, error) {
	return func() (io.WriteCloser, error) {
		info, err := os.Lstat(path)
		if err == nil && info.Mode().IsRegular() {
			if err := os.Rename(path, path+".old"); err != nil {
				return nil, fmt.Errorf("keep the trace of the run before: %w", err)
			}
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
		if err != nil {
			return nil, err
		}
		return f, nil
	}
}
