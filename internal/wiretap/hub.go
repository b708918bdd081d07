package wiretap

import (
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-mta/posthaste/internal/event"
)

// WatchersMax is the maximum number of Watchers at the same time.
const WatchersMax = 8

// ErrTooMany is the error of Watch while there are WatchersMax others.
var ErrTooMany = errors.New("too many programs watch connections")

// A Connection is what a Watcher of connections to receivers chooses by.
type Connection struct {
	Transport string
	Nexthop   string
	Source    string // "" without one
	Host      string // "name[address]:port", or "unix:/path"
}

// A Hub has the Watchers. A nil Hub and the zero Hub have none. It is safe for concurrent use.
type Hub struct {
	watched  atomic.Int64 // a number that changes with the watchers of connections to receivers, 0 if there are none
	visited  atomic.Int64 // see Visitors
	taps     atomic.Int64 // numbers of taps
	changes  int64        // of the watchers
	mu       sync.Mutex
	watchers []*Watcher
}

// Watched reports whether there are Watchers of connections to receivers.
func (h *Hub) Watched() bool { return h != nil && h.watched.Load() != 0 }

// A Watcher receives the lines of the connections that it wants.
type Watcher struct {
	*event.Buffer
	hub   *Hub
	wants func(Connection) bool // nil: no connections to receivers
	meets func(*Visit) Choice   // nil: no sessions of clients
	lines int                   // of a content that it wants
	left  int                   // connections that it takes on; negative: no limit. Under the hub's mu
	ended atomic.Bool
}

// Watch returns a Watcher of connections for which wants is true, at most count of them unless that is 0, with so many lines of each content.
// It must be closed.
func (h *Hub) Watch(wants func(Connection) bool, count, lines int) (*Watcher, error) {
	return h.add(&Watcher{wants: wants}, count, lines)
}

// add adds a Watcher.
func (h *Hub) add(w *Watcher, count, lines int) (*Watcher, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.watchers) >= WatchersMax {
		return nil, ErrTooMany
	}
	if count == 0 {
		count = -1
	}
	w.Buffer, w.hub, w.lines, w.left = event.NewBuffer(), h, lines, count
	h.watchers = append(h.watchers, w)
	h.changed()
	return w, nil
}

// changed notes who watches what.
func (h *Hub) changed() {
	h.changes++
	note := func(number *atomic.Int64, is func(*Watcher) bool) {
		if slices.ContainsFunc(h.watchers, is) {
			number.Store(h.changes)
		} else {
			number.Store(0)
		}
	}
	note(&h.watched, func(w *Watcher) bool { return w.wants != nil })
	note(&h.visited, func(w *Watcher) bool { return w.meets != nil })
}

// Close ends the Watcher.
func (w *Watcher) Close() {
	w.ended.Store(true)
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.hub.watchers = slices.DeleteFunc(w.hub.watchers, func(other *Watcher) bool { return other == w })
	w.hub.changed()
}

// Open returns a Tap for a connection between two commands, nil if no watcher wants it. owed is the number of replies that
// the server owes, 1 before the greeting; redact replaces secrets in a text, nil if there are none.
func (h *Hub) Open(of Connection, owed int, redact func(string) string) *Tap {
	t := &Tap{host: of.Host, owed: owed, redact: redact}
	if !h.Join(t, of) {
		return nil
	}
	return t
}

// Join shows a connection that has a Tap to the watchers that want it and do not see it yet, from now on, and forgets those that have
// gone. It reports whether there are any. It is an atomic load while the watchers have not changed since the last call, and belongs to the
// goroutine of the connection.
func (h *Hub) Join(t *Tap, of Connection) bool {
	if now := h.watched.Load(); now != 0 && now == t.joined {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t.joined = h.watched.Load()
	t.to = slices.DeleteFunc(t.to, func(w *Watcher) bool { return w.ended.Load() })
	var fresh []*Watcher
	for _, w := range h.watchers {
		if w.wants != nil && w.left != 0 && !slices.Contains(t.to, w) && w.wants(of) {
			w.left--
			fresh = append(fresh, w)
		}
	}
	if len(fresh) > 0 {
		if t.number == 0 {
			t.number = h.taps.Add(1)
		}
		t.welcome(fresh, "connection to "+of.Host+" by "+of.Transport+" for "+of.Nexthop+map[bool]string{true: " from " + of.Source}[of.Source != ""])
	}
	t.contentLines = 0
	for _, w := range t.to {
		t.contentLines = max(t.contentLines, w.lines)
	}
	return len(t.to) > 0
}

// A Record is a line that is shown.
type Record struct {
	Time       time.Time `json:"time"`
	Connection int64     `json:"connection"` // a number of its own
	Host       string    `json:"host"`       // the other end: a receiver's, or a client's address
	// Direction is ">" for what this machine sends, "<" for what it receives, "-" for a note, and "." for the end of the connection.
	Direction string `json:"direction"`
	Text      string `json:"text"`
}

// line returns the record as a line of JSON.
func (r *Record) line() []byte {
	line, err := json.Marshal(r)
	if err != nil {
		panic(err) // there is none of texts
	}
	return append(line, '\n')
}
