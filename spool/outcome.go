package spool

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/posthaste-mta/posthaste/mail"
)

// Outcomes is the outcomes of the recipients of one chunk, sorted by Index;
// recipients without an outcome are not in it.
type outcomes []mail.Outcome

func (o outcomes) find(index uint32) (int, bool) {
	return slices.BinarySearchFunc(o, index, func(a mail.Outcome, i uint32) int { return cmp.Compare(a.Index, i) })
}

// at returns the outcome of a recipient, the zero outcome if there is none.
func (o outcomes) at(index uint32) mail.Outcome {
	if i, ok := o.find(index); ok {
		return o[i]
	}
	return mail.Outcome{Index: index}
}

// set replaces the outcome of a recipient.
func (o *outcomes) set(out mail.Outcome) {
	i, ok := o.find(out.Index)
	if ok {
		(*o)[i] = out
		return
	}
	*o = slices.Insert(*o, i, out)
}

// settled counts the recipients that need no further attempt.
func (o outcomes) settled() uint32 {
	var n uint32
	for i := range o {
		if o[i].Result.Settled() {
			n++
		}
	}
	return n
}

// supersede combines the outcome of a recipient with a new one, by the rules in the
// package comment.
func supersede(old, out mail.Outcome) mail.Outcome {
	if old.Result.Settled() {
		return old
	}
	if out.Report == mail.ReportNone && !out.Result.Settled() {
		out.Report = old.Report
	}
	out.Ordered = old.Ordered
	switch {
	case out.Result.Settled():
		out.Doubts = nil
	case out.Doubts == nil:
		out.Doubts = old.Doubts
	}
	out.Stage = mail.StageUnknown
	return out
}

// Flags in the code of a reply.
const (
	// flagVia means that the way of its recipients follows it. Values with it have version valueVia or a later one.
	flagVia = 1 << 16
	// flagDoubts means that doubts follow. Values with it have version valueDoubts.
	flagDoubts = 1 << 17
	// flagOrdered means that an operator's route follows. Values with it have version valueOrdered or a later one.
	flagOrdered = 1 << 18
)

// A said is what recipients have in common: many of one message have the same reply.
type said struct {
	reply   mail.Reply
	via     mail.Via
	doubts  mail.Doubts
	ordered mail.OrderedRoute // zero: none
}

// version returns the version of a value with these outcomes.
func (o outcomes) version() byte {
	version := byte(valueVersion)
	for i := range o {
		switch {
		case len(o[i].Doubts.All()) > 0:
			return valueDoubts
		case o[i].Ordered != nil:
			version = valueOrdered
		case o[i].Via != (mail.Via{}):
			version = max(version, valueVia)
		}
	}
	return version
}

// same reports whether two outcomes of a recipient are equal.
func same(a, b mail.Outcome) bool {
	if a.Ordered != nil && b.Ordered != nil && *a.Ordered == *b.Ordered {
		a.Ordered = b.Ordered
	}
	if slices.Equal(a.Doubts.All(), b.Doubts.All()) {
		a.Doubts = b.Doubts
	}
	return a == b
}

// kindExpired is a flag for an expired recipient; results are less than it.
const kindExpired = 8

// appendOutcomes encodes outcomes: each different reply and way once, then for each
// recipient its distance from the one before, result and report, the number
// of its reply, and the time since the one before.
func appendOutcomes(b []byte, list outcomes, first uint32) []byte {
	replies, which := distinctReplies(list)
	b = binary.AppendUvarint(b, uint64(len(replies)))
	for i := range replies {
		r, via, doubts, ordered := &replies[i].reply, &replies[i].via, &replies[i].doubts, &replies[i].ordered
		code := uint64(r.Code)
		if len(doubts.All()) > 0 {
			code |= flagDoubts
		}
		if *ordered != (mail.OrderedRoute{}) {
			code |= flagOrdered
		}
		if *via != (mail.Via{}) {
			code |= flagVia
		}
		b = binary.AppendUvarint(b, code)
		b = binary.AppendUvarint(b, uint64(r.Status.Class))
		b = binary.AppendUvarint(b, uint64(r.Status.Subject))
		b = binary.AppendUvarint(b, uint64(r.Status.Detail))
		b = appendText(b, r.Text)
		b = appendText(b, r.By)
		if code&flagVia != 0 {
			b = appendText(b, via.Transport)
			b = appendText(b, via.Nexthop)
			b = appendText(b, via.Source)
		}
		if code&flagDoubts != 0 {
			b = appendDoubts(b, doubts.All())
		}
		if code&flagOrdered != 0 {
			b = appendText(b, ordered.Target)
			b = appendText(b, ordered.By)
			b = appendText(b, ordered.Reason)
			b = binary.AppendVarint(b, int64(ordered.At))
		}
	}
	var at mail.Instant
	for i := range list {
		o := &list[i]
		b = binary.AppendUvarint(b, uint64(o.Index-first))
		kinds := byte(o.Result) | byte(o.Report)<<4
		if o.Expired {
			kinds |= kindExpired
		}
		b = append(b, kinds)
		b = binary.AppendUvarint(b, uint64(which(i)))
		b = binary.AppendVarint(b, int64(o.At-at))
		first, at = o.Index, o.At
	}
	return b
}

