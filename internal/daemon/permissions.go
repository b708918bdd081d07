package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/posthaste-mta/posthaste/config"
)

// File modes alone decide which users of this machine may do what:
//
//	queue_directory  0700; others may pass through it (0711) if a group may use a socket
//	db, body, lock   for the owner only
//	admin.sock       0600, or 0660 with admin_group
//	submit.sock      0600, or 0660 with submission_group
//	maildrop         03700, 03730 with submission_group, or 03733 with maildrop = "all"

// secure makes the queue directory and closes what is in it. The lock is made here
// if it is not there yet: whoever can open it can hold it, and the daemon would not
// start.
func secure(cfg *config.Config, log *slog.Logger) error {
	dir := cfg.QueueDirectory
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	lock := filepath.Join(dir, "lock")
	f, err := os.OpenFile(lock, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return err
	}
	// Other programs' locks on it are not touched by closing it: ours is not taken yet.
	if err := errors.Join(f.Close(), os.Chmod(lock, 0o600)); err != nil {
		return err
	}
	for _, name := range []string{"db", "body"} {
		if err := os.Chmod(filepath.Join(dir, name), 0o700); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	mode := info.Mode().Perm()
	if mode&0o066 != 0 {
		log.Warn("queue_directory is open to other users; run chmod go-rw on it", "queue_directory", dir, "mode", strconv.FormatUint(uint64(mode), 8))
	}
	inside := groupInside(dir, cfg.AdminSocketPath(), cfg.AdminGroup) || groupInside(dir, cfg.SubmissionSocketPath(), cfg.SubmissionGroup)
	inside = inside || cfg.Maildrop == config.MaildropAll || cfg.Maildrop == config.MaildropGroup && cfg.SubmissionGroup != ""
	for _, l := range cfg.Listeners {
		inside = inside || groupInside(dir, l.Address.Unix, l.Group)
	}
	if inside {
		return os.Chmod(dir, info.Mode()|0o011)
	}
	return nil
}

// groupInside reports whether a group has to pass through a directory to a socket.
func groupInside(dir, socket, group string) bool {
	return group != "" && socket != "" && filepath.Dir(socket) == filepath.Clean(dir)
}

// listenUnix listens on a socket that only the owner can use, and a group if one is
// given; key is the parameter that gives it. A socket that a dead process left is
// replaced; the spool's lock, which is held already, shows that it is dead.
func listenUnix(path, key, group string) (net.Listener, error) {
	if err := removeSocket(path); err != nil {
		return nil, err
	}
	// The name is made in a private directory and moved into place, so that
	// there is no instant at which others could connect. Its path must be short:
	// a socket's has a limit.
	dir, err := os.MkdirTemp(filepath.Dir(path), ".")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	private := filepath.Join(dir, "s")
	ln, err := net.Listen("unix", private)
	if err != nil {
		return nil, err
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := permit(private, key, group); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	if err := os.Rename(private, path); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	made, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return unlinked{ln, path, made}, nil
}

// A GroupError is a group that a socket cannot be given to.
type GroupError struct {
	key, Group string
	err        error
}

func (e *GroupError) Error() string { return fmt.Sprintf("%s %q: %v", e.key, e.Group, e.err) }
func (e *GroupError) Unwrap() error { return e.err }

// permit says who may use a socket.
func permit(path, key, group string) error {
	if group == "" {
		return os.Chmod(path, 0o600)
	}
	gid, err := groupID(group)
	if err != nil {
		return &GroupError{key, group, err}
	}
	// First the group, or for an instant the socket would be open to the one that
	// the directory gives it.
	if err := os.Chown(path, -1, gid); err != nil {
		return &GroupError{key, group, err}
	}
	return os.Chmod(path, 0o660)
}

// groupID returns the number of a group, which is given by name or number.
func groupID(group string) (int, error) {
	g, err := user.LookupGroup(group)
	if err == nil {
		return strconv.Atoi(g.Gid)
	}
	if n, numberErr := strconv.ParseUint(group, 10, 31); numberErr == nil {
		return int(n), nil
	}
	return 0, err
}

// removeSocket removes a socket, and no other file that a mistake in the
// configuration may have named.
func removeSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != os.ModeSocket:
		return fmt.Errorf("%s exists and is not a socket", path)
	}
	return os.Remove(path)
}

// unlinked is a listener on a unix socket that removes its name when it closes, unless
// another socket has been given the name, as by a reload.
type unlinked struct {
	net.Listener
	path string
	made os.FileInfo
}

func (u unlinked) Close() error {
	if now, err := os.Lstat(u.path); err == nil && os.SameFile(now, u.made) {
		os.Remove(u.path)
	}
	return u.Listener.Close()
}
