package sim

import (
	"encoding/binary"
	"math/bits"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A fingerprint is a hash over all events and actions of a run. Two runs of the
// same seed have the same one; it takes a few nanoseconds for each of them, so
// that it is always there.
type fingerprint uint64

func newFingerprint() fingerprint { return 0x9e3779b97f4a7c15 }

// mix takes one number in: a multiplication of 64 by 64 bits, folded.
func (f *fingerprint) mix(v uint64) {
	hi, lo := bits.Mul64(uint64(*f)^v, 0x9fb21c651e98df25)
	*f = fingerprint(hi ^ lo ^ v<<1)
}

func (f *fingerprint) event(now mail.Instant, ev qmgr.Event) {
	f.mix(uint64(now))
	switch e := ev.(type) {
	case qmgr.Arrived:
		f.mix(1)
		f.mix(uint64(e.Arrival.Envelope.ID))
	case qmgr.Delivered:
		f.mix(2)
		f.mix(uint64(e.Entry))
		f.mix(uint64(e.Result.Site.Code))
		for i := range e.Result.Outcomes {
			f.mix(uint64(e.Result.Outcomes[i].Result))
		}
	case qmgr.Routed:
		f.mix(3)
		f.mix(uint64(e.ID))
	case qmgr.LookedUp:
		f.mix(8)
		f.mix(uint64(e.Lookup))
		f.mix(uint64(e.Route.Reply.Code))
	case qmgr.Changed:
		f.mix(4)
		f.mix(uint64(e.Changed.ID))
	case qmgr.Found:
		f.mix(5)
		f.mix(uint64(len(e.Found.Cursors)))
	case qmgr.Opened:
		f.mix(6)
		f.mix(uint64(e.Envelope.ID))
	case qmgr.Recipients:
		f.mix(7)
		f.mix(uint64(e.ID))
	case qmgr.Hosts:
		f.mix(9)
		f.mix(uint64(e.Set.Until))
	case qmgr.Dialed:
		f.mix(10)
		f.mix(uint64(e.Conn))
		f.mix(uint64(e.Opened.Reply.Code))
	case qmgr.Closed:
		f.mix(11 + uint64(e.Closing.Why)<<8)
		f.mix(uint64(e.Conn))
	}
}

func (f *fingerprint) action(action qmgr.Action) {
	switch a := action.(type) {
	case qmgr.Deliver:
		f.mix(16)
		f.mix(uint64(a.Entry))
		f.mix(uint64(a.Delivery.Envelope.ID))
		for i := range a.Delivery.Recipients {
			f.mix(uint64(a.Delivery.Recipients[i].Index))
		}
	case qmgr.Change:
		f.mix(17 + uint64(a.Change.Op)<<8)
		f.mix(uint64(a.Change.ID))
		f.mix(uint64(a.Change.Due))
		f.mix(uint64(len(a.Change.Outcomes)))
	case qmgr.Route:
		f.mix(18)
		f.mix(uint64(a.ID))
	case qmgr.Lookup:
		f.mix(24)
		f.mix(uint64(a.Lookup))
		f.mix(uint64(a.For))
	case qmgr.Fetch:
		f.mix(19 + uint64(a.Scan)<<8)
		f.mix(uint64(a.From.ID))
	case qmgr.Open:
		f.mix(20)
		f.mix(uint64(a.ID))
	case qmgr.Read:
		f.mix(21)
		f.mix(uint64(a.ID))
	case qmgr.Report:
		f.mix(22)
		f.mix(uint64(a.ID))
	case qmgr.Resolve:
		f.mix(25)
	case qmgr.Dial:
		f.mix(26)
		f.mix(uint64(a.Conn))
		addr := a.Opening.Host.Addr.Addr().As16()
		f.mix(binary.BigEndian.Uint64(addr[8:]))
	case qmgr.Send:
		f.mix(27)
		f.mix(uint64(a.Conn))
		f.mix(uint64(a.Entry))
		f.mix(uint64(a.Delivery.Envelope.ID))
		for i := range a.Delivery.Recipients {
			f.mix(uint64(a.Delivery.Recipients[i].Index))
		}
	case qmgr.Hangup:
		f.mix(28)
		f.mix(uint64(a.Conn))
	case qmgr.Note:
		f.mix(23 + uint64(a.Kind)<<8)
	}
}
