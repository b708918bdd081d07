package client

import "github.com/posthaste-mta/posthaste/mail"

// A Verdict is the outcome of one recipient of a transaction.
type Verdict uint8

const (
	Pending   Verdict = iota // not known yet
	Accepted                 // RCPT was accepted; the message is not accepted yet
	Delivered                // the server took responsibility
	Deferred                 // refused for now, or the session failed before the content was complete
	Failed                   // refused for good
	Again                    // certainly not sent, and not the message's fault; to be retried in another transaction at once
	Doubtful                 // the content was complete, but the final reply is not known
)

// String returns the verdict's name.
func (v Verdict) String() string {
	return [...]string{"pending", "accepted", "delivered", "deferred", "failed", "again", "doubtful"}[v]
}

// A Result is the outcome of one recipient, and the reply that decided it. For
// Again it is the reply that prevented delivery, or zero.
type Result struct {
	Verdict Verdict
	Reply   mail.Reply
	Stage   WaitKind // what the session waited for when Reply came; WaitNothing before anything was sent
}

// txState is the progress of a transaction.
type txState uint8

const (
	txNew      txState = iota
	txQueued           // started, but nothing was queued for writing
	txEnvelope         // commands are being written, or replies to them awaited
	txContent          // the host supplies content
	txSent             // all of the content is queued for writing; the final reply is awaited
	txEmptied          // a lone dot was written because no recipient was accepted; its reply is awaited
	txDone             // every recipient has its verdict
)

// txStep is the next command of a transaction to be written.
type txStep uint8

const (
	stepReset txStep = iota
	stepMail
	stepRcpt
	stepData // DATA, or the request for the content that follows BDAT; RSET of a call-out
	stepNone
)

// A form is the command that carries a transaction's content.
type form uint8

const (
	formData   form = iota // after the 354 reply to DATA (RFC 5321 3.3)
	formStream             // in one BDAT directly after the envelope (RFC 3030)
)

// mailState is what is known of a transaction's MAIL.
type mailState uint8

const (
	mailUnanswered mailState = iota
	mailAccepted
	mailRefused
	mailOutOfStep // refused because of earlier commands: another transaction is open, or the session must end
)

// A Transaction is one message in delivery to some recipients. The host fills
// in the exported fields except Results, and passes it to Session.Start; from then
// until Session.Next returns it, it belongs to the session. It may be reused
// for another message after that.
type Transaction struct {
	// Envelope supplies Sender, EnvID, Ret, Body, SMTPUTF8, Priority, By and Size. Body and
	// SMTPUTF8 state what the content needs; a host that knows better than the
	// sender (there are no octets above 127 after all) may clear them. Size is
	// announced to the server and decides whether the message may be streamed;
	// nothing else depends on it.
	Envelope   mail.Envelope
	Recipients []mail.Recipient
	// Unstreamed keeps the message from being streamed at level Stream: for
	// mail that only servers with certain extensions may get (REQUIRETLS), or
	// that must not be delivered twice.
	Unstreamed bool
	// RequireTLS demands REQUIRETLS of the server, and passes that on (RFC 8689): the host
	// has secured the session as that must be.
	RequireTLS bool
	// StrictBy has mail that is returned by a deadline sent only to a server that promises that
	// (RFC 2852 4.1.4.1): one that offers DELIVERBY and takes the time that is left. Without it
	// such mail goes to others, too, without its deadline.
	StrictBy bool
	// Callout only asks whether the recipients would be accepted, with RSET in
	// place of DATA. Recipients that would be accepted are Delivered;
	// SenderRefused reports whether the server's answer was about the sender
	// instead. With one recipient a surplus reply is detected before the answer
	// counts; with several it may be detected too late.
	Callout bool

	// Results has one element for each recipient when the transaction is done.
	Results []Result

	state    txState
	step     txStep
	form     form
	level    Level // level at which its commands were written
	mail     mailState
	next     int   // first recipient whose RCPT was not written
	begun    int64 // offset of the beginning of its content
	end      int64 // offset of the end of its content
	full     bool  // the server wants no more recipients in this transaction
	reused   bool  // the session had been used before
	spoken   bool  // a reply to one of our commands was read
	held     bool  // its final reply (LMTP: one of them) was read while its content was being written
	final    bool  // the results come from the final reply
	fenced   bool  // RSET precedes its MAIL unconditionally
	strange  bool  // its final reply has the enhanced code of another command
	astray   bool  // accepted under the envelope of another message
	withheld bool  // the host gave up its content
	broken   bool  // the end of the session decided some recipients
	early    bool  // LMTP: its content was refused for a recipient before its end

	dismissed bool // the last reply to it was 421

	unanswered int  // slots
	accepted   int  // recipients that were Accepted
	finals     int  // LMTP: replies to its content that are missing
	deadline   bool // MAIL had BY
	mailReply  mail.Reply
	finalReply mail.Reply  // if held
	kept       []keptReply // LMTP: likewise
}

