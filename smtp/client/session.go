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
	// Overlap also writes the envelope of the next transaction directly after
	// the content of the previous one, in one group as RFC 2920 3.1 describes it:
	// one round trip per message. It needs PIPELINING.
	Overlap
	// Stream also writes small messages one after another without waiting for any
	// reply, each as RSET, MAIL, RCPTs and one BDAT (RFC 3030). It needs
	// PIPELINING and CHUNKING, and a server that does not offer BURL (RFC 4468 3).
	// No RFC promises that it works, so it is for servers that are known to
	// support it; see Session.Probe.
	Stream
)

// String returns the level's name.
func (l Level) String() string {
	return [...]string{"lockstep", "group", "overlap", "stream"}[l]
}

// Limits of what is under way.
const (
	// GroupMax is the maximum of unanswered octets of commands, unless there is
	// only one command. Up to this limit both ends can write without waiting for
	// the other to read, even with the smallest window that TCP implementations
	// had when RFC 2920 3.1 was written. At level Stream it applies to messages
	// that are not streamed.
	GroupMax = 4096
	// InFlightMax is the largest Config.InFlight, InFlightDefault its default.
	InFlightMax     = 16
	InFlightDefault = 4
	// StreamSizeMax is the largest content, in octets, of a message that is
	// streamed, StreamRecipientsMax the largest number of its recipients. Other
	// messages go as at level Overlap.
	StreamSizeMax       = 64 << 10
	StreamRecipientsMax = 10
	// StreamOctetsMax is the maximum of unanswered octets of streamed content.
	StreamOctetsMax = 256 << 10
)

// Config is the configuration of a Session.
type Config struct {
	// Hello is the name by which the client introduces itself: its
	// fully-qualified name, or an address literal (RFC 5321 4.1.1.1).
	Hello string
	// Self is this host's name. A server with the same name is assumed to be
	// this host: the session ends with FailLoop. "" disables the check, which is
	// right where many hosts share one name.
	Self string
	// Peer names the server in replies, as "name[address]".
	Peer string
	// Level is the highest level to use. The zero value is LockStep.
	Level Level
	// LMTP says whether the server speaks LMTP (RFC 2033): the client introduces itself
	// with LHLO, and each recipient that the server has accepted gets a reply of its own
	// to the content. Level is then at most Overlap.
	LMTP bool
	// TLS says whether the session uses TLS, and how that begins.
	TLS TLSUse
	// Auth, if not nil, authenticates the session before any mail. Without success there is none.
	Auth Authenticator
	// Hide, unless it is nil, is applied to the text of each reply of the server before it is passed on: some
	// servers repeat what they were sent, and that may have been a password.
	Hide func(text string) string
	// InFlight is the maximum number of unanswered messages at level Stream, and
	// so of Doubtful ones if the connection is lost. The default is
	// InFlightDefault, the maximum InFlightMax; 1 is treated as 2. A host that
	// adapts it halves it after each connection lost with doubtful messages.
	InFlight int
}

// A TLSUse is whether a session uses TLS, and how that begins. How the handshake is to end is
// the host's business.
type TLSUse uint8

const (
	TLSNever    TLSUse = iota // not at all, whatever the server offers
	TLSOffered                // by STARTTLS (RFC 3207) if the server offers it; else, and if it refuses, the session goes on in plaintext
	TLSRequired               // by STARTTLS; nothing but EHLO and STARTTLS is sent in plaintext
	TLSImplicit               // with the first octet (RFC 8314 3.3): the greeting comes under TLS, and STARTTLS is not sent
)

// phase is where a session is.
type phase uint8

const (
	phaseGreeting phase = iota
	phaseHello
	phaseHandshake // the host negotiates TLS
	phaseAuth
	phaseReady
	phaseDrain // nothing more is written; the outstanding replies are read
	phaseProbe
	phaseQuit
	phaseOver
)

