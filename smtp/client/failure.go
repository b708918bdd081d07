package client

import "github.com/posthaste-mta/posthaste/mail"

// FailureKind is why a session is over.
type FailureKind uint8

const (
	FailNone      FailureKind = iota
	FailGreeting              // the greeting was not 2yz
	FailHello                 // EHLO and HELO were refused
	FailLoop                  // the server has our own name
	FailClosed                // 421: the server closes the connection
	FailLost                  // the connection was lost
	FailTimeout               // the server took too long
	FailProtocol              // the server's output is malformed or makes no sense
	FailStep                  // the server cannot follow a group of commands
	FailFence                 // RSET does not separate streamed messages
	FailEarly                 // the message was refused before it was complete
	FailAbandoned             // the host gave up for its own reasons
	FailQuit                  // QUIT was answered: no failure
	FailSecurity              // TLS is required and not to be had, or its negotiation failed
	FailAuth                  // the server does not accept who we are, or we not who it is
)

// String returns the kind's name.
func (k FailureKind) String() string {
	return [...]string{
		"none", "greeting", "hello", "loop", "closed", "lost", "timeout", "protocol", "step", "fence", "early",
		"abandoned", "quit", "security", "authentication",
	}[k]
}

// A Failure is the reason why a session is over.
type Failure struct {
	Kind  FailureKind
	Stage WaitKind   // what the session was waiting for
	Reply mail.Reply // the server's reply, or ours if it sent none
	// Level is the highest level of the unanswered commands, or, if there are
	// none, the highest level used in the session.
	Level Level
	// Down means that a level below Level should be used with this server next
	// time: it may not accept commands at this one. After FailFence at level
	// Stream, that level should not be used with it again until an operator has
	// examined the server.
	Down bool
}

// Loss is how the host's side of a connection ended.
type Loss uint8

const (
	LossClosed    Loss = iota // the connection was closed or broke
	LossTimeout               // the time limit of the current Wait has passed
	LossAbandoned             // the host gave up
)

// End ends the session because no more input will come. All input must have been
// fed before, since a reply that arrived counts even if the connection broke after
// it. All output must have been reported with Written; otherwise all that the last
// Out returned is assumed to be written.
func (s *Session) End(why Loss) {
	if s.phase == phaseOver {
		return
	}
	if why != LossClosed {
		for _, t := range s.active {
			t.dismissed = false // the server did not close after its 421
		}
	}
	stage := s.Wait().Kind
	if stage == WaitUnasked && why == LossTimeout {
		// Part of a reply does not show how the server handles groups of commands.
		s.fail(Failure{Kind: FailProtocol, Stage: stage, Reply: s.own(451, mail.Status{Class: 4, Subject: 5}, unaskedText)})
		return
	}
	f := Failure{Stage: stage, Down: s.grouped() && !(len(s.active) > 0 && s.active[0].Stale())}
	switch why {
	case LossTimeout:
		f.Kind = FailTimeout
		f.Reply = s.own(451, mail.Status{Class: 4, Subject: 4, Detail: 2}, "timed out while waiting for "+stage.String())
	case LossAbandoned:
		f.Kind, f.Down = FailAbandoned, false
		f.Reply = interrupted()
	default:
		f.Kind = FailLost
		f.Reply = s.own(451, mail.Status{Class: 4, Subject: 4, Detail: 2}, "connection lost while waiting for "+stage.String())
	}
	s.fail(f)
}

// grouped reports whether several commands are unanswered. Replies for several
// recipients to one content (LMTP) are not.
func (s *Session) grouped() bool {
	return s.slots.len() >= 2 && s.slots.last().kind != slotRecipient
}

// interrupted returns the reply for a transaction that we have given up.
func interrupted() mail.Reply {
	return mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 3, Detail: 2}, Text: "delivery interrupted on our side"}
}

// own returns a reply of this program about the server.
func (s *Session) own(code uint16, status mail.Status, text string) mail.Reply {
	if s.cfg.Peer != "" {
		text = s.cfg.Peer + ": " + text
	}
	return mail.Reply{Code: code, Status: status, Text: text}
}

