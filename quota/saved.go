package quota

import (
	"strings"

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

// Save returns what has changed since the last Save and is to be kept: what counts under
// limits for SavedPer and longer. Something that only has a Key is to be deleted. The list
// has at most most entries; more reports whether there are others.
func (b *Book) Save(now mail.Instant, most int) (list []Saved, more bool) {
	for _, n := range b.gone[:min(len(b.gone), most)] {
		list = append(list, Saved{Key: n.key()})
	}
	b.gone = b.gone[len(list):]
	for m := range b.order.Backward() {
		if !m.changed {
			continue
		}
		if len(list) >= most {
			return list, true
		}
		m.changed = false
		s := Saved{Key: m.key(), Used: m.used, Messages: m.messages.Save(SavedPer, now), Recipients: m.recipients.Save(SavedPer, now)}
		if kept := len(s.Messages)+len(s.Recipients) > 0; kept || m.saved {
			list = append(list, s)
			m.saved = kept
		}
	}
	return list, len(b.gone) > 0
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
