package client

import "math"

// WaitKind is what a session waits for. The session sets no time limits; the host
// knows how long each kind may last (RFC 5321 4.5.3.2).
type WaitKind uint8

const (
	// WaitNothing means that the session is over, or that it waits for the host:
	// it is Idle, or has reached the server's limit of transactions. It is the
	// only wait without a time limit.
	WaitNothing   WaitKind = iota
	WaitGreeting           // the server's greeting
	WaitHello              // the reply to EHLO or HELO
	WaitReset              // the reply to RSET
	WaitMail               // the reply to MAIL
	WaitRcpt               // the reply to RCPT
	WaitDataInit           // the reply to DATA
	WaitDataBlock          // the transmission of a piece of content
	WaitFinal              // the reply to the end of the content
	WaitQuit               // the reply to QUIT
	// WaitUnasked is the rest of a reply that no command asked for. The session
	// is no longer usable. It waits only to record the server's last reply
	// (usually 421), so a second is enough; End(LossTimeout) ends it as usual.
	WaitUnasked
	WaitStartTLS  // the reply to STARTTLS
	WaitHandshake // the host, which negotiates TLS; it has a time limit of its own
	WaitAuth      // the reply to AUTH, or to a response
)

// String returns words that complete "while waiting for".
func (k WaitKind) String() string {
	return [...]string{
		"nothing", "the greeting", "the reply to EHLO", "the reply to RSET", "the reply to MAIL",
		"the reply to RCPT", "the reply to DATA", "the content to be taken", "the reply to the content",
		"the reply to QUIT", "the rest of a reply that belongs to no command",
		"the reply to STARTTLS", "the end of the TLS handshake", "the reply to AUTH",
	}[k]
}

// A Wait is one particular wait, for the reply to the oldest unanswered command.
// Its time starts when Session.Wait first returns it, and continues while Wait
// returns the same value, however many octets arrive meanwhile. So a server cannot
// extend it by sending a reply octet by octet, and neither does output written
// after the command.
type Wait struct {
	Kind   WaitKind
	Serial uint32
}

// Wait returns what the session waits for when there is nothing to write.
func (s *Session) Wait() Wait {
	switch {
	case s.phase == phaseOver:
		return Wait{Serial: s.serial}
	case s.phase == phaseHandshake:
		return Wait{WaitHandshake, s.serial}
	case s.parser.Partial() && s.unasked():
		return Wait{WaitUnasked, s.serial}
	case s.slots.len() == 0 && s.content != nil:
		return Wait{WaitDataBlock, s.serial}
	case s.slots.len() == 0:
		return Wait{Serial: s.serial}
	case s.phase == phaseDrain && s.failure.Kind == FailClosed:
		return Wait{WaitQuit, s.serial} // the server need not answer the QUIT
	}
	first := s.slots.first()
	if first.kind.content() && first.end > s.out.written {
		return Wait{WaitDataBlock, s.serial}
	}
	return Wait{first.kind.wait(), s.serial}
}

// slotKind is the command that a reply belongs to.
type slotKind uint8

const (
	slotGreeting slotKind = iota
	slotEhlo
	slotHelo
	slotReset
	slotMail
	slotRcpt
	slotData
	slotFinal     // the end of the content after DATA
	slotRecipient // likewise, for one recipient (LMTP)
	slotChunk     // BDAT and its content
	slotEmptied   // a lone dot for a message without accepted recipients
	slotProbe     // a command of a probe
	slotParting   // QUIT after a probe
	slotQuit
	slotStartTLS
	slotAuth // AUTH, or a response to a challenge
)

// wait returns what the host waits for while the slot is the oldest.
func (k slotKind) wait() WaitKind {
	return [...]WaitKind{
		WaitGreeting, WaitHello, WaitHello, WaitReset, WaitMail, WaitRcpt, WaitDataInit,
		WaitFinal, WaitFinal, WaitFinal, WaitFinal, WaitReset, WaitQuit, WaitQuit, WaitStartTLS, WaitAuth,
	}[k]
}

// content reports whether the reply is to content.
func (k slotKind) content() bool {
	return k == slotFinal || k == slotRecipient || k == slotChunk
}

// A slot is an expected reply.
type slot struct {
	kind      slotKind
	recipient int32 // slotRcpt, slotRecipient: which of the transaction's recipients; slotProbe: which command
	size      int32 // octets of the command, without content
	tx        *Transaction
	end       int64 // offset of the end of the command or its content
}

// endUnknown is the end of content that is not completely supplied yet.
const endUnknown = math.MaxInt64

// A slots is the list of expected replies in their expected order. It never holds
// more than fit into GroupMax or belong to InFlightMax streamed messages; with LMTP,
// also one for each recipient of a message.
type slots struct {
	list []slot
	head int
	size int // octets of the unanswered commands
}

func (q *slots) len() int { return len(q.list) - q.head }

func (q *slots) push(s slot) {
	q.list = append(q.list, s)
	q.size += int(s.size)
}

func (q *slots) first() *slot { return &q.list[q.head] }
func (q *slots) last() *slot  { return &q.list[len(q.list)-1] }

// endContent sets the end of the content whose replies are the last in the list.
func (q *slots) endContent(offset int64) {
	for i := len(q.list) - 1; i >= q.head && q.list[i].end == endUnknown; i-- {
		q.list[i].end = offset
	}
}

func (q *slots) pop() slot {
	s := q.list[q.head]
	q.list[q.head].tx = nil
	q.head++
	q.size -= int(s.size)
	switch {
	case q.head == len(q.list):
		q.list, q.head = q.list[:0], 0
	case q.head >= 64: // a long list that never becomes empty must not grow forever
		n := copy(q.list, q.list[q.head:])
		clear(q.list[n:])
		q.list, q.head = q.list[:n], 0
	}
	return s
}

// cut removes the slots of output that ends after an offset, and halts the
// transactions that they belong to.
func (q *slots) cut(offset int64) {
	for n := len(q.list); n > q.head && q.list[n-1].end > offset; n = len(q.list) {
		last := q.list[n-1]
		if last.tx != nil {
			last.tx.unanswered--
			last.tx.halt()
		}
		q.size -= int(last.size)
		q.list[n-1] = slot{}
		q.list = q.list[:n-1]
	}
	if q.len() == 0 {
		q.list, q.head = q.list[:0], 0
	}
}

func (q *slots) clear() {
	clear(q.list)
	*q = slots{list: q.list[:0]}
}
