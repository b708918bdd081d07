package spool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// Pebble's write-ahead log is a sequence of blocks, each a sequence of chunks; a
// chunk is a header and a piece of one record, and no chunk crosses a block. The
// header is a checksum (4 bytes), the length of the piece (2), the type (1), the
// number of the log (4), and in the newer types the offset up to which the log had
// been synced when the chunk was made (8). A log that was closed has a trailer: a
// header without checksum and length, with the number of the log plus one.
const (
	logBlock      = 32 << 10
	logHeader     = 11
	logHeaderSync = 19

	chunkFull      = 5 // first type with the number of the log; then first, middle, last
	chunkFullSync  = 9 // the same four with the synced offset
	chunkTypeLimit = 13
)

// Position of a chunk in its record, relative to chunkFull or chunkFullSync.
const (
	pieceFull = iota
	pieceFirst
	pieceMiddle
	pieceLast
)

// A logEnd is how the readable part of a log ends.
type logEnd uint8

const (
	logSound    logEnd = iota + 1 // with a trailer, or with a whole record
	logTorn                       // with an incomplete record, as a crash leaves it
	logDoubtful                   // with either an incomplete record or damage
	logDamaged                    // with damage: what follows proves that it had been synced
)

// A logReport is the result of scanLog.
type logReport struct {
	end   logEnd
	at    int64  // offset of the first unreadable byte; the end of the file if all is readable
	size  int64  // of the file
	holes int64  // unreadable bytes, up to the next readable one
	after int    // records read after a hole
	gap   uint64 // changes missing between the records that were read, by the sequence numbers of the store
}

// A logChunk is one chunk of a block.
type logChunk struct {
	piece  int
	data   []byte
	synced int64 // 0 in the older types
	end    int   // offset in the block
}

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// chunkSum returns the checksum of a chunk, from its type on.
func chunkSum(b []byte) uint32 {
	return maskSum(crc32.Update(0, crcTable, b))
}

// maskSum converts a CRC-32C to the stored form.
func maskSum(c uint32) uint32 { return (c>>15 | c<<17) + sumDelta }

const sumDelta = 0xa282ead8

// parseChunk returns the chunk at the beginning of b, and the number of the log it was written for.
func parseChunk(b []byte) (c logChunk, num uint32, ok bool) {
	if len(b) < logHeader || b[6] < chunkFull || b[6] >= chunkTypeLimit {
		return c, 0, false
	}
	header := logHeader
	if b[6] >= chunkFullSync {
		header = logHeaderSync
	}
	c.end = header + int(binary.LittleEndian.Uint16(b[4:]))
	if c.end > len(b) || chunkSum(b[6:c.end]) != binary.LittleEndian.Uint32(b) {
		return c, 0, false
	}
	if header == logHeaderSync {
		c.synced = int64(binary.LittleEndian.Uint64(b[logHeader:]))
	}
	c.piece, c.data = int(b[6]-chunkFull)%4, b[header:c.end]
	return c, binary.LittleEndian.Uint32(b[7:]), true
}

// isTrailer reports whether b begins with the trailer of the log with this number.
func isTrailer(b []byte, num uint32) bool {
	return len(b) >= logHeader && binary.LittleEndian.Uint32(b) == 0 && binary.LittleEndian.Uint16(b[4:]) == 0 &&
		b[6] == chunkFull && binary.LittleEndian.Uint32(b[7:]) == num+1
}

// A logScan reads one log.
type logScan struct {
	num  uint32
	emit func(record []byte, afterHole bool) error

	report  logReport
	hurt    bool   // a hole has been found
	proven  bool   // the hole is damage
	own     int    // chunks of this log found after the first hole
	old     bool   // there are remains of the older log that used the file
	tail    logEnd // what the first hole is if nothing of this log follows
	begun   bool   // it has the header of a chunk of this log
	closed  bool   // the trailer has been found
	record  []byte // the part of a record read so far
	open    bool   // record is incomplete
	nextSeq uint64 // sequence number that the next record should have, 0 if unknown
}

// scanLog reads the log with a number, passes every whole record to emit, and
// reports how the log ends: as one that was closed, as one cut off by a crash, or
// with damage.
//
// Pebble's own reader stops at the first chunk that it cannot read and takes that
// for the end, unless a later block says that it had been synced. A later chunk of
// the same block does not count, which leaves out small logs, and the last 32 KiB
// of any log.
//
// After a hole, reading continues where the header before it points to, or with the
// next block. A search at every offset could find chunks that a sender has put into
// mail; chunks found that way are counted, not used.
func scanLog(r io.Reader, num uint32, emit func(record []byte, afterHole bool) error) (logReport, error) {
	s := logScan{num: num, emit: emit, tail: logSound}
	block := make([]byte, logBlock)
	for !s.closed {
		n, err := io.ReadFull(r, block)
		if n > 0 {
			if err := s.readBlock(block[:n]); err != nil {
				return s.report, err
			}
			s.report.size += int64(n)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return s.report, err
		}
	}
	s.conclude()
	return s.report, nil
}

func (s *logScan) readBlock(b []byte) error {
	for pos := 0; pos < len(b); {
		rest := b[pos:]
		if len(rest) < logHeaderSync && len(b) == logBlock && len(bytes.Trim(rest, "\x00")) == 0 {
			return nil // no room for another chunk
		}
		if isTrailer(rest, s.num) {
			s.closed, s.proven = true, s.hurt
			return nil
		}
		c, num, ok := parseChunk(rest)
		if !ok || num != s.num {
			skip := s.hole(rest, s.report.size+int64(pos), len(b) == logBlock)
			pos += skip
			continue
		}
		pos += c.end
		s.sighted(c)
		if err := s.take(c); err != nil {
			return err
		}
	}
	return nil
}

