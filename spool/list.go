package spool

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/errors/oserror"

	"github.com/posthaste-mta/posthaste/internal/histogram"
	"github.com/posthaste-mta/posthaste/mail"
)

// A Summary is what a listing shows of a message.
type Summary struct {
	Envelope mail.Envelope
	Place    mail.Place
	Reason   string // why it is held or in the corrupt area
	Settled  uint32 // recipients that need no further attempt
	Owed     uint32 // recipients on whom a report is owed
	Err      error  // why it cannot be read completely; what is readable is set, at least the ID and Place.Area
}

// Lookup returns the Summary of one message. The error wraps ErrGone if there is no
// such message. If part of it cannot be read, Summary.Err is set.
func (s *Spool) Lookup(ctx context.Context, id mail.QueueID) (Summary, error) {
	if err := s.enter(); err != nil {
		return Summary{}, err
	}
	defer s.leave()
	if err := ctx.Err(); err != nil {
		return Summary{}, err
	}
	return s.lookup(id)
}

func (s *Spool) lookup(id mail.QueueID) (Summary, error) {
	sum, err := s.summary(id)
	if err != nil && !errors.Is(err, ErrGone) {
		sum.Err = err
		if sum.Place.Area == mail.AreaNone {
			if sum.Place.Area, err = s.indexed(id, sum.Envelope.Flow.Bucket()); err != nil {
				sum.Err = errors.Join(sum.Err, err)
			}
		}
		return sum, nil
	}
	if err != nil {
		return Summary{}, fmt.Errorf("spool: look up %s: %w", id, err)
	}
	return sum, nil
}

// indexed returns the area that a message is in according to the indexes. The index
// of the deferred area cannot be searched by ID, so that area is what remains. The bucket
// may be unknown, 0, only if the message has a state: then it hardly is in the incoming area.
func (s *Spool) indexed(id mail.QueueID, bucket mail.Bucket) (mail.Area, error) {
	for _, area := range [...]mail.Area{mail.AreaCorrupt, mail.AreaHold, mail.AreaIncoming} {
		if ok, err := s.has(s.indexKey(area, mail.Cursor{Bucket: bucket, ID: id})); ok || err != nil {
			return area, err
		}
	}
	return mail.AreaDeferred, nil
}

// summary reads a summary. With ErrCorrupt, what could be read is returned.
func (s *Spool) summary(id mail.QueueID) (Summary, error) {
	sum := Summary{Envelope: mail.Envelope{ID: id}}
	st, stateErr := s.readState(id)
	if stateErr != nil {
		stateErr = fmt.Errorf("state: %w", stateErr)
	} else if st != nil {
		sum.Place, sum.Reason, sum.Settled, sum.Owed = st.place(), st.reason, st.settled, st.owed
	}
	e, err := s.readEnvelope(id)
	switch {
	case err != nil:
		if st == nil && stateErr == nil {
			sum.Place.Area = mail.AreaIncoming // it was never changed
		}
		return sum, errors.Join(stateErr, fmt.Errorf("envelope: %w", err))
	case e == nil:
		return sum, st.withoutEnvelope()
	case st != nil:
		st.complete(&e.Envelope)
	case stateErr == nil:
		sum.Place = e.place()
	}
	sum.Envelope = e.Envelope
	return sum, stateErr
}

// Outcomes returns at most max recipients of a message from index from on, each
// with its outcome; more is false at the end.
func (s *Spool) Outcomes(ctx context.Context, id mail.QueueID, from uint32, max int) (list []mail.RecipientOutcome, more bool, err error) {
	return s.outcomes(ctx, id, from, max, allRecipients)
}

// Debts returns at most max recipients of a message on whom a report is owed, from
// index from on; more is false at the end.
func (s *Spool) Debts(ctx context.Context, id mail.QueueID, from uint32, max int) (list []mail.RecipientOutcome, more bool, err error) {
	return s.outcomes(ctx, id, from, max, owedRecipients)
}

// A selection determines which recipients outcomes collects.
type selection bool

const (
	allRecipients  selection = false
	owedRecipients selection = true // those on whom a report is owed
)

func (s *Spool) outcomes(ctx context.Context, id mail.QueueID, from uint32, max int, want selection) (list []mail.RecipientOutcome, more bool, err error) {
	if err := s.enter(); err != nil {
		return nil, false, err
	}
	defer s.leave()
	m, err := s.readMessage(id)
	if err == nil && want == owedRecipients && (m.state == nil || m.state.owed == 0) {
		return nil, false, nil
	}
	if err == nil {
		err = s.eachRecipient(ctx, m, from, skipNone, func(r mail.Recipient, o mail.Outcome) bool {
			if want == owedRecipients && o.Report == mail.ReportNone {
				return true
			}
			if len(list) >= max {
				more = true
				return false
			}
			list = append(list, mail.RecipientOutcome{Recipient: r, Outcome: o})
			return true
		})
	}
	if err != nil {
		return nil, false, s.spoil(ctx, id, "read outcomes of", err)
	}
	return list, more, nil
}

