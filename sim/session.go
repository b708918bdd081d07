package sim

import (
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A session is a connection that the core has asked for, from Dial to Closed. When
// it is established its event is the next thing that happens on it: a final reply,
// its loss, or its end.
type session struct {
	call
	id      qmgr.ConnID
	opening mail.Opening
	made    mail.Instant // when the core asked for it
	serves  *destination // as far as is seen from outside: an idle one may be given to another

	up       bool // established and not over
	hung     bool // the core has hung it up
	level    mail.Level
	inFlight int
	letters  []letter // sent and not answered, the oldest first
	last     times    // of what was sent last
	ended    mail.Instant
	carried  int // transactions
	loss     loss
	inHost   ilist.Link[session]
	listed   int // place in world.listed
}

// A loss is when a session is going to break, and what the client will say of it;
// the zero loss is none.
type loss struct {
	at  mail.Instant
	why mail.Reply
}

// dial answers Dial.
func (w *world) dial(a *qmgr.Dial) {
	s := w.spareSessions.Take()
	*s = session{id: a.Conn, opening: a.Opening, made: w.now, serves: w.nexthops[a.Opening.Nexthop], inFlight: a.Opening.InFlight, letters: s.letters[:0],
		call: call{host: w.receiver(a.Opening.Host.Addr), client: w.client(a.Opening.Transport), source: a.Opening.Source}}
	s.caller, s.listed = s, len(w.listed)
	w.sessions[s.id], w.listed = s, append(w.listed, s)
	for _, c := range w.watch.sessions {
		c.dialling(w, s)
	}
	w.answers = append(w.answers, todo{begin: s})
}

// forget ends a session that is not referenced any more.
func (w *world) forget(s *session) {
	delete(w.sessions, s.id)
	last := len(w.listed) - 1
	w.listed[s.listed] = w.listed[last]
	w.listed[s.listed].listed = s.listed
	w.listed[last], w.listed = nil, w.listed[:last]
	clear(s.letters)
	w.spareSessions.Give(s)
}

func (s *session) begin(w *world) {
	if !w.agentOut(s.opening.Transport) {
		s.dial(w)
		return
	}
	// As package driver does it: the transport first, or the core would ask for the
	// next connection at once.
	step(w, qmgr.AgentUnavailable{Transport: s.opening.Transport, Reply: replyNoAgent})
	s.failed(w, mail.OpenedConnection{Reply: replyNoAgent, Unavailable: true})
}

// refused answers that there is no connection.
func (s *session) refused(w *world, why mail.Reply) {
	w.measure.disconnected(w, s.host)
	w.measure.refused++
	if why.Code == replyBusy.Code {
		why.By = s.host.name
	}
	s.failed(w, mail.OpenedConnection{Reply: why})
}

func (s *session) failed(w *world, o mail.OpenedConnection) {
	for _, c := range w.watch.sessions {
		c.dialled(w, s, &o)
	}
	id := s.id
	w.forget(s)
	step(w, qmgr.Dialed{Conn: id, Opened: o})
}

// established answers that there is one.
func (s *session) established(w *world) {
	b := &s.host.now
	s.up, s.ended = true, w.now
	s.level = min(s.opening.Level, b.Pipelining)
	s.host.sessions.PushBack(&s.inHost, s)
	o := mail.OpenedConnection{Level: s.level, RTT: s.rtt, Connect: roundTrips * s.rtt}
	if b.AnnounceMails {
		o.Mails = b.MailsPerConnection
	}
	o.Probes = s.opening.Probe && b.Pipelining == mail.LevelStream
	s.schedule(w)
	for _, c := range w.watch.sessions {
		c.dialled(w, s, &o)
	}
	step(w, qmgr.Dialed{Conn: s.id, Opened: o})
}

// send takes an entry that the core sends over a connection. If that has broken
// and the core does not know yet, nothing happens.
func (w *world) send(a *qmgr.Send) {
	s := w.sessions[a.Conn]
	if s == nil {
		for _, c := range w.watch.sessions {
			c.astray(w, a.Conn)
		}
		return
	}
	l := &w.letter
	*l = letter{task: task{entry: a.Entry, message: w.spool.message(a.Delivery.Envelope.ID), recipients: a.Delivery.Recipients,
		to: w.nexthops[a.Delivery.Nexthop], session: s}, times: times{sent: w.now}}
	for _, c := range w.watch.sessions {
		c.sending(w, s, l)
	}
	s.serves = l.to
	w.begun(&l.task)
	if s.up {
		s.plan(w, l)
	}
	s.letters = append(s.letters, *l)
	s.schedule(w)
}

// hangup ends a session when what was sent over it has been answered.
func (w *world) hangup(a *qmgr.Hangup) {
	s := w.sessions[a.Conn]
	if s == nil {
		for _, c := range w.watch.sessions {
			c.astray(w, a.Conn)
		}
		return
	}
	for _, c := range w.watch.sessions {
		c.hangingUp(w, s)
	}
	s.hung = true
	s.schedule(w)
}

// schedule sets the event to what happens next.
func (s *session) schedule(w *world) {
	if !s.up {
		return
	}
	w.cancel(&s.event)
	at := mail.Never
	switch {
	case len(s.letters) > 0:
		at = s.letters[0].final
	case s.hung: // the core does not wait for the reply to QUIT
		at = w.now
	case s.host.now.IdleLimit > 0:
		at = s.ended.Add(s.host.now.IdleLimit)
	}
	if s.loss.at != 0 {
		at = min(at, s.loss.at)
	}
	if at != mail.Never {
		w.at(&s.event, s, max(at, w.now))
	}
}

// happen goes on when it has.
func (s *session) happen(w *world) {
	switch {
	case s.loss.at != 0 && w.now >= s.loss.at:
		s.lose(w, s.loss.why)
	case len(s.letters) > 0:
		s.answer(w)
	case s.hung:
		s.close(w, mail.Closing{Why: mail.CloseAsked, Proof: s.proof()})
	default:
		s.close(w, mail.Closing{Why: mail.CloseIdle, Reply: replyIdle})
	}
}

// proof returns the result of a probe: a receiver that supports the level passes.
func (s *session) proof() mail.Proof {
	if s.opening.Probe && s.carried > 0 && s.host.now.Pipelining == mail.LevelStream {
		return mail.ProofPassed
	}
	return mail.ProofNone
}

// answer ends the oldest transaction.
func (s *session) answer(w *world) {
	l := &w.letter
	*l = s.letters[0]
	n := copy(s.letters, s.letters[1:])
	s.letters[n] = letter{}
	s.letters = s.letters[:n]
	s.carried++
	took := w.now.Sub(max(l.sent, s.ended))
	s.ended = w.now
	b := &s.host.now
	enough := b.MailsPerConnection > 0 && s.carried >= b.MailsPerConnection || s.host.crowded()
	if !enough {
		s.schedule(w)
	}
	w.judge(&l.task, s.host)
	w.measure.finished(w, l.to, s.host, false)
	w.ended(&l.task, w.outcomes)
	step(w, qmgr.Delivered{Entry: l.entry, Result: mail.DeliveryResult{Outcomes: w.outcomes, Send: took, Reused: s.carried - 1}})
	if enough {
		s.drop(w, mail.Closing{Why: mail.CloseIdle, Reply: replyEnough})
	}
}

// lose breaks the connection. That is the host's fault, unless nothing was under
// way, or only what the server had not said anything about yet.
func (s *session) lose(w *world, why mail.Reply) {
	cl := mail.Closing{Why: mail.CloseLost, Reply: why}
	switch {
	case len(s.letters) == 0 || s.stale(w):
		cl.Why = mail.CloseIdle
	case s.level > mail.LevelLockStep && !s.letters[0].complete(w.now): // several commands of the envelope have no answer
		cl.Level = s.level
	}
	s.drop(w, cl)
}

// stale reports whether the server has said nothing about the oldest transaction,
// although it has taken others.
func (s *session) stale(w *world) bool {
	l := &s.letters[0]
	return s.carried > 0 && w.now < l.written.Add(s.rtt) && !l.complete(w.now)
}

// drop ends the session with what is under way on it.
func (s *session) drop(w *world, cl mail.Closing) {
	if cl.Why == mail.CloseLost {
		w.measure.disconnected(w, s.host)
	}
	stale := cl.Why == mail.CloseIdle
	s.leave(w)
	for i := range s.letters {
		l := s.letters[i]
		if i > 0 && l.written > w.now && s.host.rng.IntN(2) == 0 {
			break // like those that come when no one reads any more
		}
		s.letters[i].answered = true
		s.giveUp(w, &l, i == 0 && !stale, cl.Reply)
	}
	s.gone(w, cl)
}

// giveUp answers for a transaction whose connection is lost.
func (s *session) giveUp(w *world, l *letter, oldest bool, why mail.Reply) {
	o := mail.Outcome{Result: mail.Untried, Reply: why}
	switch {
	case l.complete(w.now):
		o = mail.Outcome{Result: mail.Deferred, Reply: replyUnknown, Unknown: true}
		s.takeUnheard(w, l)
	case oldest:
		o.Result = mail.Deferred
	}
	w.same(&l.task, o)
	if o.Result != mail.Untried {
		w.measure.finished(w, l.to, s.host, false)
	}
	w.ended(&l.task, w.outcomes)
	result := mail.DeliveryResult{Outcomes: w.outcomes}
	if o.Result != mail.Untried {
		result.Site = why
	}
	step(w, qmgr.Delivered{Entry: l.entry, Result: result})
}

// takeUnheard notes what the server has taken of a transaction whose final reply
// will not come.
func (s *session) takeUnheard(w *world, l *letter) {
	w.measure.unknown += uint64(len(l.recipients))
	if l.message == nil || l.served > w.now {
		return
	}
	w.judge(&l.task, s.host)
	for i := range w.outcomes {
		if w.outcomes[i].Result == mail.Delivered {
			l.message.states[w.outcomes[i].Index] |= stateTaken
		}
	}
}

// close ends a session with nothing under way.
func (s *session) close(w *world, cl mail.Closing) {
	s.leave(w)
	s.gone(w, cl)
}

func (s *session) leave(w *world) {
	s.up = false
	w.cancel(&s.event)
	s.host.sessions.Remove(&s.inHost)
	s.host.leave(w)
}

// gone notifies the core. What it has sent and was not answered is not answered any
// more.
func (s *session) gone(w *world, cl mail.Closing) {
	for i := range s.letters {
		if l := &s.letters[i]; !l.answered {
			l.answered = true
			w.ended(&l.task, nil)
		}
	}
	for _, c := range w.watch.sessions {
		c.closed(w, s)
	}
	id := s.id
	w.forget(s)
	step(w, qmgr.Closed{Conn: id, Closing: cl})
}
