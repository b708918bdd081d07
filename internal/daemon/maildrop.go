package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/submit"
	"github.com/posthaste-mta/posthaste/mail"
)

// A maildrop takes in the messages that users of this machine have left while no daemon was
// running. Users can put files into its directory, but can neither list nor read it. The owner of
// a file, which a user cannot forge, is the user who sent it. Each message goes through the same
// session as one that comes by the submission socket, and its file is removed when it is durable
// in the spool. If the daemon dies between the two, the message is taken in twice.
//
// The directory is open to hostile users: a file that is not a message is left alone, and removed
// when it is old. No file stops others.
type maildrop struct {
	dir      string
	aside    string // for messages that are refused
	sizeMax  int64
	log      *slog.Logger
	returner returner // of messages that are refused
	sessions *dropListener
	scanning sync.Mutex // no file is taken twice at once
	looked   map[string]looked
	partly   map[string]partly // files that were taken for some of their recipients, or for all
}

// A returner sends messages that are refused back to their senders.
type returner interface {
	// giveBack makes a report, which is durable then. told reports whether a report was owed and made,
	// and whole whether it has all of the message.
	giveBack(ctx context.Context, s *submit.Sending, why *submit.Refusal) (told, whole bool, err error)
}

// A partly is a file that was taken in part, or with which something could not be done after it was taken, or
// after its sender has got a report that it is refused. It holds as long as the file has not changed.
type partly struct {
	size    int64
	changed time.Time
	mark    submit.Mark
	all     bool
	told    bool
}

// A looked is a file that was left where it is: it is not read again until it has changed, or
// until then.
type looked struct {
	size    int64
	changed time.Time
	until   time.Time // zero for files that are no messages: until they are old
}

// rests reports whether the file must be left alone for now.
func (l looked) rests(now fs.FileInfo) bool {
	if l.size != now.Size() || !l.changed.Equal(now.ModTime()) {
		return false
	}
	if l.until.IsZero() {
		return time.Since(now.ModTime()) < dropOld
	}
	return time.Now().Before(l.until)
}

const (
	// dropInterval is the interval at which the directory is looked at, less often if that takes long:
	// hostile users may put a million files there.
	dropInterval = 5 * time.Second
	dropPart     = 20 // at most this part of the time is spent
	// lookedMax is the number of files that are remembered; others are read each time.
	lookedMax = 10_000
	// partlyMax is the number of files taken in part that are remembered. Others are set aside
	// instead of being tried again, which would send them twice.
	partlyMax = 1000
	// dropRest is the time for which messages that are refused for now are left alone.
	dropRest = time.Minute
	// dropClosed is the time for which files that this process may not read are left alone.
	dropClosed = time.Hour
	// dropOld is the age of a file with which its writer is not busy any more.
	dropOld = 24 * time.Hour
	// dropPage is the number of names that are read from the directory at once.
	dropPage = 256
)

// openMaildrop makes the directory with the permissions that the configuration asks for. It returns
// nil if the maildrop is switched off.
func openMaildrop(cfg *config.Config, log *slog.Logger) (*maildrop, error) {
	dir := cfg.MaildropPath()
	if cfg.Maildrop == config.MaildropOff {
		if err := os.Chmod(dir, 0o700); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return nil, nil
	}
	if err := maildropUnsupported(); err != nil {
		return nil, err
	}
	m := &maildrop{dir: dir, aside: filepath.Join(cfg.QueueDirectory, "maildrop-refused"), sizeMax: cmp.Or(cfg.SMTPD.MessageSizeLimit, math.MaxInt64), log: log, sessions: newDropListener(), looked: make(map[string]looked), partly: make(map[string]partly)}
	for _, path := range []string{m.dir, m.aside} {
		if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if info, err := os.Lstat(path); err != nil || !info.IsDir() {
			return nil, errors.Join(err, fmt.Errorf("%s is not a directory", path))
		}
	}
	// Files get the group of the directory, so that they can be read here; only their
	// owners and the directory's can remove them.
	group, mode := os.Getegid(), fs.FileMode(0o700)
	switch {
	case cfg.Maildrop == config.MaildropAll:
		mode = 0o733
	case cfg.SubmissionGroup != "":
		gid, err := groupID(cfg.SubmissionGroup)
		if err != nil {
			return nil, &GroupError{"submission_group", cfg.SubmissionGroup, err}
		}
		group, mode = gid, 0o730
	}
	if err := os.Chown(dir, -1, group); err != nil {
		return nil, err
	}
	return m, os.Chmod(dir, mode|fs.ModeSetgid|fs.ModeSticky)
}

