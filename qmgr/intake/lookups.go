package intake

import (
	"net/netip"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/roster"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
	"github.com/posthaste-mta/posthaste/qmgr/share"
)

// A LookupID names one lookup, from Lookup to LookedUp. IDs count up from 1 and are
// never used again within one run.
type LookupID uint64

// Limits are how many lookups may be under way. Each is at least 1, but Scale may be 0.
type Limits struct {
	Lookups int // at once, except slow ones
	Message int // on account of one message, whatever is free
	Scale   int // on account of one message, as a multiple of the free ones, if that is more
	Clients int // on account of clients, of Lookups
	Network int // of these, for one network of clients
}

// Lookups decides which routes are looked up next. A delivery that waited for the DNS
// would hold a slot of its destination and of its transport meanwhile, for a minute if
// the name server is dead; so lookups come before anything is scheduled for delivery.
//
// How many lookups each may have under way is decided as in Finch's router scheduler.
// Messages that wait for lookups stand in line; whenever a slot is free, the first
// message that may have one more (package share) gets it, for the lookup that it has
// waited for longest. One message with 100,000 domains takes 91 % of the slots if no
// other wants them, and those behind it always find one free. Lookups that take long give
// their slots back (slow.go).
//
// Mail that was deferred is as many small messages, none of which ever has more than its
// share; and often it was deferred because its name servers are dead, so that each of
// its lookups holds a slot for long. So new mail and retries have a line each and take
// turns, and all retries together have the share of one message: however many there
// are, new mail finds a slot free.
//
// What several messages wait for is looked up once. It counts for the message on whose
// account it was begun and for no other: the parts of all messages then add up to what
// there is, so that no more messages can have reached the limit than there are slots,
// which bounds the search for the next one. (Finch leaves open what a free ride counts
// for.)
//
// It is not safe for concurrent use.
type Lookups struct {
	limits Limits
	known  map[Key]*Lookup      // all lookups that have not ended
	busy   map[LookupID]*Lookup // those that have begun
	last   LookupID
	// young are those of busy that hold a slot of Limits.Lookups, slow the others; both
	// in the order in which they began.
	young, slow ilist.List[Lookup]
	abandoned   map[LookupID]string // given up, and not answered yet: the name that was looked up
	// lines hold the messages that wait for a lookup to begin, in the order in which they
	// came to do so. A message that waits for a quiet one is not in line for that.
	lines    [lines]ilist.List[Routing]
	turn     Line                    // of lines, whose turn it is
	retrying int                     // young lookups on account of retries
	clients  roster.Roster[Question] // slots are young lookups on account of clients
	silent   silentLookups
	stalled  ilist.List[Job] // those that wait for lookups that stall them
	parked   parking
}

// silentLookups are the quiet lookups.
type silentLookups struct {
	silences
	waiting ilist.List[Lookup] // not begun, in the order in which they became quiet
	busy    int                // begun and not ended
	young   int                // of these, not slow
}

// NewLookups returns a Lookups that has nothing to look up, and no Limits yet.
func NewLookups() Lookups {
	return Lookups{known: make(map[Key]*Lookup), busy: make(map[LookupID]*Lookup), abandoned: make(map[LookupID]string),
		silent: silentLookups{silences: silences{known: make(map[string]*silence)}}, parked: parking{known: make(map[mail.QueueID]*absentee)},
		clients: roster.New[Question]()}
}

// Configure sets the limits. What is under way goes on, even if it is more.
func (s *Lookups) Configure(l Limits) {
	assert.That(min(l.Lookups, l.Message, l.Clients, l.Network) >= 1 && l.Scale >= 0, "limits of lookups are %+v", l)
	s.limits = l
}

// A Key is what is looked up: where a transport delivers mail for a nexthop, which is a
// domain name in lower case, if it asks something of its way, and by which credential it is sent.
type Key struct {
	Transport, Nexthop string
	Credential         string // as in the route
	TLS                mail.TLSRequest
}

