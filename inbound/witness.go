package inbound

import (
	"github.com/posthaste-mta/posthaste/internal/wiretap"
	"github.com/posthaste-mta/posthaste/smtp/server"
)

// A witness shows a connection to those who watch it.
type witness struct {
	visit *wiretap.Visit
	shown int // octets of the connection's out that were shown
}

// Command implements server.Witness.
func (w *witness) Command(replies []byte, line string) {
	w.replies(replies)
	w.visit.Command(line)
}

// Content implements server.Witness.
func (w *witness) Content(replies, octets []byte) {
	w.replies(replies)
	w.visit.Content(octets)
}

// replies shows those that were not shown yet.
func (w *witness) replies(out []byte) {
	w.visit.Replies(out[w.shown:])
	w.shown = len(out)
}

// attend begins or ends to show the connection, as those who watch have changed since the last call. A content is not
// shown from its middle.
func (c *connection) attend() {
	visitors := c.server.cfg.Wiretap.Visitors()
	if visitors == c.visitors || c.session.Phase() == server.PhaseContent {
		return
	}
	c.visitors = visitors
	var before *wiretap.Visit
	if c.witness != nil {
		before = c.witness.visit
	}
	visit := c.server.cfg.Wiretap.Visit(wiretap.Client{Listener: c.terms.Name, Address: c.name()}, before)
	switch {
	case visit == nil:
		c.witness = nil
		c.session.SetWitness(nil)
	case before == nil:
		c.witness = &witness{visit, len(c.out)}
		c.session.SetWitness(c.witness)
		if c.tls != nil {
			visit.Note(c.security.Version + " " + c.security.Cipher)
		}
		if c.client.User != "" {
			visit.Note("authenticated as " + c.client.User)
		}
	}
}

// note shows those who watch what neither side has said.
func (c *connection) note(text string) {
	if c.witness != nil {
		c.witness.replies(c.out)
		c.witness.visit.Note(text)
	}
}