// run takes messages in until ctx ends.
func (m *maildrop) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var seen time.Time // the directory when nothing was left in it
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		began := time.Now()
		info, err := os.Stat(m.dir)
		if err == nil && info.ModTime().Equal(seen) {
			timer.Reset(dropInterval)
			continue
		}
		left, scanErr := m.scan(ctx)
		timer.Reset(max(dropInterval, dropPart*time.Since(began)))
		switch {
		case errors.Join(err, scanErr) != nil:
			m.log.Error("the maildrop cannot be read; mail in it waits", "directory", m.dir, "error", errors.Join(err, scanErr))
			timer.Reset(dropRest)
		case left > 0:
			seen = time.Time{}
		case time.Since(info.ModTime()) > time.Second: // else a later change may have the same time
			seen = info.ModTime()
		}
	}
}

// scan takes in what is in the directory, and returns how many files it has left there.
func (m *maildrop) scan(ctx context.Context) (left int, err error) {
	m.scanning.Lock()
	defer m.scanning.Unlock()
	dir, err := os.Open(m.dir)
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	if len(m.looked) >= lookedMax { // some may not be there any more
		clear(m.looked)
	}
	for ctx.Err() == nil {
		names, err := dir.Readdirnames(dropPage)
		for _, name := range names {
			if ctx.Err() == nil && !m.look(ctx, name) {
				left++
			}
		}
		if err := dir.Sync(); err != nil { // or what was taken would be there again if the machine fails
			return left, err
		}
		if err == io.EOF {
			return left, nil
		}
		if err != nil {
			return left, err
		}
	}
	return left, nil
}

// look takes one file in, unless it was left there before and is as it was, and reports
// whether it is done with.
func (m *maildrop) look(ctx context.Context, name string) bool {
	path := filepath.Join(m.dir, name)
	info, err := os.Lstat(path)
	if err != nil {
		m.forget(name)
		return errors.Is(err, fs.ErrNotExist)
	}
	if was, known := m.looked[name]; known && was.rests(info) {
		return false
	}
	done, rest := m.take(ctx, path, info)
	delete(m.looked, name) // or it would count below
	if done {
		m.forget(name)
	} else if len(m.looked) < lookedMax {
		was := looked{size: info.Size(), changed: info.ModTime()}
		if rest > 0 {
			was.until = time.Now().Add(rest)
		}
		m.looked[name] = was
	}
	return done
}

// take takes one file in. It reports whether the file is done with; if not, after how long it is
// to be tried again though it has not changed, 0 for never.
func (m *maildrop) take(ctx context.Context, path string, info fs.FileInfo) (done bool, rest time.Duration) {
	name := filepath.Base(path)
	part := m.partly[name]
	if part.size != info.Size() || !part.changed.Equal(info.ModTime()) {
		part = partly{size: info.Size(), changed: info.ModTime()}
	}
	if part.all {
		return m.remove(path, part), dropRest
	}
	user, s, err := m.load(path)
	if s.Message != nil {
		defer s.Message.Close()
	}
	if err == nil {
		s.After = part.mark
		err = m.send(user, s)
	}
	var refused *submit.Refusal
	switch {
	case errors.Is(err, submit.ErrIncomplete):
		return m.clean(path), 0
	case err == nil:
		return m.remove(path, part), dropRest
	case errors.As(err, &refused) && refused.Reply.Permanent():
		if refused.Mark.Sent() == 0 {
			refused.Mark = part.mark // it was not even begun
		}
		if done, err = m.refuse(ctx, path, user, s, refused, part); err == nil {
			return done, dropRest
		}
		rest = dropRest
	case errors.Is(err, fs.ErrPermission):
		rest = dropClosed
	case !m.remember(name, part, err):
		refused = &submit.Refusal{Reply: mail.Reply{Code: 554, Status: mail.Status{Class: 5, Subject: 3}, Text: "too many messages were taken in part: " + err.Error()}, Mark: markOf(err)}
		if done, err = m.refuse(ctx, path, user, s, refused, part); err == nil {
			return done, dropRest
		}
		rest = dropRest
	default:
		rest = dropRest
	}
	m.log.Warn("a message waits in the maildrop", "file", path, "uid", user, "error", err)
	return false, rest
}

func (m *maildrop) forget(name string) {
	delete(m.looked, name)
	delete(m.partly, name)
}

// remember keeps how far a message has come; false if that is too much. Without it, its first
// recipients would get the message with each attempt.
func (m *maildrop) remember(name string, part partly, err error) bool {
	mark := markOf(err)
	if mark.Sent() == 0 {
		return true // it is where it was
	}
	part.mark = mark
	if _, known := m.partly[name]; !known && len(m.partly) >= partlyMax {
		return false
	}
	m.partly[name] = part
	return true
}

