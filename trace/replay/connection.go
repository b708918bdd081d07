package replay

import (
	"slices"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// closed takes the end of a connection. One that the core had asked for waits
// until this core asks for it, too; one that came by itself does so again.
func (p *player) closed(c cue, ev qmgr.Closed) {
	conn, open := p.conns[ev.Conn]
	if !open {
		return // this core has never opened it
	}
	delete(p.conns, ev.Conn)
	ev.Conn = conn
	c.event = ev
	if ev.Closing.Why == mail.CloseAsked && !p.draining[conn] {
		p.closing[conn] = c
		return
	}
	p.end(c, ev)
}

// hangup takes the core's wish that a connection should end.
func (p *player) hangup(conn qmgr.ConnID) {
	p.draining[conn] = true
	if c, ok := p.closing[conn]; ok {
		delete(p.closing, conn)
		p.soon = append(p.soon, reply{cue: c})
	}
}

// end reports a connection's end, which answers all that was sent to it and has not
// been answered.
func (p *player) end(c cue, ev qmgr.Closed) {
	delete(p.draining, ev.Conn)
	for key, list := range p.asked {
		if key.kind != entryKind {
			continue
		}
		if p.asked[key] = slices.DeleteFunc(list, func(q question) bool { return q.conn == ev.Conn }); len(p.asked[key]) == 0 {
			delete(p.asked, key)
		}
	}
	p.give(c.line, ev)
}
