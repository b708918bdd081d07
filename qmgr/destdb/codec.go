package destdb

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// format is the first byte of a record and keyFormat of a key. Other formats are refused:
// a lost record costs a probe of its host. Keys of format 1 had the transport's name as
// their security.
const (
	format     = 1
	keyFormat1 = 1
	keyFormat  = 2
)

// RecordMax is the maximum length of an encoded record, KeyMax of a key, in bytes;
// longer ones were not made by this package.
const (
	RecordMax = 1024 + mail.ReplyTextMax
	KeyMax    = 1 + 1 + 16 + 3*textMax + 16
)

var errMalformed = errors.New("malformed")

// AppendKey appends a key's encoding to b. Equal keys have equal encodings. It
// returns false and b unchanged for a key that is not saved: without an address,
// with a link-local address, or too long.
func AppendKey(b []byte, k Key) ([]byte, bool) {
	if !k.Addr.Addr().IsValid() || k.Addr.Addr().Zone() != "" || len(k.Transport) > textMax || len(k.Source) > textMax || len(k.Security) > textMax {
		return b, false
	}
	c := codec{out: append(b, keyFormat), writing: true}
	c.text(string(k.Addr.Addr().AsSlice()), 16)
	c.write(uint64(k.Addr.Port()))
	for _, text := range [...]string{k.Transport, k.Source, k.Security} {
		c.text(text, textMax)
	}
	return c.out, true
}

// ParseKey reads what AppendKey wrote, also in format 1.
func ParseKey(b []byte) (Key, error) {
	c := codec{in: b}
	version := c.read(0xff)
	addr, ok := netip.AddrFromSlice([]byte(c.text("", 16)))
	k := Key{Addr: netip.AddrPortFrom(addr, uint16(c.read(1<<16-1)))}
	switch version {
	case keyFormat1:
		k.Source, k.Transport = c.text("", textMax), c.text("", textMax)
	case keyFormat:
		k.Transport, k.Source, k.Security = c.text("", textMax), c.text("", textMax), c.text("", textMax)
	default:
		c.bad = true
	}
	if !ok || !c.done() {
		return Key{}, fmt.Errorf("host key of %d bytes: %w", len(b), errMalformed)
	}
	return k, nil
}

// AppendRecord appends a record's encoding to b.
func AppendRecord(b []byte, r Record) []byte {
	c := codec{out: append(b, format), writing: true}
	c.record(&r)
	return c.out
}

// ParseRecord reads what AppendRecord wrote. The result must be clamped, as Load
// and Learn do.
func ParseRecord(b []byte) (Record, error) {
	c := codec{in: b, bad: len(b) > RecordMax}
	if c.read(0xff) != format {
		c.bad = true
	}
	var r Record
	c.record(&r)
	if !c.done() {
		return Record{}, fmt.Errorf("host record of %d bytes: %w", len(b), errMalformed)
	}
	return r, nil
}

// A codec writes or reads; each field is named once, for both. Numbers have seven bits
// per byte, lowest first; instants are numbers; texts are their length and their bytes.
// After the first invalid input it is bad, and reads zeros. encoding/binary could encode
// the numbers, but may not be imported in the pure half.
type codec struct {
	out     []byte
	writing bool
	in      []byte
	bad     bool
}

func (c *codec) record(r *Record) {
	r.Used = c.instant(r.Used)
	r.Health.At = c.instant(r.Health.At)
	r.Health.Failures = uint32(c.number(uint64(r.Health.Failures), failuresMax))
	if r.Health.Failures > 0 {
		r.Health.RetryAt = c.instant(r.Health.RetryAt)
		r.Health.Reason = c.reply(r.Health.Reason)
	}
	r.Closed.MadeAt = c.instant(r.Closed.MadeAt)
	r.Closed.At = c.instant(r.Closed.At)
	for i := range r.Levels.Holds {
		hold := &r.Levels.Holds[i]
		hold.Until, hold.Lifted = c.instant(hold.Until), c.instant(hold.Lifted)
	}
	r.Levels.Strikes = uint8(c.number(uint64(r.Levels.Strikes), strikesMax))
	r.Limit.Messages = uint32(c.number(uint64(r.Limit.Messages), 1<<32-1))
	r.Limit.At = c.instant(r.Limit.At)
	r.Proof.At = c.instant(r.Proof.At)
	r.Proof.Result = mail.Proof(c.number(uint64(r.Proof.Result), uint64(mail.ProofExecutes)))
	r.Proof.Executes = c.flag(r.Proof.Executes)
	r.Pace.At = c.instant(r.Pace.At)
	for _, d := range [...]*time.Duration{&r.Pace.RTT, &r.Pace.RTTMin, &r.Pace.Service, &r.Pace.ServiceFloor} {
		*d = time.Duration(c.number(uint64(max(*d, 0)), uint64(paceMax)))
	}
	r.Caps.At = c.instant(r.Caps.At)
	r.Caps.Extensions = mail.Extensions(c.number(uint64(r.Caps.Extensions), 1<<16-1))
	r.Caps.SizeMax = int64(c.number(uint64(max(r.Caps.SizeMax, 0)), 1<<63-1))
}

// number writes n and returns it, or returns what it reads, which is at most most.
func (c *codec) number(n, most uint64) uint64 {
	if c.writing {
		c.write(n)
		return n
	}
	return c.read(most)
}

func (c *codec) write(n uint64) {
	for ; n >= 0x80; n >>= 7 {
		c.out = append(c.out, byte(n)|0x80)
	}
	c.out = append(c.out, byte(n))
}

func (c *codec) read(most uint64) (n uint64) {
	for shift := 0; !c.bad && len(c.in) > 0 && shift < 64; shift += 7 {
		octet := c.in[0]
		c.in = c.in[1:]
		n |= uint64(octet&0x7f) << shift
		switch {
		case octet >= 0x80:
		case n > most, octet == 0 && shift > 0, shift == 63 && octet > 1:
			c.bad = true
			return 0
		default:
			return n
		}
	}
	c.bad = true
	return 0
}

// done reports whether everything was read without an error.
func (c *codec) done() bool { return !c.bad && len(c.in) == 0 }

func (c *codec) instant(i mail.Instant) mail.Instant {
	return mail.Instant(c.number(uint64(max(i, 0)), uint64(mail.Never)))
}

func (c *codec) flag(f bool) bool {
	n := uint64(0)
	if f {
		n = 1
	}
	return c.number(n, 1) == 1
}

func (c *codec) text(s string, most int) string {
	if c.writing {
		c.write(uint64(len(s)))
		c.out = append(c.out, s...)
		return s
	}
	n := int(c.read(uint64(most)))
	if n > len(c.in) {
		c.bad = true
	}
	if c.bad {
		return ""
	}
	s, c.in = string(c.in[:n]), c.in[n:]
	return s
}

func (c *codec) reply(r mail.Reply) mail.Reply {
	if c.writing {
		r = cut(r)
	}
	for _, n := range [...]*uint16{&r.Code, &r.Status.Class, &r.Status.Subject, &r.Status.Detail} {
		*n = uint16(c.number(uint64(*n), 999))
	}
	r.Text, r.By = c.text(r.Text, mail.ReplyTextMax), c.text(r.By, nameMax)
	if !c.writing && (mail.CleanText(r.Text) != r.Text || mail.CleanText(r.By) != r.By) {
		c.bad = true
	}
	return r
}
