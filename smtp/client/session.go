package client

import (
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
	// Overlap also writes the envelope of the next transaction directly behind
	// the content of the one before, in one group as RFC 2920 3.1 describes it:
	// one round trip for a message. It needs PIPELINING.
	Overlap
	// Stream also writes small messages behind each other without waiting for
	// anything, each as RSET, MAIL, RCPTs and one BDAT (RFC 3030). It needs
	// PIPELINING and CHUNKING, and a server that does not offer BURL (RFC 4468 3).
	// No RFC promises that it works, so it is for servers that are known to
	// take it; see Session.Probe.
	Stream
)

// String returns the level's name.
func (l Level) String() string {
	return [...]string{"lockstep", "group", "overlap", "stream"}[l]
}

// Limits of what is under way.
const (
	// GroupMax is how many octets of commands may be unanswered, unless there
	// is only one command. With not more than that both ends can write without
	// waiting for the other to read, even with the smallest window that TCP
	// implementations had when RFC 2920 3.1 was written. At level Stream it
	// holds for messages that are not streamed.
	GroupMax = 4096
	// InFlightMax is the largest Config.InFlight, InFlightDefault its default.
	InFlightMax     = 16
	InFlightDefault = 4
	// StreamSizeMax is the largest content, in octets, of a message that is
	// streamed, StreamRecipientsMax the largest number of its recipients. Other
	// messages go as at level Overlap.
	StreamSizeMax       = 64 << 10
	StreamRecipientsMax = 10
	// StreamOctetsMax is how many octets of streamed content may be unanswered.
	StreamOctetsMax = 256 << 10
)

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
	// InFlight is how many messages may be unanswered at level Stream, and so
	// how many are Doubtful if the connection is lost. The default is
	// InFlightDefault, the most InFlightMax; 1 is as 2. A host that learns it
	// halves it after each connection lost with doubtful messages.
	InFlight int
}

// phase is where a session is.
type phase uint8

const (
	phaseGreeting phase = iota
	phaseHello
	phaseReady
	phaseDrain // nothing more is written; the replies to what was are read
	phaseProbe
	phaseQuit
	phaseOver
)

// A Session is one client session. See the package comment for how to drive
// it. It must not be used by two goroutines at once. Its memory is bounded by
// the limits of smtp.ReplyParser, by GroupMax and InFlightMax, and by the
// pieces of content that the host supplies.
type Session struct {
	cfg   Config
	phase phase
	level Level
	caps  smtp.Caps

	parser  smtp.ReplyParser
	heard   int64 // how much the host had been given to write when the reply being read began
	stuffer smtp.Stuffer
	slots   slots
	serial  uint32 // of Wait
	out     output

	active  []*Transaction // under way, in the order of Start
	content *Transaction   // the one whose content is being supplied
	done    []*Transaction // finished, not yet taken

	opened       bool  // an accepted MAIL was not followed by the end of its transaction
	finalRefused bool  // the last reply to a content was a refusal, and no reply to MAIL came since
	used         Level // the highest at which anything was written
	mails        int   // MAIL commands written
	promised     int   // MAIL commands that transactions in line will need
	domains      []string
	alarm        alarm
	probe        ProbeResult
	tally        Tally
	failure      Failure
}

// A Tally counts what a session saw that is odd but no reason to end it.
type Tally struct {
	// EmptyTaken is how often the server took a message without recipients.
	EmptyTaken int
	// Astray is how many messages the server took under the envelope of
	// another one; see Transaction.Astray.
	Astray int
	// Contradictions is how many replies had an enhanced status code that
	// belongs to another command than the one in whose place they came.
	Contradictions int
	// FellBack is the level at which two contradictions in a row came, so that
	// the session went on at level Group; LockStep if that did not happen. The
	// server should be spoken to below that level next time.
	FellBack Level
}

// New returns a session on a connection that has just been opened. It begins
// by waiting for the greeting (RFC 5321 3.1).
func New(cfg Config) *Session {
	if cfg.InFlight <= 0 {
		cfg.InFlight = InFlightDefault
	}
	cfg.InFlight = min(max(cfg.InFlight, 2), InFlightMax)
	s := &Session{cfg: cfg}
	s.slots.push(slot{kind: slotGreeting})
	return s
}

// Feed takes octets that the server sent. They are not kept.
func (s *Session) Feed(data []byte) {
	for len(data) > 0 && s.phase != phaseOver {
		if !s.parser.Partial() {
			s.heard = s.out.handed
		}
		n, done, err := s.parser.Feed(data)
		data = data[n:]
		if err != nil {
			stage := s.Wait().Kind
			if s.unasked() {
				stage = WaitUnasked
			}
			s.garbled(stage, err.Error())
			return
		}
		if done {
			s.answer()
			s.pump() // after each reply, so that it does not matter which of them were read together
		}
	}
}

