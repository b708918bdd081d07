package spool

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// Data that passes its checksum may still be arbitrary, because of a bug or malice:
// decoding must return a value or an error, and a value must encode to data that
// decodes to the same value.
func FuzzDecode(f *testing.F) {
	list := outcomes{busy(3, 77), sent(5, 60), {Index: 9, Result: mail.Failed, Report: mail.ReportFailed, At: -4}}
	f.Add(appendOutcomes(nil, list, 0))
	f.Add(appendOutcomes(nil, outcomes{{Index: 1, Result: mail.Deferred, Doubts: doubtsOf("192.0.2.1:25")}}, 0))
	f.Add(appendOutcomes(nil, outcomes{{Index: 1, Result: mail.Deferred, Reply: mail.Reply{Code: 450, Text: "later"}, Via: mail.Via{Transport: "smtp", Nexthop: "{a,b}", Source: "s"}}}, 0))
	f.Add(appendOutcomes(nil, outcomes{{Index: 1, Via: mail.Via{Nexthop: "a"}, Ordered: &mail.OrderedRoute{Target: "smtp:[r]:587", By: "bob", Reason: "why", At: -9}}, {Index: 2}}, 0))
	f.Add(appendState(nil, &state{area: mail.AreaHold, reason: "r", recipients: 9, settled: 2, outcomes: list, full: bitset{5}}))
	f.Add(appendEnvelope(nil, &envelope{Envelope: mail.Envelope{Sender: "a@example.com", Size: 9, Recipients: 2}}))
	f.Add(appendEnvelope(nil, &envelope{Envelope: mail.Envelope{Sender: "a@example.com", Flow: mail.Flow{Class: "bulk", Tenant: "t", Flow: "<>"}}}))
	f.Add(appendEnvelope(nil, &envelope{Envelope: mail.Envelope{Sender: "a@example.com", VERP: mail.VERP{Before: '+', At: '=', Tagged: true}}}))
	f.Add(appendRecipient(appendRecipient(nil, mail.Recipient{Address: "x@y", ORcpt: "rfc822;x@y"}), mail.Recipient{Address: "z"}))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, payload []byte) {
		if o, err := decodeOutcomes(string(payload), 0); err == nil {
			again, err := decodeOutcomes(string(appendOutcomes(nil, o, 0)), 0)
			if ascending(o) && (err != nil || !reflect.DeepEqual(o, again)) {
				t.Errorf("outcomes %+v became %+v (%v)", o, again, err)
			}
		} else if !errors.Is(err, ErrCorrupt) {
			t.Error(err)
		}
		if st, err := decodeState(string(payload)); err == nil && ascending(st.outcomes) {
			again, err := decodeState(string(appendState(nil, st)))
			if err != nil || !reflect.DeepEqual(st, again) {
				t.Errorf("state %+v became %+v (%v)", st, again, err)
			}
		}
		if e, err := decodeEnvelope(1, string(payload)); err == nil {
			again, err := decodeEnvelope(1, string(appendEnvelope(nil, e))+e.recipients)
			if err != nil || *e != *again {
				t.Errorf("envelope %+v became %+v (%v)", e, again, err)
			}
		}
		r := readRecipients(string(payload), 0)
		var encoded []byte
		for rcpt, ok := r.read(); ok; rcpt, ok = r.read() {
			encoded = appendRecipient(encoded, rcpt)
		}
		if !r.d.bad && len(encoded) > len(payload) {
			t.Errorf("recipients %x became %x", payload, encoded)
		}
	})
}

// ascending reports whether outcomes are in the order in which this package encodes
// them: damaged ones may be in any order.
func ascending(o outcomes) bool {
	for i := 1; i < len(o); i++ {
		if o[i].Index <= o[i-1].Index {
			return false
		}
	}
	return true
}

