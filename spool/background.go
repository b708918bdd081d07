package spool

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2"

	"github.com/posthaste-mta/posthaste/mail"
)

// A background is the work that the spool does by itself, in goroutines that
// end with Close.
type background struct {
	ctx   context.Context // ends when Close is called
	stop  context.CancelFunc
	done  sync.WaitGroup
	swept chan struct{}     // closed when the remains of a crash are removed
	files chan mail.QueueID // messages whose content files must be deleted
	round sync.Mutex        // held during a round of maintenance
}

func (w *background) init() {
	w.ctx, w.stop = context.WithCancel(context.Background())
	w.swept = make(chan struct{})
	w.files = make(chan mail.QueueID, 1024)
}

// pause waits, unless the spool is being closed.
func (w *background) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.ctx.Done():
	}
}

func (s *Spool) startBackground() {
	s.totals.begin()
	first, seen := s.db.NewSnapshot(), s.healed // while nothing else goes on
	s.work.done.Go(s.deleteFiles)
	s.work.done.Go(s.maintain)
	s.work.done.Go(s.keepCounts)
	s.work.done.Go(func() { s.keepTotals(first, seen) })
}

func (s *Spool) stopBackground() {
	s.work.stop()
	close(s.work.files)
	s.work.done.Wait()
}

// discard deletes the content file of a removed message in the background, since a
// commit should not wait for the deletion of a large file. Files that are left when
// the process ends are deleted after the next start.
func (s *Spool) discard(id mail.QueueID) {
	select {
	case s.work.files <- id:
	default:
		s.deleteFile(id)
	}
}

func (s *Spool) deleteFiles() {
	for id := range s.work.files {
		s.deleteFile(id)
	}
}

func (s *Spool) deleteFile(id mail.QueueID) {
	if err := s.bodies.remove(id); err != nil {
		s.cfg.Logger.Error("cannot delete content file", "id", id.String(), "error", err)
	}
}

// maintain removes the remains of a crash, then does a round of maintenance every
// Config.Maintain.
func (s *Spool) maintain() {
	if err := s.sweep(s.work.ctx); err != nil && s.work.ctx.Err() == nil {
		s.raise(Alarm{Kind: AlarmStore, Text: "cannot remove remains of earlier runs", Err: err})
	}
	close(s.work.swept)
	t := time.NewTicker(s.cfg.Maintain)
	defer t.Stop()
	var seen uint64
	for {
		if err := s.noteTables(); err != nil {
			s.raise(Alarm{Kind: AlarmStore, Text: "cannot record damaged tables", Err: err})
		}
		commits := s.count.commits.Load()
		err := s.round(s.work.ctx, commits-seen < idleCommits)
		seen = commits
		if err != nil && s.work.ctx.Err() == nil && s.damped.allow() {
			s.raise(Alarm{Kind: AlarmStore, Text: "maintenance failed", Err: err})
		}
		select {
		case <-s.work.ctx.Done():
			return
		case <-s.hurt.poke:
		case <-t.C:
		}
	}
}

// idleCommits is the number of commits in one maintenance period up to which the
// store counts as idle. With more, compactions free space by themselves.
const idleCommits = 100

// round restores the ballast and, if the store is idle, frees disk space that deleted contents
// still occupy.
func (s *Spool) round(ctx context.Context, idle bool) error {
	s.work.round.Lock()
	defer s.work.round.Unlock()
	s.spare.fill(s)
	err := errors.Join(s.room.restore(), s.deleteOrphans())
	if idle {
		err = errors.Join(err, s.reclaim(ctx))
	}
	return err
}

// Thresholds for a reclaim: contents removed since the last one, or bytes of
// garbage that are also a minimum fraction of all contents. The fraction is above
// TargetGarbageRatio, at which Pebble stops by itself.
const (
	reclaimRemovals = 1000
	reclaimGarbage  = 1 << 20
	reclaimPercent  = 35
)

// reclaim frees the space of removed contents. Pebble by itself does so only while
// there is traffic: after most of a backlog was removed nothing happened while the
// store was idle. Compacting the contents' keys drops the references to their
// blobs; the rewriting of these starts with the next flush, which takes a write to
// happen.
func (s *Spool) reclaim(ctx context.Context) error {
	blobs := s.db.Metrics().BlobFiles
	garbage := blobs.ValueSize - min(blobs.ReferencedValueSize, blobs.ValueSize)
	due := garbage >= reclaimGarbage && garbage >= blobs.ValueSize/100*reclaimPercent
	if !due && s.count.removed.Load() < reclaimRemovals {
		return nil
	}
	s.count.removed.Store(0)
	from, to := plainKey(keyBody), plainKey(keyBody+1)
	if err := s.db.Compact(ctx, from.bytes(), to.bytes(), false); err != nil {
		return fmt.Errorf("spool: reclaim space: %w", err)
	}
	return s.nudge()
}

