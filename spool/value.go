package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"syscall"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2"

	"github.com/posthaste-mta/posthaste/mail"
)

// The first byte of every value is its version.
const (
	valueVersion = 1
	valueFlow    = 2  // an envelope with a flow
	valueHead    = 3  // an envelope with the beginning of the content, whose rest is a file
	valueMore    = 4  // an envelope with further fields
	valueKept    = 5  // a state of mail that its sender has kept; earlier versions would remove it in the end
	valueLate    = 6  // a state of mail on which a report was owed because its deadline had passed; earlier versions would forget that
	valueVia     = 7  // outcomes with a way; earlier versions could not read them
	valueOrdered = 9  // outcomes with an operator's route; earlier versions would send that mail elsewhere
	valueDoubts  = 10 // outcomes with doubts; earlier versions could not read them
	valueLatest  = valueDoubts
)

// sealSize is the overhead of a value over its payload: the version byte in front
// and the CRC-32C at the end.
const sealSize = 1 + 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealSum covers the key as well, so that a value found under another message's key
// counts as damaged, too.
func sealSum(k, versionAndPayload []byte) uint32 {
	return crc32.Update(crc32.Update(0, castagnoli, k), castagnoli, versionAndPayload)
}

// put adds a write of a key to the batch, with the concatenated parts as its
// payload.
func put(b *pebble.Batch, k key, parts ...[]byte) error {
	return putSealed(b, valueVersion, k.bytes(), parts...)
}

// putSealed is put for a key of any length and a version.
func putSealed(b *pebble.Batch, version byte, k []byte, parts ...[]byte) error {
	size := sealSize
	for _, part := range parts {
		size += len(part)
	}
	op := b.SetDeferred(len(k), size)
	copy(op.Key, k)
	op.Value[0] = version
	at := 1
	for _, part := range parts {
		at += copy(op.Value[at:], part)
	}
	binary.BigEndian.PutUint32(op.Value[at:], sealSum(op.Key, op.Value[:at]))
	return op.Finish()
}

// mark adds a write of a key without a value to the batch.
func mark(b *pebble.Batch, k key) error {
	op := b.SetDeferred(int(k.n), 0)
	copy(op.Key, k.bytes())
	return op.Finish()
}

// drop adds the deletion of a key to the batch. Delete, never SingleDelete: the
// latter undoes only one put, and an index key may have been put twice.
func drop(b *pebble.Batch, k key) error {
	op := b.DeleteDeferred(int(k.n))
	copy(op.Key, k.bytes())
	return op.Finish()
}

// dropChunks adds the deletion of all chunk keys of a kind to the batch. A few keys
// are deleted one by one, because each range tombstone slows down every iterator.
func dropChunks(b *pebble.Batch, kind byte, id mail.QueueID, chunks uint32) error {
	const few = 16
	if chunks > few {
		from, to := chunkKey(kind, id, 0), afterChunks(kind, id)
		return b.DeleteRange(from.bytes(), to.bytes(), nil)
	}
	for i := range chunks {
		if err := drop(b, chunkKey(kind, id, i)); err != nil {
			return err
		}
	}
	return nil
}

// unseal returns the payload of a value, or an error if the value is damaged.
func unseal(k, value []byte) ([]byte, error) {
	n := len(value) - 4
	switch {
	case n < 1:
		return nil, fmt.Errorf("%w: value of %d bytes", ErrCorrupt, len(value))
	case binary.BigEndian.Uint32(value[n:]) != sealSum(k, value[:n]):
		return nil, fmt.Errorf("%w: checksum mismatch in %d bytes", ErrCorrupt, len(value))
	case value[0] < valueVersion, value[0] > valueLatest:
		return nil, fmt.Errorf("spool: value of version %d, this version supports %d", value[0], valueLatest)
	}
	return value[1:n], nil
}

// load passes the payload of a key to take, which must copy what it keeps; ok is
// false if there is no such key.
//
// All reads of values go through here. Pebble's Get is not reliable: when it fails
// to fetch a value that is stored separately from its key, in a blob file, it
// returns an empty value and no error; only the closer returns the error.
func (s *Spool) load(k key, take func(payload []byte)) (ok bool, err error) {
	value, closer, err := s.db.Get(k.bytes())
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, unreadable(k, err)
	}
	payload, err := unseal(k.bytes(), value)
	if err == nil {
		take(payload)
	}
	if closeErr := closer.Close(); closeErr != nil {
		return false, unreadable(k, closeErr)
	}
	if err != nil {
		return false, unreadable(k, err)
	}
	return true, nil
}

// loadText is load for payloads whose texts are kept: all of them share the
// one allocation.
func (s *Spool) loadText(k key) (text string, ok bool, err error) {
	ok, err = s.load(k, func(payload []byte) { text = string(payload) })
	return text, ok, err
}

// has reports whether a key exists.
func (s *Spool) has(k key) (bool, error) {
	_, closer, err := s.db.Get(k.bytes())
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, unreadable(k, err)
	}
	if err := closer.Close(); err != nil {
		return false, unreadable(k, err)
	}
	return true, nil
}

// unreadable returns the error of a failed read. Wrong data from the disk is
// ErrCorrupt; other errors may be temporary.
func unreadable(k key, err error) error {
	if isWrong(err) && !errors.Is(err, ErrCorrupt) {
		err = fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return fmt.Errorf("spool: read key %q: %w", k.bytes(), err)
}

// isWrong reports whether an error means that what was read is not what was
// written: a checksum or a decoding failure. Only that proves damage.
func isWrong(err error) bool {
	return errors.Is(err, ErrCorrupt) || pebble.IsCorruptionError(err)
}

// isDamage reports whether an error means that data that was once written could not
// be read. EIO and a missing file count, but may be temporary: a cable, a
// controller, a mount. They alone do not move a message to the corrupt area or
// cause a rebuild.
func isDamage(err error) bool {
	return isWrong(err) || errors.Is(err, syscall.EIO) || oserror.IsNotExist(err)
}