// Out appends to bufs what is to be written now, in order. The pieces are
// valid until they were written. They may be parts of supplied content.
func (s *Session) Out(bufs [][]byte) [][]byte { return s.out.hand(bufs) }

// Written tells that of what the last Out returned the first n octets were
// handed to the connection, and that the rest will not be unless Out returns
// it again. It is to be called once after each Out that returned something,
// after a failed write, too, before End: which messages were sent to their end
// depends on it.
func (s *Session) Written(n int) {
	before := s.out.written
	s.out.confirm(n)
	if s.slots.len() == 0 || s.slots.first().end > before {
		s.serial++ // the wait for the oldest reply begins, or goes on with content that moves
	}
	s.release()
	s.drained()
	s.pump()
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

// Level returns the level at which the session works: Config.Level, unless the
// server does not offer what it takes or has given reason not to use it.
func (s *Session) Level() Level { return s.level }

// Mails returns how many MAIL commands were written.
func (s *Session) Mails() int { return s.mails }

// Tally returns the counts of oddities.
func (s *Session) Tally() Tally { return s.tally }

// Idle tells whether nothing is under way and a transaction may be started:
// the server was greeted, all commands were answered, nothing came after that,
// and the server's limits allow one more.
func (s *Session) Idle() bool {
	return s.phase == phaseReady && len(s.active) == 0 && s.slots.len() == 0 && !s.parser.Partial() && s.mayMail()
}

// mayMail tells whether the server's limit on MAIL commands (RFC 9422) allows
// one more.
func (s *Session) mayMail() bool {
	most := s.caps.Limits.Mails
	return most == 0 || s.mails+s.promised < most
}

// Room tells whether a transaction may be started. If the session is Idle it
// may. At level Overlap it also may while one other is under way, at level
// Stream while less than Config.InFlight others are and at most one of these
// is not written to its end. So a host never has to commit a transaction to
// this session much before it is written.
func (s *Session) Room() bool {
	if len(s.active) == 0 {
		return s.Idle()
	}
	most := 2
	if s.level == Stream {
		most = s.cfg.InFlight
	}
	if s.phase != phaseReady || s.level < Overlap || len(s.active) >= most || !s.mayMail() {
		return false
	}
	unwritten := 0
	for _, t := range s.active {
		if t.state != txSent && t.state != txDone {
			unwritten++
		}
	}
	return unwritten < 2
}

// Over tells whether the session has ended. What Out returns may still be
// written, then the connection is to be closed. Failure says why.
func (s *Session) Over() bool { return s.phase == phaseOver }

// Failure returns why the session is over.
func (s *Session) Failure() Failure {
	if s.phase != phaseOver {
		return Failure{}
	}
	return s.failure
}

// Start begins a transaction. There must be Room. Recipients that cannot be
// served by this server get their verdict at once. It is written as soon as
// the level allows: at once if nothing is under way, else behind the content
// of the transaction before it.
func (s *Session) Start(t *Transaction) {
	if !s.Room() {
		panic("smtp/client: transaction started where there is no room for it")
	}
	t.begin()
	t.reused = s.mails > 0
	s.admit(t)
	s.active = append(s.active, t)
	if !t.has(Pending) {
		s.complete(t)
		return
	}
	s.promised++
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

// complete marks a transaction as done. It is handed out behind those that
// were started before it.
func (s *Session) complete(t *Transaction) {
	t.state = txDone
	n := 0
	for n < len(s.active) && s.active[n].state == txDone {
		s.done = append(s.done, s.active[n])
		n++
	}
	left := copy(s.active, s.active[n:])
	clear(s.active[left:])
	s.active = s.active[:left]
}

// doubt takes back what replies in a group said of recipients whose transaction has
// not been taken yet: in a group one reply too many, or too few, has each command
// answered by its neighbor's reply. Nobody is to be told then that mail was refused,
// or that a call-out found a recipient, which costs no more than another attempt. A
// final reply stands. It came where it was due, when the content had been written;
// to doubt it would send again what the server has taken. So does whatever was said
// to one command at a time.
func (s *Session) doubt(reply mail.Reply) {
	for _, t := range s.done {
		if t.final || t.level == LockStep && !t.Callout || !t.has(Failed) && !t.has(Delivered) {
			continue
		}
		t.broken = true
		t.settle(Failed, Deferred, reply)
		t.settle(Delivered, Deferred, reply) // of a call-out
	}
}