// A Session is one client session. See the package comment for how to drive
// it. It must not be used by two goroutines at once. Its memory is bounded by
// the limits of smtp.ReplyParser, by GroupMax and InFlightMax, and by the
// pieces of content that the host supplies.
type Session struct {
	cfg     Config
	phase   phase
	secured bool // what is written and read from now on is protected by TLS
	level   Level
	caps    smtp.Caps

	parser  smtp.ReplyParser
	heard   int64 // octets that the host had been given when the reply being read began
	stuffer smtp.Stuffer
	slots   slots
	serial  uint32 // of Wait
	out     output

	now     mail.Instant   // of Tick
	active  []*Transaction // under way, in the order of Start
	content *Transaction   // the one whose content is being supplied
	done    []*Transaction // finished, not yet taken

	opened       bool  // an accepted MAIL was not followed by the end of its transaction
	finalRefused bool  // a reply to the last content was a refusal, and no reply to MAIL came since
	counted      bool  // LMTP: the server has answered for each of several recipients, with nothing else unanswered
	used         Level // the highest at which anything was written
	mails        int   // MAIL commands written
	promised     int   // MAIL commands that transactions in line will need
	domains      []string
	alarm        alarm
	probe        ProbeResult
	tally        Tally
	failure      Failure
	exchange     exchange
}

// A Tally counts irregularities that do not end a session.
type Tally struct {
	// EmptyTaken counts messages without recipients that the server accepted.
	EmptyTaken int
	// Astray is the number of messages the server took under the envelope of
	// another one; see Transaction.Astray.
	Astray int
	// Contradictions counts replies whose enhanced status code belongs to
	// another command than the one whose turn it was.
	Contradictions int
	// FellBack is the level at which two contradictions in a row came, so that
	// the session continued at level Group; LockStep if that did not happen. A
	// lower level should be used with the server next time.
	FellBack Level
}

// New returns a session on a connection that has just been opened. It begins
// by waiting for the greeting (RFC 5321 3.1), with TLSImplicit after a Handshake.
func New(cfg Config) *Session {
	if cfg.InFlight <= 0 {
		cfg.InFlight = InFlightDefault
	}
	cfg.InFlight = min(max(cfg.InFlight, 2), InFlightMax)
	s := &Session{cfg: cfg}
	s.parser.Hide = cfg.Hide
	if cfg.TLS == TLSImplicit {
		s.phase = phaseHandshake
	}
	s.slots.push(slot{kind: slotGreeting})
	return s
}

// Tick gives the session the time, for deadlines of messages (mail.DeliverBy): best before each Start, and before
// whatever may have a MAIL written while Timed.
func (s *Session) Tick(now mail.Instant) { s.now = now }

// Timed reports whether the MAIL of a message with a deadline is still to be written.
func (s *Session) Timed() bool {
	for _, t := range s.active {
		if t.Envelope.By.Mode != mail.ByNone && (t.state == txQueued || t.step <= stepMail && t.state == txEnvelope) {
			return true
		}
	}
	return false
}

// Feed consumes octets that the server sent. They are not kept.
func (s *Session) Feed(data []byte) {
	for len(data) > 0 && s.phase != phaseOver {
		if s.phase == phaseHandshake {
			s.injected()
			return
		}
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
			s.pump() // after each reply, so that it does not matter which replies were read together
		}
	}
}

// Out appends to bufs the output to write now, in order. The pieces are
// valid until they are written. They may be parts of supplied content.
func (s *Session) Out(bufs [][]byte) [][]byte { return s.out.hand(bufs) }

