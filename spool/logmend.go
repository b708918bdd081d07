package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// damagedDir is where damaged files are kept for inspection.
const damagedDir = "damaged"

// mendNote is the file in damagedDir that marks an unfinished repair: keys may be
// lost or have reappeared, and what depends on them is not consistent yet.
const mendNote = "mending"

// beginMend creates the note before the damage is removed: if the start is interrupted
// after that, the next one would find no damage.
func (s *Spool) beginMend() error {
	f, err := s.makeNote(s.disk.PathJoin(s.path(damagedDir), mendNote))
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return fmt.Errorf("spool: mark the repair of the store as begun: %w", err)
	}
	return nil
}

// endMend restores consistency with keys that may be lost, if the note exists.
func (s *Spool) endMend() error {
	note := s.disk.PathJoin(s.path(damagedDir), mendNote)
	if _, err := s.disk.Stat(note); oserror.IsNotExist(err) {
		return nil
	}
	err := s.keepLost(s.work.ctx)
	s.reindexAll()
	if s.counts.active() {
		err = errors.Join(err, s.setCounting(s.cfg.Counts))
	}
	if err != nil {
		s.raise(Alarm{Kind: AlarmCorrupt, Text: "cannot move messages without an envelope to the corrupt area", Err: err})
		return nil // the next start tries again
	}
	if err := s.disk.Remove(note); err != nil {
		return fmt.Errorf("spool: mark the repair of the store as finished: %w", err)
	}
	return nil
}

// openStore opens the store after checking its logs. It leaves a note for endMend
// if something may be lost.
//
// Pebble reads a log up to the first chunk that it cannot read, and deletes it. If
// that is not the end, everything after it would be lost silently.
func (s *Spool) openStore() error {
	if err := s.checkManifest(); err != nil {
		return s.refused(err)
	}
	if err := s.checkOptions(); err != nil {
		return err
	}
	missing, err := s.missLogs()
	if err != nil {
		return err
	}
	defer func() { s.tellMissing(missing) }()
	if _, err = s.mendLogs(false); err != nil {
		return err
	}
	old, err := pebble.Peek(s.path("db"), s.fs)
	if err != nil {
		return fmt.Errorf("spool: check the store in %s: %w", s.cfg.Dir, err)
	}
	if s.db, err = s.openPebble(); err == nil {
		if err := s.mendTables(); err != nil || old.FormatMajorVersion >= pebble.FormatWALSyncChunks {
			return err
		}
		// Pebble creates its log before it changes to the new format: in the first
		// log of a store, damage could not be distinguished from a torn end.
		if err := s.db.Flush(); err != nil {
			return fmt.Errorf("spool: start a log: %w", err)
		}
		return nil
	}
	s.db = nil
	if !pebble.IsCorruptionError(err) {
		return s.refused(fmt.Errorf("spool: open the store: %w", err))
	}
	// If Pebble needs a log that is not the last one, and that log does not end
	// like a closed one, Pebble takes that for damage.
	again, mendErr := s.mendLogs(true)
	if again && mendErr == nil {
		if s.db, err = s.openPebble(); err == nil {
			return s.mendTables()
		}
		s.db = nil
	}
	return s.refused(errors.Join(err, mendErr))
}

// openPebble opens the store, with an empty file in place of each missing blob file.
func (s *Spool) openPebble() (db *pebble.DB, err error) {
	for {
		if db, err = s.openAsIs(); err != nil {
			return nil, err
		}
		replaced, err := s.replaceBlobs(db)
		if err == nil && !replaced {
			return db, nil
		}
		if closeErr := db.Close(); err != nil || closeErr != nil {
			return nil, errors.Join(err, closeErr)
		}
	}
}