// nudge makes Pebble look for blobs to rewrite.
func (s *Spool) nudge() error {
	b := s.db.NewBatch()
	defer b.Close()
	s.counts.gate.RLock()
	err := errors.Join(putFormat(b, s.counts.format()), s.commit(b))
	s.counts.gate.RUnlock()
	if err != nil {
		return err
	}
	if err := s.db.Flush(); err != nil {
		return fmt.Errorf("spool: reclaim space: %w", err)
	}
	return nil
}

// sweep removes what interrupted drafts and removals of earlier runs have left:
// recipients written ahead, and content files without an envelope. It only looks at
// queue IDs of earlier runs, so it cannot affect a current draft.
func (s *Spool) sweep(ctx context.Context) error {
	var kept []mail.QueueID
	wanted := func(id mail.QueueID) (bool, error) { return s.has(messageKey(keyEnvelope, id)) }
	remove := s.bodies.fs.Remove
	var dir string
	if s.mailLost() {
		dir = s.disk.PathJoin(s.path(damagedDir), orphanDir, time.Unix(0, int64(s.cfg.Now())).UTC().Format(damagedTime))
		remove = func(name string) error {
			id, err := mail.ParseQueueID(s.disk.PathBase(name))
			if err != nil {
				return s.bodies.fs.Remove(name) // of a draft
			}
			kept = append(kept, id)
			return s.keepOrphan(name, dir)
		}
	}
	err := errors.Join(s.sweepAhead(ctx), s.bodies.sweep(ctx, s.earlier, wanted, remove))
	if len(kept) > 0 {
		s.raise(Alarm{Kind: AlarmCorrupt, Text: "content files without an envelope are kept because a log or a table of the store was damaged; their messages are lost or had been removed",
			Err: fmt.Errorf("moved to %s, will be deleted after %d days: %s", dir, orphanLife/(24*time.Hour), nameIDs(kept))})
	}
	return err
}

// orphanDir is where contents without an envelope are kept after a log or a table was
// damaged, in a directory for each start. Such a content may be all that is left of its
// message. They are deleted after orphanLife, which gives operators a month to react to
// the alarm.
const (
	orphanDir  = "content"
	orphanLife = 30 * 24 * time.Hour
)

// mailLost reports whether part of a log or a table was lost and the damaged file
// that was kept has not been removed yet.
func (s *Spool) mailLost() bool {
	return slices.ContainsFunc(s.damagedFiles(), func(f DamagedFile) bool {
		ext := filepath.Ext(f.Path)
		return ext == ".log" || ext == ".missing" || ext == ".sst"
	})
}

func (s *Spool) keepOrphan(name, dir string) error {
	if err := s.disk.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return s.disk.Rename(name, s.disk.PathJoin(dir, s.disk.PathBase(name)))
}

// deleteOrphans deletes files that have been in orphanDir for orphanLife.
func (s *Spool) deleteOrphans() error {
	top := s.disk.PathJoin(s.path(damagedDir), orphanDir)
	names, err := s.disk.List(top)
	if oserror.IsNotExist(err) {
		return nil
	}
	for _, name := range names {
		at, notTime := time.Parse(damagedTime, name)
		if notTime != nil || time.Unix(0, int64(s.cfg.Now())).Sub(at) < orphanLife {
			continue
		}
		if err = errors.Join(err, s.disk.RemoveAll(s.disk.PathJoin(top, name))); err == nil {
			s.cfg.Logger.Info("deleted contents without an envelope after 30 days", "directory", s.disk.PathJoin(top, name))
		}
	}
	return err
}

func (s *Spool) sweepAhead(ctx context.Context) error {
	from, to := plainKey(keyAhead), messageKey(keyAhead, s.earlier)
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: from.bytes(), UpperBound: to.bytes()})
	if err != nil {
		return fmt.Errorf("spool: sweep: %w", err)
	}
	defer it.Close()
	for ok := it.First(); ok && ctx.Err() == nil; ok = it.Next() {
		if len(it.Key()) != 9 {
			continue
		}
		if err := s.dropAhead(mail.QueueID(binary.BigEndian.Uint64(it.Key()[1:]))); err != nil {
			return err
		}
	}
	return errors.Join(it.Error(), ctx.Err())
}

// dropAhead deletes the recipients that a draft wrote ahead of its commit.
func (s *Spool) dropAhead(id mail.QueueID) error {
	b := s.db.NewBatch()
	defer b.Close()
	from, to := chunkKey(keyRecipients, id, 0), afterChunks(keyRecipients, id)
	if err := b.DeleteRange(from.bytes(), to.bytes(), nil); err != nil {
		return err
	}
	if err := drop(b, messageKey(keyAhead, id)); err != nil {
		return err
	}
	return s.commit(b)
}
