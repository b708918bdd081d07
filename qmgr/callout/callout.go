package callout

import (
	"time"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/addrdb"
	"github.com/posthaste-mta/posthaste/qmgr/roster"
)

// Config is how clients' questions are answered. The core's Config has defaults for
// each field and explains it; there are none here.
type Config struct {
	Limit        int           // VerifyLimit: call-outs in core with a slot, at least 1
	NetworkLimit int           // VerifyNetworkLimit: of these, for one network, at least 1
	Deadline     time.Duration // VerifyDeadline
	RejectReason string        // VerifyRejectReason
	DeferReason  string        // VerifyDeferReason
	Addresses    addrdb.Config
}

// A Desk takes clients' questions whether a recipient can be reached. It is not safe
// for concurrent use.
type Desk struct {
	cfg    Config
	db     *addrdb.DB
	open   ilist.List[Verification]  // not closed yet, oldest first
	known  map[mail.Address]*Callout // all that have not ended, by addrdb.Key
	roster roster.Roster[Callout]    // slots are call-outs in core that are not late
	begun  ilist.List[Callout]       // in core and not late, in the order in which they began
	late   int                       // in core and have lost their slots
	last   uint32                    // number of the last pseudo-message
}

// New returns a desk without questions.
func New(cfg Config) *Desk {
	return &Desk{cfg: cfg, db: addrdb.New(cfg.Addresses), known: make(map[mail.Address]*Callout), roster: roster.New[Callout]()}
}

// Configure replaces the configuration. What is under way goes on.
func (d *Desk) Configure(cfg Config) {
	d.cfg = cfg
	d.db.Configure(cfg.Addresses)
}

// A Callout is one question to a receiver, and all who wait for the answer. One that
// has begun may have no asker left.
type Callout struct {
	ID        mail.QueueID // of its pseudo-message; 0 until it begins
	Recipient mail.Address
	To        mail.Route               // as it was found for the first who asked
	askers    ilist.List[Verification] // in the order in which they asked
	network   *roster.Network[Callout] // of the first who asked, on whose account it is made; nil if it is late
	inLine    ilist.Link[Callout]      // in the line of network, until it begins
	since     mail.Instant             // when it began; ID is not 0
	inBegun   ilist.Link[Callout]
}

// patience is the time for which a call-out may keep its slot, which is wanted by others.
const patience = time.Minute

// InTime reports whether a call-out in core has kept its slot, so that it may still wait
// for a connection.
func (o *Callout) InTime() bool { return o.inBegun.Listed() }

// InCore returns how many call-outs have a pseudo-message.
func (d *Desk) InCore() int { return d.roster.Busy + d.late }

// CallOut has a receiver asked on behalf of a verification, which waits for nothing. If
// the receiver is asked already, it waits for that answer.
func (d *Desk) CallOut(v *Verification, to mail.Route) {
	assert.That(v.Recipient != "" && v.callout == nil && v.Lookup() == nil, "verification %d of %q waits for something, or needs no call-out", v.ID, v.Recipient)
	key := addrdb.Key(v.Recipient)
	o := d.known[key]
	if o == nil {
		o = &Callout{Recipient: v.Recipient, To: to}
		d.known[key] = o
		o.network = d.roster.Wait(v.Client, &o.inLine, o)
	}
	v.callout = o
	o.askers.PushBack(&v.inCallout, v)
}

// uncall forgets a call-out that has not begun if no client waits for it any more.
func (d *Desk) uncall(o *Callout) {
	if o.ID == 0 && o.askers.Empty() {
		d.roster.Leave(o.network, &o.inLine)
		delete(d.known, addrdb.Key(o.Recipient))
	}
}

// Next returns the call-out that may come into core next, of the network whose turn it is;
// nil if none may. Of late ones no network has too many: they are as many as connections
// carry.
func (d *Desk) Next() *Callout {
	if n := d.roster.Next(d.cfg.Limit, d.cfg.NetworkLimit, 1); n != nil {
		return n.Oldest()
	}
	return nil
}

// Begin gives the Next call-out a slot and the ID of its pseudo-message, with which it
// comes into core.
func (d *Desk) Begin(o *Callout, now mail.Instant) {
	assert.That(o.ID == 0, "call-out %v of %s has begun already", o.ID, o.Recipient)
	d.roster.Begin(o.network)
	d.roster.Leave(o.network, &o.inLine)
	d.last++
	o.ID, o.since = mail.CalloutID(d.last), now
	d.begun.PushBack(&o.inBegun, o)
}

// Late takes the slot of the call-out that has kept it for longest, and returns that; nil
// if none has kept it for patience. The caller gives it up if no connection carries it: a
// server that takes minutes to answer would keep the slot from others.
func (d *Desk) Late(now mail.Instant) *Callout {
	if now < d.Wake() {
		return nil
	}
	o := d.begun.PopFront()
	d.roster.End(o.network)
	o.network = nil
	d.late++
	return o
}

// Wake returns when the next call-out is Late; Never if none has a slot.
func (d *Desk) Wake() mail.Instant {
	if o := d.begun.Front(); o != nil {
		return o.since.Add(patience)
	}
	return mail.Never
}