// openAsIs opens the store. If Pebble panics because of an error of the file
// system, it returns that error.
//
// To replay logs, Pebble flushes them to a table in the middle of Open, and
// goroutines that read the table begin at once. If Open then fails, as on a full disk, it closes
// the caches that these goroutines use, and they end the process. So the logs are replayed
// first by a store that has no such goroutines; the second one has nothing to flush.
func (s *Spool) openAsIs() (db *pebble.DB, err error) {
	s.opening.Store(true)
	defer func() {
		s.opening.Store(false)
		if bug := recover(); bug != nil {
			cause, ok := bug.(error)
			if !ok || s.dead.Load() {
				panic(bug)
			}
			db, err = nil, cause
		}
	}()
	if s.unreplayed {
		o := s.storeOptions()
		o.DisableTableStats, o.DisableAutomaticCompactions = true, true
		if db, err = pebble.Open(s.path("db"), o); err == nil {
			err = db.Close()
		}
		if err != nil {
			return nil, err
		}
		s.unreplayed = false
	}
	return pebble.Open(s.path("db"), s.storeOptions())
}

// replaceBlobs creates an empty file in place of each missing blob file. Pebble lists
// the existing files when it opens the store, and panics when it needs a file that was
// missing; an empty file is reported by blobProblem as damaged. Pebble may need a
// missing file before this check, because it has begun to rewrite it: then the process
// ends, and the next one checks again.
func (s *Spool) replaceBlobs(db *pebble.DB) (replaced bool, err error) {
	blobs := db.DebugCurrentVersion().BlobFiles
	for blob := range blobs.All() {
		name := s.disk.PathJoin(s.path("db"), blob.Physical.FileNum.String()+".blob")
		if _, err := s.disk.Stat(name); !oserror.IsNotExist(err) {
			continue
		}
		f, err := s.mending.Create(name, vfs.WriteCategoryUnspecified)
		if err == nil {
			err = errors.Join(f.Close(), syncDir(s.disk, s.path("db")))
		}
		if err != nil {
			return false, fmt.Errorf("spool: create an empty file in place of the missing %s: %w", name, err)
		}
		replaced = true
		s.raise(Alarm{Kind: AlarmCorrupt, Text: "a file of the store is missing",
			Err: fmt.Errorf("%s is missing: up to %d bytes of message contents in it cannot be read; to recover them, replace the empty file now in its place by the original and release the messages in the corrupt area", name, blob.Physical.ValueSize)})
	}
	return replaced, nil
}

// refused adds what to do about damage that keeps the spool from opening.
func (s *Spool) refused(err error) error {
	damaged := (*damagedStore)(nil)
	if !errors.As(err, &damaged) && !pebble.IsCorruptionError(err) && !oserror.IsNotExist(err) && !strings.Contains(err.Error(), "size mismatch") {
		return err
	}
	return fmt.Errorf("spool: the store in %s is damaged and was left unchanged; restore %s from a backup, or move it away to start with an empty one: %w",
		s.path("db"), s.cfg.Dir, err)
}

// logNum returns the number in the name of a log.
func logNum(name string) (num uint64, ok bool) {
	text, ok := strings.CutSuffix(name, ".log")
	num, err := strconv.ParseUint(text, 10, 64)
	return num, ok && err == nil
}

// A missingLog is a log that was created, is still needed, and does not exist.
type missingLog struct {
	num  uint64
	note string // file that records this for operators
	ids  logIDs // what is known of the messages in it
}

// missLogs returns the missing logs and records the existing ones. It finds none missing
// if the copy of the MANIFEST is damaged, or was made by an earlier version.
func (s *Spool) missLogs() (missing []missingLog, err error) {
	names, err := s.disk.List(s.path("db"))
	if err != nil {
		return nil, fmt.Errorf("spool: look for logs: %w", err)
	}
	copies, err := s.manifestCopies()
	if err != nil {
		return nil, err
	}
	s.manifests.logs = make(map[uint64]struct{})
	for _, name := range names {
		if num, ok := logNum(name); ok {
			s.manifests.logs[num] = struct{}{}
		}
	}
	current, _ := currentManifest(names)
	if !copies[current].whole {
		return nil, nil
	}
	for num, made := range copies[current].logs {
		for other, c := range copies { // a newer one may have been started
			if kept, known := c.logs[num]; other > current && known && !kept {
				made = false
			}
		}
		if _, there := s.manifests.logs[num]; there || !made {
			continue
		}
		if err := s.beginMend(); err != nil {
			return nil, err
		}
		note := s.disk.PathJoin(s.path(damagedDir), fmt.Sprintf("%06d", num)+time.Unix(0, int64(s.cfg.Now())).UTC().Format("-"+damagedTime)+".missing")
		f, err := s.makeNote(note)
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			return nil, fmt.Errorf("spool: record that the log %06d is missing: %w", num, err)
		}
		m := missingLog{num: num, note: note}
		if err := s.readBehind(&m); err != nil {
			return nil, err
		}
		missing = append(missing, m)
	}
	return missing, nil
}

