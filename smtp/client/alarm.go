package client

// An alarm detects enhanced status codes that do not match the command whose
// reply they came in: 2.1.0 belongs to MAIL and 2.1.5 to RCPT (RFC 3463 3.2).
// Replies are never assigned by their codes (RFC 2920 3.1). But if codes
// contradict twice with no matching reply in between, a reply may be missing
// or surplus.
type alarm struct {
	run int  // contradictions since the last matching reply
	now bool // the last reply is a contradiction
}

// rings reports whether the last reply is at least the second contradiction in a
// row.
func (a *alarm) rings() bool { return a.now && a.run >= 2 }

// listen checks the reply to a pipelined transaction's command. After the second
// contradiction in a row the session continues at level Group, where replies
// that are shifted are noticed at DATA. Replies to content for one recipient (LMTP) do
// not count, because Cyrus gives them status 2.1.5.
func (s *Session) listen(sl slot) {
	s.alarm.now = false
	if sl.tx == nil || sl.tx.level < Overlap || s.class() != 2 || sl.kind == slotRecipient {
		return
	}
	var fits bool
	switch {
	case s.parser.HasPrefix("2.1.0 "):
		fits = sl.kind == slotMail
	case s.parser.HasPrefix("2.1.5 "):
		fits = sl.kind == slotRcpt
	default:
		return
	}
	if fits {
		s.alarm.run = 0
		return
	}
	s.alarm.now = true
	s.alarm.run++
	s.tally.Contradictions++
	if s.alarm.rings() && s.level > Group {
		s.tally.FellBack, s.level = sl.tx.level, Group
	}
}
