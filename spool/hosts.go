package spool

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/posthaste-mta/posthaste/mail"
)

// Host records are stored beside the mail, because the same program uses them at
// the same time, but they are worth less than mail: a lost record costs a
// connection. So writing them waits for no sync, damage to them is a line in the
// log, and they never use the last of the disk.

const (
	// HostKeyMax and HostValueMax are the maximum lengths in bytes of the key and
	// value of a mail.HostRecord. A value may have a reply of 4 KB, quoted.
	HostKeyMax   = 4096
	HostValueMax = 32 << 10

	// hostBatch is the maximum number of bytes written at once, also by loading.
	hostBatch = 256 << 10
)

// SaveHosts stores records, and deletes those whose value is empty. It does not
// wait for the disk: a crash may lose some of the last ones, but only together with
// all that were saved after them. The next commit of mail, and Close, make them
// durable.
//
// Records that are too long are not stored, and named in the error; the others are.
// While new mail is refused it stores none and returns ErrFull.
func (s *Spool) SaveHosts(ctx context.Context, records []mail.HostRecord) error {
	return s.saveRecords(ctx, keyHost, records, pebble.NoSync)
}

// SaveRates is SaveHosts for records of what tenants have sent. They are as little
// worth: what is lost is counted anew.
func (s *Spool) SaveRates(ctx context.Context, records []mail.HostRecord) error {
	return s.saveRecords(ctx, keyRate, records, pebble.NoSync)
}

// SaveOrders is SaveHosts for records of operators' orders, such as suspensions, which are worth more: they
// are durable when it returns nil, and are stored while new mail is refused, too, as long as
// there is room for reports.
func (s *Spool) SaveOrders(ctx context.Context, records []mail.HostRecord) error {
	return s.saveRecords(ctx, keyOrder, records, pebble.Sync)
}

func (s *Spool) saveRecords(ctx context.Context, kind byte, records []mail.HostRecord, sync *pebble.WriteOptions) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	var size int64
	for i := range records {
		size += int64(len(records[i].Key) + len(records[i].Value))
	}
	if err := s.room.admit(kind == keyOrder, size); err != nil {
		return fmt.Errorf("spool: save %s: %w", recordName(kind), err)
	}
	w := hostWriter{s: s, kind: kind, b: s.db.NewBatch(), sync: sync}
	defer w.b.Close()
	var tooLong []error
	for _, r := range records {
		if len(r.Key) > HostKeyMax || len(r.Value) > HostValueMax {
			tooLong = append(tooLong, fmt.Errorf("spool: save %s: %.40q: key of %d bytes or value of %d bytes is too long", recordName(kind), r.Key, len(r.Key), len(r.Value)))
			continue
		}
		if err := errors.Join(w.add(r), ctx.Err()); err != nil {
			return fmt.Errorf("spool: save %s: %w", recordName(kind), err)
		}
	}
	return errors.Join(append(tooLong, w.flush())...)
}

// LoadHosts calls visit with all records that were saved, at most most, in the
// order of their keys. A record's bytes are valid until visit returns; visit must
// not call the spool.
//
// Damaged records, and those beyond most, are skipped and deleted, which is logged.
func (s *Spool) LoadHosts(ctx context.Context, most int, visit func(mail.HostRecord)) error {
	return s.loadRecords(ctx, keyHost, most, visit)
}

// LoadRates is LoadHosts for the records of SaveRates.
func (s *Spool) LoadRates(ctx context.Context, most int, visit func(mail.HostRecord)) error {
	return s.loadRecords(ctx, keyRate, most, visit)
}

// LoadOrders is LoadHosts for the records of SaveOrders.
func (s *Spool) LoadOrders(ctx context.Context, most int, visit func(mail.HostRecord)) error {
	return s.loadRecords(ctx, keyOrder, most, visit)
}

// recordName names records of a kind.
func recordName(kind byte) string {
	switch kind {
	case keyRate:
		return "rates"
	case keyOrder:
		return "orders"
	}
	return "hosts"
}

