package spool

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A roomState is a range of free disk space.
type roomState uint8

const (
	roomEnough roomState = iota
	roomLow              // less than twice Config.MinFree
	roomNone             // less than Config.MinFree, or a write has failed because the disk was full
)

// A room monitors the free disk space. Asking the file system costs a system call,
// so the answer is cached for a second or until roomStale bytes have been written,
// whichever comes first.
type room struct {
	s       *Spool
	ballast string

	asked   atomic.Int64          // when the file system was asked last, as time since start
	free    atomic.Int64          // its answer, less what was written since
	unknown atomic.Pointer[error] // why the file system did not answer; nil if it did
	since   atomic.Int64          // bytes written since
	full    atomic.Int64          // when a write last failed because the disk was full, as time since start; 0: never
	start   time.Time

	mu    sync.Mutex // guards asking and state changes
	state roomState
	held  bool // the ballast exists
}

const (
	roomFresh = time.Second
	roomStale = 16 << 20
	// roomPause is the time for which Pebble must wait between attempts to flush to a full
	// disk. It would retry at once: 25,000 attempts were seen in 40 s.
	roomPause = 250 * time.Millisecond
	// roomSpell is the time for which new mail is refused after a failed write, whatever the
	// file system reports: it does not include quotas and reserves.
	roomSpell = 5 * time.Second
)

func (r *room) init(s *Spool) {
	r.s, r.start, r.ballast = s, time.Now(), s.path("ballast")
	_, err := s.disk.Stat(r.ballast)
	r.held = err == nil
	r.look()
}

// admit returns an error that wraps ErrFull if there is no room for size more
// bytes. Reports may use half of the space that is kept from other mail, so that
// reports on mail already accepted do not get stuck.
func (r *room) admit(report bool, size int64) error {
	if time.Since(r.start)-time.Duration(r.asked.Load()) >= roomFresh || r.since.Load() >= roomStale {
		r.look()
	}
	if err := r.unknown.Load(); err != nil {
		return fmt.Errorf("spool: the file system does not report its free space: %w", *err)
	}
	floor := r.s.cfg.MinFree
	if report {
		floor /= 2
	} else if r.failedWithin(roomSpell) {
		return fmt.Errorf("%w: a write failed because the disk is full", ErrFull)
	}
	if free := r.free.Load(); free-size < floor {
		return fmt.Errorf("%w: %d bytes of disk space are left, the minimum is %d", ErrFull, free, floor)
	}
	return nil
}

// spend records bytes written.
func (r *room) spend(size int64) {
	r.since.Add(size)
	r.free.Add(-size)
}

func (r *room) failedWithin(spell time.Duration) bool {
	at := r.full.Load()
	return at != 0 && time.Since(r.start)-time.Duration(at) < spell
}

// look asks the file system and raises an alarm if the state has changed.
func (r *room) look() {
	r.mu.Lock()
	defer r.mu.Unlock()
	usage, err := r.s.disk.GetDiskUsage(r.s.cfg.Dir)
	free := int64(min(usage.AvailBytes, 1<<62))
	if err == nil || errors.Is(err, vfs.ErrUnsupported) {
		r.unknown.Store(nil)
	} else {
		r.unknown.Store(&err)
	}
	if err != nil {
		free = 1 << 62 // a file system that cannot report it is assumed to have room
	}
	r.free.Store(free)
	r.since.Store(0)
	r.asked.Store(int64(time.Since(r.start)))

	state := roomEnough
	switch floor := r.s.cfg.MinFree; {
	case free < floor || r.failedWithin(roomSpell):
		state = roomNone
	case free < 2*floor:
		state = roomLow
	}
	r.enter(state, free)
}

// isNone reports whether new mail is refused for lack of room.
func (r *room) isNone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state == roomNone
}

// enter changes the state. The caller holds the mutex.
func (r *room) enter(state roomState, free int64) {
	if state == r.state {
		return
	}
	r.state = state
	switch state {
	case roomEnough:
		r.s.raise(Alarm{Kind: AlarmRoom, Text: fmt.Sprintf("disk space is sufficient again: %d bytes", free)})
	case roomLow:
		r.s.raise(Alarm{Kind: AlarmLow, Text: fmt.Sprintf("%d bytes of disk space are left; new mail is refused below %d", free, r.s.cfg.MinFree)})
	case roomNone:
		r.s.raise(Alarm{Kind: AlarmFull, Text: fmt.Sprintf("%d bytes of disk space are left; new mail is refused", free)})
	}
}

// wantsRoom converts an error that means that there was no room to ErrFull, with the
// remaining space. It returns other errors unchanged.
func (s *Spool) wantsRoom(err error) error {
	if !isNoRoom(err) || errors.Is(err, ErrFull) {
		return err
	}
	left := "an unknown number of"
	if usage, err := s.disk.GetDiskUsage(s.cfg.Dir); err == nil {
		left = fmt.Sprint(usage.AvailBytes)
	}
	return fmt.Errorf("%w: %s bytes are free in the file system of %s: %w", ErrFull, left, s.cfg.Dir, err)
}

// refuse converts the error of a content file for which there was no room to
// ErrFull, and has further mail refused for a while.
func (r *room) refuse(err error) error {
	if !isNoRoom(err) {
		return err
	}
	r.full.Store(int64(max(time.Since(r.start), 1)))
	r.look()
	return fmt.Errorf("%w: %w", ErrFull, err)
}

// ranFull is called when a write has failed because the disk is full; when it
// returns, the write is repeated once. All other writes wait meanwhile.
func (r *room) ranFull() {
	r.full.Store(int64(max(time.Since(r.start), 1)))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.enter(roomNone, 0)
	if !r.held {
		return
	}
	r.held = false
	// Bypass all wrappers: they block writes until this returns.
	if err := r.s.disk.Remove(r.ballast); err != nil {
		r.s.raise(Alarm{Kind: AlarmFull, Text: "cannot delete the ballast", Err: err})
		return
	}
	r.s.raise(Alarm{Kind: AlarmFull, Text: fmt.Sprintf("the disk is full; the ballast of %d bytes was deleted", r.s.cfg.Ballast)})
}

// restore creates the ballast if it is missing and there is ample room for it. It
// is written, not just reserved, because not all file systems can reserve.
func (r *room) restore() error {
	r.look()
	r.mu.Lock()
	wanted := !r.held && r.state == roomEnough && r.free.Load() > r.s.cfg.Ballast+2*r.s.cfg.MinFree
	r.mu.Unlock()
	if !wanted {
		return nil
	}
	if err := r.writeBallast(); err != nil {
		err = fmt.Errorf("spool: write the ballast: %w", err)
		if rm := r.s.disk.Remove(r.ballast); rm != nil && !oserror.IsNotExist(rm) {
			err = errors.Join(err, rm)
		}
		return err
	}
	r.mu.Lock()
	r.held = true
	r.mu.Unlock()
	return nil
}

func (r *room) writeBallast() error {
	f, err := r.s.disk.Create(r.ballast, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	zeros := make([]byte, 256<<10)
	for left := r.s.cfg.Ballast; left > 0 && err == nil; left -= int64(len(zeros)) {
		_, err = f.Write(zeros[:min(left, int64(len(zeros)))])
	}
	if err == nil {
		err = f.SyncData()
	}
	return errors.Join(err, f.Close())
}
