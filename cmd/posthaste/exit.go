package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/submit"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/spool"
	"github.com/posthaste-mta/posthaste/trace/record"
)

// An exitCode is what the program ends with, as in sysexits(3), which programs
// that run sendmail know.
type exitCode int

const (
	exitOK          exitCode = 0
	exitNothing     exitCode = 1  // an order is for no message
	exitUsage       exitCode = 64 // the command line is wrong
	exitData        exitCode = 65 // the message, or an address in it, is wrong
	exitNoInput     exitCode = 66 // what was named is not there
	exitNoUser      exitCode = 67 // a recipient is not known
	exitNoHost      exitCode = 68 // a recipient's domain is not known
	exitUnavailable exitCode = 69 // it does not work; the catch-all
	exitSoftware    exitCode = 70 // a bug
	exitOS          exitCode = 71 // the system refused something
	exitIO          exitCode = 74 // reading or writing failed
	exitTempFail    exitCode = 75 // try again later
	exitNoPerm      exitCode = 77 // it is not allowed
	exitConfig      exitCode = 78 // the configuration is wrong
)

// An exit is an error that knows the program's exit code, and what a person
// can do about it.
type exit struct {
	code exitCode
	err  error
	hint string // "" if there is nothing to add
}

func (e *exit) Error() string { return e.err.Error() }
func (e *exit) Unwrap() error { return e.err }

// usageError says that the command line is wrong.
func usageError(format string, args ...any) error {
	return &exit{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// codeOf returns the exit code for an error, and a hint for the person.
func codeOf(err error) (exitCode, string) {
	var (
		known       *exit
		unreachable *client.Unreachable
		problem     *client.Problem
		partial     *client.Partial
		mistakes    *tomlfile.Problems
		file        *fs.PathError
	)
	switch {
	case err == nil:
		return exitOK, ""
	case errors.As(err, &known):
		return known.code, known.hint
	case errors.As(err, &unreachable):
		return codeOfConnect(err)
	case errors.As(err, &problem):
		return codeOfProblem(problem), ""
	case errors.As(err, &partial):
		return exitIO, "The others were read. Look at the log and at the disk; \"posthaste queue list --damaged\" shows what is known to be damaged."
	case errors.As(err, &mistakes):
		return exitConfig, ""
	case errors.As(err, &file) && file.Op == "write": // what was asked for, to a full disk
		return exitIO, ""
	}
	return exitUnavailable, ""
}

// codeOfConnect is for errors of connecting to a socket of the daemon's.
func codeOfConnect(err error) (exitCode, string) {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return exitNoPerm, "You may not use this socket. Become root, or join the group that may: admin_group for orders, submission_group for sendmail."
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ECONNREFUSED):
		return exitUnavailable, "Posthaste is not running, or its queue is elsewhere.\n" +
			"Start it with \"posthaste serve\", or say where it is with --queue-directory, --config, --socket\n" +
			"or $" + queueDirectory + "."
	case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENAMETOOLONG):
		return exitConfig, "The path of a socket can have no more than about 100 characters."
	}
	return exitUnavailable, ""
}

