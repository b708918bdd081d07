package spool

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// appendText appends a text preceded by its length.
func appendText(b []byte, text string) []byte {
	b = binary.AppendUvarint(b, uint64(len(text)))
	return append(b, text...)
}

// A decoder reads values from a payload in the order in which they were appended.
// After the first missing value it returns zeros and stays bad, so callers check
// once, at the end.
//
// It works on a string: decoded texts share its memory.
type decoder struct {
	rest string
	bad  bool
}

func (d *decoder) octet() byte {
	if len(d.rest) == 0 {
		d.bad = true
		return 0
	}
	c := d.rest[0]
	d.rest = d.rest[1:]
	return c
}

func (d *decoder) uvarint() uint64 {
	var v uint64
	for i := 0; i < len(d.rest) && i < binary.MaxVarintLen64; i++ {
		c := d.rest[i]
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			d.rest = d.rest[i+1:]
			return v
		}
	}
	d.bad, d.rest = true, ""
	return 0
}

func (d *decoder) uint32() uint32 {
	v := d.uvarint()
	if v > 1<<32-1 {
		d.bad = true
	}
	return uint32(v)
}

func (d *decoder) instant() mail.Instant {
	v := d.uvarint()
	return mail.Instant(int64(v>>1) ^ -int64(v&1)) // zigzag, as AppendVarint writes it
}

func (d *decoder) text() string {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.bad, d.rest = true, ""
		return ""
	}
	text := d.rest[:n]
	d.rest = d.rest[n:]
	return text
}

// ownText returns a text that does not keep the payload in memory.
func (d *decoder) ownText() string { return strings.Clone(d.text()) }

// check returns an error if a value was missing. The checksum has been verified by
// then, so this is a bug of this program, but the remedy is the same: the message
// is moved to the corrupt area.
func (d *decoder) check(what string) error {
	if d.bad {
		return fmt.Errorf("%w: malformed %s", ErrCorrupt, what)
	}
	return nil
}

// A bitset is a set of small numbers; the zero value is empty.
type bitset []byte

func (b bitset) has(i uint32) bool {
	return int(i/8) < len(b) && b[i/8]&(1<<(i%8)) != 0
}

func (b bitset) remove(i uint32) {
	if b.has(i) {
		b[i/8] &^= 1 << (i % 8)
	}
}

func (b *bitset) add(i uint32) {
	for int(i/8) >= len(*b) {
		*b = append(*b, 0)
	}
	(*b)[i/8] |= 1 << (i % 8)
}
