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
	keyRate       = 'l'
	keyOrder      = 'o'
	keyEnvelope   = 'm'
	keyNextID     = 'n'
	keyTally      = 'p'
	keyCount      = 'q'
	keyRecipients = 'r'
	keyState      = 's'
	keyAhead      = 'w'
	keyOutcomes   = 'x'
)

// A key is a key of the store. It is a value type, so that making one does not
// allocate.
type key struct {
	octets [2 + bucketSize + 8 + 8]byte
	n      uint8
}

func (k *key) bytes() []byte { return k.octets[:k.n] }

// plainKey returns the key of a value that exists once in the store.
func plainKey(kind byte) key { return key{octets: [len(key{}.octets)]byte{kind}, n: 1} }

// messageKeySize is the length of a messageKey.
const messageKeySize = 1 + 8

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

// extended follows the kind in index keys of the hold area that have a due time, and in
// those of the incoming and the deferred area that have a bucket. So these keys sort
// after those without, which have a queue ID or a due time there: both are instants,
// and their first byte is less until the year 2112. Spools of format 1 have no buckets;
// their mail is in bucket 0.
const extended = 0xff

// bucketSize is the length of a bucket in a key.
const bucketSize = 3

// hasBuckets reports whether the index of an area is divided.
func hasBuckets(area mail.Area) bool { return area == mail.AreaIncoming || area == mail.AreaDeferred }

func indexKey(kind byte, area mail.Area, at mail.Cursor) key {
	k := plainKey(kind)
	switch {
	case hasBuckets(area) && at.Bucket > 0:
		k = bucketKey(kind, at.Bucket)
	case area == mail.AreaHold && at.Due > 0:
		k.octets[1], k.n = extended, 2
	}
	if area == mail.AreaDeferred || area == mail.AreaHold && at.Due > 0 {
		binary.BigEndian.PutUint64(k.octets[k.n:], uint64(max(at.Due, 0)))
		k.n += 8
	}
	binary.BigEndian.PutUint64(k.octets[k.n:], uint64(at.ID))
	k.n += 8
	return k
}

// bucketKey returns the key that precedes all index keys of a bucket that is not 0, and
// follows those of all buckets before it.
func bucketKey(kind byte, bucket mail.Bucket) key {
	k := plainKey(kind)
	k.octets[1], k.octets[2], k.octets[3], k.octets[4] = extended, byte(bucket>>16), byte(bucket>>8), byte(bucket)
	k.n = 2 + bucketSize
	return k
}

// parseIndexKey is the inverse of indexKey; ok is false for any other key.
func parseIndexKey(area mail.Area, k []byte) (at mail.Cursor, ok bool) {
	if len(k) < 9 {
		return at, false
	}
	due := area == mail.AreaDeferred
	k = k[1:]
	if k[0] == extended {
		switch {
		case area == mail.AreaHold:
			due, k = true, k[1:]
		case hasBuckets(area) && len(k) > 1+bucketSize:
			at.Bucket = mail.Bucket(k[1])<<16 | mail.Bucket(k[2])<<8 | mail.Bucket(k[3])
			k = k[1+bucketSize:]
		}
	}
	if due {
		if len(k) != 16 {
			return at, false
		}
		at.Due = mail.Instant(binary.BigEndian.Uint64(k))
		k = k[8:]
	}
	if len(k) != 8 {
		return at, false
	}
	at.ID = mail.QueueID(binary.BigEndian.Uint64(k))
	return at, true
}
