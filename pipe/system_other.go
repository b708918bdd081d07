//go:build !unix

package pipe

import (
	"errors"
	"os/exec"
)

// An identity would be as which user and group a program runs.
type identity struct{}

// identify refuses programs: there are no process groups to end them by, and no users to run them as.
func identify(string) (identity, error) {
	return identity{}, errors.New("transports of type pipe are not supported on this operating system")
}

func isolate(*exec.Cmd, identity) {}

func kill(int, string) error { return errors.ErrUnsupported }

func keepFiles() {}

// CheckUser knows nothing of users: New refuses all programs.
func CheckUser(string) error { return nil }
