package client

// WaitKind is what a session waits for. It is a kind of wait, not a time; the
// host knows how long each may last (RFC 5321 4.5.3.2).
type WaitKind uint8

const (
	WaitNothing   WaitKind = iota // the session is idle or over
	WaitGreeting                  // the server's greeting
	WaitHello                     // the reply to EHLO or HELO
	WaitReset                     // the reply to RSET
	WaitMail                      // the reply to MAIL
	WaitRcpt                      // the reply to RCPT
	WaitDataInit                  // the reply to DATA
	WaitDataBlock                 // a piece of content to be written
	WaitFinal                     // the reply to the end of the content
	WaitQuit                      // the reply to QUIT
)

// String returns words that complete "while waiting for".
func (k WaitKind) String() string {
	return [...]string{
		"nothing", "the greeting", "the reply to EHLO", "the reply to RSET", "the reply to MAIL",
		"the reply to RCPT", "the reply to DATA", "the content to be taken", "the reply to the content",
		"the reply to QUIT",
	}[k]
}

// A Wait is one particular wait. Its time starts when Session.Wait first
// returns it and goes on while it returns the same value, however many octets
// arrive meanwhile, so that a server cannot stretch it by sending a reply
// octet by octet.
type Wait struct {
	Kind   WaitKind
	Serial uint32
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
	slotFinal   // the end of the content
	slotEmptied // a lone dot for nobody
	slotQuit
)

// wait returns what the host waits for while the slot is the oldest.
func (k slotKind) wait() WaitKind {
	return [...]WaitKind{
		WaitGreeting, WaitHello, WaitHello, WaitReset, WaitMail, WaitRcpt, WaitDataInit,
		WaitFinal, WaitFinal, WaitQuit,
	}[k]
}

// A slot is a reply that is expected.
type slot struct {
	kind      slotKind
	recipient int32 // slotRcpt: which of the transaction's recipients
	size      int32 // octets of the command
	tx        *Transaction
}

// A slots is the list of expected replies in the order in which they will
// come. It never holds more than fit into GroupMax, since every command but
// the first counts for that.
type slots struct {
	list []slot
	head int
	size int // octets of the commands that are unanswered

	// A reply cannot come before its command was written. The last unsent slots
	// of the list are of commands that were not; when Out has returned them and
	// Written is called, only those that came after Out remain.
	unsent int
	later  int // pushed since Out was called
}

func (q *slots) len() int { return len(q.list) - q.head }

func (q *slots) push(s slot) {
	q.list = append(q.list, s)
	q.size += int(s.size)
	q.unsent++
	q.later++
}

// hand tells that all commands were returned by Out, written that they went out.
func (q *slots) hand()    { q.later = 0 }
func (q *slots) written() { q.unsent = q.later }

// answerable tells whether there is a command whose reply may come.
func (q *slots) answerable() bool { return q.len() > q.unsent }

func (q *slots) first() *slot { return &q.list[q.head] }

func (q *slots) pop() slot {
	s := q.list[q.head]
	q.list[q.head].tx = nil
	q.head++
	q.size -= int(s.size)
	switch {
	case q.head == len(q.list):
		q.list, q.head = q.list[:0], 0
	case q.head >= 64: // a long list whose end never comes must not grow for ever
		n := copy(q.list, q.list[q.head:])
		clear(q.list[n:])
		q.list, q.head = q.list[:n], 0
	}
	return s
}

func (q *slots) clear() {
	clear(q.list)
	*q = slots{list: q.list[:0]}
}