// End ends a call-out in core with its outcome; nil if there is none because its
// destination was busy. It returns what the outcome says, and the reply to those who
// wait: the caller closes NextAsker until there is none.
func (d *Desk) End(o *Callout, outcome *mail.Outcome, now mail.Instant) (addrdb.Status, mail.Reply) {
	assert.That(o.ID != 0 && d.known[addrdb.Key(o.Recipient)] == o, "call-out %v of %s ends, and is not in core", o.ID, o.Recipient)
	if o.network != nil {
		d.begun.Remove(&o.inBegun)
		d.roster.End(o.network)
	} else {
		d.late--
	}
	delete(d.known, addrdb.Key(o.Recipient))
	v := verdictOf(outcome)
	known := d.db.Learn(o.Recipient, v, now) // what the next who asks hears
	return v.Status, d.replyTo(known)
}

// NextAsker returns who has waited for longest for a call-out that has ended, until that
// is closed; nil if no client waits any more.
func (o *Callout) NextAsker() *Verification { return o.askers.Front() }

// verdictOf returns what the outcome of a call-out says.
func verdictOf(o *mail.Outcome) addrdb.Verdict {
	v := addrdb.Verdict{Status: addrdb.Unsure}
	if o == nil {
		return v
	}
	v.Reply = o.Reply
	switch {
	case o.Result == mail.Delivered:
		v.Status = addrdb.Good
	case o.Result == mail.Failed:
		v.Status = addrdb.Bad
	case o.Unknown && o.Reply.Permanent():
		v.Status = addrdb.Mute
	}
	return v
}

// Find returns the reply out of what is known of a recipient, zero if mail can be sent
// there; known is false if nothing is known. again reports whether the receiver must be
// asked, since that is old or nothing: the caller does so (addrdb.DB.Find).
func (d *Desk) Find(recipient mail.Address, now mail.Instant) (reply mail.Reply, known, again bool) {
	v, again := d.db.Find(recipient, now)
	return d.replyTo(v), v.Status != addrdb.Unknown, again
}

// replyTo returns the reply to a client that asks for a recipient; zero if mail for it is
// taken, as far as is known.
func (d *Desk) replyTo(v addrdb.Verdict) mail.Reply {
	switch v.Status {
	case addrdb.Bad:
		return refusal(mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 1, Detail: 1}, Text: "undeliverable address"},
			d.cfg.RejectReason, v.Reply, v.Reply.Text)
	case addrdb.Unsure:
		// What we have found out ourselves is how we, our network and the hosts behind us
		// are, which is not for strangers.
		return refusal(mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 1, Detail: 1}, Text: "the address cannot be verified now"},
			d.cfg.DeferReason, v.Reply, "")
	}
	return mail.Reply{}
}

// refusal returns r with the operator's reason as its text, and nothing else, if there
// is one; or else with what the receiver said after its text, or what we say ourselves ("" for
// nothing), and then with that status if it is of the same class.
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

// A View is a count of the call-outs.
type View struct {
	Waiting int // for a slot in core
	InCore  int // have a pseudo-message
	Late    int // of these, those that have lost their slots to others
	Known   int // addresses of which the answer is remembered
}

// View returns how many call-outs there are.
func (d *Desk) View() View {
	return View{Waiting: len(d.known) - d.InCore(), InCore: d.InCore(), Late: d.late, Known: d.db.Len()}
}

// Check panics where an invariant does not hold; inCore are the call-outs of all
// pseudo-messages, by ID. Tests call it after every step; it takes linear time.
func (d *Desk) Check(inCore map[mail.QueueID]*Callout) {
	d.db.Check()
	d.begun.Check()
	d.open.Check()
	slots, waiting, begun, late, asking := make(map[*roster.Network[Callout]]roster.Use), 0, 0, 0, 0
	for key, o := range d.known { //archtest:anyorder sums and assertions
		assert.That(addrdb.Key(o.Recipient) == key, "the call-out of %s is known as %s", o.Recipient, key)
		assert.That(o.inLine.Listed() == (o.ID == 0), "the call-out of %s is in line: %t", o.Recipient, o.inLine.Listed())
		o.askers.Check()
		for v := range o.askers.All() {
			assert.That(v.callout == o && v.inOpen.On(&d.open), "verification %d waits for another call-out than that of %s, or is closed", v.ID, o.Recipient)
			asking++
		}
		if o.ID == 0 {
			assert.That(!o.askers.Empty(), "no client waits for the call-out of %s", o.Recipient)
			waiting++
			continue
		}
		assert.That(inCore[o.ID] == o, "the call-out of %s is not in core", o.Recipient)
		begun++
		assert.That(o.inBegun.Listed() == (o.network != nil), "the call-out of %s is late and has a slot", o.Recipient)
		if o.network == nil {
			late++
			continue
		}
		slots[o.network] = roster.Use{Busy: slots[o.network].Busy + 1}
	}
	for v := range d.open.All() {
		assert.That((v.Lookup() != nil) != (v.callout != nil), "verification %d waits for both or none", v.ID)
		if v.callout != nil {
			asking--
		}
	}
	assert.That(asking == 0, "%d verifications wait for a call-out that has ended", -asking)
	assert.That(begun == len(inCore), "%d call-outs are in core, %d of them are known", len(inCore), begun)
	assert.That(late == d.late, "%d call-outs are late, counted %d", late, d.late)
	assert.That(d.begun.Len() == begun-late, "%d call-outs have a slot, counted %d", d.begun.Len(), begun-late)
	assert.That(d.roster.Check(slots) == waiting, "%d call-outs wait", waiting)
}
