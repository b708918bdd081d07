package warmup

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
)

// A Change is a record that has changed. Gone means that it was forgotten and need not be
// saved any more.
type Change struct {
	Key    Key
	Record Record
	Gone   bool
}

// mark has a site saved.
func (t *Table) mark(s *site) {
	if !s.unsaved.Listed() {
		t.dirty.PushBack(&s.unsaved, s)
	}
}

// goneMax bounds the memory of what was forgotten and not fetched. If more is forgotten,
// records stay in the store, and the next start finds the site as it was when it was saved.
func (t *Table) goneMax() int { return 2*t.limit + 1000 }

// lost has a record deleted from the store.
func (t *Table) lost(k Key) {
	if len(t.gone) < t.goneMax() {
		t.gone = append(t.gone, k)
	}
}

// Changed appends to dst the records that changed since they were returned, in the order
// in which they first did, at most max; those forgotten come first. It may be called again
// at once for more. There is one reader.
func (t *Table) Changed(dst []Change, max int) []Change {
	n := 0
	for ; n < len(t.gone) && max > 0; n++ {
		if t.sites[t.gone[n]] == nil {
			dst = append(dst, Change{Key: t.gone[n], Gone: true})
			max--
		}
	}
	t.gone = slices.Delete(t.gone, 0, n)
	for ; max > 0 && !t.dirty.Empty(); max-- {
		s := t.dirty.Front()
		t.dirty.Remove(&s.unsaved)
		dst = append(dst, Change{Key: s.key, Record: s.rec})
	}
	return dst
}

// A Known is a record that was saved.
type Known struct {
	Key    Key
	Record Record
}

// Load takes records that were saved in an earlier run. Days that lie in the future, from a
// clock that was ahead, become today. What would be forgotten is deleted from the store:
// sites without use for longer than they are remembered, and of too many those that were
// not used for the longest time. What the table has already stays.
func (t *Table) Load(records []Known, now mail.Instant) {
	today := DayOf(now)
	records = slices.Clone(records)
	slices.SortFunc(records, func(a, b Known) int {
		return cmp.Or(cmp.Compare(a.Record.Used, b.Record.Used), strings.Compare(a.Key.Source, b.Key.Source), strings.Compare(a.Key.Site, b.Key.Site))
	})
	for _, k := range records {
		if t.sites[k.Key] == nil {
			t.load(k, today)
		}
	}
}

func (t *Table) load(k Known, today Day) {
	w := t.source(k.Key.Source)
	s := &site{key: k.Key, source: w, rec: k.Record}
	r := &s.rec
	r.Day, r.Used = min(r.Day, today), min(r.Used, today)
	if w.plan != nil {
		r.fit(w.plan)
	}
	if *r != k.Record {
		t.mark(s)
	}
	t.add(s)
	switch {
	case k.Key.Site == "" || r.Paused:
	case today-r.Used > w.idleDays():
		t.forget(s)
	case w.sites() > t.limit:
		t.forgetOne(w, today)
	}
}

// idleDays is the time for which records of the source are kept without use. A source that is not
// configured now has the default.
func (w *source) idleDays() Day {
	if w.plan == nil {
		return Day(Limits{}.WithDefaults().IdleDays)
	}
	return Day(w.plan.IdleDays)
}

// Encodings. A key is a NUL, the source, another NUL and the site, so that in the order of
// keys these records come before those of hosts in the same store. A record is text, as in
// "1 0 3 109 0 0 1 20780 20781 12 11 11 0 1": its format, then its fields in their order.
// It is short, can be read in a dump of the store, and has one form only.
const (
	keyMark = 0
	format  = "1"
	// KeyMax and RecordMax are the maximum lengths of the encodings in bytes; longer ones
	// were not made by this package.
	KeyMax    = 1 + sourceMax + 1 + siteMax
	RecordMax = 128
)

var errMalformed = errors.New("malformed")

// IsKey reports whether b is the encoding of a key of this package and not of another one
// that shares the store (package destdb begins its keys with a number from 1 on).
func IsKey(b []byte) bool { return len(b) > 0 && b[0] == keyMark }

// AppendKey appends a key's encoding to b. Equal keys have equal encodings.
func AppendKey(b []byte, k Key) []byte {
	k = k.cut()
	assert.That(len(k.Source) <= sourceMax, "source %.40q: %d bytes", k.Source, len(k.Source))
	b = append(append(b, keyMark), k.Source...)
	return append(append(b, 0), k.Site...)
}

// ParseKey reads what AppendKey wrote.
func ParseKey(b []byte) (Key, error) {
	if len(b) > KeyMax || !IsKey(b) {
		return Key{}, fmt.Errorf("warm-up key of %d bytes: %w", len(b), errMalformed)
	}
	name, site, ok := strings.Cut(string(b[1:]), "\x00")
	if !ok || name == "" || len(name) > sourceMax || len(site) > siteMax {
		return Key{}, fmt.Errorf("warm-up key of %d bytes: %w", len(b), errMalformed)
	}
	return Key{name, site}, nil
}

// AppendRecord appends a record's encoding to b.
func AppendRecord(b []byte, r Record) []byte {
	b = append(b, format...)
	paused := int64(0)
	if r.Paused {
		paused = 1
	}
	for _, n := range [...]int64{
		int64(r.State), int64(r.Step), int64(r.Allowed), int64(r.Bad), paused, int64(r.Last), int64(r.Used), int64(r.Day),
		int64(r.Taken), int64(r.Delivered), int64(r.Accepted), int64(r.Deferred), int64(r.Bounced),
	} {
		b = strconv.AppendInt(append(b, ' '), n, 10)
	}
	return b
}

// recordMost are the greatest values of a record's fields, in the order of AppendRecord.
var recordMost = [...]uint64{
	uint64(Warm), planDaysMax - 1, allowanceMax, badDaysMax, 1, uint64(verdicts - 1), dayMax, dayMax,
	countMax, countMax, countMax, countMax, countMax,
}

const (
	countMax = 1<<32 - 1
	// dayMax is the last day that an instant can lie in, in 2262.
	dayMax = (1<<63 - 1) / uint64(dayLength)
)

// ParseRecord reads what AppendRecord wrote.
func ParseRecord(b []byte) (Record, error) {
	if len(b) > RecordMax {
		return Record{}, fmt.Errorf("warm-up record of %d bytes: %w", len(b), errMalformed)
	}
	words := strings.Split(string(b), " ")
	if len(words) != len(recordMost)+1 || words[0] != format {
		return Record{}, fmt.Errorf("warm-up record %q: %w", b, errMalformed)
	}
	var n [len(recordMost)]uint64
	for i, word := range words[1:] {
		var err error
		if n[i], err = strconv.ParseUint(word, 10, 64); err != nil || n[i] > recordMost[i] {
			return Record{}, fmt.Errorf("warm-up record %q: field %d: %w", b, i+1, errMalformed)
		}
	}
	r := Record{
		State: State(n[0]), Step: uint16(n[1]), Allowed: uint32(n[2]), Bad: uint8(n[3]), Paused: n[4] == 1,
		Last: Verdict(n[5]), Used: Day(n[6]), Day: Day(n[7]),
		Counts: Counts{Taken: uint32(n[8]), Delivered: uint32(n[9]), Accepted: uint32(n[10]), Deferred: uint32(n[11]), Bounced: uint32(n[12])},
	}
	if r.State == Warm && (r.Step != 0 || r.Allowed != 0) || string(AppendRecord(nil, r)) != string(b) {
		return Record{}, fmt.Errorf("warm-up record %q: %w", b, errMalformed)
	}
	return r, nil
}