// appendDoubts encodes doubts: their number, and of each the host and how often.
func appendDoubts(b []byte, all []mail.Doubt) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for _, one := range all {
		b = appendText(b, one.Host.String())
		b = append(b, one.Times)
	}
	return b
}

func (d *decoder) doubts() *mail.Doubts {
	n := d.uvarint()
	if n == 0 || n > mail.DoubtsMost {
		d.bad = true
		return nil
	}
	var all mail.Doubts
	for i := range n {
		host, err := netip.ParseAddrPort(d.ownText())
		times := d.octet()
		d.bad = d.bad || err != nil || times == 0
		all[i] = mail.Doubt{Host: host, Times: times}
	}
	return &all
}

// distinctReplies returns the distinct replies of a list, with their ways, in order of
// appearance, and a function from an element to the index of its reply.
func distinctReplies(list outcomes) ([]said, func(int) int) {
	of := func(i int) said {
		s := said{reply: list[i].Reply, via: list[i].Via}
		if d := list[i].Doubts; d != nil {
			s.doubts = *d
		}
		if to := list[i].Ordered; to != nil {
			s.ordered = *to
		}
		return s
	}
	if len(list) == 1 { // nearly always
		return []said{of(0)}, func(int) int { return 0 }
	}
	var replies []said
	number := make(map[said]int)
	for i := range list {
		if _, ok := number[of(i)]; !ok {
			number[of(i)] = len(replies)
			replies = append(replies, of(i))
		}
	}
	return replies, func(i int) int { return number[of(i)] }
}

// A heard is a said that was read: recipients share the route that it points to.
type heard struct {
	reply   mail.Reply
	via     mail.Via
	doubts  *mail.Doubts
	ordered *mail.OrderedRoute
}

func decodeOutcomes(payload string, first uint32) (outcomes, error) {
	return outcomes(nil).decode(payload, first)
}

// decode appends decoded outcomes to a list.
func (o outcomes) decode(payload string, first uint32) (outcomes, error) {
	d := decoder{rest: payload}
	n := d.uvarint()
	if n > uint64(len(payload)) {
		d.bad, n = true, 0
	}
	var few [2]heard
	replies := few[:min(n, uint64(len(few)))]
	if n > uint64(len(few)) {
		replies = make([]heard, n)
	}
	for i := range replies {
		r, code := &replies[i].reply, d.uvarint()
		r.Code = uint16(code)
		r.Status = mail.Status{Class: uint16(d.uvarint()), Subject: uint16(d.uvarint()), Detail: uint16(d.uvarint())}
		r.Text, r.By = d.text(), d.text()
		if code&flagVia != 0 {
			replies[i].via = mail.Via{Transport: d.text(), Nexthop: d.text(), Source: d.text()}
		}
		if code&flagDoubts != 0 {
			replies[i].doubts = d.doubts()
		}
		if code&flagOrdered != 0 {
			to := mail.OrderedRoute{Target: d.ownText(), By: d.ownText(), Reason: d.ownText(), At: d.instant()}
			if to != (mail.OrderedRoute{}) {
				replies[i].ordered = &to
			}
		}
	}
	var at mail.Instant
	for len(d.rest) > 0 {
		index := first + d.uint32()
		kinds := d.octet()
		reply := d.uvarint()
		at += d.instant()
		if d.bad || reply >= n {
			d.bad = true
			break
		}
		o = append(o, mail.Outcome{
			Index: index, Result: mail.Result(kinds & (kindExpired - 1)), Expired: kinds&kindExpired != 0, Report: mail.ReportKind(kinds >> 4), Reply: replies[reply].reply, Via: replies[reply].via, At: at,
			Doubts: replies[reply].doubts, Ordered: replies[reply].ordered,
		})
		first = index
	}
	return o, d.check("outcomes")
}

// putOutcomes adds a write of the outcomes of a chunk to the batch; encoded is what appendOutcomes has
// made of them.
func putOutcomes(b *pebble.Batch, id mail.QueueID, chunk uint32, list outcomes, encoded []byte) error {
	k := chunkKey(keyOutcomes, id, chunk)
	return putSealed(b, list.version(), k.bytes(), encoded)
}

// readOutcomes returns the outcomes of the recipients of a chunk. st is nil for a
// message that was never changed.
func (s *Spool) readOutcomes(id mail.QueueID, st *state, chunk uint32) (outcomes, error) {
	if st == nil || st.chunks == 0 {
		if st == nil {
			return nil, nil
		}
		return st.outcomes, nil
	}
	payload, ok, err := s.loadText(chunkKey(keyOutcomes, id, chunk))
	if err != nil || !ok {
		return nil, err
	}
	first, _ := chunkBounds(chunk, st.recipients)
	return decodeOutcomes(payload, first)
}