func (s *Spool) loadRecords(ctx context.Context, kind byte, most int, visit func(mail.HostRecord)) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	l := hostLoad{s: s, kind: kind, most: most, visit: visit, waste: hostWriter{s: s, kind: kind, b: s.db.NewBatch(), sync: pebble.NoSync}}
	defer l.waste.b.Close()
	err := l.run(ctx)
	if err != nil && isDamage(err) {
		// A block of the store is damaged. What follows it cannot be read, and as
		// long as it exists no compaction gets past it.
		err = s.forgetRecords(ctx, kind, err)
	} else if err == nil {
		err = l.waste.flush()
	}
	if l.damaged > 0 || l.excess > 0 {
		s.cfg.Logger.Warn("some records of "+recordName(kind)+" are lost", "read", l.read, "damaged", l.damaged, "excess", l.excess, "example", l.example)
	}
	if err != nil {
		return fmt.Errorf("spool: load %s: %w", recordName(kind), err)
	}
	return nil
}

// A hostLoad is one reading of all records.
type hostLoad struct {
	s     *Spool
	kind  byte
	most  int
	visit func(mail.HostRecord)
	waste hostWriter // deletes useless records

	read, damaged, excess int
	example               string // of damage
}

func (l *hostLoad) run(ctx context.Context) (err error) {
	from, to := plainKey(l.kind), plainKey(l.kind+1)
	it, err := l.s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: from.bytes(), UpperBound: to.bytes()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		if err := errors.Join(l.one(it), ctx.Err()); err != nil {
			return err
		}
	}
	return it.Error()
}

func (l *hostLoad) one(it *pebble.Iterator) error {
	k := it.Key()
	if l.read == l.most {
		l.excess++
		return l.waste.add(mail.HostRecord{Key: k[1:]})
	}
	value, err := it.ValueAndErr()
	if err == nil {
		value, err = unseal(k, value)
	}
	switch {
	case err != nil && isDamage(err):
		l.damaged++
		l.example = fmt.Sprintf("%.40q: %v", k[1:], err)
		return l.waste.add(mail.HostRecord{Key: k[1:]})
	case err != nil:
		return err
	}
	l.read++
	l.visit(mail.HostRecord{Key: k[1:], Value: value})
	return nil
}

// forgetRecords removes all records from the store without reading them: with a range
// tombstone, compactions would still read the damaged block.
func (s *Spool) forgetRecords(ctx context.Context, kind byte, damage error) error {
	s.raise(Alarm{Kind: AlarmCorrupt, Text: "the records of " + recordName(kind) + " are damaged and were deleted", Err: damage})
	if err := s.clear(ctx, plainKey(kind), plainKey(kind+1)); err != nil {
		return errors.Join(damage, err)
	}
	return nil
}

// A hostWriter writes records in batches of bounded size.
type hostWriter struct {
	s    *Spool
	kind byte
	b    *pebble.Batch
	key  []byte
	sync *pebble.WriteOptions
}

func (w *hostWriter) add(r mail.HostRecord) error {
	w.key = append(append(w.key[:0], w.kind), r.Key...)
	var err error
	if len(r.Value) == 0 {
		err = w.b.Delete(w.key, nil)
	} else {
		err = putSealed(w.b, valueVersion, w.key, r.Value)
	}
	if err != nil || w.b.Len() < hostBatch {
		return err
	}
	if err := w.flush(); err != nil {
		return err
	}
	w.b.Reset()
	return nil
}

// flush writes the batch to the store. Without a sync it becomes durable with the next one of the
// log, which every commit of mail causes.
func (w *hostWriter) flush() error {
	if w.b.Empty() {
		return nil
	}
	size := w.b.Len()
	defer w.s.dieOfPanic()
	if err := w.b.Commit(w.sync); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	w.s.room.spend(int64(size))
	return nil
}
