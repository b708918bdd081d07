package spool

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Content is the content of one message: lines that end in CRLF, without
// dot-stuffing. Its checksum has been verified, so it equals what was received.
// Exactly one of Bytes and File is set. A File is checked once more while it is
// read, and withholds its last bytes if anything has changed.
type Content struct {
	Size  int64         // bytes
	Bytes []byte        // all of it, if it is small; it belongs to the caller
	File  io.ReadCloser // if it is large; to be closed by the caller, see Close
}

// Reader returns a reader of the content from its start. It may be called
// once.
func (c *Content) Reader() io.Reader {
	if c.File != nil {
		return c.File
	}
	return bytes.NewReader(c.Bytes)
}

// Close closes the file, if there is one.
func (c *Content) Close() error {
	if c.File == nil {
		return nil
	}
	return c.File.Close()
}

// Content returns the content of a message. It is the only access to it: nothing is
// returned before every byte has been checked. The error wraps ErrGone if there is
// no such message; it wraps ErrCorrupt if the content is damaged, and the message
// has then been moved to the corrupt area.
//
// The content stays readable if the message is removed meanwhile.
func (s *Spool) Content(ctx context.Context, id mail.QueueID) (Content, error) {
	if err := s.enter(); err != nil {
		return Content{}, err
	}
	defer s.leave()
	c, err := s.content(ctx, id)
	if err != nil {
		return Content{}, s.spoil(ctx, id, "read content of", err)
	}
	return c, nil
}

// respoil is spoil for a content file that fails while it is being read, when the
// spool may already be closed.
func (s *Spool) respoil(ctx context.Context, id mail.QueueID, cause error) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	return s.spoil(ctx, id, "read content of", s.lostFile(id, cause))
}

func (s *Spool) content(ctx context.Context, id mail.QueueID) (Content, error) {
	// Trying the usual case first saves reading the envelope.
	k := messageKey(keyBody, id)
	var octets []byte
	ok, err := s.load(k, func(payload []byte) { octets = bytes.Clone(payload) })
	if err != nil {
		return Content{}, err
	}
	if ok {
		return Content{Size: int64(len(octets)), Bytes: octets}, nil
	}
	e, err := s.readEnvelope(id)
	switch {
	case err != nil:
		return Content{}, err
	case e == nil:
		return Content{}, ErrGone
	case !e.file:
		return Content{}, s.missing(id, k)
	}
	file, err := s.bodies.open(e)
	if err != nil {
		return Content{}, s.lostFile(id, err)
	}
	ctx = context.WithoutCancel(ctx) // damage counts even if it was found by a delivery that was canceled
	file.changed = func(cause error) error { return s.respoil(ctx, id, cause) }
	return Content{Size: e.Size, File: file}, nil
}

// lostFile returns why a content file could not be opened: the message has been
// removed since its envelope was read, or it is damaged.
func (s *Spool) lostFile(id mail.QueueID, cause error) error {
	ok, err := s.has(messageKey(keyEnvelope, id))
	if err != nil {
		return err
	}
	if !ok {
		return ErrGone
	}
	if isWrong(cause) {
		return fmt.Errorf("%w: content file: %w", ErrCorrupt, cause)
	}
	return fmt.Errorf("content file: %w", cause)
}
