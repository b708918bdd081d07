package inbound

import (
	"context"
	"time"

	"github.com/posthaste-mta/posthaste/header"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp/server"
)

// Edits are what is done to the headers of messages that arrive. They must not change while
// a Server has them.
type Edits struct {
	Listeners map[string]*header.Edits // by Listener.Name
	Others    *header.Edits            // of listeners without Edits of their own; nil: nothing
}

// of returns the edits of a listener; nil if nothing is done there.
func (e *Edits) of(listener string) *header.Edits {
	if e == nil {
		return nil
	}
	one, ok := e.Listeners[listener]
	if !ok {
		one = e.Others
	}
	if one == nil || one.Idle() {
		return nil
	}
	return one
}

// SetEdits replaces the edits for messages that begin from now on; nil ends them.
func (s *Server) SetEdits(edits *Edits) { s.edits.Store(edits) }

// beginEdits prepares the edits of the message that begins.
func (c *connection) beginEdits(sender mail.Address, now time.Time) {
	edits := c.server.edits.Load().of(c.terms.Name)
	if edits == nil {
		return
	}
	c.editor = c.server.editors.Get().(*header.Editor)
	c.editor.Begin(edits, header.Facts{
		Date:      c.server.dateOf(now),
		MessageID: now.UTC().Format("20060102150405") + "." + c.draft.ID().String() + "@" + c.server.cfg.Session.Hostname,
		Sender:    string(sender),
	})
}

// content writes content to the draft. Edits come before the draft has it, so that what is
// signed, counted and sent is the same. Our own Received field is no part of them.
func (c *connection) content(r *server.Content) error {
	octets := r.Octets
	if c.editor != nil && !r.Trace {
		octets = c.editor.Next(octets)
	}
	_, err := c.draft.Write(octets)
	return err
}

// endEdits writes what the edits add at the end of the content, or returns the reason why
// the message is refused.
func (c *connection) endEdits(ctx context.Context, draft Draft) mail.Reply {
	if c.editor == nil {
		return mail.Reply{}
	}
	defer c.releaseEditor()
	rest := c.editor.End()
	if p := c.editor.Problem(); p != header.ProblemNone {
		return mail.Reply{Code: 554, Status: mail.Status{Class: 5, Subject: 6}, Text: "Error: " + p.String()}
	}
	if len(rest) == 0 {
		return mail.Reply{}
	}
	_, err := draft.Write(rest)
	return c.failure(ctx, "write", err)
}

func (c *connection) releaseEditor() {
	if c.editor != nil {
		c.server.editors.Put(c.editor)
		c.editor = nil
	}
}
