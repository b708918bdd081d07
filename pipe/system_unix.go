//go:build unix

package pipe

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// An identity is as which user and group a program runs; nil stands for those of this process.
type identity = *syscall.Credential

// identify returns that of TransportConfig.User.
func identify(text string) (identity, error) {
	if text == "" {
		if os.Geteuid() == 0 {
			return nil, errors.New("user: it is not set, and programs must not run as root: set command_user")
		}
		return nil, nil
	}
	uid, gid, err := numbers(text)
	name, _, _ := strings.Cut(text, ":")
	switch {
	case err != nil:
		return nil, fmt.Errorf("user: %w", err)
	case os.Geteuid() != 0 && (int(uid) != os.Geteuid() || int(gid) != os.Getegid()):
		return nil, fmt.Errorf("user: only root can run programs as %q, and this process runs as user %d: remove command_user, or have the command change the user (sudo -n -u %s)", text, os.Geteuid(), name)
	case os.Geteuid() != 0:
		return nil, nil
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// numbers returns those of a user, and of the group behind a colon or that of the user. It fails if there is no such
// user or group, and for root, as which no program runs.
func numbers(text string) (uid, gid uint64, err error) {
	name, groupName, hasGroup := strings.Cut(text, ":")
	u, err := user.Lookup(name)
	if err != nil {
		return 0, 0, err
	}
	group := u.Gid
	if hasGroup {
		g, err := user.LookupGroup(groupName)
		if err != nil {
			return 0, 0, err
		}
		group = g.Gid
	}
	uid, errUser := strconv.ParseUint(u.Uid, 10, 32)
	gid, errGroup := strconv.ParseUint(group, 10, 32)
	switch {
	case errUser != nil || errGroup != nil:
		return 0, 0, fmt.Errorf("%q has no numbers", text)
	case uid == 0 || gid == 0:
		return 0, 0, fmt.Errorf("%w, as %q does", ErrRoot, text)
	}
	return uid, gid, nil
}

// CheckUser returns why no program can run as a user of this machine (TransportConfig.User), whoever runs the daemon.
func CheckUser(text string) error {
	if text == "" {
		return nil
	}
	_, _, err := numbers(text)
	return err
}

// isolate makes a program run as another user, in a process group of its own.
func isolate(c *exec.Cmd, as identity) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: as}
}

// kill kills a process, its group, and all that carries the mark of the delivery.
func kill(pid int, mark string) error {
	err := syscall.Kill(-pid, syscall.SIGKILL)
	killMarked(mark)
	if err == syscall.ESRCH {
		return os.ErrProcessDone
	}
	return err
}

// keepFiles has programs inherit no open file. Those that this process has opened have the
// mark for that already, but those that it has inherited itself may not.
func keepFiles() {
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		return // a system without it
	}
	for _, e := range open {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}
