package client

import "github.com/posthaste-mta/posthaste/mail"

// A Verdict is what became of one recipient of a transaction.
type Verdict uint8

const (
	Pending   Verdict = iota // nothing is known yet
	Accepted                 // RCPT was accepted; the message is not there yet
	Delivered                // the server took responsibility
	Deferred                 // refused for now, or the session failed before the content was complete
	Failed                   // refused for good
	Again                    // surely not sent, and not the message's fault; to be tried in another transaction at once
	Doubtful                 // the content was complete, but the final reply is not known
)

// String returns the verdict's name.
func (v Verdict) String() string {
	return [...]string{"pending", "accepted", "delivered", "deferred", "failed", "again", "doubtful"}[v]
}

// A Result is what became of one recipient, and the reply that decided it. For
// Again the reply is the one that stood in the way, or zero.
type Result struct {
	Verdict Verdict
	Reply   mail.Reply
}

// txState is where a transaction is.
type txState uint8

const (
	txNew      txState = iota
	txQueued           // started, but nothing of it was put in line for writing
	txEnvelope         // commands are being written, or replies to them awaited
	txContent          // the host supplies content
	txSent             // the content is in line to its end; the final reply is awaited
	txEmptied          // a lone dot was written because nobody wants the message; its reply is awaited
	txDone             // every recipient has its verdict
)

// txStep is the next command of a transaction to be written.
type txStep uint8

const (
	stepReset txStep = iota
	stepMail
	stepRcpt
	stepData // DATA, or the wish for the content that goes behind BDAT; RSET of a call-out
	stepNone
)

// A form is how a transaction's content travels.
type form uint8

const (
	formData   form = iota // behind the 354 that DATA is answered with (RFC 5321 3.3)
	formStream             // in one BDAT directly behind the envelope (RFC 3030)
)

// mailState is what is known of a transaction's MAIL.
type mailState uint8

const (
	mailUnanswered mailState = iota
	mailAccepted
	mailRefused
	mailOutOfStep // refused because of what went before: another transaction is open, or the session is to end
)

// A Transaction is one message on its way to some recipients. The host fills
// in the exported fields but Results, and hands it to Session.Start; from then
// until Session.Next returns it, it belongs to the session. It may be used
// again for another message after that.
type Transaction struct {
	// Envelope gives Sender, EnvID, Ret, Body, SMTPUTF8 and Size. Body and
	// SMTPUTF8 say what the content needs, so a host that knows better than the
	// sender (there are no octets above 127 after all) may clear them. Size is
	// announced to the server, and decides whether the message may be streamed;
	// nothing else depends on it.
	Envelope   mail.Envelope
	Recipients []mail.Recipient
	// Unstreamed keeps the message from being streamed at level Stream: for
	// mail that may go to servers with certain extensions only (REQUIRETLS),
	// or that nobody must get twice.
	Unstreamed bool
	// Callout asks only whether the recipients would be taken: RSET stands where
	// DATA would. Delivered is who would be; SenderRefused tells whether the
	// server has said anything about the recipients at all. With one recipient a
	// reply too many is found out before the answer is believed; with several it
	// may be found out too late.
	Callout bool

	// Results has one element for each recipient when the transaction is done.
	Results []Result

	state    txState
	step     txStep
	form     form
	level    Level // at which its commands were written
	mail     mailState
	next     int   // first recipient whose RCPT was not written
	begun    int64 // offset of the beginning of its content
	end      int64 // offset of the end of its content
	full     bool  // the server wants no more recipients in this transaction
	reused   bool  // the session had been used before
	spoken   bool  // a reply to one of our commands was read
	held     bool  // its final reply was read while its content was being written
	final    bool  // the results come from the final reply
	fenced   bool  // RSET goes before its MAIL whatever was before it
	strange  bool  // its final reply has the enhanced code of another command
	astray   bool  // it was taken under the envelope of another message
	withheld bool  // the host has given its content up
	broken   bool  // the end of the session decided on recipients

	dismissed bool // the last reply to it was 421

	unanswered int // slots
	accepted   int // recipients that are Accepted
	mailReply  mail.Reply
	finalReply mail.Reply // if held
}

// Stale tells, of a transaction that is done, that it was begun on a session
// which had been used before, and that nothing was heard from the server after
// that. If the session is over its connection most likely was lost before.
func (t *Transaction) Stale() bool { return t.reused && !t.spoken }

// Broken tells, of a transaction that is done, that the end of the session, and
// not the server's verdict, decided on some of its recipients.
func (t *Transaction) Broken() bool { return t.broken }

// Whole tells, of the transaction that Session.Wanting returned, that its
// content has to be supplied in one piece: its length goes before it.
func (t *Transaction) Whole() bool { return t.form == formStream }

// Astray tells, of a transaction that is done, that the server took the message
// although it had refused its MAIL, and so has sent it on with the sender, and
// maybe also to the recipients, of a message before it. Recipients of its own
// that it went to are Delivered, since sending it once more would not undo
// that; it is a matter for the postmaster.
func (t *Transaction) Astray() bool { return t.astray }

// SenderRefused tells, of a transaction that is done, that the server refused its
// MAIL: its recipients have their verdicts for that.
func (t *Transaction) SenderRefused() bool { return t.mail == mailRefused }

// begin makes the transaction ready to be written.
func (t *Transaction) begin() {
	results := t.Results[:0]
	for range t.Recipients {
		results = append(results, Result{})
	}
	*t = Transaction{
		Envelope: t.Envelope, Recipients: t.Recipients, Unstreamed: t.Unstreamed, Callout: t.Callout,
		Results: results, state: txQueued,
	}
}

// halt keeps a transaction, of which not all was written, from coming to its
// end: what is missing will never be.
func (t *Transaction) halt() { t.state, t.step = txEnvelope, stepData }

// settle gives every recipient that has verdict from the verdict to.
func (t *Transaction) settle(from, to Verdict, reply mail.Reply) {
	for i := range t.Results {
		if t.Results[i].Verdict == from {
			t.Results[i] = Result{to, reply}
		}
	}
}

// settleOpen gives a verdict to every recipient that has none yet.
func (t *Transaction) settleOpen(to Verdict, reply mail.Reply) {
	t.settle(Accepted, to, reply)
	t.settle(Pending, to, reply)
}

// settleCallout ends a call-out all of whose commands were answered in order: who
// was accepted would be taken. Before that an answer may have been to another
// command.
func (t *Transaction) settleCallout() {
	for i := range t.Results {
		if t.Results[i].Verdict == Accepted {
			t.Results[i].Verdict = Delivered
		}
	}
}

// has tells whether some recipient has a verdict.
func (t *Transaction) has(v Verdict) bool {
	for i := range t.Results {
		if t.Results[i].Verdict == v {
			return true
		}
	}
	return false
}

// refused tells whether MAIL was refused.
func (t *Transaction) refused() bool { return t.mail >= mailRefused }

// wanted tells whether some recipient may still be sent the content.
func (t *Transaction) wanted() bool {
	return !t.refused() && (t.accepted > 0 || t.has(Pending))
}

// mailVerdict returns what a refused MAIL means for the recipients.
func (t *Transaction) mailVerdict() Verdict {
	if t.mail == mailOutOfStep {
		return Again
	}
	return refusal(t.mailReply.Code)
}

// refusal returns the verdict of a 4yz or 5yz reply.
func refusal(code uint16) Verdict {
	if code >= 500 {
		return Failed
	}
	return Deferred
}
