package qmgr

import (
	"time"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/addrdb"
)

// A call-out asks the receiver whether it would take mail for a recipient. In
// Postfix it is a message in the queue that ends before its content, and so it is
// here: a pseudo-message, which comes from no spool and goes to none, with one
// recipient and one entry in the queue of the destination. So it has a destination's
// windows and limits like any other, is selected in its turn, rides on connections that
// exist, and is not made where the destination is dead or has to wait. A connection is
// opened on its behalf only if no mail waits for one. Strangers decide how many there
// are, so that none counts in a limit for more than a minute (calloutSpan).
//
// What it meets is told to nobody but those who asked: it is no attempt for any
// message, and nothing in it shows how the destination takes mail, not even that the
// connection ends over it. That none can be made is another matter: mail could have
// none either.
//
// At most Config.VerifyLimit of them are in core, and of one network of clients
// Config.VerifyNetworkLimit. The others wait outside, as long as somebody waits for
// them; one that has begun goes on, so that its answer is there for the next who
// asks. After a minute (calloutPatience) one that nobody has begun to carry is given
// up, and one that is under way loses its place: a server that takes minutes to answer
// would keep it from others. Those that are late are as many as connections carry.

// calling is the queue manager's part in this.
type calling struct {
	db     *addrdb.DB
	known  map[mail.Address]*callout // all of them, by addrdb.Key
	roster roster[callout]           // places are those in core
	// begun are those in core that may wait for a connection, in the order in which
	// they came there.
	begun ilist.List[callout]
	late  int // those in core that have lost their places
	last  uint32
}

func newCalling(cfg addrdb.Config) calling {
	return calling{db: addrdb.New(cfg), known: make(map[mail.Address]*callout), roster: newRoster[callout]()}
}

// inCore is how many have a pseudo-message.
func (s *calling) inCore() int { return s.roster.busy + s.late }

// A callout is one question to a receiver, and all who wait for the answer.
type callout struct {
	recipient mail.Address
	to        mail.Route
	checks    ilist.List[verification]
	network   *network[callout] // on whose account it is made; nil if it is late
	inLine    ilist.Link[callout]
	message   *message // nil until it comes into core
	since     mail.Instant
	inBegun   ilist.Link[callout]
}

// calloutPatience is how long a call-out may keep its place, which is wanted by others.
const calloutPatience = time.Minute

// callOut has a receiver asked on behalf of a verification.
func (q *Qmgr) callOut(c *verification, to mail.Route) {
	if q.transport(to.Transport).group == nil {
		q.verified(c, mail.Reply{}) // there is nobody to be asked
		return
	}
	s := &q.calling
	key := addrdb.Key(c.recipient)
	o := s.known[key]
	if o == nil {
		o = &callout{recipient: c.recipient, to: to}
		s.known[key] = o
		o.network = s.roster.wait(c.client, &o.inLine, o)
	}
	c.callout = o
	o.checks.PushBack(&c.inCallout, c)
}

// uncall forgets a call-out that has not begun if nobody waits for it any more.
func (s *calling) uncall(o *callout) {
	if o.inLine.Listed() && o.checks.Empty() {
		s.roster.leave(o.network, &o.inLine)
		delete(s.known, addrdb.Key(o.recipient))
	}
}

// nextToCall returns the network whose turn it is to have one more call-out in core,
// nil if there is none.
func (q *Qmgr) nextToCall() *network[callout] {
	if q.halt {
		return nil
	}
	return q.calling.roster.next(q.cfg.VerifyLimit, q.cfg.VerifyNetworkLimit)
}

// startCallouts brings call-outs into core as long as there are places.
func (q *Qmgr) startCallouts() {
	for n := q.nextToCall(); n != nil && q.mayStart(); n = q.nextToCall() {
		q.beginCallout(n)
	}
}

// beginCallout brings the call-out into core that a network has waited for longest.
func (q *Qmgr) beginCallout(n *network[callout]) {
	s := &q.calling
	o := n.waiting.Front()
	s.roster.begin(n)
	s.roster.leave(n, &o.inLine)
	s.last++
	m := q.newMessage(mail.CalloutID(s.last), originCallout)
	o.message, o.since = m, q.now
	s.begun.PushBack(&o.inBegun, o)
	m.callout, m.stage = o, stageRunning
	m.env = mail.Envelope{ID: m.ID, Sender: q.cfg.VerifySender, Recipients: 1, Arrived: q.now}
	q.hold(m, 1)
	b := bound{recipient: mail.Recipient{Address: o.recipient}, route: o.to}
	q.assign(m, q.bindEach(m, []bound{b}))
	m.AllRead()
	q.advance(m)
}

