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

// damagedDir is where damaged logs are kept for a person to look at.
const damagedDir = "damaged"

// mendNote is the file in damagedDir that says that keys may be lost, or be back, and
// that what rests on them is not in order yet.
const mendNote = "mending"

// beginMend leaves the note, before the damage is out of sight: a start that is cut off
// behind that would find nothing wrong in the next one.
func (s *Spool) beginMend() error {
	f, err := s.makeNote(s.disk.PathJoin(s.path(damagedDir), mendNote))
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return fmt.Errorf("spool: note that the store is being mended: %w", err)
	}
	return nil
}

// endMend puts in order what rests on keys that may be lost, if there is the note.
func (s *Spool) endMend() error {
	note := s.disk.PathJoin(s.path(damagedDir), mendNote)
	if _, err := s.disk.Stat(note); oserror.IsNotExist(err) {
		return nil
	}
	err := s.keepLost(s.work.ctx)
	s.reindexAll()
	if err != nil {
		s.raise(Alarm{Kind: AlarmCorrupt, Text: "messages without an envelope could not be put aside", Err: err})
		return nil // the next start tries again
	}
	if err := s.disk.Remove(note); err != nil {
		return fmt.Errorf("spool: remove the note that the store is being mended: %w", err)
	}
	return nil
}

// openStore opens the store after a look at its logs. It leaves a note for endMend
// where something may be lost.
//
// Pebble reads a log up to the first chunk that it cannot read, and deletes
// it. Where that is not the end, all that follows would be gone without a word.
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
		return fmt.Errorf("spool: look at the store in %s: %w", s.cfg.Dir, err)
	}
	if s.db, err = s.openPebble(); err == nil {
		if err := s.mendTables(); err != nil || old.FormatMajorVersion >= pebble.FormatWALSyncChunks {
			return err
		}
		// Pebble has made its log before it changed to the new format: the
		// first log of a store would not tell damage from a torn end.
		if err := s.db.Flush(); err != nil {
			return fmt.Errorf("spool: begin a log: %w", err)
		}
		return nil
	}
	s.db = nil
	if !pebble.IsCorruptionError(err) {
		return s.refused(fmt.Errorf("spool: open the store: %w", err))
	}
	// A log that is not the last and yet does not end as one that was closed
	// is damage to Pebble, if it needs the log.
	again, mendErr := s.mendLogs(true)
	if again && mendErr == nil {
		if s.db, err = s.openPebble(); err == nil {
			return s.mendTables()
		}
		s.db = nil
	}
	return s.refused(errors.Join(err, mendErr))
}

// openPebble opens the store, with an empty file in the place of each blob file that is
// missing.
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

// openAsIs opens the store. Where Pebble panics because of an error of the file
// system, it returns that error.
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
	return pebble.Open(s.path("db"), s.storeOptions())
}

// replaceBlobs makes an empty file in the place of each blob file that is missing.
// Pebble finds out what there is when it opens the store, and panics when it wants what
// was not there; of an empty file, blobProblem says that it is damaged. Pebble itself
// may want one before this has looked, because it has begun to rewrite it: then the
// process ends, and the next one looks again.
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
			return false, fmt.Errorf("spool: make an empty file in the place of %s, which is missing: %w", name, err)
		}
		replaced = true
		s.raise(Alarm{Kind: AlarmCorrupt, Text: "a file of the store is missing",
			Err: fmt.Errorf("%s is not there: the contents in it cannot be read, %d octets at most; put it back in the place of the empty file that is there now, and release the messages in the corrupt area", name, blob.Physical.ValueSize)})
	}
	return replaced, nil
}

// refused says what to do about damage that the spool does not open with.
func (s *Spool) refused(err error) error {
	damaged := (*damagedStore)(nil)
	if !errors.As(err, &damaged) && !pebble.IsCorruptionError(err) && !oserror.IsNotExist(err) && !strings.Contains(err.Error(), "size mismatch") {
		return err
	}
	return fmt.Errorf("spool: the store in %s is damaged and was left as it is; restore %s from a backup, or move it away to begin with an empty one: %w",
		s.path("db"), s.cfg.Dir, err)
}

// logNum returns the number in the name of a log.
func logNum(name string) (num uint64, ok bool) {
	text, ok := strings.CutSuffix(name, ".log")
	num, err := strconv.ParseUint(text, 10, 64)
	return num, ok && err == nil
}

// A missingLog is a log that was made, was not given up, and is not there.
type missingLog struct {
	num  uint64
	note string // file that says so to a person
	ids  logIDs // what is known of the messages in it
}

// missLogs returns the logs that are missing, and takes note of those that are there. It
// cannot miss any if the copy of the MANIFEST is damaged, or was made by an earlier
// version.
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
		for other, c := range copies { // a newer one may have been begun
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
			return nil, fmt.Errorf("spool: note that the log %06d is missing: %w", num, err)
		}
		m := missingLog{num: num, note: note}
		if err := s.readBehind(&m); err != nil {
			return nil, err
		}
		missing = append(missing, m)
	}
	return missing, nil
}