// Health is the condition of the store. All sizes are in bytes.
type Health struct {
	Commits   uint64 // synced commits since the spool was opened
	Syncs     uint64 // syncs of the log since then: commits that are made at the same time share one
	Stalls    uint64 // times that writers had to wait for the store
	Steps     uint64 // index keys that scans passed; many more than messages indicates tombstones
	MemTables uint64 // memory in memtables
	Log       uint64 // write-ahead log that is still needed
	Debt      uint64 // remaining work of compactions
	Blobs     uint64 // contents in blob files
	Garbage   uint64 // of these, contents of removed messages
	ReadAmp   int    // read amplification: sources to search for a key; above 20 is high
	Free      int64  // free disk space at the last check
	Full      bool   // new mail is refused because of too little disk space
}

// Health returns the condition of the store. It takes microseconds.
func (s *Spool) Health() Health {
	if s.enter() != nil {
		return Health{}
	}
	defer s.leave()
	m := s.db.Metrics()
	return Health{
		Commits:   s.count.commits.Load(),
		Syncs:     s.count.syncs.Load(),
		Stalls:    s.count.stalls.Load(),
		Steps:     s.count.steps.Load(),
		MemTables: m.MemTable.Size,
		Log:       m.WAL.Size,
		Debt:      m.Compact.EstimatedDebt,
		Blobs:     m.BlobFiles.ValueSize,
		Garbage:   m.BlobFiles.ValueSize - min(m.BlobFiles.ReferencedValueSize, m.BlobFiles.ValueSize),
		ReadAmp:   m.ReadAmp(),
		Free:      s.room.free.Load(),
		Full:      s.room.admit(false, 0) != nil,
	}
}

// Latency returns how long synced commits have taken since the spool was opened, in seconds.
func (s *Spool) Latency() histogram.Values { return s.count.latency.Snapshot() }

// Stats counts the contents of the spool.
type Stats struct {
	Health
	Messages    [mail.AreaCorrupt + 1]uint64 // by area
	StoreOctets uint64                       // disk space taken by the store
	FileOctets  uint64                       // disk space taken by content files
	Files       uint64                       // content files
	Damaged     []DamagedFile                // damaged files found at a start
}

// Stats counts the messages, all at one moment, and adds up their disk space. It reads
// all indexes, which takes 0.1 s for a million messages, and the sizes of all files.
func (s *Spool) Stats(ctx context.Context) (Stats, error) {
	st := Stats{Health: s.Health(), Damaged: s.damagedFiles()}
	if err := s.enter(); err != nil {
		return st, err
	}
	defer s.leave()
	var err error
	if st.Messages, err = s.census(ctx); err != nil {
		return st, err
	}
	// Not Metrics().DiskSpaceUsage(): after a reopen it leaves out existing blob
	// files, 135 MB instead of 4.3 GB in one case.
	octets, _, err := s.sizeOf(ctx, s.path("db"))
	if err != nil {
		return st, err
	}
	st.StoreOctets = octets
	dirs, err := s.bodies.subdirs()
	if err != nil {
		return st, err
	}
	for _, dir := range dirs {
		octets, files, err := s.sizeOf(ctx, dir)
		if err != nil {
			return st, err
		}
		st.FileOctets += octets
		st.Files += files
	}
	return st, nil
}

// A census is the number of messages in each area.
type census [mail.AreaCorrupt + 1]uint64

// counter returns a function that counts the messages of an area.
func (n *census) counter(area mail.Area) func(mail.Cursor) bool {
	return func(mail.Cursor) bool { n[area]++; return true }
}

// census counts the messages. It reads all areas at one moment, or a message that moves
// from one that was not yet read to one that was would be in none. Only while an index
// is damaged is each area read at its own moment, by a scan that rebuilds the index.
func (s *Spool) census(ctx context.Context) (n census, err error) {
	if n, whole := s.censusOnce(ctx); whole {
		return n, nil
	}
	for area := mail.AreaIncoming; area <= mail.AreaCorrupt && err == nil; area++ {
		err = s.scan(ctx, area, mail.Cursor{}, mail.BucketEnd, n.counter(area))
	}
	return n, err
}

// censusOnce is census without rebuilding an index. It reports whether all of them could be
// read.
func (s *Spool) censusOnce(ctx context.Context) (n census, whole bool) {
	s.indexes.RLock()
	defer s.indexes.RUnlock()
	now := s.db.NewSnapshot()
	defer now.Close()
	for area := mail.AreaIncoming; area <= mail.AreaCorrupt; area++ {
		if s.unfinished.has(uint32(area)) ||
			s.scanOnce(ctx, now, area, mail.Cursor{}, mail.BucketEnd, n.counter(area)) != nil {
			return n, false
		}
	}
	return n, true
}

// sizeOf adds up the sizes of the files in a directory. Files that vanish
// meanwhile, and a missing directory, count as zero.
func (s *Spool) sizeOf(ctx context.Context, dir string) (octets, files uint64, err error) {
	names, err := s.fs.List(dir)
	if err != nil && !oserror.IsNotExist(err) {
		return 0, 0, fmt.Errorf("spool: list %s: %w", dir, err)
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return 0, 0, err
		}
		info, err := s.fs.Stat(s.fs.PathJoin(dir, name))
		if oserror.IsNotExist(err) {
			continue
		}
		if err != nil {
			return 0, 0, fmt.Errorf("spool: size of %s: %w", name, err)
		}
		octets += uint64(info.Size())
		files++
	}
	return octets, files, nil
}
