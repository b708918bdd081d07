package feedback

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// Bounds of a Book.
const (
	KeysMax   = 50_000 // counts of all days; further ones are counted by kind, class and tenant only
	tenantMax = 5_000  // counts of those; further ones are counted by kind and class only
	DaysMax   = 35     // days that are kept
	marksMax  = 50_000 // events that are remembered so that they count once; at least half of them
	domainMax = 255
)

// A Key identifies the events that are counted together.
type Key struct {
	Kind     string `json:"kind"`
	Class    string `json:"class,omitempty"`
	Tenant   string `json:"tenant,omitempty"`
	Sender   string `json:"sender,omitempty"`   // domain of the message's sender
	Receiver string `json:"receiver,omitempty"` // domain of the recipient
}

// A Book counts events by UTC day. The zero Book is empty. It is not safe for concurrent use.
type Book struct {
	days map[string]map[Key]uint64 // by day, such as "2026-11-23"
	keys int

	marks, older map[uint64]bool // events that were counted; when marks is full it becomes older
}

// Count counts an event of a time once: it returns false if the event was counted before. marked
// is false for an event without a mark.
func (b *Book) Count(at time.Time, k Key, mark uint64, marked bool) bool {
	if marked && (b.marks[mark] || b.older[mark]) {
		return false
	}
	if marked {
		b.mark(mark)
	}
	b.add(at.UTC().Format(time.DateOnly), k, 1)
	return true
}

func (b *Book) mark(mark uint64) {
	if b.marks == nil || len(b.marks) >= marksMax/2 {
		b.marks, b.older = make(map[uint64]bool), b.marks
	}
	b.marks[mark] = true
}

func (b *Book) add(day string, k Key, n uint64) {
	if b.days == nil {
		b.days = make(map[string]map[Key]uint64)
	}
	counts := b.days[day]
	if counts == nil {
		counts = make(map[Key]uint64)
		b.days[day] = counts
		b.forget(day)
	}
	for _, text := range []*string{&k.Tenant, &k.Sender, &k.Receiver} {
		*text = clean(strings.ToLower(*text), domainMax)
	}
	if _, known := counts[k]; !known && b.keys >= KeysMax {
		k.Sender, k.Receiver = "", "" // which strangers choose; what they send must not hide the counts of tenants
	}
	if _, known := counts[k]; !known && b.keys >= KeysMax+tenantMax {
		k = Key{Kind: k.Kind, Class: k.Class} // few, since neither comes from outside
	}
	before := len(counts)
	counts[k] += n
	b.keys += len(counts) - before
}

// forget removes days beyond DaysMax: those after today, which a clock that was ahead has made, and then the
// oldest.
func (b *Book) forget(today string) {
	days := slices.Sorted(maps.Keys(b.days))
	for len(days) > DaysMax {
		gone := days[0]
		if last := len(days) - 1; days[last] > today {
			gone, days = days[last], days[:last]
		} else {
			days = days[1:]
		}
		b.keys -= len(b.days[gone])
		delete(b.days, gone)
	}
}

// By is the property by which rows are grouped.
type By string

// The words for it.
const (
	ByClass    By = "class"
	ByTenant   By = "tenant"
	BySenders  By = "sender"
	ByReceiver By = "receiver"
	ByDay      By = "day"
)

// A Row is a count.
type Row struct {
	Kind  string
	Name  string // of the class, tenant, domain or day; "" where events have none
	Count uint64
}

// Rows returns the counts of a day and those after it, "" for all, the largest first, at most limit,
// and how many more there are. Those by day are in the order of days.
func (b *Book) Rows(since string, by By, limit int) (rows []Row, more int) {
	sums := make(map[Row]uint64)
	for day, counts := range b.days {
		if day < since {
			continue
		}
		for k, n := range counts {
			name := map[By]string{ByClass: k.Class, ByTenant: k.Tenant, BySenders: k.Sender, ByReceiver: k.Receiver, ByDay: day}[by]
			sums[Row{Kind: k.Kind, Name: name}] += n
		}
	}
	for r, n := range sums {
		r.Count = n
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(x, y Row) int {
		if by == ByDay {
			return cmp.Or(cmp.Compare(y.Name, x.Name), cmp.Compare(y.Count, x.Count), cmp.Compare(x.Kind, y.Kind))
		}
		return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Name, y.Name))
	})
	if len(rows) > limit {
		rows, more = rows[:limit], len(rows)-limit
	}
	return rows, more
}

// A line is one of the text form of a Book: a count, or marks.
type line struct {
	Day   string `json:"day,omitempty"`
	Count uint64 `json:"count,omitempty"`
	Key
	Marks []uint64 `json:"marks,omitempty"`
}

// AppendText appends the text form: JSON, one object on each line, always in the same order.
func (b *Book) AppendText(to []byte) []byte {
	put := func(l line) {
		text, err := json.Marshal(l)
		if err == nil { // always, for these types
			to = append(append(to, text...), '\n')
		}
	}
	for _, day := range slices.Sorted(maps.Keys(b.days)) {
		counts := b.days[day]
		keys := slices.SortedFunc(maps.Keys(counts), func(x, y Key) int {
			return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Class, y.Class), cmp.Compare(x.Tenant, y.Tenant),
				cmp.Compare(x.Sender, y.Sender), cmp.Compare(x.Receiver, y.Receiver))
		})
		for _, k := range keys {
			put(line{Day: day, Count: counts[k], Key: k})
		}
	}
	for _, marks := range []map[uint64]bool{b.older, b.marks} {
		for part := range slices.Chunk(slices.Sorted(maps.Keys(marks)), 100) {
			put(line{Marks: part})
		}
	}
	return to
}

// Load adds what a text form has, and returns how many of its lines were damaged.
func (b *Book) Load(text []byte) (damaged int) {
	for one := range bytes.Lines(text) {
		if len(bytes.TrimSpace(one)) == 0 {
			continue
		}
		var l line
		err := json.Unmarshal(one, &l)
		_, bad := time.Parse(time.DateOnly, l.Day)
		switch {
		case err != nil:
			damaged++
		case len(l.Marks) > 0:
			for _, mark := range l.Marks {
				b.mark(mark)
			}
		case bad != nil || !known(l.Kind) || len(l.Class) > 30:
			damaged++
		default:
			b.add(l.Day, l.Key, l.Count)
		}
	}
	return damaged
}

func known(kind string) bool {
	return slices.Contains([]string{EventBounced, EventDelayed, EventDelivered, EventRelayed, EventComplaint, EventAutoReply, EventUnknown, EventUnverified}, kind)
}
