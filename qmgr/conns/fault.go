package conns

import (
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A fault is what the end of a connection shows to be out of order.
type fault uint8

const (
	faultNone        fault = iota
	faultSession           // the host did not want the session: it ended it before it had said anything to a transaction
	faultTransaction       // a transaction was cut
)

// early is the time for which a connection has to have been there for its end to say nothing
// about the host, if it has carried nothing.
const early = 5 * time.Second

// faultOf returns what the end of a connection that was ready shows.
func (c *Conn) faultOf(cl mail.Closing, now mail.Instant) fault {
	switch cl.Why {
	case mail.CloseAsked:
		return faultNone
	case mail.CloseIdle:
		if c.finished == 0 && now < c.ready.Add(early) {
			return faultSession
		}
		return faultNone
	case mail.CloseStep: // it speaks, and will be spoken to more simply at once
		if c.finished > 0 || cl.Level > mail.LevelLockStep {
			return faultNone
		}
	case mail.CloseBusy, mail.CloseLost:
		// A server that takes so many messages on one connection and no more is
		// not in trouble.
		if c.limit > 0 && c.finished >= c.limit {
			return faultNone
		}
		if c.finished == 0 && !c.broken { // nothing was charged with it, so that it would happen again at once
			return faultSession
		}
	}
	return faultTransaction
}

// Trouble is what has gone wrong at a host since it last gave a verdict on a message.
type trouble struct {
	wrongAt mail.Instant   // when something did last
	cuts    []mail.QueueID // messages whose transactions were cut
	failing bool           // they are enough to be the host's fault
	turns   int            // sessions that it refused while no other worked, although it is there
}

const (
	// cutsMany is the number of messages in a row, with none judged between them, that have to
	// be cut to be the fault of the host rather than of the messages, and cutsAgain
	// how many are enough if the host has failed before and has judged none since.
	// One message does not count twice, however often it is tried: a message at which
	// a server chokes costs itself only.
	cutsMany  = 5
	cutsAgain = 2
	// turnsMany is the number of sessions in a row a host may refuse before it counts as
	// one that cannot be reached, and turnsAgain if it has failed before and taken no
	// message since. It is asked again after one second, two and four.
	turnsMany  = 4
	turnsAgain = 2
	// promptly is how soon a dial has to fail for the host to be asked again, if it has
	// said nothing. One that fails later would keep its mail waiting for as long again.
	promptly = 5 * time.Second
	// troubleTTL is for how long a host without connections is remembered for such
	// things.
	troubleTTL = 5 * time.Minute
)

// until returns when trouble is forgotten if the host has no connections.
func (t *trouble) until() mail.Instant {
	if t.wrongAt == 0 {
		return 0
	}
	return t.wrongAt.Add(troubleTTL)
}

// cut deals with a connection that was lost during a transaction. That is
// the fault of the transaction, or of the connection, and says nothing about how many
// connections the host takes. If it happens to one message after the other and
// nothing else works, the host is at fault.
func (p *Pool) cut(c *Conn, why mail.Reply, now mail.Instant) Feedback {
	h, s := c.host, c.site
	s.failure.reply, s.failure.at = why, now
	if c.lastCallout { // a host that wants no more questions may still want mail
		s.calloutPause.extend(now)
		return feedbackHost
	}
	h.wrongAt = now
	if c.charged != 0 && !slices.Contains(h.cuts, c.charged) && len(h.cuts) < cutsMany {
		h.cuts = append(h.cuts, c.charged)
	}
	enough := cutsMany
	if p.db.View(h.key, now).Failures > 0 {
		enough = cutsAgain
	}
	h.failing = h.failing || len(h.cuts) >= enough
	if !h.failing || h.working() || h.carrying > 0 {
		return feedbackNone
	}
	h.trouble = trouble{}
	return p.down(c, why, now)
}

// turnedAway notes that a host has refused a session while no other worked, and reports
// whether the host will be asked again soon: it is there, and the cause may have passed,
// or be one of several servers behind its address.
func (p *Pool) turnedAway(c *Conn, why mail.Reply, now mail.Instant) bool {
	h := c.host
	if !p.isThere(c, why, now) {
		return false
	}
	h.wrongAt = now
	enough := turnsMany
	if p.db.View(h.key, now).Failures > 0 {
		enough = turnsAgain
	}
	if h.turns++; h.turns >= enough {
		h.trouble = trouble{}
		p.clearRefusal(h)
		return false
	}
	p.setRefused(h, refusedAll, 0, firstPatience<<(h.turns-1), now)
	p.wakeAll(h) // other hosts may do
	return true
}

// isThere reports whether there is a host that can be asked again soon, although it has
// refused a session: it has said something itself, or it took mail lately and the refusal
// came at once.
func (p *Pool) isThere(c *Conn, why mail.Reply, now mail.Instant) bool {
	if why.Code == 421 || why.By != "" {
		return true
	}
	return (c.ready != 0 || now < c.made.Add(promptly)) && p.db.TookLately(c.host.key, now)
}

// hostJudged notes that the host has given a verdict on a message.
func (p *Pool) hostJudged(h *host) {
	failing := h.failing
	h.trouble = trouble{}
	if failing {
		p.wakeAddress(h.at)
	}
}
