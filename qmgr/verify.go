package qmgr

import (
	"net/netip"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/share"
)

// A client may be told at once, when it names a recipient, that no mail can be
// sent there. What has to be looked up for that competes with the look-ups of
// mail, and it is strangers who decide how much there is of it. So all of it
// together counts as one message (Finch's proposal for verification), whose few
// look-ups come first, because somebody waits on the line, and which never has
// more, however many workers are free. Within it each network of clients has
// fewer still, and networks take turns: whoever asks for thousands of domains
// waits for himself.
//
// Nobody waits longer than a deadline. A look-up that goes on behind it still
// counts for its network until it ends, or clients could occupy all workers with
// domains whose name servers never answer.

// VerificationID names one question whether mail can be sent, from Verify to
// Verified. The host chooses it.
type VerificationID uint64

// verifying is the queue manager's part in this.
type verifying struct {
	open     ilist.List[verification] // not answered yet, oldest first
	networks map[netip.Prefix]*network
	line     ilist.List[network] // those that have verifications that wait, the next one to serve in front
	busy     int                 // look-ups under way on account of all networks
}

// A network is where clients come from that are taken for one. It exists while it
// has verifications that wait or look-ups under way.
type network struct {
	prefix  netip.Prefix
	waiting ilist.List[verification] // those whose look-up has not begun, oldest first
	busy    int                      // look-ups under way on its account
	inLine  ilist.Link[network]      // on verifying.line
}

// A verification is one question that waits for a look-up.
type verification struct {
	id       VerificationID
	since    mail.Instant
	network  *network // until the look-up begins
	lookup   *lookup
	inOpen   ilist.Link[verification]
	inLookup ilist.Link[verification]
	inLine   ilist.Link[verification] // on network.waiting, until the look-up begins
}

// verificationsMax bounds the questions that wait. More cannot be open sessions
// of the server as it is configured by default, each of which asks one at a time.
const verificationsMax = 10_000

// networkOf returns the addresses that are taken for one owner's: that is how
// they are given out. The zero prefix is clients without an address.
func networkOf(client netip.Addr) netip.Prefix {
	bits := 64
	if client = client.Unmap().WithZone(""); client.Is4() {
		bits = 24
	}
	p, err := client.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// verify takes a question.
func (q *Qmgr) verify(ev Verify) {
	v := &q.lookups.verifying
	if q.halt || v.open.Len() >= verificationsMax {
		q.emit(Verified{Verification: ev.Verification, Reply: replyBusy})
		return
	}
	key := lookupKey{ev.Transport, ev.Nexthop}
	l := q.lookups.need(key)
	c := &verification{id: ev.Verification, since: q.now, lookup: l}
	v.open.PushBack(&c.inOpen, c)
	l.checks.PushBack(&c.inLookup, c)
	if l.id != 0 {
		return
	}
	n := v.network(networkOf(ev.Client))
	if n.waiting.Empty() {
		v.line.PushBack(&n.inLine, n)
	}
	c.network = n
	n.waiting.PushBack(&c.inLine, c)
}

// network returns the network of a prefix, and makes it if need be.
func (v *verifying) network(prefix netip.Prefix) *network {
	n := v.networks[prefix]
	if n == nil {
		n = &network{prefix: prefix}
		v.networks[prefix] = n
	}
	return n
}

// release forgets a network that has nothing left.
func (v *verifying) release(n *network) {
	if n.waiting.Empty() && n.busy == 0 {
		delete(v.networks, n.prefix)
	}
}

// leaveLine ends a verification's wait for the beginning of its look-up.
func (v *verifying) leaveLine(c *verification) {
	n := c.network
	if n == nil {
		return
	}
	c.network = nil
	n.waiting.Remove(&c.inLine)
	if n.waiting.Empty() {
		v.line.Remove(&n.inLine)
	}
	v.release(n)
}

// nextToVerify returns the network whose turn it is to have one more look-up under
// way; nil if there is none. Of those that are passed each has reached its limit,
// so they are few.
func (q *Qmgr) nextToVerify(free int) *network {
	v := &q.lookups.verifying
	limit := min(q.cfg.VerifyLimit, max(q.cfg.LookupLimit/2, 1))
	if !share.Allowed(v.busy, limit, 0, free) {
		return nil
	}
	for n := range v.line.All() {
		if share.Allowed(n.busy, q.cfg.VerifyNetworkLimit, 0, free) {
			return n
		}
	}
	return nil
}

// beginFor begins the look-up that a network has waited for longest.
func (q *Qmgr) beginFor(n *network) {
	v := &q.lookups.verifying
	l := n.waiting.Front().lookup
	l.network = n
	n.busy++
	v.busy++
	q.begin(l, 0)
	if n.inLine.Listed() {
		v.line.MoveToBack(&n.inLine)
	}
}

// settleAccount ends a look-up's part in what its network has under way.
func (v *verifying) settleAccount(l *lookup) {
	if n := l.network; n != nil {
		n.busy--
		v.busy--
		v.release(n)
	}
}

// verified answers a question.
func (q *Qmgr) verified(c *verification, r mail.Reply) {
	v, l := &q.lookups.verifying, c.lookup
	v.open.Remove(&c.inOpen)
	l.checks.Remove(&c.inLookup)
	v.leaveLine(c)
	q.lookups.unneed(l)
	q.emit(Verified{Verification: c.id, Reply: r})
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
		q.verified(c, mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 4, Detail: 3},
			Text: "the look-up of " + c.lookup.key.nexthop + " did not end in time"})
	}
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
func (v *verifying) check(owned map[*network]int) {
	v.open.Check()
	v.line.Check()
	busy, waiting := 0, 0
	for prefix, n := range v.networks { //archtest:anyorder sums and assertions
		assert.That(n.prefix == prefix && (n.busy > 0 || !n.waiting.Empty()), "network %v is known as %v and has nothing", n.prefix, prefix)
		assert.That(n.busy == owned[n], "network %v has %d look-ups under way, counted %d", prefix, owned[n], n.busy)
		assert.That(n.inLine.Listed() == !n.waiting.Empty(), "network %v is in line: %t", prefix, n.inLine.Listed())
		busy += n.busy
		waiting += n.waiting.Len()
	}
	assert.That(busy == v.busy, "%d look-ups are under way for verification, counted %d", busy, v.busy)
	for c := range v.open.All() {
		assert.That(c.inLine.Listed() == (c.lookup.id == 0) && c.inLine.Listed() == (c.network != nil), "verification %d is in line: %t", c.id, c.inLine.Listed())
		if c.inLine.Listed() {
			waiting--
		}
	}
	assert.That(waiting == 0, "%d verifications wait that are not open", waiting)
}
