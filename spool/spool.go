package spool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/posthaste-mta/posthaste/mail"
)

var (
	// ErrFull means that there is no room for a message now; a client is told
	// 452 4.3.1 (RFC 3463 3.4).
	ErrFull = errors.New("no room in the spool")
	// ErrCorrupt means that something once stored cannot be had back.
	ErrCorrupt = mail.ErrCorrupt
	// ErrGone means that there is no such message.
	ErrGone = mail.ErrGone
	// ErrInUse means that another process, or this one, has the spool open.
	ErrInUse = errors.New("spool is in use")
	// ErrClosed means that Close has been called.
	ErrClosed = errors.New("spool is closed")
)

// formatVersion is the number of the layout described in the package comment.
const formatVersion = 1

// A Spool is a directory full of messages. All its methods may be called from
// any number of goroutines at once.
type Spool struct {
	cfg       Config
	disk      vfs.FS // as configured
	fs        vfs.FS // disk, with everything in between that watches it
	mending   vfs.FS // disk for files that are written in order to mend others: with the ballast
	db        *pebble.DB
	opened    []io.Closer // to be closed after db, last first
	manifests manifests
	room      room
	ids       idSource
	earlier   mail.QueueID // queue IDs below are those of earlier runs
	locks     messageLocks
	bodies    bodyDirs
	place     place
	spare     spareFiles
	starting  atomic.Bool // Open has not returned yet
	opening   atomic.Bool // Pebble is being opened, and can return errors
	dead      atomic.Bool // die has been called
	work      background
	hurt      hurtTables

	damped  damper // alarms that come in floods
	wanting damper // alarms of writes that wait for room, each of which is tried four times a second
	spoilt  spoilt // messages put aside by the spool itself
	count   counters

	indexes    sync.RWMutex // held for reading by scans, for writing by heal
	healed     uint64       // indexes made anew
	healing    damper
	gapped     damper                              // parts of the store that cannot be read
	kinds      [mail.AreaCorrupt + 1]atomic.Uint32 // first octets of the index keys of each area
	unfinished bitset                              // areas whose index is not all there
	passing    [mail.AreaCorrupt + 1]atomic.Int32  // scans of each area that have failed in a row and may not for long

	life   sync.RWMutex // held for reading by every call
	closed bool
}

// Counters count since the spool was opened.
type counters struct {
	stalls  atomic.Uint64 // times that writers had to wait
	commits atomic.Uint64 // synced batches
	steps   atomic.Uint64 // index keys that scans stepped over, tombstones counted
	removed atomic.Uint64 // messages removed since space was last reclaimed
}

// Open opens the spool in cfg.Dir, making it if it is not there, and starts
// its maintenance. It returns ErrInUse if somebody else has it open.
//
// Opening replays what the log holds, at most a few memtables, and so takes
// the same time however many messages there are. If the log is damaged, an
// alarm is raised, the file kept, and what can be read of it is used; then all
// indexes are made anew, some seconds for a million messages.
//
// On a full disk Open gives up the ballast, waits for some seconds, and then
// returns an error that wraps ErrFull, or calls Config.Fatal with it.
func Open(cfg Config) (_ *Spool, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Spool{
		cfg:     cfg.WithDefaults(),
		damped:  damper{per: 10, period: time.Minute},
		wanting: damper{per: 1, period: 30 * time.Second},
		healing: damper{per: 4, period: 10 * time.Minute},
		gapped:  damper{per: 20, period: time.Minute},
	}
	s.disk = s.cfg.FS
	s.starting.Store(true)
	defer s.starting.Store(false)
	defer func() {
		if err != nil {
			err = errors.Join(s.wantsRoom(err), s.release())
		}
	}()
	if err := s.claim(); err != nil {
		return nil, err
	}
	watched, stopWatch := vfs.WithDiskHealthChecks(s.disk, s.cfg.SlowDisk, nil, s.slowDisk)
	s.opened = append(s.opened, stopWatch)
	s.work.init()
	s.hurt.poke = make(chan struct{}, 1)
	s.room.init(s)
	s.spare.fill(s)
	ballasted := vfs.OnDiskFull(watched, s.room.ranFull)
	s.fs = &storeFS{FS: ballasted, s: s}
	s.mending = ballasted
	// A content file that does not fit is refused; the ballast is for the rest.
	s.bodies = bodyDirs{fs: watched, dir: s.path("body")}
	if err := s.openStore(); err != nil {
		return nil, err
	}
	if err := s.checkFormat(); err != nil {
		return nil, err
	}
	if err := s.openIndexes(); err != nil {
		return nil, err
	}
	if err := s.endMend(); err != nil {
		return nil, err
	}
	if err := s.recheck(s.work.ctx); err != nil {
		s.cfg.Logger.Warn("not all messages of the corrupt area could be looked at", "error", err)
	}
	if err := s.openIDs(); err != nil {
		return nil, err
	}
	if err := s.place.init(s); err != nil {
		return nil, err
	}
	s.startBackground()
	return s, nil
}

