package measure

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Known is a record that was saved.
type Known struct {
	Key    Key
	Record Record
}

// A Change is a record that has changed. Gone means that nothing is demanded any more, and it need
// not be saved.
type Change struct {
	Key    Key
	Record Record
	Gone   bool
}

// mark has a record saved.
func (t *Table) mark(e *entry) {
	if !e.unsaved.Listed() {
		t.dirty.PushBack(&e.unsaved, e)
	}
}

// goneMax bounds the memory of what was dropped and not fetched. If more is dropped, records
// stay in the store until the next start, which drops what has ended.
func (t *Table) goneMax() int { return 2*t.limit + 1000 }

// lost has a record deleted from the store.
func (t *Table) lost(k Key) {
	if len(t.gone) < t.goneMax() {
		t.gone = append(t.gone, k)
	}
}

// Changed appends to dst the records that changed since they were returned, in the order
// in which they first did, at most max; those that are gone come first. It may be called
// again at once for more. There is one reader.
func (t *Table) Changed(dst []Change, max int) []Change {
	n := 0
	for ; n < len(t.gone) && max > 0; n++ {
		if t.entries[t.gone[n]] == nil {
			dst = append(dst, Change{Key: t.gone[n], Gone: true})
			max--
		}
	}
	t.gone = slices.Delete(t.gone, 0, n)
	for ; max > 0 && !t.dirty.Empty(); max-- {
		e := t.dirty.Front()
		t.dirty.Remove(&e.unsaved)
		dst = append(dst, Change{Key: e.key, Record: e.rec})
	}
	return dst
}

// HasChanged reports whether Changed would return something; if all that has changed was there
// again, it may say so although it would not.
func (t *Table) HasChanged() bool { return len(t.gone) > 0 || !t.dirty.Empty() }

// Load takes records that were saved in an earlier run, but for what has ended meanwhile. What
// the table has already stays. It returns the keys of those that it took, in their order.
func (t *Table) Load(records []Known, now mail.Instant) (taken []Key) {
	records = slices.Clone(records)
	slices.SortFunc(records, func(a, b Known) int { return a.Key.compare(b.Key) })
	for _, k := range records {
		if t.entries[k.Key] != nil {
			continue
		}
		r := k.Record.clamped(now).over(now)
		if r == (Record{}) {
			t.lost(k.Key)
			continue
		}
		t.Put(k.Key, r)
		if r == k.Record {
			t.dirty.Remove(&t.entries[k.Key].unsaved)
		}
		taken = append(taken, k.Key)
	}
	return slices.DeleteFunc(taken, func(k Key) bool { return t.entries[k] == nil })
}

// Encodings. A key is two NULs, so that it shares a store with the keys of packages warmup
// (a NUL and a name) and destdb (a number from 1 on) and comes before them; then a number
// for its scope, and its texts, each with a NUL behind it. A nexthop that is the name is left
// empty. A record is text, as in
//
//	1 rest 1767322800000000000 1767344400000000000 421 4.7.28 "slow" "too fast" "mx.example.net[192.0.2.1]"
//
// and can be read in a dump of the store: its format, then what is demanded. Of an order it has
// "order", its beginning and its end, and the operator and the reason; of one of a rule, "ruled"
// and the rule in place of the operator. Both have one form only.
const (
	keyMark = 0
	format  = "1"
	// KeyMax and RecordMax are the maximum lengths of the encodings in bytes. What would be
	// longer is not saved.
	KeyMax    = 4000
	RecordMax = 20_000 // a quoted text is up to two and a half times as long as the text
)

var errMalformed = errors.New("malformed")

// IsKey reports whether b is the encoding of a key of this package and not of another one
// that shares the store.
func IsKey(b []byte) bool { return len(b) > 1 && b[0] == keyMark && b[1] == keyMark }

// AppendKey appends a key's encoding to b. Equal keys have equal encodings. It returns false,
// and b unchanged, for one that cannot be saved: it is too long, has a NUL, or a name and no nexthop.
func AppendKey(b []byte, k Key) ([]byte, bool) {
	nexthop := k.Nexthop
	switch nexthop {
	case k.Name:
		nexthop = ""
	case "":
		return b, false
	}
	to := append(b, keyMark, keyMark, byte(k.Scope))
	for _, text := range [...]string{k.Transport, k.Name, nexthop, k.Source, k.Security} {
		if strings.Contains(text, "\x00") {
			return b, false
		}
		to = append(append(to, text...), 0)
	}
	if k.Domain != "" {
		if strings.Contains(k.Domain, "\x00") {
			return b, false
		}
		to = append(append(to, k.Domain...), 0)
	}
	if len(to)-len(b) > KeyMax {
		return b, false
	}
	return to, true
}

// ParseKey reads what AppendKey wrote.
func ParseKey(b []byte) (Key, error) {
	bad := fmt.Errorf("key of a measure of %d bytes: %w", len(b), errMalformed)
	if !IsKey(b) || len(b) > KeyMax || len(b) < 3 || b[2] == 0 || Scope(b[2]) >= scopes {
		return Key{}, bad
	}
	texts := strings.Split(string(b[3:]), "\x00")
	domain := ""
	if len(texts) == 7 && texts[5] != "" { // of a Destination that is limited to one; earlier versions pass it over
		domain = texts[5]
		texts = append(texts[:5], texts[6])
	}
	if len(texts) != 6 || texts[5] != "" || texts[2] == texts[1] && texts[1] != "" {
		return Key{}, bad
	}
	k := Key{Scope: Scope(b[2]), Transport: texts[0], Name: texts[1], Nexthop: texts[2], Source: texts[3], Security: texts[4], Domain: domain}
	if k.Nexthop == "" {
		k.Nexthop = k.Name
	}
	if k.Domain != "" && k.Scope != Destination {
		return Key{}, bad
	}
	if k.Scope != Queue && (k != OrderKey(k.Scope, k.Value()) || (k.Name == "") != (k.Scope == Resumed) || (k.Transport == "") != (k.Scope != Destination)) {
		return Key{}, bad
	}
	return k, nil
}