// readBehind looks for the first message that was accepted after a missing log.
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

// tellMissing raises an alarm for each log that is missing. What it held cannot be known:
// something that came after what tables and earlier logs hold, and before what later logs
// do.
func (s *Spool) tellMissing(missing []missingLog) {
	for _, m := range missing {
		if s.db != nil {
			var err error
			if m.ids.before, err = s.newestMessage(m.ids.after); err != nil {
				s.cfg.Logger.Warn("it is not known which message was accepted before those in a missing log", "error", err)
			}
		}
		name := s.disk.PathJoin(s.path("db"), fmt.Sprintf("%06d.log", m.num))
		s.raise(Alarm{Kind: AlarmCorrupt, Text: "a log of the store is missing",
			Err: fmt.Errorf("%s is not there: mail may be lost, or be sent again; %s; put it back before mail is taken in if you can; "+
				"contents of such mail are kept in %s; remove %s when you have seen this", name, &m.ids, s.path(damagedDir), m.note)})
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

// mendLogs looks at all logs. One that is damaged is kept in damagedDir, and
// what can be read of it takes its place. strict counts as damage what is none
// at the end of the last log only. It returns whether there was one.
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
		switch r.end {
		case logTorn:
			s.cfg.Logger.Info("the store's log ends in a write that was cut off", "file", l.name, "offset", r.at, "size", r.size)
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

// mendLog puts what can be read of a log in its place.
//
// What follows a hole is used only if the hole is proven to be damage. After a
// power failure it may never have been acknowledged, and rest on what is gone.
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
		return fmt.Errorf("spool: mend the log %s, which is damaged at offset %d: %w", current, r.at, err)
	}
	return nil
}

// problem says what is wrong with a log, and what that means.
func (r logReport) problem(file, kept string) error {
	if r.end == logDoubtful {
		return fmt.Errorf("%s cannot be read from offset %d of %d on: damage, and mail accepted last is lost or mail sent last is sent again, "+
			"or a power failure during a write, and nothing is missing; the file is kept as %s", file, r.at, r.size, kept)
	}
	return fmt.Errorf("%s cannot be read at offset %d of %d, %d octets in all, with at least %d changes; %d groups of changes behind it were read: "+
		"mail may be lost, or be sent again; the file is kept as %s", file, r.at, r.size, r.holes, r.gap, r.after, kept)
}

// A logIDs is the messages whose acceptance can be read in a damaged log.
type logIDs struct {
	before, after mail.QueueID   // the greatest that was accepted before it, the least behind it; zero: none
	unused        []mail.QueueID // accepted by changes that could be read and were not used
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

// String says which messages may be lost. Sessions overlap, so these are not bounds
// in the strict sense: a queue ID is given out when a message begins, and a message is
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
		text += " at a time that is not known"
	}
	if len(l.unused) > 0 {
		text += "; could be read, but is not used: " + nameIDs(l.unused)
	}
	return text
}

// namedMost is how many queue IDs an alarm names.
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

// rewriteLog writes what can be read of a log into a new file.
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

// A logWriter writes a log of chunks without synced offset.
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

// damagedTime is the instant in the name of a file in damagedDir.
const damagedTime = "20060102T150405.000000000Z"

// A DamagedFile is a file of the store that was damaged, and is kept until
// somebody removes it.
type DamagedFile struct {
	Path string
	At   time.Time // when the damage was found, zero if that is not known
}

// damagedFiles lists what is kept.
func (s *Spool) damagedFiles() (files []DamagedFile) {
	names, err := s.disk.List(s.path(damagedDir))
	if err != nil {
		return nil // as a rule there is no such directory
	}
	slices.Sort(names)
	for _, name := range names {
		ext := filepath.Ext(name)
		if ext == ".new" || ext == noteExt || name == mendNote || name == orphanDir {
			continue // what mending left that was cut off, notes, and contents
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

// reindexAll makes all indexes anew, after changes were lost of which each may
// have moved a message from one to another. What cannot be read is a matter of
// whoever reads it.
func (s *Spool) reindexAll() {
	for area := mail.AreaIncoming; area <= mail.AreaCorrupt; area++ {
		if err := s.reindex(s.work.ctx, area); err != nil {
			s.raise(Alarm{Kind: AlarmCorrupt, Text: "the index of the " + area.String() + " area could not be made anew", Err: err})
		}
	}
}

// flushWait is how long Close waits for the memtables to be written.
const flushWait = 10 * time.Second

// settle gets all that is in the log only into tables, which have a checksum
// for every block and of which each is read by itself. It is no matter if it
// cannot be done: the log has it. On a full disk it is not tried: the store would begin a
// log first, which cannot fail.
func (s *Spool) settle() {
	s.room.look()
	if s.room.isNone() || s.inPlace() != nil {
		return // there is nothing left to write to
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
					err = ErrFull // it would be tried for ever
				}
			}
		}
	}
	s.cfg.Logger.Warn("the store was not flushed before the end; its log is read at the next start", "error", err)
}