func (s *Spool) path(name string) string { return s.disk.PathJoin(s.cfg.Dir, name) }

// claim makes the directories and takes the lock on them.
func (s *Spool) claim() error {
	if err := s.makeDirs(); err != nil {
		return fmt.Errorf("spool: make %s: %w", s.cfg.Dir, err)
	}
	lock, err := s.disk.Lock(s.path("lock"))
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
		return fmt.Errorf("spool: lock: %w", err) // the file could not even be made
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrInUse, s.path("lock"), err)
	}
	s.opened = append(s.opened, lock)
	return nil
}

// makeDirs makes the directories that are not there, and syncs what is above
// them: a message may be durable in a directory that a crash takes away. Pebble
// would make its own readable by all, and an operator may open cfg.Dir to those
// who are to reach the sockets in it.
func (s *Spool) makeDirs() error {
	for _, dir := range []string{s.cfg.Dir, s.path("body"), s.path("db"), s.path(manifestDir)} {
		if err := s.disk.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	return errors.Join(syncDir(s.disk, s.disk.PathDir(s.cfg.Dir)), syncDir(s.disk, s.cfg.Dir))
}

// checkFormat refuses a spool that a later version of this program has
// written: taken for damage, its messages would all be put aside.
func (s *Spool) checkFormat() error {
	text, ok, err := s.loadText(plainKey(keyFormat))
	if err != nil && !isDamage(err) {
		return err
	}
	if version, err := strconv.Atoi(text); ok && (err != nil || version != formatVersion) {
		return fmt.Errorf("spool: %s has format %q, this program knows %d", s.cfg.Dir, text, formatVersion)
	}
	if ok {
		return nil
	}
	b := s.db.NewBatch()
	defer b.Close()
	if err := putFormat(b); err != nil {
		return err
	}
	return s.commit(b)
}

func putFormat(b *pebble.Batch) error {
	return put(b, plainKey(keyFormat), strconv.AppendInt(nil, formatVersion, 10))
}

// Close waits for calls that have begun, writes what only the log holds into
// tables, for at most 10 s, and closes the spool. A call that
// waits for disk space is waited for during 5 s; then the process ends. Contents and
// cursors that were handed out stay valid; drafts can only be aborted.
func (s *Spool) Close() error {
	s.work.stop() // a call may be waiting for disk space
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.stopBackground()
	err := s.ids.release()
	s.settle()
	return errors.Join(err, s.release())
}

// release closes whatever is open, in the reverse order of opening.
func (s *Spool) release() error {
	var errs []error
	if s.db != nil {
		errs = append(errs, s.db.Close())
		s.db = nil
	}
	s.stalled(false)
	s.spare.give()
	for i := len(s.opened) - 1; i >= 0; i-- {
		errs = append(errs, s.opened[i].Close())
	}
	s.opened = nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("spool: close: %w", err)
	}
	return nil
}

// enter begins a call; if it returns nil, leave must end it. A call must not
// enter twice: it would wait for a Close that waits for it.
func (s *Spool) enter() error {
	s.life.RLock()
	if s.closed {
		s.life.RUnlock()
		return ErrClosed
	}
	return nil
}

func (s *Spool) leave() { s.life.RUnlock() }

// commit makes a batch durable. Pebble writes the batches of all goroutines
// that are here at the same time with one sync.
func (s *Spool) commit(b *pebble.Batch) error {
	if b.Empty() {
		return nil
	}
	size := b.Len()
	defer s.dieOfPanic()
	if err := b.Commit(pebble.Sync); err != nil {
		return fmt.Errorf("spool: commit: %w", err)
	}
	s.count.commits.Add(1)
	if err := s.inPlace(); err != nil {
		return fmt.Errorf("spool: commit: %w", err)
	}
	s.room.spend(int64(size))
	return nil
}
