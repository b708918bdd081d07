package server

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// A Request is what a session requires from its host: one of the types in this
// file.
type Request interface{ request() }

// A Waiting is the kind of input that a session waits for; the host chooses its
// timeout accordingly.
type Waiting uint8

const (
	ForCommand     Waiting = iota // the next command, of which nothing has arrived, with no open transaction
	ForTransaction                // the same with an open transaction
	ForLine                       // the rest of a command
	ForContent                    // content
)

// String returns the word that logs show.
func (w Waiting) String() string {
	return [...]string{"command", "transaction", "line", "content"}[w]
}

// Read asks the host to write the replies, and then to read more input: at least
// one octet, appended to the input that Step did not consume.
type Read struct{ For Waiting }

// Flush asks the host to write the replies.
type Flush struct{}

// Pause asks the host to wait for the given time before it writes the replies and
// continues the session.
type Pause struct{ For time.Duration }

// Begin asks the host to open a draft. Answer with Begun, or with a refusal.
type Begin struct {
	Client mail.Client
	Sender mail.Address
	Size   int64 // as announced; 0 if not
	// Mail is the command with all its parameters, valid until the answer.
	Mail *smtp.Mail
	// Priority is that of MT-PRIORITY (RFC 6710), as far as the client may have it.
	Priority int8
	// Hold is until when the client has the message kept (RFC 4865). Whether that is too long
	// is for the host to say, who knows the time; the envelope of Commit does not have it.
	Hold smtp.Hold
	// By is the deadline of the message (RFC 2852). Which instant that is, and whether it comes
	// before the end of Hold, is for the host to say; the envelope of Commit does not have it.
	By smtp.By
}

// Recipient asks the host to add a recipient to the draft, unless its policy
// refuses. Answer with a zero reply or the refusal.
type Recipient struct {
	Client    mail.Client
	Sender    mail.Address
	Recipient mail.Recipient
}

// Content asks the host to append octets to the draft. After a refusal the rest is
// read and dropped, and that refusal is the reply to the content.
type Content struct {
	Octets []byte
	Trace  bool // the Received field of this server, which comes first and alone
}

// Commit asks the host to make the draft durable. The envelope lacks ID and
// Arrived; Size and Recipients are the session's counts. Answer with a zero reply
// once the message is durable, or with the reason why it is not accepted. Fields are
// those of Session.Watch that the header has, valid until the answer.
type Commit struct {
	Envelope  mail.Envelope
	Fields    []smtp.Field
	Forwarded smtp.Forwarded // by XFORWARD, for the log
}

// Abort asks the host to discard the draft.
type Abort struct{}

// StartTLS asks the host whether there can be a TLS handshake now. Answer with a zero
// reply or a refusal, such as 454.
type StartTLS struct{}

// Handshake asks the host to write the replies, to discard all input that it has, and to
// make a TLS handshake as the server. Answer with Encrypted, after which input and output
// are what TLS protects, or NotEncrypted.
type Handshake struct{}

// Identify asks the host to take the client for another one, of which XCLIENT has told.
// Answer with Identified, or with a refusal, which ends the session.
type Identify struct{ Client smtp.Forwarded }

// Authenticate asks the host to go on with an exchange of AUTH, or to begin one. Answer
// with Challenge, Authenticated, or a refusal, which ends the exchange.
type Authenticate struct {
	Begins    bool // the first of the exchange
	Mechanism smtp.Mechanisms
	// Response is the client's message, decoded; nil if the exchange begins without one.
	// It is overwritten after the answer.
	Response []byte
}

// ETRN asks the host to have the mail for a domain tried now (RFC 1985). Answer with a zero reply, which
// is 250, if that has been arranged, with another positive one (251 to 253), or with a refusal (458, 459).
type ETRN struct{ Argument smtp.ETRN }

// Rejected reports that a command or content was refused.
type Rejected struct {
	Command string // the command that was refused, made printable and short
	Reply   mail.Reply
}

// Early reports, once per session, that the client does not wait for replies that
// it should wait for, but is allowed not to.
type Early struct{ Command string }

// Close asks the host to write the replies and close the connection. Step must
// not be called again.
type Close struct{ Reason Reason }

// A Reason is the reason why a session ended.
type Reason uint8

const (
	ReasonNone      Reason = iota
	ReasonQuit             // the client sent QUIT
	ReasonHost             // the host's Interrupt
	ReasonErrors           // too many errors
	ReasonEarly            // the client did not wait
	ReasonProtocol         // not SMTP, or the start of the next command is unknown
	ReasonOversize         // content far beyond the limit
	ReasonOvershoot        // recipients far beyond the limit
	ReasonTLS              // the handshake failed
)

// String returns the word that logs show.
func (r Reason) String() string {
	return [...]string{"none", "quit", "host", "errors", "early", "protocol", "oversize", "overshoot", "tls"}[r]
}

func (*Read) request()         {}
func (*Flush) request()        {}
func (*Pause) request()        {}
func (*Begin) request()        {}
func (*Recipient) request()    {}
func (*Content) request()      {}
func (*Commit) request()       {}
func (*Abort) request()        {}
func (*StartTLS) request()     {}
func (*Handshake) request()    {}
func (*Identify) request()     {}
func (*Rejected) request()     {}
func (*Authenticate) request() {}
func (*ETRN) request()         {}
func (*Early) request()        {}
func (*Close) request()        {}

// slots holds one request of each kind, so that a request allocates nothing.
type slots struct {
	read      Read
	flush     Flush
	pause     Pause
	begin     Begin
	recipient Recipient
	content   Content
	commit    Commit
	abort     Abort
	startTLS  StartTLS
	handshake Handshake
	identify  Identify
	auth      Authenticate
	etrn      ETRN
	rejected  Rejected
	early     Early
	close     Close
}

// pending is the queue of requests that Step has yet to return. It is longest when
// an error is the last one allowed while a draft is open.
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
