package qmgr

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/internal/stock"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/share"
)

// Where a recipient goes may be known only after a look-up, which may take long.
// So look-ups are made before anything is scheduled for delivery: a delivery
// that waits for the DNS would hold a slot of its destination and of its
// transport meanwhile, and one with a dead name server would hold it for a
// minute.
//
// Who may have how many look-ups under way is decided as in Finch's router
// scheduler. Messages that wait for some stand in line; whenever a worker is
// free, the first of them that may have one more (package share) gets it, for
// the look-up that it has waited for longest. One message with 100,000 domains
// takes 91 % of the workers if nobody else wants them, and those behind it always
// find one free. Look-ups that take long give their workers back (slow.go).
//
// Mail that has been deferred before is as many small messages, none of which ever
// has more than its share; and often it was deferred because its name servers are
// dead, so that each of its look-ups takes a worker for long. So new mail and retries
// have a line each and take turns, and all retries together have the share of one
// message: however many there are, new mail finds a worker free.
//
// What several messages wait for is looked up once. It counts for the message on
// whose account it was begun and for no other: the parts of all messages then
// add up to what there is, so that no more messages can have reached the limit
// than there are workers for, which bounds the search for the next one. (Finch
// leaves open what a free ride counts for.)

// LookupID names one look-up, from Lookup to LookedUp. IDs count up from 1 and
// are never used again within one run.
type LookupID uint64

// lookups is the queue manager's part in this.
type lookups struct {
	known map[lookupKey]*lookup // all of them
	busy  map[LookupID]*lookup  // those that have begun
	// young are those of busy that hold a place of Config.LookupLimit, slow the others;
	// both in the order in which they began.
	young, slow ilist.List[lookup]
	abandoned   map[LookupID]string // given up, and not answered yet: what was asked about
	// quiet are the look-ups of silent names that have not begun, oldest first;
	// quietBusy is how many have, and have not ended, and quietYoung how many of
	// these are not slow.
	quiet      ilist.List[lookup]
	quietBusy  int
	quietYoung int
	silences   silences
	stalled    ilist.List[routingJob] // those that wait for look-ups that take long, or are likely to
	parked     parked
	// lines hold the messages that have routing jobs that wait, in the order in
	// which they came to have some.
	lines     [lines]ilist.List[message]
	turn      line // whose turn it is
	retrying  int  // look-ups under way on account of retries that are not slow
	last      LookupID
	verifying verifying
}

func newLookups() lookups {
	return lookups{known: make(map[lookupKey]*lookup), busy: make(map[LookupID]*lookup), abandoned: make(map[LookupID]string),
		silences: silences{known: make(map[string]*silence)}, parked: parked{known: make(map[mail.QueueID]*absentee)},
		verifying: verifying{roster: newRoster[verification]()}}
}

// A line is one of those in which messages wait for look-ups.
type line uint8

const (
	lineNew     line = iota // mail that is tried for the first time, or because an operator named it
	lineRetries             // mail that has been deferred
	lines
)

// line returns the one in which a message waits.
func (m *message) line() line { return m.from.line() }

func (o origin) line() line {
	if o == originDeferred || o == originFlush {
		return lineRetries
	}
	return lineNew
}

// A lookupKey is what is looked up.
type lookupKey struct{ transport, nexthop string }

// A lookup is one question to the host, and all who wait for the answer. Before
// it has begun there is somebody who waits; afterwards they may all have gone.
type lookup struct {
	id  LookupID // 0 until it has begun
	key lookupKey
	// owner or network is on whose account it has begun; neither if that was a
	// message which has left the core.
	owner   *message
	network *network[verification]
	retry   bool // it counts among the retries until it is slow, whether or not the owner is still there
	quiet   bool // the name was silent lately
	begun   mail.Instant
	inAge   ilist.Link[lookup] // on lookups.young or slow; on quiet before
	inOwner ilist.Link[lookup] // on the owner's routing.owned
	jobs    ilist.List[routingJob]
	checks  ilist.List[verification]
	parked  []*absentee // messages that have left the core until it ends
}

// A routingJob is recipients of one message that wait for one look-up.
type routingJob struct {
	message    *message
	lookup     *lookup
	recipients []mail.Recipient
	inLookup   ilist.Link[routingJob]
	inMessage  ilist.Link[routingJob] // on routing.jobs
	inLine     ilist.Link[routingJob] // on routing.waiting, until the look-up begins; on lookups.stalled
}