// A Lookup is one lookup, and all jobs, questions and parked messages that wait for its
// answer: at least one until it begins; afterwards they may all have gone.
type Lookup struct {
	Key
	id LookupID // 0 until it has begun
	// owner or network is on whose account it has begun; neither if that was a message
	// which has left the core, or if it is quiet.
	owner   *Routing
	network *roster.Network[Question]
	retry   bool // it counts in Lookups.retrying, whether or not the owner is still there
	// quiet means that it begins on no account, when few of its kind are under way:
	// the name was silent lately, or it was made to wait as if it had been (quieten).
	quiet     bool
	begun     mail.Instant       // id is not 0
	inAge     ilist.Link[Lookup] // on Lookups.young or slow; before it begins, if it is quiet, on silent.waiting
	inOwner   ilist.Link[Lookup] // on the owner's owned
	jobs      ilist.List[Job]
	questions ilist.List[Question]
	parked    []*absentee // messages that have left the core until it ends
}

// ID returns the lookup's ID; 0 until it has begun.
func (l *Lookup) ID() LookupID { return l.id }

// For returns the message on whose account the lookup was begun; 0 if there is none, or
// if it has left the core.
func (l *Lookup) For() mail.QueueID {
	if l.owner == nil {
		return 0
	}
	return l.owner.message.ID
}

// A Job is recipients of one message that wait for one lookup.
type Job struct {
	Recipients []mail.Recipient // at least one
	routing    *Routing
	lookup     *Lookup
	inLookup   ilist.Link[Job]
	inRouting  ilist.Link[Job] // on routing.jobs
	// inLine is on Lookups.stalled while the lookup stalls the job; else on
	// routing.waiting until the lookup begins; else on nothing.
	inLine ilist.Link[Job]
}

// Message returns the message whose recipients the job has.
func (j *Job) Message() *sched.Message { return j.routing.message }

// Lookup returns the lookup that the job waits for, or has waited for.
func (j *Job) Lookup() *Lookup { return j.lookup }

// A Routing is a message's recipients that wait for lookups. The zero Routing is empty.
type Routing struct {
	message *sched.Message      // whose it is; nil if it never waited
	line    Line                // where it waits, and on whose share its lookups are
	jobs    ilist.List[Job]     // all of them
	waiting ilist.List[Job]     // those in line until their lookup begins, oldest first
	stalled int                 // how many of jobs are on Lookups.stalled
	inLine  ilist.Link[Routing] // on Lookups.lines[line] while waiting is not empty
	owned   ilist.List[Lookup]  // lookups under way on its account
	count   int                 // recipients in jobs
}

// Len returns how many recipients wait.
func (r *Routing) Len() int { return r.count }

// Has reports whether the recipient with an index waits.
func (r *Routing) Has(index uint32) bool {
	for j := range r.jobs.All() {
		if mail.HasRecipient(j.Recipients, index) {
			return true
		}
	}
	return false
}

// A Question is a client's, which waits for a lookup as mail does. It is embedded in
// what else is known of the question, to which Owner leads back.
type Question struct {
	Owner    any
	lookup   *Lookup                   // nil if it waits for none
	network  *roster.Network[Question] // in whose line it is, until the lookup begins; nil if it is in none
	inLookup ilist.Link[Question]
	inLine   ilist.Link[Question] // in the line of network
}

// Lookup returns the lookup that the question waits for; nil if there is none.
func (c *Question) Lookup() *Lookup { return c.lookup }

// Add has a recipient of a message wait for its route. r is the message's own, and all
// of it waits in the same line.
func (s *Lookups) Add(r *Routing, m *sched.Message, from Origin, to mail.Recipient, key Key, now mail.Instant) {
	assert.That(r.count == 0 || r.message == m && r.line == from.Line(), "message %v waits for lookups as another", m.ID)
	r.message, r.line = m, from.Line()
	l := s.need(key, from != FromRetry && s.silent.is(key.Nexthop, now))
	// Recipients come in the order of their domains, so a message's job for one is the
	// last of the lookup if there is one already.
	j := l.jobs.Back()
	if j == nil || j.routing != r {
		j = s.newJob(r, l)
	}
	j.Recipients = append(j.Recipients, to)
	r.count++
	m.Unbound++
}