// Written reports that the first n octets of what the last Out returned were
// written to the connection, and that the rest will not be unless Out returns it
// again. The host must call it once after each Out that returned output, also
// after a failed write and before End: it determines which messages were sent
// completely.
func (s *Session) Written(n int) {
	before := s.out.written
	s.out.confirm(n)
	if s.slots.len() == 0 || s.slots.first().end > before {
		s.serial++ // the wait for the oldest reply begins, or continues with progress of the content
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

// Handshake reports whether the host must negotiate TLS on the connection now, with nothing
// else written or read, and then call Secured, or End if that fails.
func (s *Session) Handshake() bool { return s.phase == phaseHandshake }

// Secured reports that TLS was negotiated. After STARTTLS, what the server has offered until then is
// forgotten, and EHLO is sent again (RFC 3207 4.2). With TLSImplicit the server now greets.
func (s *Session) Secured() {
	if s.phase != phaseHandshake {
		panic("smtp/client: Secured called where Handshake is false")
	}
	s.secured, s.caps = true, smtp.Caps{}
	if s.cfg.TLS == TLSImplicit {
		s.phase = phaseGreeting
		return
	}
	s.hello()
}

// Ready reports whether the server has been greeted, TLS has been negotiated where it is required
// or possible, and the session is authenticated if that is required. Caps then returns the server's
// extensions.
func (s *Session) Ready() bool { return s.phase == phaseReady }

// Caps returns the extensions that the server offers in this session.
func (s *Session) Caps() smtp.Caps { return s.caps }

// Level returns the current level of the session: Config.Level, unless the server
// lacks an extension for it or has given a reason not to use it.
func (s *Session) Level() Level { return s.level }

// Mails returns how many MAIL commands were written.
func (s *Session) Mails() int { return s.mails }

// Tally returns the counts of oddities.
func (s *Session) Tally() Tally { return s.tally }

// Idle reports whether nothing is under way and a transaction may be started:
// the server was greeted, all commands were answered, nothing came after that,
// and the server's limits allow one more.
func (s *Session) Idle() bool {
	return s.phase == phaseReady && len(s.active) == 0 && s.slots.len() == 0 && !s.parser.Partial() && s.mayMail()
}

// mayMail reports whether the server's limit on MAIL commands (RFC 9422) allows
// one more.
func (s *Session) mayMail() bool {
	most := s.caps.Limits.Mails
	return most == 0 || s.mails+s.promised < most
}

// Room reports whether a transaction may be started. It may if the session is
// Idle; at level Overlap also while one other is under way; and at level Stream
// also while fewer than Config.InFlight others are under way and at most one of
// them is not completely written. So a host never has to commit a transaction to
// this session long before it is written.
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

// Over reports whether the session has ended. The host may still write what Out
// returns, and must then close the connection. Failure returns the reason.
func (s *Session) Over() bool { return s.phase == phaseOver }

// Failure returns why the session is over.
func (s *Session) Failure() Failure {
	if s.phase != phaseOver {
		return Failure{}
	}
	return s.failure
}

// Start begins a transaction. There must be Room. Recipients that this server
// cannot serve get their verdict at once. The transaction is written as soon as
// the level allows: at once if nothing is under way, otherwise after the content
// of the previous transaction.
func (s *Session) Start(t *Transaction) {
	if !s.Room() {
		panic("smtp/client: Start called where Room is false")
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

// Quit sends QUIT (RFC 5321 4.1.1.10). The session must be Idle, except that
// the server's limits do not matter. A host need not wait for the reply.
func (s *Session) Quit() {
	if s.phase != phaseReady || len(s.active) > 0 {
		return
	}
	s.phase = phaseQuit
	s.command(slot{kind: slotQuit}, "QUIT\r\n")
}

// complete marks a transaction as done. Next returns it after those that were
// started before it.
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

// doubt revokes the verdicts of replies in a group for recipients whose transaction
// has not been taken with Next yet: if a group has one reply too many or too few,
// each command appears to be answered by its neighbor's reply. Then no sender must
// be notified that mail was refused, and no call-out may report a recipient as
// found; another attempt costs less. A final reply stands: it came when it was due,
// after the content had been written, and doubting it would resend what the server
// has accepted. A reply to a command that was sent alone stands as well.
func (s *Session) doubt(reply mail.Reply) {
	for _, t := range s.done {
		if t.final || t.level == LockStep && !t.Callout || !t.has(Failed) && !t.has(Delivered) {
			continue
		}
		t.broken = true
		t.settle(Failed, Deferred, reply, WaitNothing)
		t.settle(Delivered, Deferred, reply, WaitNothing) // of a call-out
	}
}