// routing is a message's part.
type routing struct {
	jobs    ilist.List[routingJob] // all of them
	waiting ilist.List[routingJob] // those whose look-up has not begun, oldest first
	inLine  ilist.Link[message]    // on one of lookups.lines, while there are such
	owned   ilist.List[lookup]     // look-ups under way on its account
	count   int                    // recipients in jobs
}

// lookUp lets a recipient of a message wait for its route.
func (q *Qmgr) lookUp(m *message, r mail.Recipient, to mail.Route) {
	l := q.lookups.need(lookupKey{to.Transport, to.Nexthop}, m.from != originRetry && q.lookups.silences.silent(to.Nexthop, q.now))
	// Recipients come in the order of their domains, so a message's job for one
	// is the last of the look-up if there is one already.
	j := l.jobs.Back()
	if j == nil || j.message != m {
		j = q.newRoutingJob(m, l)
	}
	j.recipients = append(j.recipients, r)
	m.routing.count++
	m.Unbound++
}

// need returns the look-up of a key that has not ended, and makes it if need be: a quiet
// one if the name was silent lately.
func (s *lookups) need(key lookupKey, quiet bool) *lookup {
	l := s.known[key]
	if l == nil {
		l = &lookup{key: key, quiet: quiet}
		s.known[key] = l
		if quiet {
			s.quiet.PushBack(&l.inAge, l)
		}
	}
	return l
}

// unneed forgets a look-up that has not begun if nobody waits for it any more.
func (s *lookups) unneed(l *lookup) {
	if l.id != 0 || !l.jobs.Empty() || !l.checks.Empty() || len(l.parked) > 0 {
		return
	}
	delete(s.known, l.key)
	if l.quiet {
		s.quiet.Remove(&l.inAge)
	}
}

func (q *Qmgr) newRoutingJob(m *message, l *lookup) *routingJob {
	j := &routingJob{message: m, lookup: l}
	l.jobs.PushBack(&j.inLookup, j)
	m.routing.jobs.PushBack(&j.inMessage, j)
	if q.lookups.stalls(l) {
		q.lookups.stalled.PushBack(&j.inLine, j)
		return j
	}
	if l.id != 0 {
		return j
	}
	if m.routing.waiting.Empty() {
		q.lookups.lines[m.line()].PushBack(&m.routing.inLine, m)
	}
	m.routing.waiting.PushBack(&j.inLine, j)
	return j
}

// leaveLine ends a job's wait for the beginning of its look-up, or for its end if that
// takes long.
func (s *lookups) leaveLine(j *routingJob) {
	switch {
	case !j.inLine.Listed():
		return
	case j.inLine.On(&s.stalled):
		s.stalled.Remove(&j.inLine)
		return
	}
	r := &j.message.routing
	r.waiting.Remove(&j.inLine)
	if r.waiting.Empty() {
		s.lines[j.message.line()].Remove(&r.inLine)
	}
}

// leave ends a job's wait for its look-up, which goes on.
func (s *lookups) leave(j *routingJob) {
	s.leaveLine(j)
	j.lookup.jobs.Remove(&j.inLookup)
}

// disown lets the look-ups of a message that leaves go on at nobody's expense.
func (r *routing) disown() {
	for l := r.owned.PopFront(); l != nil; l = r.owned.PopFront() {
		l.owner = nil
	}
}

// startLookups begins look-ups as long as there is one that may begin.
func (q *Qmgr) startLookups() {
	q.ageLookups()
	q.startQuiet()
	for s := &q.lookups; !q.halt && len(s.busy) < len(s.known) && s.young.Len() < q.cfg.LookupLimit; {
		free := max(q.cfg.LookupLimit-len(s.busy), 0)
		n := q.nextToVerify()
		m := q.nextToLookUp(free)
		switch {
		case n == nil && m == nil || !q.mayStart():
			return
		case n != nil:
			q.beginFor(n)
		default:
			q.beginOn(m)
		}
	}
}

// startQuiet begins look-ups of names that were silent lately, on nobody's account.
func (q *Qmgr) startQuiet() {
	s := &q.lookups
	for l := s.quiet.Front(); l != nil && !q.halt && s.young.Len() < q.cfg.LookupLimit && q.mayBeginQuiet(); l = s.quiet.Front() {
		if !q.mayStart() {
			return
		}
		s.quiet.Remove(&l.inAge)
		s.quietBusy++
		s.quietYoung++
		q.begin(l, 0)
	}
}

// mayBeginQuiet tells whether one more may begin: they have half of the places, and half
// of what there may be of slow ones, which they are likely to become.
func (q *Qmgr) mayBeginQuiet() bool {
	s := &q.lookups
	return s.quietYoung < max(q.cfg.LookupLimit/2, 1) && s.quietBusy < q.slowMost()/2
}

