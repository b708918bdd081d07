package spool

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/cockroachdb/pebble/v2"

	"github.com/posthaste-mta/posthaste/mail"
)

// An envelope is the value of an m key: everything of a message that never changes,
// except its content.
type envelope struct {
	mail.Envelope
	chunks     uint32 // r keys; 0 if recipients holds the list
	file       bool   // the content is a file
	sum        uint32 // CRC-32C of the content file, if there is one
	head       string // content in front of that file; see Draft.Prepend
	recipients string // the encoded list, if chunks is 0
}

// place returns the place of a message that was never changed.
func (e *envelope) place() mail.Place {
	return mail.Place{Area: mail.AreaIncoming, Chunks: e.chunks, File: e.file, Bucket: e.Flow.Bucket()}
}

const (
	flagFile = 1 << iota
	flag8Bit
	flagUTF8
	flagRet // two bits
	_
	flagFlow // the value has version valueFlow or valueHead
	flagHead // the value has version valueHead or valueMore
	flagMore // the value has version valueMore: a set of further fields follows, and then these
)

// Further fields of an envelope, as bits of a number. Those of a later version, which this one
// does not know, make the value one that is left alone.
const (
	morePriority = 1 << iota
	moreTLS
	moreRelease
	moreVERP
	moreBy
	moreRequeued
	moreKnown = 1<<iota - 1
)

// byTrace is a flag beside the mode of a deadline.
const byTrace = 1 << 7

// appendEnvelope appends everything but the recipient list.
func appendEnvelope(b []byte, e *envelope) []byte {
	flags := byte(e.Ret) * flagRet
	if e.file {
		flags |= flagFile
	}
	if e.Body == mail.Body8BitMIME {
		flags |= flag8Bit
	}
	if e.SMTPUTF8 {
		flags |= flagUTF8
	}
	if e.Flow != (mail.Flow{}) {
		flags |= flagFlow
	}
	if e.head != "" {
		flags |= flagHead
	}
	more := e.more()
	if more != 0 {
		flags |= flagMore
	}
	b = append(b, flags)
	b = binary.AppendUvarint(b, uint64(e.chunks))
	b = binary.AppendUvarint(b, uint64(e.Recipients))
	b = binary.AppendUvarint(b, uint64(e.Size))
	b = binary.AppendUvarint(b, uint64(e.sum))
	b = binary.AppendVarint(b, int64(e.Arrived))
	b = appendText(b, string(e.Sender))
	b = appendText(b, e.EnvID)
	addr, _ := e.Client.Addr.AppendBinary(nil) // never fails; empty if invalid
	b = appendText(b, string(addr))
	b = appendText(b, e.Client.Helo)
	b = appendText(b, e.Client.Proto)
	if flags&flagFlow != 0 {
		b = appendText(b, e.Flow.Class)
		b = appendText(b, e.Flow.Tenant)
		b = appendText(b, e.Flow.Flow)
	}
	if flags&flagHead != 0 {
		b = appendText(b, e.head)
	}
	if more != 0 {
		b = binary.AppendUvarint(b, more)
	}
	if more&morePriority != 0 {
		b = append(b, byte(e.Priority))
	}
	if more&moreTLS != 0 {
		b = append(b, byte(e.TLS))
	}
	if more&moreRelease != 0 {
		b = binary.AppendVarint(b, int64(e.Release))
	}
	if more&moreVERP != 0 {
		b = appendText(b, e.VERP.String())
	}
	if more&moreBy != 0 {
		how := byte(e.By.Mode)
		if e.By.Trace {
			how |= byTrace
		}
		b = binary.AppendVarint(append(b, how), int64(e.By.At))
	}
	if more&moreRequeued != 0 {
		b = binary.AppendUvarint(b, uint64(e.Requeued))
	}
	return b
}

// more returns the set of further fields that the envelope has.
func (e *envelope) more() (set uint64) {
	if e.Priority != 0 {
		set |= morePriority
	}
	if e.TLS != mail.TLSUnset {
		set |= moreTLS
	}
	if e.Release != 0 {
		set |= moreRelease
	}
	if !e.VERP.IsZero() {
		set |= moreVERP
	}
	if e.By.Mode != mail.ByNone {
		set |= moreBy
	}
	if e.Requeued != 0 {
		set |= moreRequeued
	}
	return set
}

