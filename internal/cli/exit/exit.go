// Package exit defines the program's exit codes, errors that carry one, and the hints for
// errors of sockets.
package exit

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"
)

// An Code is what the program ends with, as in sysexits(3), which programs
// that run sendmail know.
type Code int

const (
	OK          Code = 0
	Nothing     Code = 1  // no message matches an order
	Wrong       Code = 1  // a check has found something
	Usage       Code = 64 // the command line is wrong
	Data        Code = 65 // the message, or an address in it, is wrong
	NoInput     Code = 66 // a named file, message or destination does not exist
	NoUser      Code = 67 // unknown recipient
	NoHost      Code = 68 // unknown domain of a recipient
	Unavailable Code = 69 // every other failure
	Software    Code = 70 // a bug
	OS          Code = 71 // the operating system refused a request
	IO          Code = 74 // reading or writing failed
	TempFail    Code = 75 // try again later
	NoPerm      Code = 77 // permission denied
	Config      Code = 78 // the configuration is wrong
)

// An Error is an error with the program's exit code and a hint what to do about it.
type Error struct {
	Code Code
	err  error
	Hint string // "" if there is nothing to add
}

func (e *Error) Error() string { return e.err.Error() }
func (e *Error) Unwrap() error { return e.err }

// New returns an error with an exit code and a hint; the hint may be "".
func New(code Code, err error, hint string) error { return &Error{code, err, hint} }

// Errorf returns an error with an exit code.
func Errorf(code Code, format string, args ...any) error {
	return &Error{Code: code, err: fmt.Errorf(format, args...)}
}

// Usagef returns an error about the command line.
func Usagef(format string, args ...any) error { return Errorf(Usage, format, args...) }

// OfListen returns the exit code and the hint for an error of listening; the hint is ""
// for other errors.
func OfListen(err error) (Code, string) {
	var bind *net.OpError
	binding := errors.As(err, &bind)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return Unavailable, "Another program listens on this address; \"ss -ltnp\" shows which one. Stop it, or change listen."
	case errors.Is(err, syscall.EADDRNOTAVAIL) && !binding: // of a source, and the error says what to do
		return Config, ""
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return Config, "This machine does not have this address; \"ip address\" lists its addresses. Change listen."
	case binding && bind.Net == "unix" && errors.Is(err, syscall.EINVAL):
		return Config, "The path of a socket is limited to about 80 characters. Set admin_socket and submission_socket to shorter paths."
	case binding && bind.Net != "unix" && errors.Is(err, fs.ErrPermission):
		return NoPerm, "Only root may use ports below 1024. Let systemd open the port, or grant the permission to the program: setcap cap_net_bind_service=+ep posthaste"
	}
	return Unavailable, ""
}

// OfConnect returns the exit code and the hint for an error of connecting to a socket of
// the daemon.
func OfConnect(err error) (Code, string) {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return NoPerm, "This user may not use the socket. Become root, or join the group in admin_group (queue commands) or submission_group (sendmail)."
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ECONNREFUSED):
		return Unavailable, "Posthaste is not running, or its queue is elsewhere.\n" +
			"Start it with \"posthaste serve\", or name its location with --queue-directory, --config, --socket\n" +
			"or $POSTHASTE_QUEUE_DIRECTORY."
	case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENAMETOOLONG):
		return Config, "The path of a socket is limited to about 100 characters. Use a shorter queue_directory."
	}
	return Unavailable, ""
}
