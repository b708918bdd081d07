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
	FailProtocol              // what the server sent makes no sense
	FailStep                  // the server cannot follow a group of commands
	FailEarly                 // the message was refused before it was complete
	FailAbandoned             // the host gave up for reasons of its own
	FailQuit                  // QUIT was answered: no failure
)

// String returns the kind's name.
func (k FailureKind) String() string {
	return [...]string{
		"none", "greeting", "hello", "loop", "closed", "lost", "timeout", "protocol", "step", "early",
		"abandoned", "quit",
	}[k]
}

// A Failure says why a session is over.
type Failure struct {
	Kind  FailureKind
	Stage WaitKind   // what the session was waiting for
	Reply mail.Reply // the server's words, or ours if it said nothing
	// Down tells that the server should be spoken to at a lower level next
	// time: it may not be able to take commands in groups.
	Down bool
}

// Loss is how a host's part of a connection came to its end.
type Loss uint8

const (
	LossClosed    Loss = iota // the connection was closed or broke
	LossTimeout               // the time for the present Wait is over
	LossAbandoned             // the host gave up
)

// End tells the session that nothing more will come. What was read before must
// have been fed, since a reply that made it here counts, even if the
// connection broke after it.
func (s *Session) End(why Loss) {
	if s.phase == phaseOver {
		return
	}
	stage := s.Wait().Kind
	f := Failure{Stage: stage, Down: s.level > LockStep && s.slots.len() >= 2 && !(len(s.active) > 0 && s.active[0].Stale())}
	switch why {
	case LossTimeout:
		f.Kind = FailTimeout
		f.Reply = s.own(451, mail.Status{Class: 4, Subject: 4, Detail: 2}, "timed out while waiting for "+stage.String())
	case LossAbandoned:
		f.Kind, f.Down = FailAbandoned, false
		f.Reply = mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 3, Detail: 2},
			Text: "delivery interrupted on our side"}
	default:
		f.Kind = FailLost
		f.Reply = s.own(451, mail.Status{Class: 4, Subject: 4, Detail: 2}, "connection lost while waiting for "+stage.String())
	}
	s.fail(f)
}

// own returns a reply of ours about the server.
func (s *Session) own(code uint16, status mail.Status, text string) mail.Reply {
	if s.cfg.Peer != "" {
		text = s.cfg.Peer + ": " + text
	}
	return mail.Reply{Code: code, Status: status, Text: text}
}

// garbled ends the session because of what the server sent.
func (s *Session) garbled(stage WaitKind, what string) {
	s.fail(Failure{
		Kind:  FailProtocol,
		Stage: stage,
		Reply: s.own(451, mail.Status{Class: 4, Subject: 5}, what),
		Down:  s.level > LockStep,
	})
}

// outOfStep ends the session because the server and we do not agree on which
// transaction is open.
func (s *Session) outOfStep(stage WaitKind, reply mail.Reply) {
	s.fail(Failure{Kind: FailStep, Stage: stage, Reply: reply, Down: true})
}

// fail ends the session and settles what was under way.
func (s *Session) fail(f Failure) {
	if s.phase == phaseOver {
		return
	}
	s.phase = phaseOver
	s.failure = f
	for _, t := range s.active {
		s.abandon(t, f)
		s.finish(t)
	}
	s.slots.clear()
	s.content, s.sending = nil, nil
	clear(s.active)
	s.active = s.active[:0]
	clear(s.out)
	s.out, s.handed, s.cmd, s.cut = s.out[:0], 0, s.cmd[:0], 0
}

// abandon gives a verdict to every recipient that has none.
func (s *Session) abandon(t *Transaction, f Failure) {
	verdict, reply := Deferred, f.Reply
	switch {
	case t.state == txFinal:
		verdict = Doubtful
		reply = s.own(451, mail.Status{Class: 4, Subject: 4, Detail: 2},
			"message sent, but it is not known whether it was taken ("+f.Kind.String()+")")
	case f.Kind == FailStep:
		verdict = Again
	case t.mail == mailRefused:
		verdict, reply = refusal(t.mailReply.Code), t.mailReply
	case t.Stale() && (f.Kind == FailLost || f.Kind == FailTimeout || f.Kind == FailClosed):
		verdict = Again
	}
	t.settle(Accepted, verdict, reply)
	t.settle(Pending, verdict, reply)
}