// putEnvelope adds a write of an envelope to the batch, with its recipient list or nil.
// An envelope without a flow, a head or further fields is written as by earlier versions of
// this program. To these, one with any of them is a value of a later version: they leave the
// message alone until they are replaced, while as a value of their own version they would
// take it for damaged.
func putEnvelope(b *pebble.Batch, e *envelope, list []byte) error {
	var buf [512]byte
	version := byte(valueVersion)
	if e.Flow != (mail.Flow{}) {
		version = valueFlow
	}
	if e.head != "" {
		version = valueHead
	}
	if e.more() != 0 {
		version = valueMore
	}
	k := messageKey(keyEnvelope, e.ID)
	return putSealed(b, version, k.bytes(), appendEnvelope(buf[:0], e), list)
}

func decodeEnvelope(id mail.QueueID, payload string) (*envelope, error) {
	e := &envelope{}
	if err := e.decode(id, payload); err != nil {
		return nil, err
	}
	return e, nil
}

// decode sets all of an envelope, whose texts share the payload's memory.
func (e *envelope) decode(id mail.QueueID, payload string) error {
	d := decoder{rest: payload}
	*e = envelope{}
	e.ID = id
	flags := d.octet()
	e.file = flags&flagFile != 0
	if flags&flag8Bit != 0 {
		e.Body = mail.Body8BitMIME
	}
	e.SMTPUTF8 = flags&flagUTF8 != 0
	e.Ret = mail.Ret(flags / flagRet & 3)
	e.chunks = d.uint32()
	e.Recipients = d.uint32()
	e.Size = int64(d.uvarint())
	e.sum = d.uint32()
	e.Arrived = d.instant()
	e.Sender = mail.Address(d.text())
	e.EnvID = d.text()
	if addr := d.text(); addr != "" {
		var a netip.Addr
		if a.UnmarshalBinary([]byte(addr)) != nil {
			d.bad = true
		}
		e.Client.Addr = a
	}
	e.Client.Helo = d.text()
	e.Client.Proto = d.text()
	if flags&flagFlow != 0 {
		e.Flow = mail.Flow{Class: d.text(), Tenant: d.text(), Flow: d.text()}
	}
	if flags&flagHead != 0 {
		e.head = d.text()
	}
	if flags&flagMore != 0 {
		more := d.uvarint()
		if more&^moreKnown != 0 {
			return fmt.Errorf("spool: envelope with fields %#x, this version knows %#x", more, moreKnown)
		}
		if more&morePriority != 0 {
			e.Priority = int8(d.octet())
		}
		if more&moreTLS != 0 {
			if e.TLS = mail.TLSRequest(d.octet()); e.TLS != mail.TLSRequired && e.TLS != mail.TLSOptional {
				d.bad = true
			}
		}
		if more&moreRelease != 0 {
			e.Release = d.instant()
		}
		if more&moreVERP != 0 {
			var err error
			e.VERP, err = mail.ParseVERP(d.text())
			d.bad = d.bad || err != nil || e.VERP.IsZero()
		}
		if more&moreBy != 0 {
			how := d.octet()
			e.By = mail.DeliverBy{Mode: mail.ByMode(how &^ byTrace), Trace: how&byTrace != 0, At: d.instant()}
			d.bad = d.bad || e.By.Mode != mail.ByNotify && e.By.Mode != mail.ByReturn
		}
		if more&moreRequeued != 0 {
			e.Requeued = mail.QueueID(d.uvarint())
			d.bad = d.bad || e.Requeued == 0
		}
	}
	e.recipients = d.rest
	return d.check("envelope")
}

// readEnvelope reads the m key; nil without an error means that there is no
// such message.
func (s *Spool) readEnvelope(id mail.QueueID) (*envelope, error) {
	payload, ok, err := s.loadText(messageKey(keyEnvelope, id))
	if err != nil || !ok {
		return nil, err
	}
	return decodeEnvelope(id, payload)
}
