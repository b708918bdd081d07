package spool

import (
	"encoding/binary"

	"github.com/posthaste-mta/posthaste/mail"
)

// The first byte of a key is the kind of its value; see the package comment.
const (
	keyBody       = 'b'
	keyCorrupt    = 'c'
	keyDeferred   = 'd'
	keyFormat     = 'f'
	keyReindex    = 'g'
	keyHold       = 'h'
	keyIncoming   = 'i'
	keyHost       = 'k'
	keyEnvelope   = 'm'
	keyNextID     = 'n'
	keyRecipients = 'r'
	keyState      = 's'
	keyAhead      = 'w'
	keyOutcomes   = 'x'
)

// A key is a key of the store. It is a value type, so that making one does not
// allocate.
type key struct {
	octets [2 + 8 + 8]byte
	n      uint8
}

func (k *key) bytes() []byte { return k.octets[:k.n] }

// plainKey returns the key of a value that exists once in the store.
func plainKey(kind byte) key { return key{octets: [18]byte{kind}, n: 1} }

// messageKey returns the key of a value that exists once per message.
func messageKey(kind byte, id mail.QueueID) key {
	k := plainKey(kind)
	binary.BigEndian.PutUint64(k.octets[1:], uint64(id))
	k.n = 9
	return k
}

// chunkKey returns the key of a value that exists once per chunk of a message.
func chunkKey(kind byte, id mail.QueueID, chunk uint32) key {
	k := messageKey(kind, id)
	binary.BigEndian.PutUint32(k.octets[9:], chunk)
	k.n = 13
	return k
}

// afterChunks returns a key that sorts after every chunkKey of a message and before
// those of the next one.
func afterChunks(kind byte, id mail.QueueID) key {
	k := chunkKey(kind, id, ^uint32(0))
	k.octets[13] = 0xff
	k.n = 14
	return k
}

// areaKinds returns the possible first bytes of the index keys of an area: the
// original one, and those that it moves to when it cannot be rebuilt in place
// (Spool.reindex). They sort before all others, so that a scan of one reads no
// tables without its keys.
func areaKinds(area mail.Area) [3]byte {
	switch area {
	case mail.AreaIncoming:
		return [3]byte{keyIncoming, 'I', '1'}
	case mail.AreaDeferred:
		return [3]byte{keyDeferred, 'D', '2'}
	case mail.AreaHold:
		return [3]byte{keyHold, 'H', '3'}
	case mail.AreaCorrupt:
		return [3]byte{keyCorrupt, 'C', '4'}
	}
	return [3]byte{}
}

// indexKey returns the key that records that a message is in an area.
func (s *Spool) indexKey(area mail.Area, at mail.Cursor) key {
	return indexKey(s.kind(area), area, at)
}

// kind returns the first byte of the index keys of an area.
func (s *Spool) kind(area mail.Area) byte {
	if int(area) >= len(s.kinds) {
		return 0
	}
	return byte(s.kinds[area].Load())
}

// heldUntil follows the kind in index keys of the hold area that have a due time.
// So these keys sort after those without, which have a queue ID there: IDs are
// instants, and their first byte is less until the year 2112.
const heldUntil = 0xff

func indexKey(kind byte, area mail.Area, at mail.Cursor) key {
	k := plainKey(kind)
	switch {
	case area == mail.AreaHold && at.Due > 0:
		k.octets[1], k.n = heldUntil, 2
	case area != mail.AreaDeferred:
		return messageKey(kind, at.ID)
	}
	binary.BigEndian.PutUint64(k.octets[k.n:], uint64(max(at.Due, 0)))
	binary.BigEndian.PutUint64(k.octets[k.n+8:], uint64(at.ID))
	k.n += 16
	return k
}

// parseIndexKey is the inverse of indexKey; ok is false for any other key.
func parseIndexKey(area mail.Area, k []byte) (at mail.Cursor, ok bool) {
	switch {
	case area == mail.AreaDeferred && len(k) == 17:
		k = k[1:]
	case area == mail.AreaHold && len(k) == 18 && k[1] == heldUntil:
		k = k[2:]
	case area != mail.AreaDeferred && len(k) == 9:
		return mail.Cursor{ID: mail.QueueID(binary.BigEndian.Uint64(k[1:]))}, true
	default:
		return at, false
	}
	return mail.Cursor{Due: mail.Instant(binary.BigEndian.Uint64(k)), ID: mail.QueueID(binary.BigEndian.Uint64(k[8:]))}, true
}
