package event

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-mta/posthaste/internal/logline"
)

// FollowersMax is the maximum number of followers at the same time.
const FollowersMax = 32

// ErrTooMany is the error of Follow while there are FollowersMax others.
var ErrTooMany = errors.New("too many programs follow the events")

// A Hub passes events on to its Followers. The zero Hub has none. It is safe for concurrent use.
type Hub struct {
	followed  atomic.Bool // there are Followers
	mu        sync.Mutex
	followers []*Follower
}

// Followed reports whether there are Followers.
func (h *Hub) Followed() bool { return h.followed.Load() }

// Offer passes an event on to those who want it. It does not keep attrs, and never waits.
func (h *Hub) Offer(at time.Time, level slog.Level, name string, attrs []slog.Attr) {
	h.mu.Lock()
	all := h.followers // never changed in place
	h.mu.Unlock()
	var line []byte
	for _, f := range all {
		if f.wants != nil && !f.wants(&Event{name, attrs}) {
			continue
		}
		if line == nil {
			line = format(at, level, name, attrs)
		}
		f.Add(line)
	}
}

// format returns an event as a line of JSON with its line end, as the log has it.
func format(at time.Time, level slog.Level, name string, attrs []slog.Attr) []byte {
	line, ok := logline.AppendJSON(make([]byte, 0, 512), at, level, name, attrs)
	if ok {
		return append(line, '\n')
	}
	var out bytes.Buffer
	all := slog.HandlerOptions{Level: slog.Level(-128), ReplaceAttr: logline.Replace(true)}
	_ = logline.Write(slog.NewJSONHandler(&out, &all), at, level, name, attrs) // a Buffer does not fail
	return out.Bytes()
}

// An Event is one as a Follower chooses among them. It is valid during the call.
type Event struct {
	Name  string
	attrs []slog.Attr
}

// Field returns the value of a field as text, and whether the event has it.
func (e *Event) Field(name string) (value string, has bool) { return fieldText(e.attrs, name) }

// Follow returns a Follower that receives events from now on, those for which wants is true; nil: all.
// wants is called on many goroutines, and must be quick. The Follower must be closed.
func (h *Hub) Follow(wants func(*Event) bool) (*Follower, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.followers) >= FollowersMax {
		return nil, ErrTooMany
	}
	f := &Follower{Buffer: NewBuffer(), hub: h, wants: wants}
	h.followers = append(slices.Clone(h.followers), f)
	h.followed.Store(true)
	return f, nil
}

// A Follower receives events, in the order in which they were offered.
type Follower struct {
	*Buffer
	hub   *Hub
	wants func(*Event) bool
}

// Close ends the Follower.
func (f *Follower) Close() {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	h.followers = slices.DeleteFunc(slices.Clone(h.followers), func(other *Follower) bool { return other == f })
	h.followed.Store(len(h.followers) > 0)
}
