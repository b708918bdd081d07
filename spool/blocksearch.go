package spool

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"

	tblock "github.com/cockroachdb/pebble/v2/sstable/block"
)

// Behind damage any octet may be the first of a block, and each of the octets after it
// the last; whether they are is known only by the checksum that follows. To compute that
// for each pair takes seconds. But checksums are linear: with s(i) the state of the CRC
// after i octets, begun with 0, that of the octets from a to b, begun with all ones, is
//
//	s(b) + (s(a) + ones) x^8(b-a)
//
// in polynomials over GF(2), modulo that of the CRC. Times x^8(n-b), where n is the end of
// all, b and a are on different sides of an equation, so a block is where a value computed
// for its beginning is among those computed for the ends.

// blockAfter returns the first data block that begins at one of the span octets after an
// offset, and is of at most max bytes; end is 0 if there is none.
func blockAfter(data []byte, offset, span, max int) (at, end int) {
	data = data[:min(len(data), offset+span+max+tblock.TrailerLen)]
	states := crcStates(data[offset:])
	begins := make([]uint32, min(span, len(data)-offset)) // by the distance from the offset
	ends := make(map[uint32][]int)                        // by the value, of the compressions' octets, the last first
	power := uint32(1) << 31                              // of x: the lowest is in the highest bit
	for i := len(data) - 1; i > offset; i-- {
		if compressions[data[i]] && i+tblock.TrailerLen <= len(data) {
			sum := ^unmaskSum(binary.LittleEndian.Uint32(data[i+1:]))
			value := crcTimes(sum^states[i+1-offset], power)
			ends[value] = append(ends[value], i)
		}
		power = castagnoli[byte(power)] ^ power>>8
		if i-offset < len(begins) {
			begins[i-offset] = crcTimes(^states[i-offset], power)
		}
	}
	for i := 1; i < len(begins); i++ {
		at := offset + i
		list := ends[begins[i]]
		for k := len(list) - 1; k >= 0 && list[k]-at <= max; k-- {
			if list[k] <= at {
				continue
			}
			if end := list[k] + tblock.TrailerLen; dataBlock(data[at:end]) != nil {
				return at, end
			}
			break // of so many checksums, some match by chance
		}
	}
	return 0, 0
}

// crcStates returns the states of a CRC that begins with 0, before and after each octet.
func crcStates(data []byte) []uint32 {
	states := make([]uint32, len(data)+1)
	for i, octet := range data {
		states[i+1] = castagnoli[byte(states[i])^octet] ^ states[i]>>8
	}
	return states
}

// crcTimes multiplies two polynomials modulo that of the CRC.
func crcTimes(a, b uint32) (product uint32) {
	for ; a != 0; a <<= 1 {
		product ^= b & -(a >> 31)
		b = b>>1 ^ crc32.Castagnoli&-(b&1)
	}
	return product
}

// unmaskSum is the inverse of maskSum.
func unmaskSum(sum uint32) uint32 { return bits.RotateLeft32(sum-sumDelta, 15) }
