package quota

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
)

// A Saved is what one class, tenant or flow has sent, for a host that keeps it beyond the
// life of the process.
type Saved struct {
	Key        string
	Used       mail.Instant // last
	Messages   []rate.Saved
	Recipients []rate.Saved
}

// Save returns what has changed since the last Save and must be kept: what counts under
// limits for SavedPer and longer. An entry that only has a Key must be deleted. The list
// has at most most entries; more reports whether there are others. It takes as long as the
// list is, however many meters there are.
func (b *Book) Save(now mail.Instant, most int) (list []Saved, more bool) {
	for _, n := range b.gone[:min(len(b.gone), most)] {
		list = append(list, Saved{Key: n.key()})
	}
	b.gone = b.gone[len(list):]
	for len(list) < most && !b.dirty.Empty() {
		m := b.dirty.Front()
		b.dirty.Remove(&m.unsaved)
		s := Saved{Key: m.key(), Used: m.used, Messages: m.messages.Save(SavedPer, now), Recipients: m.recipients.Save(SavedPer, now)}
		if kept := len(s.Messages)+len(s.Recipients) > 0; kept || m.saved {
			list = append(list, s)
			m.saved = kept
		}
	}
	return list, len(b.gone) > 0 || !b.dirty.Empty()
}

// mark has Save look at a meter. One that has nothing to be kept, and never had, is none of
// its business: senders under limits for a short time only cost it nothing.
func (b *Book) mark(m *meter) {
	if (m.lasting || m.saved) && !m.unsaved.Listed() {
		b.dirty.PushBack(&m.unsaved, m)
	}
}

// Unsaved has Save return again what it has returned and what could not be kept.
func (b *Book) Unsaved(list []Saved) {
	for i := range list {
		n, ok := parseKey(list[i].Key)
		if m := b.meters[n]; ok && m != nil {
			m.saved = true // some of it may be in the store: so it is deleted if nothing counts any more
			b.mark(m)
		}
	}
}

// Restore takes over what was saved, unless it does not count any more; then it returns
// false. It is called before anything is counted.
func (b *Book) Restore(s Saved, now mail.Instant) bool {
	n, ok := parseKey(s.Key)
	if !ok || b.meters[n] != nil || n.slot == 0 && b.crowded(n) {
		return false
	}
	m := b.fresh(n)
	m.messages.Restore(s.Messages, now)
	m.recipients.Restore(s.Recipients, now)
	if m.messages.Idle(now) && m.recipients.Idle(now) {
		return false
	}
	m.used, m.saved = min(s.Used, now), true
	b.insert(m)
	return true
}

// key returns a text for a name. Names have no control characters.
func (n name) key() string {
	if n.slot > 0 {
		return string([]byte{'0' + byte(n.kind), '#', byte(n.slot - 1)})
	}
	return string([]byte{'0' + byte(n.kind), '='}) + n.tenant + "\x00" + n.name
}

// parseKey is the inverse of name.key.
func parseKey(key string) (n name, ok bool) {
	if len(key) < 3 || key[0] < '0' || Kind(key[0]-'0') >= kinds {
		return n, false
	}
	n.kind = Kind(key[0] - '0')
	switch key[1] {
	case '#':
		n.slot = 1 + int(key[2])
		return n, len(key) == 3
	case '=':
		n.tenant, n.name, ok = strings.Cut(key[2:], "\x00")
		return n, ok
	}
	return n, false
}

// Text returns what Parse reads.
func (s *Saved) Text() string {
	b := strconv.AppendInt(nil, int64(s.Used), 10)
	for _, list := range []struct {
		of    string
		saved []rate.Saved
	}{{" m ", s.Messages}, {" r ", s.Recipients}} {
		for i := range list.saved {
			one := &list.saved[i]
			b = append(strconv.AppendInt(append(b, list.of...), int64(one.Per), 10), ' ')
			b = strconv.AppendInt(b, one.Latest, 10)
			for _, n := range one.Counts {
				b = strconv.AppendUint(append(b, ' '), uint64(n), 10)
			}
		}
	}
	return string(b)
}

// Parse returns what was saved under a key.
func Parse(key, text string) (s Saved, err error) {
	words := strings.Fields(text)
	number := func(bits int) int64 {
		if len(words) == 0 {
			err = errNotSaved
			return 0
		}
		n, wrong := strconv.ParseInt(words[0], 10, bits)
		if words = words[1:]; wrong != nil || n < 0 {
			err = errNotSaved
		}
		return n
	}
	s.Key = key
	s.Used = mail.Instant(number(64))
	for len(words) > 0 && err == nil {
		list := &s.Messages
		if words[0] == "r" {
			list = &s.Recipients
		} else if words[0] != "m" {
			return s, errNotSaved
		}
		words = words[1:]
		one := rate.Saved{Per: time.Duration(number(64)), Latest: number(64)}
		for i := range one.Counts {
			one.Counts[i] = uint32(number(32))
		}
		*list = append(*list, one)
	}
	return s, err
}

var errNotSaved = errors.New("quota: not what was saved")
