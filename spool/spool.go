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

	"github.com/posthaste-mta/posthaste/internal/histogram"
	"github.com/posthaste-mta/posthaste/mail"
)

var (
	// ErrFull means that there is no room for a message now; the reply to a client
	// is 452 4.3.1 (RFC 3463 3.4).
	ErrFull = errors.New("no room in the spool")
	// ErrCorrupt means that stored data cannot be read back.
	ErrCorrupt = mail.ErrCorrupt
	// ErrGone means that there is no such message.
	ErrGone = mail.ErrGone
	// ErrInUse means that another process, or this one, has the spool open.
	ErrInUse = errors.New("spool is in use")
	// ErrClosed means that Close has been called.
	ErrClosed = errors.New("spool is closed")
)

// formatVersion is the number of the layout described in the package comment. A spool of
// format 1 has no buckets, and becomes one of this format when it is opened: nothing in
// it needs to be rewritten. A spool with counts has formatCounts.
const (
	formatOldest  = 1
	formatVersion = 2
	formatCounts  = 3
)

// A Spool is a directory of messages. All its methods may be called concurrently
// from any number of goroutines.
type Spool struct {
	cfg        Config
	disk       vfs.FS // as configured
	fs         vfs.FS // disk with all wrappers that monitor it
	mending    vfs.FS // disk for files that repairs write; they may use the ballast
	db         *pebble.DB
	opened     []io.Closer // closed after db, last first
	manifests  manifests
	room       room
	ids        idSource
	earlier    mail.QueueID // queue IDs below it are those of earlier runs
	locks      messageLocks
	bodies     bodyDirs
	place      place
	spare      spareFiles
	pace       syncPace
	delivered  deliveredFile
	starting   atomic.Bool // Open has not returned yet
	opening    atomic.Bool // Pebble is being opened and can return errors
	unreplayed bool        // there are logs that no store has replayed; for the goroutine that opens
	dead       atomic.Bool // die has been called
	work       background
	hurt       hurtTables

	damped  damper // limits repeated alarms
	wanting damper // limits alarms of writes that wait for room, each of which is tried four times a second
	spoilt  spoilt // messages moved to the corrupt area by the spool itself
	counts  counts
	totals  totals
	count   counters

	indexes    sync.RWMutex // held for reading by scans, for writing by heal
	healed     uint64       // number of indexes rebuilt
	healing    damper
	gapped     damper                              // limits alarms on unreadable parts of the store
	kinds      [mail.AreaCorrupt + 1]atomic.Uint32 // first bytes of the index keys of each area
	unfinished bitset                              // areas whose index is incomplete
	passing    [mail.AreaCorrupt + 1]atomic.Int32  // consecutive temporary failures of scans of each area

	life   sync.RWMutex // held for reading by every call
	closed bool
}

// Counters count since the spool was opened.
type counters struct {
	stalls  atomic.Uint64       // times that writers had to wait
	commits atomic.Uint64       // synced batches
	latency histogram.Histogram // of these
	syncs   atomic.Uint64       // of the log
	steps   atomic.Uint64       // index keys that scans passed, including tombstones
	removed atomic.Uint64       // messages removed since space was last reclaimed
}

