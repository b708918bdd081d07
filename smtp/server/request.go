package server

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Request is something that a session wants from its host: one of the types
// in this file.
type Request interface{ request() }

// A Waiting tells what a session waits for; the host chooses its patience by
// that.
type Waiting uint8

const (
	ForCommand     Waiting = iota // nothing has come of the next command, and no transaction is open
	ForTransaction                // nothing has come of the next command of an open transaction
	ForLine                       // a part of a command has come
	ForContent                    // within content
)

// String returns the word that logs show.
func (w Waiting) String() string {
	return [...]string{"command", "transaction", "line", "content"}[w]
}

// Read wants the replies written, then more input: at least one octet, after
// those that Step did not take.
type Read struct{ For Waiting }

// Flush wants the replies written.
type Flush struct{}

// Pause wants some time to pass before the replies are written and the
// session goes on.
type Pause struct{ For time.Duration }

// Begin wants a draft opened. Answer with Begun, or with a refusal.
type Begin struct {
	Client mail.Client
	Sender mail.Address
	Size   int64 // as announced; 0 if it was not
}

// A Recipient is to be added to the draft, if policy has nothing against it.
// Answer with a zero reply or the refusal.
type Recipient struct {
	Client    mail.Client
	Sender    mail.Address
	Recipient mail.Recipient
}

// Content is to be appended to the draft. After a refusal the rest is read
// and thrown away, and the reply to the content is that refusal.
type Content struct{ Octets []byte }

// Commit wants the draft made durable. The envelope lacks ID and Arrived;
// Size and Recipients are what the session counted. Answer with a zero reply
// once the message is safe, or with a reason why it is not accepted.
type Commit struct{ Envelope mail.Envelope }

// Abort wants the draft forgotten.
type Abort struct{}

// Rejected tells that something was refused.
type Rejected struct {
	Command string // what was refused, made printable and short
	Reply   mail.Reply
}

// Early tells, once for a session, that the client does not wait for replies
// that it should wait for, but is allowed to.
type Early struct{ Command string }

// Close wants the replies written and the connection closed. Step is not to
// be called again.
type Close struct{ Reason Reason }

// A Reason is why a session ended.
type Reason uint8

const (
	ReasonNone      Reason = iota
	ReasonQuit             // the client said QUIT
	ReasonHost             // the host's Interrupt
	ReasonErrors           // too many errors
	ReasonEarly            // the client did not wait
	ReasonProtocol         // not SMTP, or nobody can tell where the next command begins
	ReasonOversize         // content far beyond the limit
	ReasonOvershoot        // recipients far beyond the limit
)

// String returns the word that logs show.
func (r Reason) String() string {
	return [...]string{"none", "quit", "host", "errors", "early", "protocol", "oversize", "overshoot"}[r]
}

func (*Read) request()      {}
func (*Flush) request()     {}
func (*Pause) request()     {}
func (*Begin) request()     {}
func (*Recipient) request() {}
func (*Content) request()   {}
func (*Commit) request()    {}
func (*Abort) request()     {}
func (*Rejected) request()  {}
func (*Early) request()     {}
func (*Close) request()     {}

// slots holds one request of each kind, so that asking allocates nothing.
type slots struct {
	read      Read
	flush     Flush
	pause     Pause
	begin     Begin
	recipient Recipient
	content   Content
	commit    Commit
	abort     Abort
	rejected  Rejected
	early     Early
	close     Close
}

// pending is the line of requests still to be returned by Step. The longest
// occurs when an error is the last one allowed while a draft is open.
type pending struct {
	line [8]Request
	head uint8
	tail uint8
}

func (p *pending) push(r Request) {
	p.line[p.tail] = r
	p.tail++
}

func (p *pending) pop() Request {
	if p.head == p.tail {
		p.head, p.tail = 0, 0
		return nil
	}
	r := p.line[p.head]
	p.head++
	return r
}