// nextToLookUp returns the first message that may have one more look-up under way,
// of the line whose turn it is if there is one; nil if there is none.
func (q *Qmgr) nextToLookUp(free int) *message {
	for i := range lines {
		if m := q.firstInLine((q.lookups.turn+i)%lines, free); m != nil {
			return m
		}
	}
	return nil
}

func (q *Qmgr) firstInLine(l line, free int) *message {
	few, scale := q.cfg.MessageConcurrency, max(q.cfg.ConcurrencyScale, 0)
	if l == lineRetries && !share.Allowed(q.lookups.retrying, few, scale, free) {
		return nil
	}
	for m := range q.lookups.lines[l].All() {
		if share.Allowed(m.routing.owned.Len(), few, scale, free) {
			return m
		}
	}
	return nil
}

// beginOn begins the look-up that a message has waited for longest. The turn goes to
// the other line.
func (q *Qmgr) beginOn(m *message) {
	l := m.routing.waiting.Front().lookup
	l.owner = m
	m.routing.owned.PushBack(&l.inOwner, l)
	if l.retry = m.line() == lineRetries; l.retry {
		q.lookups.retrying++
	}
	q.lookups.turn = (m.line() + 1) % lines
	q.begin(l, m.ID)
}

// begin asks the host for a look-up. All who wait for it have it, whoever's account
// it is on.
func (q *Qmgr) begin(l *lookup, on mail.QueueID) {
	q.lookups.last++
	l.id = q.lookups.last
	q.lookups.busy[l.id], l.begun = l, q.now
	q.lookups.young.PushBack(&l.inAge, l)
	if !l.quiet {
		for j := range l.jobs.All() {
			q.lookups.leaveLine(j)
		}
	}
	for c := range l.checks.All() {
		q.lookups.verifying.leaveLine(c)
	}
	q.emit(Lookup{Lookup: l.id, For: on, Transport: l.key.transport, Nexthop: l.key.nexthop})
}

// lookedUp takes the answer to a look-up: everybody who waited goes on.
func (q *Qmgr) lookedUp(ev LookedUp) {
	l := q.lookups.busy[ev.Lookup]
	if name, abandoned := q.lookups.abandoned[ev.Lookup]; abandoned {
		delete(q.lookups.abandoned, ev.Lookup)
		if !ev.Route.Reply.Temporary() {
			q.lookups.silences.heard(name, q.now)
		}
		return
	}
	if l == nil {
		q.duplicate(0, "looked-up")
		return
	}
	assert.That(!ev.Route.NeedsLookup, "look-up %d of %s ends with a look-up", ev.Lookup, l.key.nexthop)
	q.endLookup(l, ev.Route)
}

// endLookup has everybody go on who waited for a look-up.
func (q *Qmgr) endLookup(l *lookup, to mail.Route) {
	delete(q.lookups.busy, l.id)
	delete(q.lookups.known, l.key)
	slow := l.inAge.On(&q.lookups.slow)
	if slow {
		q.lookups.slow.Remove(&l.inAge)
	} else {
		q.lookups.young.Remove(&l.inAge)
	}
	if l.owner != nil {
		l.owner.routing.owned.Remove(&l.inOwner)
	}
	q.lookups.leaveRetries(l)
	if l.quiet {
		q.lookups.quietBusy--
		if !slow {
			q.lookups.quietYoung--
		}
	}
	if to.Reply.Temporary() && q.now >= l.begun.Add(slowPatience) {
		q.lookups.silences.heardNothing(l, to.Reply, q.now)
	} else {
		q.lookups.silences.heard(l.key.nexthop, q.now)
	}
	q.lookups.letBack(l)
	q.lookups.verifying.settleAccount(l, slow)
	for c := l.checks.Front(); c != nil; c = l.checks.Front() {
		q.routeKnown(c, to)
	}
	for j := l.jobs.PopFront(); j != nil; j = l.jobs.PopFront() {
		q.lookups.leaveLine(j)
		q.bindJob(j, to)
		j.message.AllRead()
		q.advance(j.message)
	}
}

// bindJob sends a job's recipients along their route.
func (q *Qmgr) bindJob(j *routingJob, to mail.Route) {
	m := j.message
	m.routing.jobs.Remove(&j.inMessage)
	m.routing.count -= len(j.recipients)
	m.Unbound -= len(j.recipients)
	recipients := q.stocks.bound[:0]
	for _, r := range j.recipients {
		recipients = append(recipients, bound{recipient: r, route: to})
	}
	q.stocks.bound = recipients
	q.assign(m, q.bindEach(m, recipients))
	q.stocks.bound = stock.Emptied(q.stocks.bound)
}

