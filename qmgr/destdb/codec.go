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
	RecordMax = 1024
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
	e := encoder{append(b, keyFormat)}
	e.text(string(k.Addr.Addr().AsSlice()))
	e.number(uint64(k.Addr.Port()))
	e.text(k.Transport)
	e.text(k.Source)
	e.text(k.Security)
	return e.out, true
}

// ParseKey reads what AppendKey wrote, also in format 1.
func ParseKey(b []byte) (Key, error) {
	d := decoder{in: b}
	version := d.number(0xff)
	addr, ok := netip.AddrFromSlice([]byte(d.text(16)))
	port := d.number(1<<16 - 1)
	k := Key{Addr: netip.AddrPortFrom(addr, uint16(port))}
	switch version {
	case keyFormat1:
		k.Source, k.Transport = d.text(textMax), d.text(textMax)
	case keyFormat:
		k.Transport, k.Source, k.Security = d.text(textMax), d.text(textMax), d.text(textMax)
	default:
		d.bad = true
	}
	if !ok || !d.done() {
		return Key{}, fmt.Errorf("host key of %d bytes: %w", len(b), errMalformed)
	}
	return k, nil
}

// AppendRecord appends a record's encoding to b.
func AppendRecord(b []byte, r Record) []byte {
	e := encoder{append(b, format)}
	e.instant(r.Used)
	e.instant(r.Health.At)
	e.number(uint64(r.Health.Failures))
	if r.Health.Failures > 0 {
		e.instant(r.Health.RetryAt)
		e.reply(r.Health.Reason)
	}
	e.instant(r.Closed.MadeAt)
	e.instant(r.Closed.At)
	e.levels(r.Levels)
	e.number(uint64(r.Limit.Messages))
	e.instant(r.Limit.At)
	e.instant(r.Proof.At)
	e.number(uint64(r.Proof.Result))
	e.flag(r.Proof.Executes)
	e.instant(r.Pace.At)
	for _, d := range [...]time.Duration{r.Pace.RTT, r.Pace.RTTMin, r.Pace.Service, r.Pace.ServiceFloor} {
		e.number(uint64(max(d, 0)))
	}
	e.instant(r.Caps.At)
	e.number(uint64(r.Caps.Extensions))
	e.number(uint64(max(r.Caps.SizeMax, 0)))
	return e.out
}

// ParseRecord reads what AppendRecord wrote. The result must be clamped, as Load
// and Learn do.
func ParseRecord(b []byte) (Record, error) {
	d := decoder{in: b, bad: len(b) > RecordMax}
	d.version()
	var r Record
	r.Used = d.instant()
	r.Health.At = d.instant()
	if r.Health.Failures = uint32(d.number(failuresMax)); r.Health.Failures > 0 {
		r.Health.RetryAt = d.instant()
		r.Health.Reason = d.reply()
	}
	r.Closed = Closing{MadeAt: d.instant(), At: d.instant()}
	r.Levels = d.levels()
	r.Limit.Messages = uint32(d.number(1<<32 - 1))
	r.Limit.At = d.instant()
	r.Proof.At = d.instant()
	r.Proof.Result = mail.Proof(d.number(uint64(mail.ProofExecutes)))
	r.Proof.Executes = d.flag()
	r.Pace.At = d.instant()
	for _, to := range [...]*time.Duration{&r.Pace.RTT, &r.Pace.RTTMin, &r.Pace.Service, &r.Pace.ServiceFloor} {
		*to = time.Duration(d.number(uint64(paceMax)))
	}
	r.Caps.At = d.instant()
	r.Caps.Extensions = mail.Extensions(d.number(1<<16 - 1))
	r.Caps.SizeMax = int64(d.number(1<<63 - 1))
	if !d.done() {
		return Record{}, fmt.Errorf("host record of %d bytes: %w", len(b), errMalformed)
	}
	return r, nil
}

// An encoder appends numbers, seven bits per byte, lowest first; instants as
// numbers; texts as their length and their bytes. encoding/binary could encode the
// numbers, but may not be imported in the pure half.
type encoder struct{ out []byte }

func (e *encoder) number(n uint64) {
	for ; n >= 0x80; n >>= 7 {
		e.out = append(e.out, byte(n)|0x80)
	}
	e.out = append(e.out, byte(n))
}

func (e *encoder) instant(i mail.Instant) { e.number(uint64(max(i, 0))) }

func (e *encoder) flag(f bool) {
	if f {
		e.number(1)
	} else {
		e.number(0)
	}
}

func (e *encoder) text(s string) {
	e.number(uint64(len(s)))
	e.out = append(e.out, s...)
}

func (e *encoder) reply(r mail.Reply) {
	r = cut(r)
	for _, n := range [...]uint16{r.Code, r.Status.Class, r.Status.Subject, r.Status.Detail} {
		e.number(uint64(n))
	}
	e.text(r.Text)
	e.text(r.By)
}

func (e *encoder) levels(l Levels) {
	for _, hold := range l.Holds {
		e.instant(hold.Until)
		e.instant(hold.Lifted)
	}
	e.number(uint64(l.Strikes))
}

// A decoder reads what an encoder wrote. After the first invalid input it is bad,
// and reads zeros.
type decoder struct {
	in  []byte
	bad bool
}

func (d *decoder) done() bool { return !d.bad && len(d.in) == 0 }

func (d *decoder) version() {
	if d.number(0xff) != format {
		d.bad = true
	}
}

func (d *decoder) number(most uint64) (n uint64) {
	for shift := 0; !d.bad && len(d.in) > 0 && shift < 64; shift += 7 {
		octet := d.in[0]
		d.in = d.in[1:]
		n |= uint64(octet&0x7f) << shift
		switch {
		case octet >= 0x80:
		case n > most, octet == 0 && shift > 0, shift == 63 && octet > 1:
			d.bad = true
			return 0
		default:
			return n
		}
	}
	d.bad = true
	return 0
}

func (d *decoder) instant() mail.Instant { return mail.Instant(d.number(uint64(mail.Never))) }

func (d *decoder) flag() bool { return d.number(1) == 1 }

func (d *decoder) text(most int) string {
	n := int(d.number(uint64(most)))
	if n > len(d.in) {
		d.bad = true
	}
	if d.bad {
		return ""
	}
	s := string(d.in[:n])
	d.in = d.in[n:]
	return s
}

func (d *decoder) reply() (r mail.Reply) {
	for _, to := range [...]*uint16{&r.Code, &r.Status.Class, &r.Status.Subject, &r.Status.Detail} {
		*to = uint16(d.number(999))
	}
	r.Text = d.text(replyTextMax)
	r.By = d.text(replyTextMax)
	if mail.CleanText(r.Text) != r.Text || mail.CleanText(r.By) != r.By {
		d.bad = true
	}
	return r
}

func (d *decoder) levels() (l Levels) {
	for i := range l.Holds {
		l.Holds[i] = Hold{Until: d.instant(), Lifted: d.instant()}
	}
	l.Strikes = uint8(d.number(strikesMax))
	return l
}