// readBehind finds the first message that was accepted after a missing log.
func (s *Spool) readBehind(m *missingLog) error {
	for num := range s.manifests.logs {
		if num < m.num {
			continue
		}
		_, err := s.readLog(fmt.Sprintf("%06d.log", num), num, func(record []byte, _ bool) error {
			m.ids.note(record, true, false)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// tellMissing raises an alarm for each missing log. Its contents are unknown: changes
// made after those in tables and earlier logs, and before those in later logs.
func (s *Spool) tellMissing(missing []missingLog) {
	for _, m := range missing {
		if s.db != nil {
			var err error
			if m.ids.before, err = s.newestMessage(m.ids.after); err != nil {
				s.cfg.Logger.Warn("cannot find the last message accepted before those in a missing log", "error", err)
			}
		}
		name := s.disk.PathJoin(s.path("db"), fmt.Sprintf("%06d.log", m.num))
		s.raise(Alarm{Kind: AlarmCorrupt, Text: "a log of the store is missing",
			Err: fmt.Errorf("%s is missing: mail may be lost, or be sent again; %s; if you can, stop and restore it before new mail is accepted; "+
				"contents of lost mail are kept in %s; remove %s to clear this alarm", name, &m.ids, s.path(damagedDir), m.note)})
	}
}

func (s *Spool) makeNote(name string) (vfs.File, error) {
	if err := errors.Join(s.disk.MkdirAll(s.path(damagedDir), 0o700), syncDir(s.disk, s.cfg.Dir)); err != nil {
		return nil, err
	}
	f, err := s.mending.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	return f, syncDir(s.disk, s.path(damagedDir))
}

// mendLogs checks all logs. A damaged one is kept in damagedDir and replaced by
// what can be read of it. With strict, an incomplete end counts as damage in every
// log but the last, otherwise in none. It reports whether there was a damaged log.
func (s *Spool) mendLogs(strict bool) (mended bool, err error) {
	names, err := s.disk.List(s.path("db"))
	if err != nil {
		return false, fmt.Errorf("spool: look for logs: %w", err)
	}
	type logFile struct {
		name string
		num  uint64
	}
	var logs []logFile
	for _, name := range names {
		if num, ok := logNum(name); ok {
			logs = append(logs, logFile{name, num})
		}
	}
	slices.SortFunc(logs, func(a, b logFile) int { return int(int64(a.num) - int64(b.num)) })
	for i, l := range logs {
		r, err := s.readLog(l.name, l.num, nil)
		if err != nil {
			return mended, err
		}
		if r.end == logTorn && strict && i < len(logs)-1 {
			r.end = logDoubtful
		}
		s.unreplayed = s.unreplayed || r.size > logHeader // more than the end of a closed log
		switch r.end {
		case logTorn:
			s.cfg.Logger.Info("the store's log ends in an interrupted write", "file", l.name, "offset", r.at, "size", r.size)
		case logDoubtful, logDamaged:
			if err := s.beginMend(); err != nil {
				return mended, err
			}
			if err := s.mendLog(l.name, l.num, r); err != nil {
				return mended, err
			}
			mended = true
		}
	}
	return mended, nil
}

func (s *Spool) readLog(name string, num uint64, emit func([]byte, bool) error) (r logReport, err error) {
	f, err := s.disk.Open(s.disk.PathJoin(s.path("db"), name), vfs.SequentialReadsOption)
	if err == nil {
		r, err = scanLog(f, uint32(num), emit) // chunks have the low half of the number
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return r, fmt.Errorf("spool: read the log %s: %w", name, err)
	}
	return r, nil
}

// mendLog replaces a log by what can be read of it.
//
// What follows a hole is used only if the hole is proven to be damage. After a
// power failure it may never have been acknowledged, and may depend on what was
// lost.
func (s *Spool) mendLog(name string, num uint64, r logReport) error {
	var ids logIDs
	current := s.disk.PathJoin(s.path("db"), name)
	err := s.replace(current, strings.TrimSuffix(name, ".log"), ".log", func(to, kept string) error {
		err := s.rewriteLog(name, num, r, &ids, to)
		if err == nil {
			s.raise(Alarm{Kind: AlarmCorrupt, Text: "the store's log was damaged", Err: fmt.Errorf("%w; %s", r.problem(current, kept), &ids)})
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("spool: repair the log %s, which is damaged at offset %d: %w", current, r.at, err)
	}
	return nil
}

// problem returns what is wrong with a log, and its consequences.
func (r logReport) problem(file, kept string) error {
	if r.end == logDoubtful {
		return fmt.Errorf("%s cannot be read from offset %d of %d on: either it is damaged, and the mail accepted last is lost or the mail sent last is sent again, "+
			"or a power failure interrupted a write, and nothing is missing; the file is kept as %s", file, r.at, r.size, kept)
	}
	return fmt.Errorf("%s cannot be read at offset %d of %d, %d bytes in all, with at least %d changes; %d groups of changes after it were read: "+
		"mail may be lost, or be sent again; the file is kept as %s", file, r.at, r.size, r.holes, r.gap, r.after, kept)
}

// A logIDs describes the messages whose acceptance can be read in a damaged log.
type logIDs struct {
	before, after mail.QueueID   // the greatest accepted before the damage, the least after it; zero: none
	unused        []mail.QueueID // accepted by changes that were readable but not used
}

func (l *logIDs) note(record []byte, afterHole, unused bool) {
	var b pebble.Batch
	if err := b.SetRepr(record); err != nil {
		return
	}
	for r := b.Reader(); ; {
		_, k, _, ok, err := r.Next()
		if !ok || err != nil {
			return
		}
		if len(k) != 9 || k[0] != keyEnvelope {
			continue
		}
		id := mail.QueueID(keyNumber(k))
		switch {
		case unused:
			l.unused = append(l.unused, id)
		case !afterHole:
			l.before = max(l.before, id)
		case l.after == 0 || id < l.after:
			l.after = id
		}
	}
}

// String describes which messages may be lost. Sessions overlap, so these are not
// strict bounds: a queue ID is assigned when a message begins, and the message is
// written when it ends.
func (l *logIDs) String() string {
	text := "mail lost from it was accepted"
	switch {
	case l.before != 0 && l.after != 0:
		text += fmt.Sprintf(" between the messages %s and %s", l.before, l.after)
	case l.before != 0:
		text += fmt.Sprintf(" after the message %s", l.before)
	case l.after != 0:
		text += fmt.Sprintf(" before the message %s", l.after)
	default:
		text += " at an unknown time"
	}
	if len(l.unused) > 0 {
		text += "; readable, but not used: " + nameIDs(l.unused)
	}
	return text
}

// namedMost is the maximum number of queue IDs named in an alarm.
const namedMost = 100

func nameIDs(ids []mail.QueueID) string {
	var b strings.Builder
	for i, id := range ids {
		if i == namedMost {
			fmt.Fprintf(&b, " and %d more", len(ids)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(id.String())
	}
	return b.String()
}

// rewriteLog writes what can be read of a log to a new file.
func (s *Spool) rewriteLog(name string, num uint64, r logReport, ids *logIDs, to string) error {
	f, err := s.mending.Create(to, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	w := logWriter{w: f, num: uint32(num)}
	_, err = s.readLog(name, num, func(record []byte, afterHole bool) error {
		unused := afterHole && r.end != logDamaged
		ids.note(record, afterHole, unused)
		if unused {
			return nil
		}
		return w.write(record)
	})
	return errors.Join(err, w.finish(), f.Sync(), f.Close())
}

// A logWriter writes a log in chunks without synced offset.
type logWriter struct {
	w     io.Writer
	num   uint32
	block []byte
}

func (w *logWriter) write(record []byte) error {
	for first := true; first || len(record) > 0; first = false {
		n := min(len(record), logBlock-len(w.block)-logHeader)
		piece := pieceMiddle
		switch last := n == len(record); {
		case first && last:
			piece = pieceFull
		case first:
			piece = pieceFirst
		case last:
			piece = pieceLast
		}
		begin := len(w.block)
		w.block = append(w.block, 0, 0, 0, 0, byte(n), byte(n>>8), chunkFull+byte(piece))
		w.block = binary.LittleEndian.AppendUint32(w.block, w.num)
		w.block = append(w.block, record[:n]...)
		binary.LittleEndian.PutUint32(w.block[begin:], chunkSum(w.block[begin+6:]))
		record = record[n:]
		if len(w.block)+logHeader > logBlock {
			if err := w.flush(append(w.block, make([]byte, logBlock-len(w.block))...)); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish writes the trailer, for which there is always room.
func (w *logWriter) finish() error {
	w.block = append(w.block, 0, 0, 0, 0, 0, 0, chunkFull)
	return w.flush(binary.LittleEndian.AppendUint32(w.block, w.num+1))
}

func (w *logWriter) flush(block []byte) error {
	w.block = block[:0]
	_, err := w.w.Write(block)
	return err
}

// damagedTime is the format of the instant in the name of a file in damagedDir.
const damagedTime = "20060102T150405.000000000Z"

// A DamagedFile is a damaged file of the store, kept until an operator removes it.
type DamagedFile struct {
	Path string
	At   time.Time // when the damage was found, zero if unknown
}

// damagedFiles lists the files that are kept.
func (s *Spool) damagedFiles() (files []DamagedFile) {
	names, err := s.disk.List(s.path(damagedDir))
	if err != nil {
		return nil // usually there is no such directory
	}
	slices.Sort(names)
	for _, name := range names {
		ext := filepath.Ext(name)
		if ext == ".new" || ext == noteExt || name == mendNote || name == orphanDir {
			continue // remains of an interrupted repair, notes, and contents
		}
		_, text, _ := strings.Cut(strings.TrimSuffix(name, ext), "-")
		at, err := time.Parse(damagedTime, text)
		if err != nil {
			at = time.Time{}
		}
		files = append(files, DamagedFile{s.disk.PathJoin(s.path(damagedDir), name), at})
	}
	return files
}

// reindexAll rebuilds all indexes after changes were lost, since each may have
// moved a message from one index to another. Unreadable messages are left to later
// readers.
func (s *Spool) reindexAll() {
	for area := mail.AreaIncoming; area <= mail.AreaCorrupt; area++ {
		if err := s.reindex(s.work.ctx, area); err != nil {
			s.raise(Alarm{Kind: AlarmCorrupt, Text: "the index of the " + area.String() + " area cannot be rebuilt", Err: err})
		}
	}
}

// flushWait is the time for which Close waits for the memtables to be written.
const flushWait = 10 * time.Second

// settle flushes what is only in the log to tables, which have a checksum for every block
// and are read independently of each other. Failure is harmless: the data is in the log.
// On a full disk it is not tried: the store would begin a log first, which cannot fail.
func (s *Spool) settle() {
	s.room.look()
	if s.room.isNone() || s.misplaced(s.place.log.Load()) != nil {
		return // the store has failed
	}
	done, err := s.db.AsyncFlush()
	if err == nil {
		t := time.NewTimer(flushWait)
		defer t.Stop()
		again := time.NewTicker(s.cfg.pause)
		defer again.Stop()
		for err == nil {
			select {
			case <-done:
				return
			case <-t.C:
				err = fmt.Errorf("not done within %v", flushWait)
			case <-again.C:
				if s.room.failedWithin(roomSpell) {
					err = ErrFull // it would be retried forever
				}
			}
		}
	}
	s.cfg.Logger.Warn("the store was not flushed before the stop; its log is read at the next start", "error", err)
}