// AppendRecord appends a record's encoding to b. It returns false, and b unchanged, for one that
// is too long to be saved.
func AppendRecord(b []byte, r Record) ([]byte, bool) {
	to := append(b, format...)
	if r := &r.Rest; r.Until != 0 {
		to = append(to, " rest"...)
		to = numbers(to, int64(r.Since), int64(r.Until), int64(r.Reason.Code), int64(r.Reason.Status.Class), int64(r.Reason.Status.Subject), int64(r.Reason.Status.Detail))
		to = texts(to, r.Rule, r.Reason.Text, r.Reason.By)
	}
	if r := &r.Lower; r.Until != 0 {
		to = append(to, " lower"...)
		to = numbers(to, int64(r.Since), int64(r.Until), int64(r.Concurrency), int64(r.Count), int64(r.Per))
		to = texts(to, r.Rule)
	}
	if r := &r.Order; r.Until != 0 {
		kind, who := " order", r.By
		if r.Rule != "" {
			kind, who = " ruled", r.Rule
		}
		to = append(to, kind...)
		to = numbers(to, int64(r.Since), int64(r.Until))
		to = texts(to, who, r.Reason)
	}
	if len(to)-len(b) > RecordMax {
		return b, false
	}
	return to, true
}

func numbers(to []byte, all ...int64) []byte {
	for _, n := range all {
		to = strconv.AppendInt(append(to, ' '), n, 10)
	}
	return to
}

func texts(to []byte, all ...string) []byte {
	for _, text := range all {
		to = strconv.AppendQuote(append(to, ' '), text)
	}
	return to
}

// ParseRecord reads what AppendRecord wrote.
func ParseRecord(b []byte) (Record, error) {
	p := parser{rest: string(b), bad: len(b) > RecordMax}
	if p.word() != format {
		p.bad = true
	}
	var r Record
	for !p.bad && p.rest != "" {
		switch p.word() {
		case "rest":
			v := &r.Rest
			v.Since, v.Until = mail.Instant(p.number()), mail.Instant(p.number())
			v.Reason.Code = p.small()
			v.Reason.Status = mail.Status{Class: p.small(), Subject: p.small(), Detail: p.small()}
			v.Rule, v.Reason.Text, v.Reason.By = p.text(), p.text(), p.text()
			p.span(v.Since, v.Until)
		case "lower":
			v := &r.Lower
			v.Since, v.Until = mail.Instant(p.number()), mail.Instant(p.number())
			v.Concurrency, v.Count, v.Per = p.count(), p.count(), time.Duration(p.number())
			v.Rule = p.text()
			p.span(v.Since, v.Until)
			p.bad = p.bad || (v.Count > 0) != (v.Per > 0) || v.Concurrency == 0 && v.Count == 0
		case "order":
			v := &r.Order
			v.Since, v.Until = mail.Instant(p.number()), mail.Instant(p.number())
			v.By, v.Reason = p.text(), p.text()
			p.span(v.Since, v.Until)
		case "ruled":
			v := &r.Order
			v.Since, v.Until = mail.Instant(p.number()), mail.Instant(p.number())
			v.Rule, v.Reason = p.text(), p.text()
			p.span(v.Since, v.Until)
			p.bad = p.bad || v.Rule == ""
		default:
			p.bad = true
		}
	}
	if again, ok := AppendRecord(nil, r); p.bad || !ok || r == (Record{}) || string(again) != string(b) || r.cut() != r {
		return Record{}, fmt.Errorf("record of a measure %.100q: %w", b, errMalformed)
	}
	return r, nil
}

// A parser reads the words of a record.
type parser struct {
	rest string
	bad  bool
}

func (p *parser) word() (w string) {
	w, p.rest, _ = strings.Cut(p.rest, " ")
	return w
}

// number reads a number that is not negative.
func (p *parser) number() int64 {
	n, err := strconv.ParseInt(p.word(), 10, 64)
	p.bad = p.bad || err != nil || n < 0
	return n
}

// count reads a number that is an int on every machine.
func (p *parser) count() int {
	n := p.number()
	p.bad = p.bad || n > 1<<31-1
	return int(n)
}

// small reads a part of a code.
func (p *parser) small() uint16 {
	n := p.number()
	p.bad = p.bad || n > 999
	return uint16(n)
}

// text reads a quoted text.
func (p *parser) text() string {
	quoted, err := strconv.QuotedPrefix(p.rest)
	if err != nil {
		p.bad, p.rest = true, ""
		return ""
	}
	p.rest = strings.TrimPrefix(p.rest[len(quoted):], " ")
	text, err := strconv.Unquote(quoted)
	p.bad = p.bad || err != nil
	return text
}

// span checks a beginning and an end.
func (p *parser) span(since, until mail.Instant) { p.bad = p.bad || since <= 0 || until <= since }
