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
	swept chan struct{}     // closed when what a crash has left is cleared
	files chan mail.QueueID // contents of removed messages, to be deleted
	round sync.Mutex        // held by the one round of maintenance at a time
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
	s.work.done.Go(s.deleteFiles)
	s.work.done.Go(s.maintain)
}

func (s *Spool) stopBackground() {
	s.work.stop()
	close(s.work.files)
	s.work.done.Wait()
}

// discard deletes the content file of a message that is gone, soon. Deleting
// a large file takes a while that no commit should wait for; what is not
// deleted when the process ends is cleared after the next start.
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
		s.cfg.Logger.Error("content file was not deleted", "id", id.String(), "error", err)
	}
}

// maintain clears what a crash has left, then does a round of maintenance
// every Config.Maintain.
func (s *Spool) maintain() {
	if err := s.sweep(s.work.ctx); err != nil && s.work.ctx.Err() == nil {
		s.raise(Alarm{Kind: AlarmStore, Text: "remains of earlier runs could not be cleared", Err: err})
	}
	close(s.work.swept)
	t := time.NewTicker(s.cfg.Maintain)
	defer t.Stop()
	var seen uint64
	for {
		if err := s.noteTables(); err != nil {
			s.raise(Alarm{Kind: AlarmStore, Text: "damage was not noted", Err: err})
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

// idleCommits is how many commits in one maintenance period still count as
// idle. With more than that, compactions give space back by themselves.
const idleCommits = 100

// Maintain does one round of maintenance now: it restores the ballast, and
// gives back disk space that deleted contents still occupy. The spool does so
// by itself from time to time; an operator may wish it sooner.
func (s *Spool) Maintain(ctx context.Context) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	return s.round(ctx, true)
}

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

// What makes a reclaim worth while: so many contents removed since the last
// one, or so many octets of garbage that are such a share of all contents. The
// share is above TargetGarbageRatio, at which Pebble is content.
const (
	reclaimRemovals = 1000
	reclaimGarbage  = 1 << 20
	reclaimPercent  = 35
)

// reclaim gives back the space of removed contents. Pebble by itself does so
// only while there is traffic: after most of a backlog was removed nothing
// happened for as long as the store was idle. Compacting the contents' keys
// drops the references to their blobs; the rewriting of these starts with the
// next flush, which takes a write to happen.
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
	if err := putFormat(b); err != nil {
		return err
	}
	if err := s.commit(b); err != nil {
		return err
	}
	if err := s.db.Flush(); err != nil {
		return fmt.Errorf("spool: reclaim space: %w", err)
	}
	return nil
}

// sweep clears what drafts and removals of earlier runs have left when they
// were cut off: recipients written ahead, and content files without envelope.
// It looks at queue IDs of earlier runs only, so it cannot hurt a draft.
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
		s.raise(Alarm{Kind: AlarmCorrupt, Text: "contents of messages that are lost, or that had been removed, are kept because a log or a table of the store was damaged",
			Err: fmt.Errorf("moved to %s, and deleted from there after %d days: %s", dir, orphanLife/(24*time.Hour), nameIDs(kept))})
	}
	return err
}

// orphanDir is where contents without an envelope are kept after a log or a table was
// damaged, in a directory for each start. Of the message that such a content belongs
// to, nothing else may be left. They are deleted after orphanLife: somebody had a month
// to look at the alarm.
const (
	orphanDir  = "content"
	orphanLife = 30 * 24 * time.Hour
)

// mailLost reports whether something of a log or a table was lost, and nobody has yet
// removed what is kept of that.
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

// deleteOrphans deletes what has been in orphanDir for orphanLife.
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
			s.cfg.Logger.Info("contents without a message were deleted after a month", "directory", s.disk.PathJoin(top, name))
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

// dropAhead forgets the recipients that a draft wrote ahead of its commit.
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