// Index keys sort as cursors do, whatever the values.
func TestIndexKeyOrder(t *testing.T) {
	const last = mail.BucketEnd - 1
	for area, cursors := range map[mail.Area][]mail.Cursor{
		mail.AreaIncoming: {{}, {ID: 1}, {ID: 1 << 62}, {Bucket: 1}, {Bucket: 1, ID: 1 << 63}, {Bucket: 256}, {Bucket: 1 << 16, ID: 7}, {Bucket: last, ID: ^mail.QueueID(0)}},
		mail.AreaDeferred: {{}, {ID: 1}, {ID: 1 << 63}, {Due: 1}, {Due: 1, ID: ^mail.QueueID(0)}, {Due: 256}, {Due: 1 << 40, ID: 5}, {Due: mail.Never},
			{Bucket: 1}, {Bucket: 1, ID: 1}, {Bucket: 1, Due: mail.Never}, {Bucket: 256, Due: 1}, {Bucket: last}, {Bucket: last, Due: mail.Never, ID: ^mail.QueueID(0)}},
		mail.AreaHold:    {{}, {ID: 1}, {ID: 1 << 62}, {Due: 1}, {Due: 1, ID: ^mail.QueueID(0)}, {Due: mail.Never}},
		mail.AreaCorrupt: {{}, {ID: 1}, {ID: 1 << 62}},
	} {
		kind := areaKinds(area)[0]
		for i, c := range cursors {
			k := indexKey(kind, area, c)
			if back, ok := parseIndexKey(area, k.bytes()); !ok || back != c {
				t.Errorf("%v: %+v came back as %+v", area, c, back)
			}
			for n := range k.n {
				if back, ok := parseIndexKey(area, k.bytes()[:n]); ok {
					t.Errorf("%v: %d bytes of %+v are %+v", area, n, c, back)
				}
			}
			if hasBuckets(area) {
				end := bucketKey(kind, c.Bucket+1)
				if bytes.Compare(k.bytes(), end.bytes()) >= 0 {
					t.Errorf("%v: %+v is not in its bucket", area, c)
				}
			}
			if i == 0 {
				continue
			}
			before := indexKey(kind, area, cursors[i-1])
			if bytes.Compare(before.bytes(), k.bytes()) >= 0 || !cursors[i-1].Before(c) {
				t.Errorf("%v: %+v and %+v are not in order", area, cursors[i-1], c)
			}
		}
	}
}

// The keys of mail without a bucket are those of format 1.
func TestIndexKeysOfFormat1(t *testing.T) {
	for _, c := range []struct {
		area mail.Area
		at   mail.Cursor
		want string
	}{
		{mail.AreaIncoming, mail.Cursor{ID: 1 << 60}, "i\x10\x00\x00\x00\x00\x00\x00\x00"},
		{mail.AreaDeferred, mail.Cursor{Due: 258, ID: 3}, "d\x00\x00\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x00\x00\x00\x03"},
		{mail.AreaHold, mail.Cursor{ID: 3}, "h\x00\x00\x00\x00\x00\x00\x00\x03"},
		{mail.AreaHold, mail.Cursor{Due: 1, ID: 3}, "h\xff\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x03"},
		{mail.AreaCorrupt, mail.Cursor{ID: 3}, "c\x00\x00\x00\x00\x00\x00\x00\x03"},
	} {
		if k := indexKey(areaKinds(c.area)[0], c.area, c.at); string(k.bytes()) != c.want {
			t.Errorf("%v %+v: %q", c.area, c.at, k.bytes())
		}
	}
}

// The replies of a chunk are stored once each, however many recipients share
// them; a chunk of 256 must stay small, as it is rewritten again and again.
func TestOutcomesAreCompact(t *testing.T) {
	var list outcomes
	for i := range uint32(chunkSize) {
		list.set(busy(i, 1_800_000_000_000_000_000+mail.Instant(i)))
	}
	if n := len(appendOutcomes(nil, list, 0)); n > chunkSize*6 {
		t.Errorf("%d bytes for %d recipients", n, chunkSize)
	}
}

// How recipients are put into senders is kept over a restart. To earlier versions of the program it is
// a value of a later one, which they leave alone: they would send the mail with one sender.
func TestEnvelopeOfVERP(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, small(mem))
	all := []mail.VERP{{}, {Before: '+', At: '='}, {Before: '-', At: '=', Tagged: true}}
	var ids []mail.QueueID
	for _, v := range all {
		a := accept(t, s, mail.Envelope{Sender: "a@example.com", Arrived: 1, VERP: v}, addresses(3), text(10))
		k := messageKey(keyEnvelope, a.Envelope.ID)
		value, closer, err := s.db.Get(k.bytes())
		if err != nil {
			t.Fatal(err)
		}
		if later := value[0] >= valueMore; later == v.IsZero() {
			t.Errorf("the envelope of %v has version %d", v, value[0])
		}
		closer.Close()
		ids = append(ids, a.Envelope.ID)
	}
	mustClose(t, s)
	s = mustOpen(t, small(mem))
	for i, id := range ids {
		if m, err := s.Lookup(ctxTest, id); err != nil || m.Envelope.VERP != all[i] || m.Envelope.Sender != "a@example.com" {
			t.Errorf("%v came back as %+v, %v", all[i], m.Envelope, err)
		}
	}
	mustClose(t, s)
	e := appendEnvelope(nil, &envelope{Envelope: mail.Envelope{Sender: "a", VERP: all[1]}})
	for _, bad := range []string{"+", "+=x", ""} {
		damaged := append(append([]byte{}, e[:len(e)-3]...), byte(len(bad)))
		if got, err := decodeEnvelope(1, string(append(damaged, bad...))); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%q is %+v, %v", bad, got, err)
		}
	}
}
