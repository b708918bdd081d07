package client

import "github.com/posthaste-mta/posthaste/mail"

// A ProbeResult is what a probe has found out.
type ProbeResult uint8

const (
	ProbeNone     ProbeResult = iota // there was none
	ProbeUnderWay                    // replies are missing yet
	ProbePassed                      // the server refuses BDAT without a recipient, and reads its octets
	ProbeExecuted                    // the server obeyed the octets as commands: it must never be sent a BDAT that it may refuse
	ProbeOdd                         // some reply was of another class than expected
	ProbeLost                        // the session ended before all replies had come
)

// String returns the result's name.
func (p ProbeResult) String() string {
	return [...]string{"none", "under way", "passed", "executed", "odd", "lost"}[p]
}

// probeClasses are what the commands of a probe are to be answered with.
var probeClasses = [...]uint16{2, 2, 5, 2}

// MayProbe tells whether Probe may be called: the session is Idle, has carried
// a transaction, and the server's offers allow level Stream.
func (s *Session) MayProbe() bool {
	return s.Idle() && s.mails > 0 && s.level >= Group && s.streams()
}

// MayStream tells whether the session is ready and the server's offers allow level
// Stream, whatever Config.Level is.
func (s *Session) MayStream() bool { return s.phase == phaseReady && s.streams() }

// Probe finds out whether the server can be spoken to at level Stream. It
// writes RSET, MAIL, BDAT with the octets of a NOOP command, and RSET, all at
// once, and then QUIT: the session ends with that, and Probed has the result.
// Since MAIL is not followed by RCPT the server has to refuse the BDAT, but
// also to read its octets (RFC 3030 2). Some servers did not (go-smtp before
// 0.25.1) and obeyed them; the author of a message could then send others by
// it. The sender should be one that the server has accepted before.
//
// That the octets were not obeyed shows in the reply to QUIT, which must be
// 221: a surplus reply would come in its place, however late it came.
func (s *Session) Probe(sender mail.Address) {
	if !s.MayProbe() {
		panic("smtp/client: probe where there may be none")
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
