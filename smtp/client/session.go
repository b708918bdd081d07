package client

import (
	"fmt"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// A Level is how much a session writes before it waits for replies.
type Level uint8

const (
	// LockStep has at most one command unanswered.
	LockStep Level = iota
	// Group writes MAIL, the RCPTs and DATA together. It needs PIPELINING.
	Group
)

// GroupMax is how many octets of commands may be unanswered, unless there is
// only one command. With not more than that both ends can write without
// waiting for the other to read, even with the smallest window that TCP
// implementations had when RFC 2920 3.1 was written.
const GroupMax = 4096

// Config is what a Session has to know.
type Config struct {
	// Hello is the name by which the client introduces itself: its
	// fully-qualified name, or an address literal (RFC 5321 4.1.1.1).
	Hello string
	// Self is this host's name. A server that has the same name is taken to be
	// this host: the session ends with FailLoop. "" leaves the check out, as is
	// right where many hosts share one name.
	Self string
	// Peer is what the server is called in replies, "name[address]".
	Peer string
	// Level is the highest level to be used. The zero value is LockStep.
	Level Level
}

// phase is where a session is.
type phase uint8

const (
	phaseGreeting phase = iota
	phaseHello
	phaseReady
	phaseQuit
	phaseOver
)

// A Session is one client session. See the package comment for how to drive
// it. It must not be used by two goroutines at once. Its memory is bounded by
// the limits of smtp.ReplyParser, by GroupMax, and by the pieces of content
// that the host supplies.
type Session struct {
	cfg   Config
	phase phase
	level Level
	caps  smtp.Caps

	parser  smtp.ReplyParser
	stuffer smtp.Stuffer
	slots   slots
	serial  uint32 // of Wait: grows with every reply and every write

	active  []*Transaction // under way, oldest first
	sending *Transaction   // the one whose commands are being written
	content *Transaction   // the one whose content is being written
	done    []*Transaction // finished, not yet taken

	out    [][]byte // to be written; the first handed of them were returned by Out
	handed int
	cmd    []byte // commands; its part from cut on is not in out yet
	cut    int

	opened  bool // an accepted MAIL was not followed by the end of its transaction
	mails   int  // MAIL commands written
	domains []string
	tally   Tally
	failure Failure
}

// A Tally counts what a session saw that is odd but no reason to end it.
type Tally struct {
	// EmptyTaken is how often the server took a message without recipients.
	EmptyTaken int
}

// New returns a session on a connection that has just been opened. It begins
// by waiting for the greeting (RFC 5321 3.1).
func New(cfg Config) *Session {
	s := &Session{cfg: cfg}
	s.slots.push(slot{kind: slotGreeting})
	s.slots.hand()
	s.slots.written()
	return s
}

// Feed takes octets that the server sent. They are not kept.
func (s *Session) Feed(data []byte) {
	for len(data) > 0 && s.phase != phaseOver {
		n, done, err := s.parser.Feed(data)
		data = data[n:]
		if err != nil {
			s.garbled(s.Wait().Kind, err.Error())
			return
		}
		if done {
			s.serial++
			s.answer()
		}
	}
	s.pump()
}

// Out appends to bufs what is to be written now, in order. The pieces are
// valid until Written is called. They may be parts of supplied content.
func (s *Session) Out(bufs [][]byte) [][]byte {
	s.seal()
	s.handed = len(s.out)
	s.slots.hand()
	return append(bufs, s.out...)
}

// Written tells that all that the last Out returned was handed to the
// connection. If it was not, and never will be, call End instead.
func (s *Session) Written() {
	n := copy(s.out, s.out[s.handed:])
	clear(s.out[n:])
	s.out, s.handed = s.out[:n], 0
	if n == 0 && s.cut == len(s.cmd) {
		s.cmd, s.cut = s.cmd[:0], 0
	}
	s.slots.written()
	s.serial++
	if t := s.content; t != nil && t.state == txLast && n == 0 {
		t.state = txFinal
		s.content = nil
	}
}

// seal moves the commands that were put together into out.
func (s *Session) seal() {
	if s.cut < len(s.cmd) {
		s.out = append(s.out, s.cmd[s.cut:len(s.cmd):len(s.cmd)])
		s.cut = len(s.cmd)
	}
}

// Wanting returns the transaction whose content is to be supplied now, or nil.
// It is nil while there is something to be written.
func (s *Session) Wanting() *Transaction {
	if s.content == nil || s.content.state != txContent || len(s.out) > 0 || s.cut < len(s.cmd) {
		return nil
	}
	return s.content
}

// Supply gives the next piece of the content of the transaction that Wanting
// returned; last tells that it is the last one. The content has CRLF line ends
// and no dot-stuffing. The piece must not be changed before Written is called.
func (s *Session) Supply(piece []byte, last bool) {
	t := s.Wanting()
	if t == nil {
		panic("smtp/client: content supplied that is not wanted")
	}
	if out := s.stuffer.Encode(piece); len(out) > 0 {
		s.out = append(s.out, out)
	}
	if last {
		s.out = append(s.out, s.stuffer.End())
		t.state = txLast
	}
}

// Next returns a transaction that is done, in the order of Start, or nil.
func (s *Session) Next() *Transaction {
	if len(s.done) == 0 {
		return nil
	}
	t := s.done[0]
	n := copy(s.done, s.done[1:])
	s.done[n] = nil
	s.done = s.done[:n]
	return t
}

// Ready tells whether the server has been greeted; Caps then says what it
// offers.
func (s *Session) Ready() bool { return s.phase == phaseReady }

// Caps returns what the server said it offers in this session.
func (s *Session) Caps() smtp.Caps { return s.caps }

// Mails returns how many MAIL commands were written.
func (s *Session) Mails() int { return s.mails }

// Tally returns the counts of oddities.
func (s *Session) Tally() Tally { return s.tally }

// Idle tells whether a transaction may be started: the server was greeted, all
// commands were answered, nothing came after that, and the server's limits
// allow one more.
func (s *Session) Idle() bool {
	return s.phase == phaseReady && len(s.active) == 0 && s.slots.len() == 0 && !s.parser.Partial() &&
		(s.caps.Limits.Mails == 0 || s.mails < s.caps.Limits.Mails)
}

// Over tells whether the session has ended. What Out returns may still be
// written, then the connection is to be closed. Failure says why.
func (s *Session) Over() bool { return s.phase == phaseOver }

// Failure returns why the session is over.
func (s *Session) Failure() Failure { return s.failure }

// Wait returns what the session waits for, if there is nothing to be written.
func (s *Session) Wait() Wait {
	switch {
	case s.phase == phaseOver:
		return Wait{Serial: s.serial}
	case s.content != nil:
		return Wait{WaitDataBlock, s.serial}
	case s.slots.len() == 0:
		return Wait{Serial: s.serial}
	}
	return Wait{s.slots.first().kind.wait(), s.serial}
}

// Start begins a transaction. The session must be Idle. Recipients that cannot
// be served by this server get their verdict at once.
func (s *Session) Start(t *Transaction) {
	if !s.Idle() {
		panic(fmt.Sprintf("smtp/client: transaction started in phase %d with %d under way", s.phase, len(s.active)))
	}
	t.begin()
	t.reused = s.mails > 0
	s.admit(t)
	s.active = append(s.active, t)
	if !t.has(Pending) {
		s.complete(t)
		return
	}
	if !s.opened {
		t.step = stepMail
	}
	s.sending = t
	s.pump()
}

// Quit says goodbye (RFC 5321 4.1.1.10). The session must be Idle, except that
// the server's limits do not matter. A host need not wait for the reply.
func (s *Session) Quit() {
	if s.phase != phaseReady || len(s.active) > 0 {
		return
	}
	s.phase = phaseQuit
	s.command(slot{kind: slotQuit}, "QUIT\r\n")
}

// complete takes a transaction out of the active ones.
func (s *Session) complete(t *Transaction) {
	for i, a := range s.active {
		if a == t {
			n := copy(s.active[i:], s.active[i+1:])
			s.active[i+n] = nil
			s.active = s.active[:i+n]
			break
		}
	}
	if s.sending == t {
		s.sending = nil
	}
	if s.content == t {
		s.content = nil
	}
	s.finish(t)
}

func (s *Session) finish(t *Transaction) {
	t.state = txDone
	s.done = append(s.done, t)
}

// doubt takes back the final replies that have not been taken yet.
func (s *Session) doubt(reply mail.Reply) {
	for _, t := range s.done {
		if t.final {
			t.settle(Delivered, Doubtful, reply)
			t.settle(Deferred, Doubtful, reply)
			t.settle(Failed, Doubtful, reply)
		}
	}
}