// Ask has a client's question wait for a lookup. It must not wait for one already.
func (s *Lookups) Ask(c *Question, client netip.Addr, key Key, now mail.Instant) {
	assert.That(c.lookup == nil, "a question about %s waits for another lookup", key.Nexthop)
	l := s.need(key, s.silent.is(key.Nexthop, now))
	c.lookup = l
	l.questions.PushBack(&c.inLookup, c)
	if l.id == 0 && !l.quiet {
		c.network = s.clients.Wait(client, &c.inLine, c)
	}
}

// Remembered returns the reply for mail to a name whose lookup ended less than a minute
// ago without an answer; zero if the name should be looked up.
func (s *Lookups) Remembered(name string, now mail.Instant) mail.Reply {
	return s.silent.reply(name, now)
}

// need returns the lookup of a key that has not ended, and makes it if need be: a quiet
// one if the name was silent lately.
func (s *Lookups) need(key Key, quiet bool) *Lookup {
	l := s.known[key]
	if l == nil {
		l = &Lookup{Key: key, quiet: quiet}
		s.known[key] = l
		if quiet {
			s.silent.waiting.PushBack(&l.inAge, l)
		}
	}
	return l
}

// unneed forgets a lookup that has not begun if nothing waits for it any more.
func (s *Lookups) unneed(l *Lookup) {
	if l.id != 0 || !l.jobs.Empty() || !l.questions.Empty() || len(l.parked) > 0 {
		return
	}
	delete(s.known, l.Key)
	if l.quiet {
		s.silent.waiting.Remove(&l.inAge)
	}
}

func (s *Lookups) newJob(r *Routing, l *Lookup) *Job {
	j := &Job{routing: r, lookup: l}
	l.jobs.PushBack(&j.inLookup, j)
	r.jobs.PushBack(&j.inRouting, j)
	switch {
	case s.stalls(l):
		s.stall(j)
	case l.id == 0:
		if r.waiting.Empty() {
			s.lines[r.line].PushBack(&r.inLine, r)
		}
		r.waiting.PushBack(&j.inLine, j)
	}
	return j
}

// leaveLine ends a job's wait for the beginning of its lookup, or for its end if that
// takes long.
func (s *Lookups) leaveLine(j *Job) {
	switch r := j.routing; {
	case !j.inLine.Listed():
	case j.inLine.On(&s.stalled):
		s.stalled.Remove(&j.inLine)
		r.stalled--
	default:
		r.waiting.Remove(&j.inLine)
		if r.waiting.Empty() {
			s.lines[r.line].Remove(&r.inLine)
		}
	}
}

// leave takes a job out of everything. Its lookup goes on; one that has not begun may not be
// needed any more then (unneed).
func (s *Lookups) leave(j *Job) {
	s.leaveLine(j)
	r := j.routing
	j.lookup.jobs.Remove(&j.inLookup)
	r.jobs.Remove(&j.inRouting)
	r.count -= len(j.Recipients)
	r.message.Unbound -= len(j.Recipients)
}

// leaveNetwork ends a question's wait for the beginning of its lookup.
func (s *Lookups) leaveNetwork(c *Question) {
	if n := c.network; n != nil {
		c.network = nil
		s.clients.Leave(n, &c.inLine)
	}
}

// A Turn is a lookup that may begin, and on whose account: a network's, a message's, or
// neither's. It is good until anything else happens.
type Turn struct {
	lookup  *Lookup
	network *roster.Network[Question]
	routing *Routing
}

// Last returns the ID of the lookup that began last; 0 if none has.
func (s *Lookups) Last() LookupID { return s.last }

// Idle reports whether nothing is being looked up, or waits for that.
func (s *Lookups) Idle() bool { return len(s.known) == 0 }

