package client

import "github.com/posthaste-mta/posthaste/mail"

// A ProbeResult is the result of a probe.
type ProbeResult uint8

const (
	ProbeNone     ProbeResult = iota // no probe was made
	ProbeUnderWay                    // some replies are still missing
	ProbePassed                      // the server refuses BDAT without a recipient, and reads its octets
	ProbeExecuted                    // the server obeyed the octets as commands: it must never be sent a BDAT that it may refuse
	ProbeOdd                         // some reply was of another class than expected
	ProbeLost                        // the session ended before all replies had come
)

// String returns the result's name.
func (p ProbeResult) String() string {
	return [...]string{"none", "under way", "passed", "executed", "odd", "lost"}[p]
}

// probeClasses are the classes of reply expected to the commands of a probe.
var probeClasses = [...]uint16{2, 2, 5, 2}

// MayProbe reports whether Probe may be called: the session is Idle, has carried
// a transaction, and the server's offers allow level Stream.
func (s *Session) MayProbe() bool {
	return s.Idle() && s.mails > 0 && s.level >= Group && s.streams()
}

// MayStream reports whether the session is ready and the server's offers allow level
// Stream, whatever Config.Level is.
func (s *Session) MayStream() bool { return s.phase == phaseReady && s.streams() }

// Probe finds out whether level Stream can be used with the server. It writes
// RSET, MAIL, BDAT with the octets of a NOOP command, and RSET, all at once, and
// then QUIT: this ends the session, and Probed returns the result. Since no RCPT
// follows MAIL, the server must refuse the BDAT, but must also read its octets
// (RFC 3030 2). Some servers did not (go-smtp before 0.25.1) and executed them;
// the author of a message could then send other messages through it. The sender
// should be one that the server has accepted before.
//
// The reply to QUIT shows that the octets were not executed: it must be 221. A
// surplus reply would come in its place, even with a delay.
func (s *Session) Probe(sender mail.Address) {
	if !s.MayProbe() {
		panic("smtp/client: Probe called where MayProbe is false")
	}
	if !clean(string(sender)) || !ascii(string(sender)) {
		sender = ""
	}
	s.phase, s.probe = phaseProbe, ProbeUnderWay
	s.used = Stream
	s.mails++
	s.command(slot{kind: slotProbe, recipient: 0}, "RSET\r\n")
	s.command(slot{kind: slotProbe, recipient: 1}, "MAIL FROM:<", string(sender), ">\r\n")
	s.command(slot{kind: slotProbe, recipient: 2}, "BDAT 6 LAST\r\nNOOP\r\n")
	s.command(slot{kind: slotProbe, recipient: 3}, "RSET\r\n")
}

// Probed returns the result of Probe.
func (s *Session) Probed() ProbeResult { return s.probe }

func (s *Session) onProbe(i int) {
	if s.class() != probeClasses[i] {
		s.probe = ProbeOdd
	}
	if i == len(probeClasses)-1 {
		s.phase = phaseQuit
		s.command(slot{kind: slotParting}, "QUIT\r\n")
	}
}

func (s *Session) onParting() {
	if s.probe == ProbeUnderWay {
		s.probe = ProbePassed
		if s.parser.Code() != 221 {
			s.probe = ProbeExecuted
		}
	}
	s.fail(Failure{Kind: FailQuit, Stage: WaitQuit, Reply: s.reply()})
}
