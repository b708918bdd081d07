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
	Again                    // not tried; to be tried in another transaction at once
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
	txEnvelope         // commands are being written, or replies to them awaited
	txContent          // DATA was accepted; the host supplies content
	txLast             // the last of the content was supplied but not written yet
	txFinal            // the content was written to its end; its reply is awaited
	txEmptied          // a lone dot was written because nobody wants the message; its reply is awaited
	txDone
)

// txStep is the next command of a transaction to be written.
type txStep uint8

const (
	stepReset txStep = iota
	stepMail
	stepRcpt
	stepData
	stepNone
)

// mailState is what is known of a transaction's MAIL.
type mailState uint8

const (
	mailUnanswered mailState = iota
	mailAccepted
	mailRefused
)

// A Transaction is one message on its way to some recipients. The host fills
// in Envelope and Recipients and hands it to Session.Start; from then until
// Session.Next returns it, it belongs to the session. It may be used again for
// another message after that.
type Transaction struct {
	// Envelope gives Sender, EnvID, Ret, Body, SMTPUTF8 and Size. Body and
	// SMTPUTF8 say what the content needs, so a host that knows better than the
	// sender (there are no octets above 127 after all) may clear them.
	Envelope   mail.Envelope
	Recipients []mail.Recipient

	// Results has one element for each recipient when the transaction is done.
	Results []Result

	state  txState
	step   txStep
	mail   mailState
	next   int  // first recipient whose RCPT was not written
	full   bool // the server wants no more recipients in this transaction
	reused bool // the session had been idle before
	spoken bool // a reply to one of our commands was read
	final  bool // the results come from the final reply

	unanswered int // slots
	accepted   int // recipients that are Accepted
	mailReply  mail.Reply
}

// Stale tells, of a transaction that is done, that it was begun on a session
// which had been idle, and that nothing was heard from the server after that.
// If the session is over its connection most likely was lost before.
func (t *Transaction) Stale() bool { return t.reused && !t.spoken }

// begin makes the transaction ready to be written.
func (t *Transaction) begin() {
	results := t.Results[:0]
	for range t.Recipients {
		results = append(results, Result{})
	}
	*t = Transaction{Envelope: t.Envelope, Recipients: t.Recipients, Results: results, state: txEnvelope}
}

// settle gives every recipient that has verdict from the verdict to.
func (t *Transaction) settle(from, to Verdict, reply mail.Reply) {
	for i := range t.Results {
		if t.Results[i].Verdict == from {
			t.Results[i] = Result{to, reply}
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

// refusal returns the verdict of a 4yz or 5yz reply.
func refusal(code uint16) Verdict {
	if code >= 500 {
		return Failed
	}
	return Deferred
}
