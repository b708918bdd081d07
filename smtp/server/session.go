package server

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// FlushSize is the length of out, in octets, at which Step asks to have it written.
const FlushSize = 8 << 10

// A Session is the state of one connection. It must not be used by several
// goroutines at once.
type Session struct {
	cfg  *Config
	peer Peer

	state     state
	owed      owed
	farewell  mail.Reply // the host's reply, in atInterrupt
	hello     hello
	security  Security       // of the connection
	forwarded smtp.Forwarded // by XFORWARD, of the next message
	user      string         // that has authenticated; "" if none has
	exchange  exchange       // of AUTH
	tally     tally
	tx        transaction
	body      body
	watch     *smtp.FieldWatch // nil: none
	skip      skip             // in atOverlong

	slots   slots
	pending pending
	out     []byte // during Step only
	command []byte // the command line being executed; during Step only
	noted   bool   // Early was returned
	witness Witness
}

// A state is the kind of input that the session expects.
type state uint8

const (
	atGreeting  state = iota // none: the greeting is due
	atCommand                // a command line
	atRefused                // a command line; every command except QUIT is refused
	atOverlong               // the rest of a command line that is too long
	atContent                // content after DATA
	atChunk                  // content after BDAT
	atExchange               // a line of an exchange of AUTH
	atHandshake              // none: the host has been asked for a TLS handshake
	atInterrupt              // none: the host ends the session
	atEnd                    // none
)

// An await is the request that needs an answer.
type await uint8

const (
	awaitNothing await = iota
	awaitBegin
	awaitRecipient
	awaitContent
	awaitCommit
	awaitStartTLS
	awaitHandshake
	awaitIdentify
	awaitAuthenticate
	awaitETRN
)

// owed is the request that the host must answer, and its answer once given.
type owed struct {
	await await
	given bool
	reply mail.Reply
}

// hello is the argument of EHLO or HELO.
type hello struct {
	name     string // "" before either
	extended bool   // it was EHLO
}

// New returns a session at its start. cfg must have its defaults filled in and be
// valid.
func New(cfg *Config, peer Peer) *Session {
	if peer.RecipientLimit == 0 {
		peer.RecipientLimit = cfg.RecipientLimit
	}
	return &Session{cfg: cfg, peer: peer}
}

// A Phase is the client's progress with a message. Together with what a session
// waits for it determines the timeout.
type Phase uint8

const (
	PhaseNone     Phase = iota // there is no message
	PhaseEnvelope              // from MAIL to the beginning of the content
	PhaseContent               // content, and between its chunks (RFC 3030)
)

// String returns the word that logs show.
func (p Phase) String() string { return [...]string{"none", "envelope", "content"}[p] }

// Phase returns the client's progress. It changes only within Step.
func (s *Session) Phase() Phase {
	switch {
	case s.state == atContent, s.state == atChunk, s.tx.state == txChunks:
		return PhaseContent
	case s.tx.state == txEnvelope:
		return PhaseEnvelope
	}
	return PhaseNone
}

// Discards reports whether the session is dropping the rest of a line that is too
// long: input is consumed without completing a command.
func (s *Session) Discards() bool { return s.state == atOverlong }

// Step processes in until it needs the host. It consumed the first n octets, whose
// memory it may have overwritten, and appended replies to out, which begins with
// earlier replies that are not written yet.
func (s *Session) Step(in, out []byte) (n int, replies []byte, request Request) {
	s.out = out
	if s.owed.await != awaitNothing {
		s.resume()
	}
	for request = s.next(); request == nil; request = s.next() {
		if len(s.out) >= FlushSize {
			request = &s.slots.flush
			break
		}
		taken, waiting, more := s.advance(in[n:])
		n += taken
		if !more {
			s.slots.read.For = waiting
			request = &s.slots.read
			break
		}
	}
	replies, s.out, s.command = s.out, nil, nil
	return n, replies, request
}