// leaveRetries ends a look-up's part in what retries have under way.
func (s *lookups) leaveRetries(l *lookup) {
	if l.retry {
		l.retry = false
		s.retrying--
	}
}

// withdrawLookups takes back what of a message waits for look-ups. Those under
// way go on, since they cannot be called back; they take a worker until they
// end.
func (q *Qmgr) withdrawLookups(m *message) {
	r := &m.routing
	if r.jobs.Empty() {
		return
	}
	m.left = true
	q.hold(m, -r.count)
	m.Unbound -= r.count
	r.count = 0
	for j := r.jobs.PopFront(); j != nil; j = r.jobs.PopFront() {
		q.lookups.leave(j)
		q.lookups.unneed(j.lookup)
	}
	r.disown()
	m.Touch()
}

// checkLookups panics where an invariant of look-ups does not hold.
func (q *Qmgr) checkLookups() {
	s := &q.lookups
	owned, networks := make(map[*message]int), make(map[*network[verification]]taken)
	parked := make(map[*absentee]int)
	var inLine [lines]int
	retrying, quiet, quietYoung := 0, 0, 0
	for key, l := range s.known { //archtest:anyorder sums and assertions
		assert.That(l.key == key, "look-up of %s is known as %s", l.key.nexthop, key.nexthop)
		assert.That((l.id != 0) == (s.busy[l.id] == l), "look-up %d of %s has begun and is not known as busy", l.id, key.nexthop)
		assert.That(l.id != 0 || !l.jobs.Empty() || !l.checks.Empty() || len(l.parked) > 0, "nobody waits for the look-up of %s", key.nexthop)
		assert.That(l.id != 0 || l.owner == nil && l.network == nil, "the look-up of %s counts for somebody and has not begun", key.nexthop)
		owned[l.owner]++
		if l.network != nil {
			n := networks[l.network]
			if l.inAge.On(&s.slow) {
				n.slow++
			} else {
				n.busy++
			}
			networks[l.network] = n
		}
		if l.retry {
			retrying++
		}
		for _, a := range l.parked {
			parked[a]++
		}
		if l.quiet && l.id != 0 {
			quiet++
			if l.inAge.On(&s.young) {
				quietYoung++
			}
		}
		assert.That(l.inAge.On(&s.quiet) == (l.quiet && l.id == 0), "the look-up of %s is quiet %t, begun %t", key.nexthop, l.quiet, l.id != 0)
		l.jobs.Check()
		l.checks.Check()
		for j := range l.jobs.All() {
			assert.That(q.messages[j.message.ID] == j.message, "a message that is gone waits for the look-up of %s", key.nexthop)
			assert.That(j.inLine.On(&s.stalled) == s.stalls(l), "a job of %v is stalled by the look-up of %s", j.message.ID, key.nexthop)
			assert.That(j.inLine.Listed() == (l.id == 0 || s.stalls(l)), "a job of %v is in line for the look-up of %s", j.message.ID, key.nexthop)
		}
	}
	for _, m := range q.messages { //archtest:anyorder sums and assertions
		r := &m.routing
		count := 0
		for j := range r.jobs.All() {
			count += len(j.recipients)
		}
		assert.That(count == r.count, "message %v has %d recipients waiting for look-ups, counted %d", m.ID, count, r.count)
		assert.That(owned[m] == r.owned.Len(), "message %v has %d look-ups under way, counted %d", m.ID, owned[m], r.owned.Len())
		assert.That(r.inLine.Listed() == !r.waiting.Empty(), "message %v is in line: %t", m.ID, r.inLine.Listed())
		if r.inLine.Listed() {
			inLine[m.line()]++
		}
	}
	assert.That(s.young.Len()+s.slow.Len() == len(s.busy), "%d and %d look-ups are listed by age, %d are under way", s.young.Len(), s.slow.Len(), len(s.busy))
	s.verifying.check(networks)
	s.parked.check(q.messages, parked)
	assert.That(quiet == s.quietBusy && quietYoung == s.quietYoung, "%d look-ups of silent names are under way, %d of them not slow, counted %d and %d",
		quiet, quietYoung, s.quietBusy, s.quietYoung)
	assert.That(retrying == s.retrying, "%d look-ups under way for retries, counted %d", s.retrying, retrying)
	for l := range s.lines {
		s.lines[l].Check()
		assert.That(inLine[l] == s.lines[l].Len(), "%d messages in line %d, counted %d", s.lines[l].Len(), l, inLine[l])
	}
}
