package pipe

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// credential returns as which user and group a program runs; nil for those of this
// process. text is TransportConfig.User.
func credential(text string) (*syscall.Credential, error) {
	if text == "" {
		if os.Geteuid() == 0 {
			return nil, errors.New("user: it is not set, and programs must not run as root: set command_user")
		}
		return nil, nil
	}
	name, groupName, hasGroup := strings.Cut(text, ":")
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("user: %w", err)
	}
	group := u.Gid
	if hasGroup {
		g, err := user.LookupGroup(groupName)
		if err != nil {
			return nil, fmt.Errorf("user: %w", err)
		}
		group = g.Gid
	}
	uid, errUser := strconv.ParseUint(u.Uid, 10, 32)
	gid, errGroup := strconv.ParseUint(group, 10, 32)
	switch {
	case errUser != nil || errGroup != nil:
		return nil, fmt.Errorf("user: %q has no numbers", text)
	case uid == 0 || gid == 0:
		return nil, fmt.Errorf("user: programs must not run as user or group root, as %q does", text)
	case os.Geteuid() != 0 && (int(uid) != os.Geteuid() || int(gid) != os.Getegid()):
		return nil, fmt.Errorf("user: only root can run programs as %q, and this process runs as user %d: remove command_user, or have the command change the user (sudo -n -u %s)", text, os.Geteuid(), name)
	case os.Geteuid() != 0:
		return nil, nil
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
