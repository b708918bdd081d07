package event

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-mta/posthaste/internal/logline"
)

// What a Hub and its Followers keep at most.
const (
	FollowersMax = 32      // followers at the same time
	bufferLines  = 8192    // events that one of them has not read
	bufferOctets = 4 << 20 // octets of them
)

// ErrTooMany is the error of Follow while there are FollowersMax others.
var ErrTooMany = errors.New("too many programs follow the events")

// A Hub passes events on to its Followers. The zero Hub has none. It is safe for concurrent use.
type Hub struct {
	followed  atomic.Bool // there are Followers
	mu        sync.Mutex
	followers []*Follower
}

// Followed reports whether somebody follows the events.
func (h *Hub) Followed() bool { return h.followed.Load() }

// Offer passes an event on to those who want it. It does not keep attrs, and waits for nobody.
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
		f.add(line)
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
	f := &Follower{hub: h, wants: wants, news: make(chan struct{}, 1)}
	h.followers = append(slices.Clone(h.followers), f)
	h.followed.Store(true)
	return f, nil
}

// A Follower receives events, in the order in which they were offered. Next is for one goroutine at a
// time.
type Follower struct {
	hub   *Hub
	wants func(*Event) bool
	news  chan struct{} // holds a value if something was added

	mu     sync.Mutex
	lines  []Line
	octets int
	lost   int // since the last line that was kept
}

// A Line is an event, or what is missing before it.
type Line struct {
	Lost int    // events that were lost before this one
	JSON []byte // one line with its end, which must not be changed; nil: none has followed yet
}

func (f *Follower) add(line []byte) {
	f.mu.Lock()
	if len(f.lines) >= bufferLines || f.octets+len(line) > bufferOctets {
		f.lost++
	} else {
		f.lines = append(f.lines, Line{f.lost, line})
		f.octets += len(line)
		f.lost = 0
	}
	f.mu.Unlock()
	select {
	case f.news <- struct{}{}:
	default:
	}
}

// Next waits for events, and returns all that have come. The error is that of ctx.
func (f *Follower) Next(ctx context.Context) ([]Line, error) {
	for {
		f.mu.Lock()
		lines := f.lines
		if f.lost > 0 {
			lines = append(lines, Line{Lost: f.lost})
		}
		f.lines, f.octets, f.lost = nil, 0, 0
		f.mu.Unlock()
		if len(lines) > 0 {
			return lines, nil
		}
		select {
		case <-f.news:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Close ends the Follower.
func (f *Follower) Close() {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	h.followers = slices.DeleteFunc(slices.Clone(h.followers), func(other *Follower) bool { return other == f })
	h.followed.Store(len(h.followers) > 0)
}
