package cluster

import (
	"fmt"
	"time"
)

// A Register is what a node has published under a topic.
type Register struct {
	Node  string
	Topic string
	Value []byte
	TTL   time.Duration
	// Version orders the registers of one node and topic.
	Version Version
}

// A Version orders what one node publishes.
type Version struct {
	// Incarnation is when the node was started, in nanoseconds since 1970 on its own
	// clock. If that went backwards since its last start, what it publishes counts
	// only once the registers of before have expired.
	Incarnation uint64
	Sequence    uint64 // from 1 on
}

// After reports whether v is later than w.
func (v Version) After(w Version) bool {
	return v.Incarnation > w.Incarnation || v.Incarnation == w.Incarnation && v.Sequence > w.Sequence
}

const registerFormat = 1

// AppendRegister appends the encoding of a register to b, without its topic, which
// every transport of messages has in another place.
func AppendRegister(b []byte, r Register) []byte {
	b = append(b, registerFormat)
	b = appendNumber(b, uint64(len(r.Node)))
	b = append(b, r.Node...)
	b = appendNumber(b, r.Version.Incarnation)
	b = appendNumber(b, r.Version.Sequence)
	b = appendNumber(b, uint64(r.TTL/time.Millisecond))
	return append(b, r.Value...)
}

// ParseRegister reads what AppendRegister wrote. The value is a part of b. Errors are
// of what no node of this or an earlier version has published.
func ParseRegister(b []byte, topic string) (Register, error) {
	r := Register{Topic: topic}
	malformed := fmt.Errorf("register of %d bytes: malformed", len(b))
	if len(b) == 0 || b[0] != registerFormat {
		return Register{}, malformed
	}
	n, rest, ok := number(b[1:])
	if !ok || n > NameMax || n > uint64(len(rest)) {
		return Register{}, malformed
	}
	r.Node, rest = string(rest[:n]), rest[n:]
	numbers := [3]uint64{}
	for i := range numbers {
		if numbers[i], rest, ok = number(rest); !ok {
			return Register{}, malformed
		}
	}
	r.Version = Version{Incarnation: numbers[0], Sequence: numbers[1]}
	if numbers[2] > uint64(GossipTTLMax/time.Millisecond) {
		return Register{}, malformed
	}
	r.TTL, r.Value = time.Duration(numbers[2])*time.Millisecond, rest
	if !ValidName(r.Node) || CheckRegister(topic, r.Value, r.TTL) != nil {
		return Register{}, malformed
	}
	return r, nil
}

// appendNumber appends a number, seven bits in a byte, lowest first.
func appendNumber(b []byte, n uint64) []byte {
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

func number(b []byte) (n uint64, rest []byte, ok bool) {
	for shift := 0; len(b) > 0 && shift < 64; shift += 7 {
		octet := b[0]
		b = b[1:]
		if shift == 63 && octet > 1 {
			return 0, nil, false
		}
		n |= uint64(octet&0x7f) << shift
		if octet < 0x80 {
			return n, b, true
		}
	}
	return 0, nil, false
}
