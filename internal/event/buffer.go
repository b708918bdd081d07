package event

import (
	"context"
	"sync"
)

// What a Buffer keeps at most.
const (
	bufferLines  = 8192
	bufferOctets = 4 << 20
)

// A Buffer has the lines that its reader has not read yet, a bounded number of them. It is safe for concurrent use.
type Buffer struct {
	news chan struct{} // holds a value if something was added

	mu     sync.Mutex
	lines  []Line
	octets int
	lost   int // since the last line that was kept
}

// NewBuffer returns an empty Buffer.
func NewBuffer() *Buffer { return &Buffer{news: make(chan struct{}, 1)} }

// A Line is one of a Buffer, or what is missing before it.
type Line struct {
	Lost int    // lines that were lost before this one
	JSON []byte // one line with its end, which must not be changed; nil: none has followed yet
}

// Add adds a line, or counts it as lost if the buffer is full. It never waits, and does not change the line.
func (b *Buffer) Add(line []byte) {
	b.mu.Lock()
	if len(b.lines) >= bufferLines || b.octets+len(line) > bufferOctets {
		b.lost++
	} else {
		b.lines = append(b.lines, Line{b.lost, line})
		b.octets += len(line)
		b.lost = 0
	}
	b.mu.Unlock()
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// Next waits for lines, and returns all that have come. It is for one goroutine at a time. After ctx has ended and all were returned, the error
// is that of ctx.
func (b *Buffer) Next(ctx context.Context) ([]Line, error) {
	for {
		ended := ctx.Err()
		if lines := b.take(); len(lines) > 0 {
			return lines, nil
		} else if ended != nil {
			return nil, ended
		}
		select {
		case <-b.news:
		case <-ctx.Done():
		}
	}
}

// take returns what has come.
func (b *Buffer) take() []Line {
	b.mu.Lock()
	defer b.mu.Unlock()
	lines := b.lines
	if b.lost > 0 {
		lines = append(lines, Line{Lost: b.lost})
	}
	b.lines, b.octets, b.lost = nil, 0, 0
	return lines
}