// Open opens the spool in cfg.Dir, creating it if it does not exist, and starts its
// maintenance. It returns ErrInUse if it is already open.
//
// Opening replays the log, at most a few memtables, and so takes the same time
// however many messages there are. If the log is damaged, an alarm is raised, the
// file is kept, and what can be read of it is used; then all indexes are rebuilt,
// which takes some seconds for a million messages.
//
// On a full disk Open deletes the ballast, waits for some seconds, and then returns
// an error that wraps ErrFull, or calls Config.Fatal with it.
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
	s.pace.begin(s.cfg.SyncInterval)
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
	// A content file that does not fit is refused; the ballast is for all other
	// writes.
	s.bodies = bodyDirs{fs: watched, dir: s.path("body")}
	if err := s.openStore(); err != nil {
		return nil, err
	}
	if err := s.checkFormat(); err != nil {
		return nil, err
	}
	s.totals.poke = make(chan struct{}, 1)
	if err := s.openCounts(); err != nil {
		return nil, err
	}
	if err := s.openIndexes(); err != nil {
		return nil, err
	}
	if err := s.endMend(); err != nil {
		return nil, err
	}
	if err := s.recheck(s.work.ctx); err != nil {
		s.cfg.Logger.Warn("cannot check all messages of the corrupt area", "error", err)
	}
	if err := s.openDelivered(); err != nil {
		return nil, err
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

// claim creates the directories and locks them.
func (s *Spool) claim() error {
	if err := s.makeDirs(); err != nil {
		return fmt.Errorf("spool: create %s: %w", s.cfg.Dir, err)
	}
	lock, err := s.disk.Lock(s.path("lock"))
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
		return fmt.Errorf("spool: lock: %w", err) // the file could not be created
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrInUse, s.path("lock"), err)
	}
	s.opened = append(s.opened, lock)
	return nil
}

// makeDirs creates missing directories and syncs their parents: otherwise a message
// could be durable in a directory that a crash removes. Pebble would make its own
// directory readable by all, and an operator may open cfg.Dir to users who need the
// sockets in it.
func (s *Spool) makeDirs() error {
	for _, dir := range []string{s.cfg.Dir, s.path("body"), s.path("db"), s.path(manifestDir)} {
		if err := s.disk.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	return errors.Join(syncDir(s.disk, s.disk.PathDir(s.cfg.Dir)), syncDir(s.disk, s.cfg.Dir))
}

// checkFormat refuses a spool that a later version of this program has written: all
// its messages would otherwise be taken for damaged, or not be found.
func (s *Spool) checkFormat() error {
	text, ok, err := s.loadText(plainKey(keyFormat))
	if err != nil && !isDamage(err) {
		return err
	}
	version, wrong := strconv.Atoi(text)
	if ok && (wrong != nil || version < formatOldest || version > formatCounts) {
		return fmt.Errorf("spool: %s has format %q, this version supports %d to %d", s.cfg.Dir, text, formatOldest, formatCounts)
	}
	if ok && version >= formatVersion {
		return nil
	}
	format := int64(formatVersion)
	if counted, err := s.has(plainKey(keyCount)); counted || err != nil { // the format is damaged
		format = formatCounts
	}
	b := s.db.NewBatch()
	defer b.Close()
	if err := putFormat(b, format); err != nil {
		return err
	}
	return s.commit(b)
}

func putFormat(b *pebble.Batch, version int64) error {
	return put(b, plainKey(keyFormat), strconv.AppendInt(nil, version, 10))
}

// Close waits for calls that have begun, flushes what is only in the log to tables,
// for at most 10 s, and closes the spool. It waits 5 s for a call that waits for
// disk space; then the process ends. Contents and cursors that were returned stay
// valid; drafts can only be aborted.
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

// release closes everything that is open, in reverse order of opening.
func (s *Spool) release() error {
	var errs []error
	s.counts.state.dropScan()
	if s.db != nil {
		errs = append(errs, s.db.Close())
		s.db = nil
	}
	errs = append(errs, s.manifests.close())
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

// commit makes a batch durable. Pebble writes the batches of all concurrent callers
// with one sync.
func (s *Spool) commit(b *pebble.Batch) error {
	if b.Empty() {
		return nil
	}
	size := b.Len()
	before := s.place.found.Load()
	defer s.dieOfPanic()
	began := time.Now()
	if err := b.Commit(pebble.Sync); err != nil {
		return fmt.Errorf("spool: commit: %w", err)
	}
	s.count.commits.Add(1)
	s.count.latency.Duration(time.Since(began))
	if err := s.inPlace(before); err != nil {
		return fmt.Errorf("spool: commit: %w", err)
	}
	s.room.spend(int64(size))
	return nil
}
