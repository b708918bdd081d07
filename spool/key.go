package spool

import (
	"encoding/binary"

	"github.com/posthaste-mta/posthaste/mail"
)

// The first octet of a key says what the value is; see the package comment.
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

// A key is a key of the store, held by value so that making one allocates
// nothing.
type key struct {
	octets [2 + 8 + 8]byte
	n      uint8
}

func (k *key) bytes() []byte { return k.octets[:k.n] }

// plainKey is the key of a value of which there is one.
func plainKey(kind byte) key { return key{octets: [18]byte{kind}, n: 1} }

// messageKey is the key of a value of which a message has one.
func messageKey(kind byte, id mail.QueueID) key {
	k := plainKey(kind)
	binary.BigEndian.PutUint64(k.octets[1:], uint64(id))
	k.n = 9
	return k
}

// chunkKey is the key of a value of which a message has one for each chunk.
func chunkKey(kind byte, id mail.QueueID, chunk uint32) key {
	k := messageKey(kind, id)
	binary.BigEndian.PutUint32(k.octets[9:], chunk)
	k.n = 13
	return k
}

// afterChunks follows every chunkKey of a message and precedes those of the
// next one.
func afterChunks(kind byte, id mail.QueueID) key {
	k := chunkKey(kind, id, ^uint32(0))
	k.octets[13] = 0xff
	k.n = 14
	return k
}

// areaKinds are the first octets that the index keys of an area may have: the
// first, and those that it moves to when it cannot be made anew in place
// (Spool.reindex). They come before all others, so that a scan of one touches no
// table that has no keys of it.
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

// indexKey is the key that says that a message is in an area.
func (s *Spool) indexKey(area mail.Area, at mail.Cursor) key {
	return indexKey(s.kind(area), area, at)
}

// kind is the first octet of the index keys of an area.
func (s *Spool) kind(area mail.Area) byte {
	if int(area) >= len(s.kinds) {
		return 0
	}
	return byte(s.kinds[area].Load())
}

// heldUntil begins what follows the kind in an index key of the hold area that has
// a due. Such keys so come behind those without, which have a queue ID there: IDs
// are instants and begin with less until the year 2112.
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