// codeOfStart is for errors of starting the daemon.
func codeOfStart(err error) (exitCode, string) {
	var (
		bind  *net.OpError
		group *groupError
	)
	binding := errors.As(err, &bind)
	switch {
	case errors.As(err, &group) && errors.Is(err, fs.ErrPermission):
		return exitConfig, "Only a member of a group can give it a socket: usermod --append --groups " + group.group + " USER, with the user that runs posthaste."
	case errors.As(err, &group):
		return exitConfig, "\"getent group\" shows the groups there are."
	case errors.Is(err, record.ErrUnwritable):
		return exitIO, hintForTrace(err)
	case errors.Is(err, spool.ErrFull), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return exitIO, "Nothing is lost. Make room in the file system of the queue directory, then start again; \"df\" and \"df -i\" show what is left."
	case errors.Is(err, syscall.EROFS):
		return exitIO, "Nothing is lost. The file system of the queue directory is mounted read-only, by hand or after an error of the disk (see \"dmesg\"). Make it writable, then start again."
	case errors.Is(err, syscall.EIO):
		return exitIO, "The disk does not work, or a file system on it is damaged: see \"dmesg\". Nothing was changed."
	case errors.Is(err, spool.ErrInUse):
		return exitUnavailable, "Another posthaste serves this queue. Stop it first, or give this one a queue_directory of its own."
	case errors.Is(err, syscall.EADDRINUSE):
		return exitUnavailable, "Another program listens there; \"ss -ltnp\" shows which. Stop it, or change listen."
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return exitConfig, "This machine does not have that address; \"ip address\" shows those it has."
	case binding && bind.Net == "unix" && errors.Is(err, syscall.EINVAL):
		return exitConfig, "The path of a socket can have no more than about 80 characters. Set admin_socket and submission_socket to shorter ones."
	case binding && bind.Net != "unix" && errors.Is(err, fs.ErrPermission):
		return exitNoPerm, "Ports below 1024 are for root. Let systemd open the port, or permit it to the program: setcap cap_net_bind_service=+ep posthaste"
	case errors.Is(err, syscall.ENOTDIR):
		return exitConfig, "There is a file where a directory is to be. Move it away, or set queue_directory to another path."
	case errors.Is(err, fs.ErrPermission):
		return exitNoPerm, "Start it as the user who owns the queue directory, or set queue_directory to one that this user may write in."
	}
	return exitUnavailable, ""
}

func codeOfProblem(p *client.Problem) exitCode {
	switch p.Status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return exitUsage
	case http.StatusNotFound:
		return exitNoInput
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return exitTempFail
	}
	return exitUnavailable
}

// codeOfSubmission is for errors of handing in mail, as programs that run
// sendmail know them: 75 is "try again later", all others are for good.
func codeOfSubmission(err error) exitCode {
	var (
		known   *exit
		input   *submit.InputError
		address *submit.AddressError
		header  *submit.HeaderError
		refused *submit.Refusal
		broken  *submit.ConnectionError
	)
	switch {
	case errors.As(err, &known):
		return known.code
	case errors.As(err, &input):
		return exitIO
	case errors.As(err, &address), errors.As(err, &header):
		return exitData
	case errors.As(err, &broken):
		return exitTempFail
	case errors.As(err, &refused):
		return codeOfRefusal(refused)
	}
	return exitOS
}

func codeOfRefusal(r *submit.Refusal) exitCode {
	status := r.Reply.Status
	switch {
	case r.Reply.Temporary():
		return exitTempFail
	case status.Subject == 7, r.Reply.Code == 530, r.Reply.Code == 535:
		return exitNoPerm
	case status.Subject == 1 && status.Detail == 2, status.Subject == 1 && status.Detail == 10:
		return exitNoHost
	case status.Subject == 1 && (status.Detail == 1 || status.Detail == 6), r.Recipient != "" && r.Reply.Code == 550:
		return exitNoUser
	case status.Subject == 1, status.Subject == 6, r.Reply.Code == 552, r.Reply.Code == 501, r.Reply.Code == 553:
		return exitData
	}
	return exitUnavailable
}

// complain tells a person what went wrong.
func complain(w io.Writer, program string, err error) exitCode {
	code, hint := codeOf(err)
	if code == exitOK {
		return code
	}
	var mistakes *tomlfile.Problems
	if errors.As(err, &mistakes) {
		writePlain(w, mistakes.String())
		return code
	}
	fmt.Fprintf(w, "%s: %s\n", program, plain(err.Error()))
	if hint != "" {
		fmt.Fprintln(w, hint)
	}
	return code
}

// writePlain writes text of several lines, each made safe for a terminal.
func writePlain(w io.Writer, text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintln(w, plain(strings.TrimSuffix(line, "\n")))
	}
}