// Next returns the lookup whose turn it is; false if none may begin. Quiet ones come
// first, within their part; then those of clients, which hold a connection open
// meanwhile; then those of mail.
func (s *Lookups) Next() (Turn, bool) {
	if len(s.busy) >= len(s.known) || s.young.Len() >= s.limits.Lookups {
		return Turn{}, false
	}
	if l := s.silent.waiting.Front(); l != nil && s.mayBeginSilent() {
		return Turn{lookup: l}, true
	}
	if n := s.nextNetwork(); n != nil {
		return Turn{lookup: n.Oldest().lookup, network: n}, true
	}
	if r := s.nextMessage(max(s.limits.Lookups-len(s.busy), 0)); r != nil {
		return Turn{lookup: r.waiting.Front().lookup, routing: r}, true
	}
	return Turn{}, false
}

// mayBeginSilent reports whether one more quiet lookup may begin: they have half of the
// slots, and half of what there may be of slow ones, which they are likely to become.
func (s *Lookups) mayBeginSilent() bool {
	return s.silent.young < max(s.limits.Lookups/2, 1) && s.silent.busy < s.slowMost()/2
}

// nextNetwork returns the network whose turn it is to have one more lookup under way;
// nil if there is none. Half of the slow lookups are for mail, too.
func (s *Lookups) nextNetwork() *roster.Network[Question] {
	if s.clients.Slow >= s.slowMost()/2 {
		return nil
	}
	limit := min(s.limits.Clients, max(s.limits.Lookups/2, 1))
	return s.clients.Next(limit, s.limits.Network, slowLookups*s.limits.Network)
}

// nextMessage returns the first message that may have one more lookup under way, of the
// line whose turn it is if there is one; nil if there is none.
func (s *Lookups) nextMessage(free int) *Routing {
	for i := range lines {
		if r := s.firstInLine((s.turn+i)%lines, free); r != nil {
			return r
		}
	}
	return nil
}

func (s *Lookups) firstInLine(l Line, free int) *Routing {
	few, scale := s.limits.Message, s.limits.Scale
	if l == LineRetries && !share.Allowed(s.retrying, few, scale, free) {
		return nil
	}
	for r := range s.lines[l].All() {
		if share.Allowed(r.owned.Len(), few, scale, free) {
			return r
		}
	}
	return nil
}

// Begin begins the lookup whose turn it is. Nothing else may have happened since Next. All messages
// that wait for the lookup get its result, whatever account it is charged to.
func (s *Lookups) Begin(t Turn, now mail.Instant) *Lookup {
	l := t.lookup
	assert.That(l.id == 0 && s.known[l.Key] == l, "the lookup of %s begins, and it is not its turn any more", l.Nexthop)
	switch {
	case t.network != nil:
		l.network = t.network
		s.clients.Begin(t.network)
	case t.routing != nil:
		s.beginFor(t.routing, l)
	default:
		s.silent.waiting.Remove(&l.inAge)
		s.silent.busy++
		s.silent.young++
	}
	s.last++
	l.id, l.begun = s.last, now
	s.busy[l.id] = l
	s.young.PushBack(&l.inAge, l)
	if !l.quiet {
		for j := range l.jobs.All() {
			s.leaveLine(j)
		}
	}
	for c := range l.questions.All() {
		s.leaveNetwork(c)
	}
	return l
}

// beginFor has a lookup count for a message. The turn passes to the other line.
func (s *Lookups) beginFor(r *Routing, l *Lookup) {
	l.owner = r
	r.owned.PushBack(&l.inOwner, l)
	if l.retry = r.line == LineRetries; l.retry {
		s.retrying++
	}
	s.turn = (r.line + 1) % lines
}

// Answered returns the lookup that is answered, which its caller ends (End); known is false
// if none of that ID is under way. The answer to one that was given up shows no more than
// that its name is not silent: l is nil then.
func (s *Lookups) Answered(id LookupID, reply mail.Reply, now mail.Instant) (l *Lookup, known bool) {
	if name, abandoned := s.abandoned[id]; abandoned {
		delete(s.abandoned, id)
		if !reply.Temporary() {
			s.silent.heard(name, now)
		}
		return nil, true
	}
	l = s.busy[id]
	return l, l != nil
}

