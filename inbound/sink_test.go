package inbound

import (
	"context"
	"fmt"
	"sync"

	"github.com/posthaste-mta/posthaste/mail"
)

// A memorySink keeps messages in memory. Its refusals are set as data.
type memorySink struct {
	mu        sync.Mutex
	serial    uint16
	messages  []*memoryDraft
	aborted   int
	beginErr  error
	room      int64 // for a message; 0 means unbounded
	commitErr error
	writeErr  error
	adds      string        // in front of the content of every message
	hold      chan struct{} // if not nil, commits wait until it is closed
	panics    bool          // AddRecipient has a bug
	claimErr  error
	counting  bool // nothing is known of what waits
}

type memoryDraft struct {
	sink       *memorySink
	id         mail.QueueID
	recipients []mail.Recipient
	content    []byte
	envelope   mail.Envelope
	held       string // why
}

func (s *memorySink) Begin(_ context.Context, size int64) (Draft, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.beginErr != nil {
		return nil, s.beginErr
	}
	if s.room > 0 && size > s.room {
		return nil, fmt.Errorf("%w: only %d bytes", ErrFull, s.room)
	}
	s.serial++
	return &memoryDraft{sink: s, id: mail.NewQueueID(1, s.serial)}, nil
}

// refuse makes the sink refuse every message from now on.
func (s *memorySink) refuse(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beginErr = err
}

func (s *memorySink) taken() []*memoryDraft {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*memoryDraft(nil), s.messages...)
}

// abortions returns how many drafts were aborted.
func (s *memorySink) abortions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.aborted
}

func (d *memoryDraft) ID() mail.QueueID { return d.id }

func (d *memoryDraft) AddRecipient(r mail.Recipient) error {
	if d.sink.panics {
		panic("a bug")
	}
	d.recipients = append(d.recipients, r)
	return nil
}

func (d *memoryDraft) Write(p []byte) (int, error) {
	if d.sink.writeErr != nil {
		return 0, d.sink.writeErr
	}
	d.content = append(d.content, p...)
	return len(p), nil
}

func (d *memoryDraft) Commit(ctx context.Context, e mail.Envelope, hold string) error {
	if d.sink.hold != nil {
		select {
		case <-d.sink.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	d.sink.mu.Lock()
	defer d.sink.mu.Unlock()
	if d.sink.commitErr != nil {
		return d.sink.commitErr
	}
	d.envelope, d.held = e, hold
	d.sink.messages = append(d.sink.messages, d)
	return nil
}

func (d *memoryDraft) Abort() {
	d.sink.mu.Lock()
	defer d.sink.mu.Unlock()
	d.sink.aborted++
}

// A nullSink discards everything, for benchmarks.
type nullSink struct{ draft nullDraft }

type nullDraft struct{}

func (s *nullSink) Begin(context.Context, int64) (Draft, error)        { return &s.draft, nil }
func (*nullDraft) ID() mail.QueueID                                    { return 1 << 20 }
func (*nullDraft) AddRecipient(mail.Recipient) error                   { return nil }
func (*nullDraft) Write(p []byte) (int, error)                         { return len(p), nil }
func (*nullDraft) Commit(context.Context, mail.Envelope, string) error { return nil }
func (*nullDraft) Abort()                                              {}
func (*nullDraft) Finish(_ *Client, e *mail.Envelope) int64            { return e.Size }

func (s *nullSink) Waiting(mail.Flow) mail.Waiting { return mail.Waiting{} }
func (*nullDraft) Reserve(_ mail.Flow, _ int64, admit func(mail.Waiting) bool) (bool, error) {
	return admit(mail.Waiting{}), nil
}

// Waiting counts all messages, for nothing leaves.
func (s *memorySink) Waiting(f mail.Flow) mail.Waiting {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting(f)
}

func (s *memorySink) waiting(f mail.Flow) mail.Waiting {
	w := mail.Waiting{Known: !s.counting}
	for _, m := range s.messages {
		one := mail.Usage{Messages: 1, Octets: m.envelope.Size}
		if m.envelope.Flow.Class == f.Class {
			w.Class = w.Class.Plus(one)
		}
		if m.envelope.Flow.Tenant == f.Tenant {
			w.Tenant = w.Tenant.Plus(one)
			if m.envelope.Flow.Flow == f.Flow {
				w.Flow = w.Flow.Plus(one)
			}
		}
	}
	return w
}

func (d *memoryDraft) Finish(*Client, *mail.Envelope) int64 {
	d.content = append([]byte(d.sink.adds), d.content...)
	return int64(len(d.content))
}

func (d *memoryDraft) Reserve(f mail.Flow, _ int64, admit func(mail.Waiting) bool) (bool, error) {
	d.sink.mu.Lock()
	defer d.sink.mu.Unlock()
	return admit(d.sink.waiting(f)), d.sink.claimErr
}

// begun returns the number of messages that were begun.
func (s *memorySink) begun() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(s.serial)
}