// markOf returns how far a message has come in an attempt that ended with an error.
func markOf(err error) submit.Mark {
	var refused *submit.Refusal
	var broken *submit.ConnectionError
	switch {
	case errors.As(err, &refused) && refused.Sent > 0:
		return refused.Mark
	case errors.As(err, &broken) && broken.Sent > 0:
		return broken.Mark
	}
	return submit.Mark{}
}

// remove removes the file of a message that was taken, or was sent back. If that fails, it is tried again, and
// the message is not taken again while this process lives.
func (m *maildrop) remove(path string, part partly) bool {
	err := os.Remove(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return true
	}
	part.all = true
	m.partly[filepath.Base(path)] = part
	m.log.Error("a message was taken from the maildrop and cannot be removed from it; remove it, or it is taken again after a restart", "file", path, "error", err)
	return false
}

// load reads a file.
func (m *maildrop) load(path string) (user uint32, s submit.Sending, err error) {
	f, err := openDropped(path)
	if err != nil {
		return 0, s, err
	}
	defer f.Close() // it was only read
	info, err := f.Stat()
	if err != nil {
		return 0, s, err
	}
	user, only := ownerOf(info)
	// With a second name it may be a file of another user, who has not put it here.
	if !only || !info.Mode().IsRegular() {
		return 0, s, submit.ErrIncomplete
	}
	s, err = submit.Load(f, m.sizeMax)
	return user, s, err
}

// clean deals with a file that is no message: it may become one, or is junk.
func (m *maildrop) clean(path string) bool {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if err != nil || time.Since(info.ModTime()) < dropOld {
		return false
	}
	if err := os.Remove(path); err != nil { // a directory with something in it
		return false
	}
	m.log.Warn("a file that is no message was removed from the maildrop", "file", path)
	return true
}

// refuse deals with a message that is refused for good. The program that left it has ended long ago, so the
// sender gets a report, with the message. If the report does not have all of it, or there is no sender to
// report to, the file is kept for the operator. After an error nothing has been done.
func (m *maildrop) refuse(ctx context.Context, path string, user uint32, s submit.Sending, why *submit.Refusal, part partly) (done bool, err error) {
	whole := false
	if !part.told {
		if part.told, whole, err = m.returner.giveBack(ctx, &s, why); err != nil {
			return false, fmt.Errorf("it is refused (%w), and cannot be sent back: %w", why, err)
		}
	}
	if whole {
		m.log.Warn("a message in the maildrop is refused; it was sent back", "file", path, "uid", user, "sender", s.Sender, "recipient", why.Recipient, "reply", why.Reply.String(), "sent", why.Mark.Sent())
		return m.remove(path, part), nil
	}
	if done = m.setAside(path, user, s, why, part.told); !done && part.told && len(m.partly) < partlyMax {
		m.partly[filepath.Base(path)] = part // so that the sender is not told again
	}
	return done, nil
}

// setAside keeps a message that is refused for good, for the operator. told says that its sender has a report.
func (m *maildrop) setAside(path string, user uint32, s submit.Sending, why *submit.Refusal, told bool) bool {
	to := filepath.Join(m.aside, filepath.Base(path))
	if err := os.Rename(path, to); err != nil {
		m.log.Error("a message in the maildrop is refused, and cannot be set aside", "file", path, "uid", user, "sender", s.Sender, "reply", why.Reply.String(), "error", err)
		return false
	}
	m.log.Error("a message in the maildrop is refused; it was set aside", "file", to, "uid", user, "sender", s.Sender, "recipient", why.Recipient, "reply", why.Reply.String(), "sent", why.Mark.Sent(), "reported", told)
	return true
}

// send submits a message as its user.
func (m *maildrop) send(user uint32, s submit.Sending) error {
	conn, err := m.sessions.dial(user)
	if err != nil {
		return err
	}
	defer conn.Close()
	s.Hello = "localhost"
	_, err = submit.Send(conn, s)
	return err
}

// A dropListener accepts the sessions of the maildrop.
type dropListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newDropListener() *dropListener {
	return &dropListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

// dial begins a session of a user.
func (l *dropListener) dial(user uint32) (net.Conn, error) {
	ours, theirs, err := socketPair()
	if err == nil {
		select {
		case l.conns <- dropConn{theirs.(*net.UnixConn), user}:
			return ours, nil
		case <-l.done:
			err = net.ErrClosed
		}
	}
	for _, c := range []net.Conn{ours, theirs} {
		if c != nil {
			c.Close()
		}
	}
	return nil, err
}

func (l *dropListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *dropListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *dropListener) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: "maildrop"} }

// A dropConn is the session of a user who has left a message.
type dropConn struct {
	*net.UnixConn
	user uint32
}

// User returns who has left the message.
func (c dropConn) User() uint32 { return c.user }