// next returns the next request in the queue and records the answer that it needs.
func (s *Session) next() Request {
	r := s.pending.pop()
	switch r.(type) {
	case *Begin:
		s.owed.await = awaitBegin
	case *Recipient:
		s.owed.await = awaitRecipient
	case *Content:
		s.owed.await = awaitContent
	case *Commit:
		s.owed.await = awaitCommit
	case *StartTLS:
		s.owed.await = awaitStartTLS
	case *Handshake:
		s.owed.await = awaitHandshake
	case *Identify:
		s.owed.await = awaitIdentify
	case *Authenticate:
		s.owed.await = awaitAuthenticate
	case *ETRN:
		s.owed.await = awaitETRN
	}
	return r
}

// advance takes the next step that is possible with in. more is false if that
// needs more input first.
func (s *Session) advance(in []byte) (n int, w Waiting, more bool) {
	switch s.state {
	case atGreeting:
		s.greet(len(in) > 0)
		return 0, 0, true
	case atCommand, atRefused:
		return s.readCommand(in)
	case atExchange:
		return s.readResponse(in)
	case atOverlong:
		n, more = s.skipLine(in)
		return n, ForLine, more
	case atContent:
		n, more = s.readContent(in)
		return n, ForContent, more
	case atChunk:
		n, more = s.readChunk(in)
		return n, ForContent, more
	case atInterrupt:
		if !s.farewell.IsZero() {
			s.say(s.farewell)
		}
		s.drop()
		s.end(ReasonHost)
		return 0, 0, true
	}
	s.end(ReasonNone)
	return 0, 0, true
}

// Begun answers Begin: the draft is open and has this ID. date is the current
// time in the form of RFC 5322 3.3, for the Received field.
func (s *Session) Begun(id mail.QueueID, date string) {
	s.tx.id, s.tx.date = id, date
	s.Answer(mail.Reply{})
}

// Watch sets the header fields to look for in messages whose content has not begun,
// and to remove from it; nil is none. It may be called whenever Step is not.
func (s *Session) Watch(w *smtp.FieldWatch) { s.watch = w }

// Answer answers Begin (with a refusal), Recipient, Content, Commit, StartTLS or ETRN. A zero
// reply means success. Refusals for reasons of our own have an X.3.Y
// status and are not counted against the client.
func (s *Session) Answer(r mail.Reply) {
	if s.owed.await == awaitNothing || s.owed.given {
		panic("server: Answer called with no request to answer")
	}
	s.owed.reply, s.owed.given = r, true
}

// Interrupt ends the session for the host's reasons: a timeout, a shutdown, or a
// client that is gone. The reply is sent if it is not zero. Step then returns the
// remaining requests.
func (s *Session) Interrupt(r mail.Reply) {
	if s.state != atEnd {
		s.state, s.farewell = atInterrupt, r
	}
}

// resume continues where the host's answer was needed.
func (s *Session) resume() {
	if !s.owed.given {
		panic("server: Step before the answer to the last request")
	}
	awaited, answer := s.owed.await, s.owed.reply
	s.owed = owed{}
	switch awaited {
	case awaitBegin:
		s.begun(answer)
	case awaitRecipient:
		s.added(answer)
	case awaitContent:
		if !answer.IsZero() {
			s.body.failure = answer
			s.abortDraft()
		}
	case awaitCommit:
		s.committed(answer)
	case awaitStartTLS:
		s.started(answer)
	case awaitHandshake:
		s.shaken(!answer.IsZero())
	case awaitIdentify:
		s.identified(answer)
	case awaitAuthenticate:
		s.authenticated(answer)
	case awaitETRN:
		s.etrnAnswered(answer)
	}
}

// end queues Close as the last request.
func (s *Session) end(why Reason) {
	s.state = atEnd
	s.slots.close.Reason = why
	s.pending.push(&s.slots.close)
}

// lineState is the state between commands.
func (s *Session) lineState() state {
	if !s.peer.Refusal.IsZero() {
		return atRefused
	}
	return atCommand
}

// RejectsEarly reports whether the session ends when the client does not wait
// for a reply, the greeting included: if so, a host may pass input to the
// first Step.
func (s *Session) RejectsEarly() bool { return s.peer.RejectEarly }