// Stale reports, for a transaction that is done, that it was begun on a session
// that had been used before, and that the server sent nothing after that. If the
// session is over, its connection was most likely lost before.
func (t *Transaction) Stale() bool { return t.reused && !t.spoken }

// Broken reports, for a transaction that is done, that the end of the session, and
// not the server's verdict, decided some of its recipients.
func (t *Transaction) Broken() bool { return t.broken }

// Whole reports, for the transaction that Session.Wanting returned, that its
// content must be supplied in one piece, because its length is sent first.
func (t *Transaction) Whole() bool { return t.form == formStream }

// Astray reports, for a transaction that is done, that the server accepted the
// message although it had refused its MAIL, and so has sent it on with the sender,
// and maybe also to the recipients, of an earlier message. Its own recipients that
// it went to are Delivered, because sending it once more would not undo that; a
// postmaster should look into it.
func (t *Transaction) Astray() bool { return t.astray }

// SenderRefused reports, for a transaction that is done, that the server refused
// its MAIL, which is the reason for its recipients' verdicts.
func (t *Transaction) SenderRefused() bool { return t.mail == mailRefused }

// TookDeadline reports, for a transaction that is done, that its MAIL had BY.
func (t *Transaction) TookDeadline() bool { return t.deadline }

// begin prepares the transaction for writing.
func (t *Transaction) begin() {
	results := t.Results[:0]
	for range t.Recipients {
		results = append(results, Result{})
	}
	*t = Transaction{
		Envelope: t.Envelope, Recipients: t.Recipients, Unstreamed: t.Unstreamed, RequireTLS: t.RequireTLS, StrictBy: t.StrictBy, Callout: t.Callout,
		Results: results, state: txQueued,
	}
}

// halt keeps a transaction that was not completely written from being completed.
// The rest of it is never written.
func (t *Transaction) halt() { t.state, t.step = txEnvelope, stepData }

// settle changes the verdict of every recipient that has verdict from.
func (t *Transaction) settle(from, to Verdict, reply mail.Reply, stage WaitKind) {
	for i := range t.Results {
		if t.Results[i].Verdict == from {
			t.Results[i] = Result{to, reply, stage}
		}
	}
}

// settleOpen sets the verdict of every recipient that has none yet.
func (t *Transaction) settleOpen(to Verdict, reply mail.Reply, stage WaitKind) {
	t.settle(Accepted, to, reply, stage)
	t.settle(Pending, to, reply, stage)
}

// settleCallout ends a call-out whose commands were all answered in order: the
// recipients accepted so far are Delivered. Before that, an answer may have belonged
// to another command.
func (t *Transaction) settleCallout() {
	for i := range t.Results {
		if t.Results[i].Verdict == Accepted {
			t.Results[i].Verdict = Delivered
		}
	}
}

// has reports whether some recipient has a verdict.
func (t *Transaction) has(v Verdict) bool {
	for i := range t.Results {
		if t.Results[i].Verdict == v {
			return true
		}
	}
	return false
}

// refused reports whether MAIL was refused.
func (t *Transaction) refused() bool { return t.mail >= mailRefused }

// wanted reports whether some recipient may still be sent the content.
func (t *Transaction) wanted() bool {
	return !t.refused() && (t.accepted > 0 || t.has(Pending))
}

// mailVerdict returns the verdict of the recipients if MAIL was refused.
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