// garbled ends the session because of the server's invalid output.
func (s *Session) garbled(stage WaitKind, what string) {
	s.fail(Failure{
		Kind:  FailProtocol,
		Stage: stage,
		Reply: s.own(451, mail.Status{Class: 4, Subject: 5}, what),
		Down:  true,
	})
}

// desync ends the session because of a reply that cannot belong to the command
// whose turn it was. From then on, and just before, it is uncertain which reply
// belongs to which command of a group.
func (s *Session) desync(stage WaitKind, what string) {
	s.garbled(stage, what)
	s.doubt(s.failure.Reply)
}

// outOfStep ends the session because the server and we do not agree on which
// transaction is open. If other messages may be unanswered, their replies are
// read first.
func (s *Session) outOfStep(t *Transaction, kind FailureKind, stage WaitKind, reply mail.Reply) {
	f := Failure{Kind: kind, Stage: stage, Reply: reply, Level: t.level, Down: true}
	if kind == FailFence {
		f.Level = Stream
	}
	switch {
	case s.phase == phaseOver || s.phase == phaseDrain:
		if kind == FailFence { // more serious than the failure found before
			s.failure = f
		}
	case t.form == formStream:
		s.drain(f)
	default:
		s.fail(f)
	}
}

// drain stops writing. Once all replies to the written commands have arrived, the
// session ends with the failure.
func (s *Session) drain(f Failure) {
	s.phase = phaseDrain
	s.failure = f
	s.out.drop()
	s.slots.cut(s.out.handed)
	s.content = nil
	for _, t := range s.active {
		if t.state == txContent {
			t.halt()
		}
	}
}

// drained ends the session if no more replies are due.
func (s *Session) drained() {
	if s.phase == phaseDrain && s.slots.len() == 0 {
		s.fail(s.failure)
	}
}

// fail ends the session and settles the transactions under way.
func (s *Session) fail(f Failure) {
	switch s.phase {
	case phaseOver:
		return
	case phaseDrain:
		f = s.failure
	}
	if s.probe == ProbeUnderWay {
		s.probe = ProbeLost
	}
	s.phase = phaseOver
	f.Level = max(f.Level, s.unansweredLevel())
	f.Down = f.Down && f.Level > LockStep
	s.failure = f
	oldest := true
	for _, t := range s.active {
		if t.state != txDone {
			held := t.held && t.finals == 0
			s.abandon(t, f, oldest)
			oldest = oldest && held
		}
		s.done = append(s.done, t)
		t.state = txDone
	}
	s.slots.clear()
	s.content = nil
	clear(s.active)
	s.active = s.active[:0]
	s.out.forget()
}

// unansweredLevel returns the highest level of the unanswered commands, or, if
// there are none, the highest that was used.
func (s *Session) unansweredLevel() Level {
	level := LockStep
	for _, t := range s.active {
		if t.unanswered > 0 {
			level = max(level, t.level)
		}
	}
	if s.slots.len() == 0 {
		level = s.used
	}
	return level
}

// abandon gives a verdict to every recipient that has none. Only the oldest
// transaction's message may have caused the failure.
func (s *Session) abandon(t *Transaction, f Failure, oldest bool) {
	verdict, reply, stage := Again, f.Reply, f.Stage
	if t.held && t.end <= s.out.handed {
		if s.settleHeld(t); t.finals == 0 {
			return
		}
	}
	switch {
	case t.state == txSent && t.end <= s.out.handed && !t.dismissed:
		verdict = Doubtful
		reply = s.own(451, mail.Status{Class: 4, Subject: 4, Detail: 2},
			"message sent, but it is not known whether it was taken ("+f.Kind.String()+")")
	case t.refused():
		verdict, reply, stage = t.mailVerdict(), t.mailReply, WaitMail
	case !oldest || f.Kind == FailStep || f.Kind == FailFence:
	case f.Kind == FailClosed && t.reused && t.mail == mailUnanswered: // likewise: "too many messages in this connection"
	case t.Stale() && (f.Kind == FailLost || f.Kind == FailTimeout || f.Kind == FailClosed || f.Kind == FailProtocol):
	default:
		verdict = Deferred
	}
	t.broken = t.broken || !t.refused() && (t.has(Accepted) || t.has(Pending))
	t.settleOpen(verdict, reply, stage)
}
