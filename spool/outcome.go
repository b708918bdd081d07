package spool

import (
	"cmp"
	"encoding/binary"
	"slices"

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
	return out
}

// kindExpired is a flag for an expired recipient; results are less than it.
const kindExpired = 8

// appendOutcomes encodes outcomes: each different reply once, then for each
// recipient its distance from the one before, result and report, the number
// of its reply, and the time since the one before.
func appendOutcomes(b []byte, list outcomes, first uint32) []byte {
	replies, which := distinctReplies(list)
	b = binary.AppendUvarint(b, uint64(len(replies)))
	for _, r := range replies {
		b = binary.AppendUvarint(b, uint64(r.Code))
		b = binary.AppendUvarint(b, uint64(r.Status.Class))
		b = binary.AppendUvarint(b, uint64(r.Status.Subject))
		b = binary.AppendUvarint(b, uint64(r.Status.Detail))
		b = appendText(b, r.Text)
		b = appendText(b, r.By)
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

// distinctReplies returns the distinct replies of a list in order of appearance,
// and a function from an element to the index of its reply.
func distinctReplies(list outcomes) ([]mail.Reply, func(int) int) {
	if len(list) == 1 { // nearly always
		return []mail.Reply{list[0].Reply}, func(int) int { return 0 }
	}
	var replies []mail.Reply
	number := make(map[mail.Reply]int)
	for i := range list {
		if _, ok := number[list[i].Reply]; !ok {
			number[list[i].Reply] = len(replies)
			replies = append(replies, list[i].Reply)
		}
	}
	return replies, func(i int) int { return number[list[i].Reply] }
}

func decodeOutcomes(payload string, first uint32) (outcomes, error) {
	d := decoder{rest: payload}
	n := d.uvarint()
	if n > uint64(len(payload)) {
		d.bad, n = true, 0
	}
	replies := make([]mail.Reply, n)
	for i := range replies {
		r := &replies[i]
		r.Code = uint16(d.uvarint())
		r.Status = mail.Status{Class: uint16(d.uvarint()), Subject: uint16(d.uvarint()), Detail: uint16(d.uvarint())}
		r.Text, r.By = d.text(), d.text()
	}
	var list outcomes
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
		list = append(list, mail.Outcome{
			Index: index, Result: mail.Result(kinds & (kindExpired - 1)), Expired: kinds&kindExpired != 0, Report: mail.ReportKind(kinds >> 4), Reply: replies[reply], At: at,
		})
		first = index
	}
	return list, d.check("outcomes")
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
