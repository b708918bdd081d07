package qmgr

import (
	"net/netip"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/addrdb"
)

// A client may be told at once, when it names a recipient, that no mail can be
// sent there. What has to be looked up for that competes with the look-ups of
// mail, and it is strangers who decide how much there is of it. So all of it
// together counts as one message (Finch's proposal for verification), whose few
// look-ups come first, because somebody waits on the line, and which never has
// more, however many workers are free. Within it each network of clients has
// fewer still, and networks take turns (roster).
//
// The same holds for asking the receiver about the recipient, once its route is
// known: that is in callout.go.
//
// Nobody waits longer than a deadline. A look-up that goes on behind it still
// counts for its network until it ends, or clients could occupy all workers with
// domains whose name servers never answer: as one of its slow ones (slow.go), or
// whoever asked for two such domains would have nobody else of his network answered.

// VerificationID names one question whether mail can be sent, from Verify to
// Verified. The host chooses it.
type VerificationID uint64

// verifying is the queue manager's part in this.
type verifying struct {
	open   ilist.List[verification] // not answered yet, oldest first
	roster roster[verification]     // places are look-ups under way on account of clients
}

// A verification is one question, which waits for a look-up and then, if the
// receiver is to be asked, for a call-out.
type verification struct {
	id        VerificationID
	since     mail.Instant
	client    netip.Addr
	recipient mail.Address // whom the receiver is asked about; "" if nobody asks it
	// quiet means that an answer has been given, out of what was known; the
	// question is put again because that is old.
	quiet     bool
	network   *network[verification] // in whose line it waits for the look-up to begin
	lookup    *lookup                // nil if that has ended, or was not needed
	callout   *callout               // nil until then
	inOpen    ilist.Link[verification]
	inLookup  ilist.Link[verification] // on lookup.checks
	inCallout ilist.Link[verification] // on callout.checks
	inLine    ilist.Link[verification] // on network.waiting, until the look-up begins
}

// verificationsMax bounds the questions that wait. More cannot be open sessions
// of the server as it is configured by default, each of which asks one at a time.
const verificationsMax = 10_000

// verify takes a question.
func (q *Qmgr) verify(ev Verify) {
	quiet := false
	if ev.Recipient != "" {
		known, again := q.calling.db.Find(ev.Recipient, q.now)
		if quiet = known.Standing != addrdb.Unknown; quiet {
			q.emit(Verified{Verification: ev.Verification, Reply: q.answerTo(known)})
		}
		if !again {
			return
		}
	}
	v := &q.lookups.verifying
	switch full := q.halt || v.open.Len() >= verificationsMax; {
	case full && quiet:
		return
	case full:
		q.emit(Verified{Verification: ev.Verification, Reply: replyBusy})
		return
	}
	c := &verification{id: ev.Verification, since: q.now, client: ev.Client, recipient: ev.Recipient, quiet: quiet}
	v.open.PushBack(&c.inOpen, c)
	if ev.Routed {
		q.routeKnown(c, mail.Route{Transport: ev.Transport, Nexthop: ev.Nexthop, Site: ev.Site})
		return
	}
	c.lookup = q.lookups.need(lookupKey{ev.Transport, ev.Nexthop}, q.lookups.silences.silent(ev.Nexthop, q.now))
	c.lookup.checks.PushBack(&c.inLookup, c)
	if c.lookup.id == 0 && !c.lookup.quiet {
		c.network = v.roster.wait(ev.Client, &c.inLine, c)
	}
}

// leaveLine ends a verification's wait for the beginning of its look-up.
func (v *verifying) leaveLine(c *verification) {
	if n := c.network; n != nil {
		c.network = nil
		v.roster.leave(n, &c.inLine)
	}
}

// nextToVerify returns the network whose turn it is to have one more look-up under
// way; nil if there is none. Half of the slow look-ups are for mail, too.
func (q *Qmgr) nextToVerify() *network[verification] {
	if q.lookups.verifying.roster.slow >= q.slowMost()/2 {
		return nil
	}
	limit := min(q.cfg.VerifyLimit, max(q.cfg.LookupLimit/2, 1))
	return q.lookups.verifying.roster.next(limit, q.cfg.VerifyNetworkLimit)
}

// beginFor begins the look-up that a network has waited for longest.
func (q *Qmgr) beginFor(n *network[verification]) {
	l := n.waiting.Front().lookup
	l.network = n
	q.lookups.verifying.roster.begin(n)
	q.begin(l, 0)
}

// settleAccount ends a look-up's part in what its network has under way.
func (v *verifying) settleAccount(l *lookup, slow bool) {
	switch {
	case l.network == nil:
	case slow:
		v.roster.endSlow(l.network)
	default:
		v.roster.end(l.network)
	}
}

// routeKnown goes on with a question when it is known where the recipient goes.
func (q *Qmgr) routeKnown(c *verification, to mail.Route) {
	if c.recipient == "" || !to.Reply.IsZero() {
		q.verified(c, to.Reply)
		return
	}
	if c.lookup != nil {
		c.lookup.checks.Remove(&c.inLookup)
		c.lookup = nil
	}
	q.callOut(c, to)
}

// verified answers a question.
func (q *Qmgr) verified(c *verification, r mail.Reply) {
	v := &q.lookups.verifying
	v.open.Remove(&c.inOpen)
	if l := c.lookup; l != nil {
		l.checks.Remove(&c.inLookup)
		v.leaveLine(c)
		q.lookups.unneed(l)
	}
	if o := c.callout; o != nil {
		o.checks.Remove(&c.inCallout)
		q.calling.uncall(o)
	}
	if !c.quiet {
		q.emit(Verified{Verification: c.id, Reply: r})
	}
}

// verificationWake is when the next question has waited long enough.
func (q *Qmgr) verificationWake() mail.Instant {
	if c := q.lookups.verifying.open.Front(); c != nil {
		return c.since.Add(q.cfg.VerifyDeadline)
	}
	return mail.Never
}

// endVerifications answers the questions that have waited long enough.
func (q *Qmgr) endVerifications() {
	for q.verificationWake() <= q.now {
		c := q.lookups.verifying.open.Front()
		q.verified(c, c.unanswered())
	}
}

// unanswered is what is said of a question that has waited long enough.
func (c *verification) unanswered() mail.Reply {
	if c.lookup == nil {
		return mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 1, Detail: 1}, Text: "address verification in progress"}
	}
	return mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 4, Detail: 3},
		Text: "the look-up of " + c.lookup.key.nexthop + " did not end in time"}
}

// replyBusy is for questions that cannot be taken.
var replyBusy = mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 3, Detail: 2}, Text: "recipients cannot be verified now"}

// abandonVerifications answers all questions: nobody waits for a core that halts.
func (q *Qmgr) abandonVerifications() {
	for c := q.lookups.verifying.open.Front(); c != nil; c = q.lookups.verifying.open.Front() {
		q.verified(c, replyBusy)
	}
}

// check panics where an invariant does not hold; owned is the look-ups under way
// by network.
func (v *verifying) check(owned map[*network[verification]]taken) {
	v.open.Check()
	waiting := v.roster.check(owned)
	for c := range v.open.All() {
		assert.That((c.lookup != nil) != (c.callout != nil), "verification %d waits for both or none", c.id)
		inLine := c.lookup != nil && c.lookup.id == 0 && !c.lookup.quiet
		assert.That(c.inLine.Listed() == inLine && c.inLine.Listed() == (c.network != nil), "verification %d is in line: %t", c.id, c.inLine.Listed())
		if inLine {
			waiting--
		}
	}
	assert.That(waiting == 0, "%d verifications wait that are not open", waiting)
}