// concluded ends a call-out when none of it is in a queue, or under way, any more.
func (q *Qmgr) concluded(m *message) {
	if m.Entries > 0 {
		return
	}
	s, o := &q.calling, m.callout
	v := addrdb.Verdict{Standing: addrdb.Unsure} // its destination is busy
	if len(m.outcomes) > 0 {
		v = verdictOf(&m.outcomes[0])
	}
	if o.inBegun.Listed() {
		s.begun.Remove(&o.inBegun)
	}
	if o.network != nil {
		s.roster.end(o.network)
	} else {
		s.late--
	}
	delete(s.known, addrdb.Key(o.recipient))
	q.forget(m)
	q.counts.Callouts[v.Standing]++
	known := s.db.Learn(o.recipient, v, q.now) // what the next who asks hears
	for c := o.checks.Front(); c != nil; c = o.checks.Front() {
		q.verified(c, q.answerTo(known))
	}
}

// answerCallout notes the outcome of a call-out whose destination has no use for it:
// what would become of mail there.
func (q *Qmgr) answerCallout(m *message, transport string, why mail.Reply) {
	o := mail.Outcome{Result: mail.Deferred, Reply: why, At: q.now}
	if transport == TransportError {
		o.Result = mail.Failed
	}
	q.noted(m, o)
}

// verdictOf returns what the outcome of a call-out says.
func verdictOf(o *mail.Outcome) addrdb.Verdict {
	v := addrdb.Verdict{Standing: addrdb.Unsure, Reply: o.Reply}
	switch {
	case o.Result == mail.Delivered:
		v.Standing = addrdb.Good
	case o.Result == mail.Failed:
		v.Standing = addrdb.Bad
	case o.Unknown && o.Reply.Permanent():
		v.Standing = addrdb.Mute
	}
	return v
}

// answerTo returns what a client is told about a recipient.
func (q *Qmgr) answerTo(v addrdb.Verdict) mail.Reply {
	switch v.Standing {
	case addrdb.Bad:
		return refusal(mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 1, Detail: 1}, Text: "undeliverable address"},
			q.cfg.VerifyRejectReason, v.Reply, v.Reply.Text)
	case addrdb.Unsure:
		// What we have found out ourselves is how we, our network and the hosts behind us
		// are, which is nobody's business.
		return refusal(mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 1, Detail: 1}, Text: "the address cannot be verified now"},
			q.cfg.VerifyDeferReason, v.Reply, "")
	}
	return mail.Reply{}
}

// refusal returns r with the operator's reason as its text, and nothing else, if there
// is one; or else with what the receiver said, or what we say ourselves ("" for nothing).
func refusal(r mail.Reply, reason string, said mail.Reply, ours string) mail.Reply {
	switch {
	case reason != "":
		r.Text = reason
		return r
	case said.By != "":
		r.Text += ": " + said.By + " said: " + said.String()
	case ours != "":
		r.Text += ": " + ours
	default:
		return r
	}
	if said.Status.Class == r.Status.Class {
		r.Status = said.Status
	}
	return r
}

// calloutWake is when the next call-out has kept its place long enough.
func (q *Qmgr) calloutWake() mail.Instant {
	if o := q.calling.begun.Front(); o != nil {
		return o.since.Add(calloutPatience)
	}
	return mail.Never
}

// endCallouts takes the places of those that have kept them long enough, and gives up
// what nothing carries. One that is under way ends by itself, and is not made again.
func (q *Qmgr) endCallouts() {
	s := &q.calling
	for q.calloutWake() <= q.now {
		o := s.begun.PopFront()
		s.roster.end(o.network)
		o.network = nil
		s.late++
		q.giveUp(o.message)
	}
}

// giveUp takes back a call-out that waits.
func (q *Qmgr) giveUp(m *message) {
	q.withdraw(m)
	q.advance(m)
}

// check panics where an invariant does not hold.
func (s *calling) check(messages map[mail.QueueID]*message) {
	s.db.Check()
	s.begun.Check()
	places, waiting, inCore, late := make(map[*network[callout]]taken), 0, 0, 0
	for key, o := range s.known { //archtest:anyorder sums and assertions
		assert.That(addrdb.Key(o.recipient) == key, "the call-out of %s is known as %s", o.recipient, key)
		assert.That(o.inLine.Listed() == (o.message == nil), "the call-out of %s is in line: %t", o.recipient, o.inLine.Listed())
		o.checks.Check()
		for c := range o.checks.All() {
			assert.That(c.callout == o, "verification %d waits for another call-out than that of %s", c.id, o.recipient)
		}
		if o.message == nil {
			assert.That(!o.checks.Empty(), "nobody waits for the call-out of %s", o.recipient)
			waiting++
			continue
		}
		assert.That(messages[o.message.ID] == o.message && o.message.callout == o, "the call-out of %s is not in core", o.recipient)
		inCore++
		assert.That(o.inBegun.Listed() == (o.network != nil), "the call-out of %s is late and has a place", o.recipient)
		if o.network == nil {
			late++
			continue
		}
		places[o.network] = taken{busy: places[o.network].busy + 1}
	}
	for _, m := range messages { //archtest:anyorder a sum
		if m.callout != nil {
			inCore--
		}
	}
	assert.That(inCore == 0, "%d call-outs are in core that are not known", -inCore)
	assert.That(late == s.late, "%d call-outs are late, counted %d", late, s.late)
	assert.That(s.roster.check(places) == waiting, "%d call-outs wait", waiting)
}