// sighted records what a chunk of this log implies about the first hole.
func (s *logScan) sighted(c logChunk) {
	if s.hurt {
		s.own++
		s.proven = s.proven || c.synced > s.report.at
	}
}

// take adds a chunk to its record.
func (s *logScan) take(c logChunk) error {
	switch c.piece {
	case pieceFull, pieceFirst:
		s.record, s.open = append(s.record[:0], c.data...), true
	default:
		if !s.open {
			return nil // its beginning is in a hole
		}
		s.record = append(s.record, c.data...)
	}
	if c.piece == pieceFirst || c.piece == pieceMiddle {
		return nil
	}
	s.open = false
	if len(s.record) >= 12 { // the header of a batch
		seq, count := binary.LittleEndian.Uint64(s.record), binary.LittleEndian.Uint32(s.record[8:])
		if s.hurt && s.nextSeq != 0 && seq > s.nextSeq {
			s.report.gap += seq - s.nextSeq
		}
		s.nextSeq = seq + uint64(count)
	}
	if s.hurt {
		s.report.after++
	}
	if s.emit == nil {
		return nil
	}
	return s.emit(s.record, s.hurt)
}

// hole handles the beginning of rest, which is not a chunk of this log, and returns
// how much to skip.
func (s *logScan) hole(rest []byte, at int64, full bool) int {
	if !s.hurt {
		s.hurt, s.report.at, s.tail = true, at, s.judge(rest, int(at%logBlock), full)
	}
	s.open = false
	skip := len(rest)
	if end := chunkEnd(rest); end < len(rest) && s.resumes(rest[end:], full) {
		skip = end
	} else {
		s.search(rest)
	}
	s.report.holes += int64(skip)
	return skip
}

// chunkEnd returns where the chunk at the beginning of b ends according to its
// header.
func chunkEnd(b []byte) int {
	if len(b) < logHeader {
		return len(b)
	}
	header := logHeaderSync
	if b[6] >= chunkFull && b[6] < chunkFullSync {
		header = logHeader
	}
	return header + int(binary.LittleEndian.Uint16(b[4:]))
}

// resumes reports whether the log continues with b.
func (s *logScan) resumes(b []byte, full bool) bool {
	_, num, ok := parseChunk(b)
	return ok && num == s.num || isTrailer(b, s.num) || full && len(b) < logHeaderSync
}

// search looks for chunks anywhere in the rest of a block.
func (s *logScan) search(rest []byte) {
	for i := 0; i+logHeader <= len(rest); i++ {
		if t := rest[i+6]; t < chunkFull || t >= chunkTypeLimit {
			continue
		}
		// Log numbers increase, and a file reuses that of an older log.
		num := binary.LittleEndian.Uint32(rest[i+7:])
		if num == 0 || num > s.num {
			continue
		}
		c, _, ok := parseChunk(rest[i:])
		switch {
		case ok && num == s.num:
			s.sighted(c)
		case ok, isTrailer(rest[i:], num-1):
			s.old = true
		}
	}
}

// judge classifies the bytes at which reading stopped, if nothing of this log
// follows. An interrupted write leaves a file that is too short, zeros from the end of
// a sector on, or what the older log had there: kill -9 ends a write at the end of a page.
func (s *logScan) judge(rest []byte, pos int, full bool) logEnd {
	written := bytes.TrimRight(rest, "\x00")
	end := chunkEnd(rest)
	const sector = 512
	s.begun = len(rest) >= logHeader && rest[6] >= chunkFull && rest[6] < chunkTypeLimit && binary.LittleEndian.Uint32(rest[7:]) == s.num
	switch {
	case len(written) == 0:
		return logSound
	case len(written) <= logHeaderSync:
		return logTorn // a header without content, or the trailer, which is not needed
	case !s.begun:
		return logDoubtful
	case end <= len(rest) && (pos+len(written)+sector-1)/sector*sector < pos+end:
		return logTorn
	case end < len(rest) && s.olderAcross(rest, end):
		return logTorn
	case end <= len(rest) || full || chunkSum(rest[6:]) == binary.LittleEndian.Uint32(rest):
		return logDoubtful
	}
	return logTorn
}

// olderAcross reports whether a whole chunk of an older log begins before end and ends
// after it: then the chunk of this log at the beginning of b has never been written up to
// its end. A sender cannot forge that, because the checksum includes what comes after the
// mail. If the older log's chunk begins before the interruption it is not whole, and the
// end of this log stays doubtful.
func (s *logScan) olderAcross(b []byte, end int) bool {
	for i := logHeader; i < end; i++ {
		if c, num, ok := parseChunk(b[i:]); ok && 0 < num && num < s.num && i+c.end > end {
			return true
		}
	}
	return false
}

// conclude determines how the log ends.
func (s *logScan) conclude() {
	r := &s.report
	switch {
	case !s.hurt:
		r.at, r.end = r.size, logSound
		if s.open {
			r.end = logTorn
		}
	case s.proven:
		r.end = logDamaged
	case s.own > 0:
		r.end = logDoubtful
	case s.tail == logDoubtful && s.old && !s.begun:
		r.end = logSound
	default:
		r.end = s.tail
	}
}
