package service

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/posthaste-mta/posthaste/dkim/keyring"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/daemon"
	"github.com/posthaste-mta/posthaste/internal/daemon/machine"
	"github.com/posthaste-mta/posthaste/spool"
	"github.com/posthaste-mta/posthaste/trace/record"
)

// CodeOfStart returns the exit status for an error with which the daemon does not start, and
// advice for the operator, which may be empty. Its tests are in cmd/posthaste: to link a test
// with a daemon takes seconds.
func CodeOfStart(err error) (exit.Code, string) {
	var (
		group *daemon.GroupError
		few   *machine.TooSmallError
	)
	switch {
	case errors.As(err, &few):
		return exit.OS, fmt.Sprintf("Raise it: LimitNOFILE=%d under systemd, or ulimit -n %d.", few.Needed, few.Needed)
	case errors.As(err, &group) && errors.Is(err, fs.ErrPermission):
		return exit.Config, "Only a member of a group can assign a socket to it: usermod --append --groups " + group.Group + " USER, with the user that runs posthaste."
	case errors.As(err, &group):
		return exit.Config, "\"getent group\" lists the existing groups."
	case errors.Is(err, keyring.ErrUnusable):
		return exit.Config, "Without them mail would go unsigned. The user that runs posthaste must be able to read the files of [dkim.NAME], and others must not; \"posthaste dkim keygen\" makes keys."
	case errors.Is(err, record.ErrUnwritable):
		return exit.IO, hintForTrace(err)
	case errors.Is(err, spool.ErrFull), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return exit.IO, "Nothing is lost. Make room in the file system of the queue directory, then start again; \"df\" and \"df -i\" show what is left."
	case errors.Is(err, syscall.EROFS):
		return exit.IO, "Nothing is lost. The file system of the queue directory is mounted read-only, by hand or after an error of the disk (see \"dmesg\"). Make it writable, then start again."
	case errors.Is(err, syscall.EIO):
		return exit.IO, "The disk does not work, or a file system on it is damaged: see \"dmesg\". Nothing was changed."
	case errors.Is(err, spool.ErrInUse):
		return exit.Unavailable, "Another posthaste serves this queue. Stop it first, or set a different queue_directory for this one."
	}
	if code, hint := exit.OfListen(err); code != exit.Unavailable || hint != "" {
		return code, hint
	}
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		return exit.Config, "A file is in the place of a directory. Move it away, or set queue_directory to another path."
	case errors.Is(err, fs.ErrPermission):
		return exit.NoPerm, "Start it as the user who owns the queue directory, or set queue_directory to a directory that this user may write to."
	}
	return exit.Unavailable, ""
}
