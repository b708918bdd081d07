// Package exit has the program's exit codes, errors that know theirs, and what a person
// can do about errors of sockets.
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
	Nothing     Code = 1  // an order is for no message
	Usage       Code = 64 // the command line is wrong
	Data        Code = 65 // the message, or an address in it, is wrong
	NoInput     Code = 66 // what was named is not there
	NoUser      Code = 67 // a recipient is not known
	NoHost      Code = 68 // a recipient's domain is not known
	Unavailable Code = 69 // it does not work; the catch-all
	Software    Code = 70 // a bug
	OS          Code = 71 // the system refused something
	IO          Code = 74 // reading or writing failed
	TempFail    Code = 75 // try again later
	NoPerm      Code = 77 // it is not allowed
	Config      Code = 78 // the configuration is wrong
)

// An Error is an error that knows the program's exit code, and what a person
// can do about it.
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

// Usagef says that the command line is wrong.
func Usagef(format string, args ...any) error { return Errorf(Usage, format, args...) }

// OfListen is for errors of listening; the hint is "" if it is another error.
func OfListen(err error) (Code, string) {
	var bind *net.OpError
	binding := errors.As(err, &bind)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return Unavailable, "Another program listens there; \"ss -ltnp\" shows which. Stop it, or change listen."
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return Config, "This machine does not have that address; \"ip address\" shows those it has."
	case binding && bind.Net == "unix" && errors.Is(err, syscall.EINVAL):
		return Config, "The path of a socket can have no more than about 80 characters. Set admin_socket and submission_socket to shorter ones."
	case binding && bind.Net != "unix" && errors.Is(err, fs.ErrPermission):
		return NoPerm, "Ports below 1024 are for root. Let systemd open the port, or permit it to the program: setcap cap_net_bind_service=+ep posthaste"
	}
	return Unavailable, ""
}

// OfConnect is for errors of connecting to a socket of the daemon's.
func OfConnect(err error) (Code, string) {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return NoPerm, "You may not use this socket. Become root, or join the group that may: admin_group for orders, submission_group for sendmail."
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ECONNREFUSED):
		return Unavailable, "Posthaste is not running, or its queue is elsewhere.\n" +
			"Start it with \"posthaste serve\", or say where it is with --queue-directory, --config, --socket\n" +
			"or $POSTHASTE_QUEUE_DIRECTORY."
	case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENAMETOOLONG):
		return Config, "The path of a socket can have no more than about 100 characters."
	}
	return Unavailable, ""
}