// End ends a lookup that is under way, with the reply for its mail, zero if there is a
// route. NextQuestion and NextJob have what waited for it. Messages that were parked for
// it come back in their turn: Return.
func (s *Lookups) End(l *Lookup, reply mail.Reply, now mail.Instant) {
	assert.That(l.id != 0 && s.busy[l.id] == l, "lookup %d of %s ends, and is not under way", l.id, l.Nexthop)
	delete(s.busy, l.id)
	delete(s.known, l.Key)
	slow := l.inAge.On(&s.slow)
	if slow {
		s.slow.Remove(&l.inAge)
	} else {
		s.young.Remove(&l.inAge)
	}
	if l.owner != nil {
		l.owner.owned.Remove(&l.inOwner)
	}
	s.leaveRetries(l)
	if l.quiet {
		s.silent.busy--
		if !slow {
			s.silent.young--
		}
	}
	switch {
	case !reply.Temporary():
		s.silent.heard(l.Nexthop, now)
	case l.TLS == mail.TLSRequired: // it may be the domain's policy that is searched for
	case now >= l.begun.Add(slowPatience):
		s.silent.heardNothing(l, reply, now)
	default:
		s.silent.heard(l.Nexthop, now)
	}
	s.parked.letBack(l)
	switch {
	case l.network == nil:
	case slow:
		s.clients.EndSlow(l.network)
	default:
		s.clients.End(l.network)
	}
}

// leaveRetries ends a lookup's part in what retries have under way.
func (s *Lookups) leaveRetries(l *Lookup) {
	if l.retry {
		l.retry = false
		s.retrying--
	}
}

// NextJob takes a job off a lookup that has ended; nil if there is none left.
func (s *Lookups) NextJob(l *Lookup) *Job {
	s.assertEnded(l)
	j := l.jobs.Front()
	if j != nil {
		s.leave(j)
	}
	return j
}

// NextQuestion takes a question off a lookup that has ended; nil if there is none left.
func (s *Lookups) NextQuestion(l *Lookup) *Question {
	s.assertEnded(l)
	c := l.questions.Front()
	if c != nil {
		s.WithdrawQuestion(c)
	}
	return c
}

func (s *Lookups) assertEnded(l *Lookup) {
	assert.That(l.id != 0 && s.busy[l.id] != l, "who waits for lookup %d of %s is taken, and it has not ended", l.id, l.Nexthop)
}

// WithdrawQuestion ends a question's wait for its lookup, if it waits for one.
func (s *Lookups) WithdrawQuestion(c *Question) {
	l := c.lookup
	if l == nil {
		return
	}
	c.lookup = nil
	l.questions.Remove(&c.inLookup)
	s.leaveNetwork(c)
	s.unneed(l)
}

// Withdraw takes back all of a message that waits for lookups, and returns how many
// recipients that was. Lookups under way go on, on no account, since they cannot be
// called back; they hold their slots until they end.
func (s *Lookups) Withdraw(r *Routing) (n int) {
	n = r.count
	for j := r.jobs.Front(); j != nil; j = r.jobs.Front() {
		s.leave(j)
		s.unneed(j.lookup)
	}
	r.Disown()
	return n
}

// Recall is Withdraw for a message that stays. It appends the recipients to a list, which it returns.
func (s *Lookups) Recall(r *Routing, to []mail.Recipient) []mail.Recipient {
	for j := range r.jobs.All() {
		to = append(to, j.Recipients...)
	}
	s.Withdraw(r)
	return to
}

// Disown has the lookups of a message that leaves the core go on, on no account.
func (r *Routing) Disown() {
	for l := r.owned.PopFront(); l != nil; l = r.owned.PopFront() {
		l.owner = nil
	}
}

// Count returns how many lookups are under way, how many have not begun, and how many
// messages have some that have not begun.
func (s *Lookups) Count() (busy, waiting, messages int) {
	return len(s.busy), len(s.known) - len(s.busy), s.lines[LineNew].Len() + s.lines[LineRetries].Len()
}
