package admintest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
)

// A Message is one message of a Queue.
type Message struct {
	admin.Message
	Recipients []mail.RecipientOutcome
	Content    string
	InCore     bool
	Places     []qmgr.PlaceView // with InCore: where it goes
	Parked     qmgr.WaitKind
	Where      map[uint32]qmgr.RecipientView // with InCore: where recipients are, by index
	Ordered    qmgr.Ordered                  // with InCore
	Busy       bool                          // being delivered: orders take effect when Finish is called
	Damaged    bool                          // its recipients and its content cannot be read
	Unreadable bool                          // its recipients cannot be read now, for a reason that may be temporary
}

// A Queue is messages in memory. Its methods may be called from any goroutine.
type Queue struct {
	mu       sync.Mutex
	messages []*Message // by ID
	ordered  map[mail.QueueID]func(*Message)
	core     qmgr.View
	known    []qmgr.DestinationView
	flows    []qmgr.FlowView
	sources  []qmgr.SourceView
	warmups  []warmup.Order
	damaged  []admin.DamagedFile
	trouble  func() (int, time.Time, error)
	silent   bool
	full     bool
	reserved uint16
	retried  []mail.QueueID
	rerouted int // MostRerouted
	flushes  int
	reads    int
}

var (
	_ admin.Store     = (*Queue)(nil)
	_ admin.Control   = (*Queue)(nil)
	_ admin.Scheduler = (*Queue)(nil)
)

// New returns a queue with some messages.
func New(messages ...Message) *Queue {
	q := &Queue{ordered: map[mail.QueueID]func(*Message){}}
	for _, m := range messages {
		q.Add(m)
	}
	return q
}

// Add puts a message into the queue. Its size and its number of recipients are
// derived from its contents.
func (q *Queue) Add(m Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if m.Envelope.Size == 0 {
		m.Envelope.Size = int64(len(m.Content))
	}
	m.Envelope.Recipients = uint32(len(m.Recipients))
	for i := range m.Recipients {
		r := &m.Recipients[i]
		r.Recipient.Index, r.Outcome.Index = uint32(i), uint32(i)
		if r.Outcome.Result.Settled() {
			m.Settled++
		}
	}
	i, _ := slices.BinarySearchFunc(q.messages, m.Envelope.ID, byID)
	q.messages = slices.Insert(q.messages, i, &m)
}

func byID(m *Message, id mail.QueueID) int {
	switch {
	case m.Envelope.ID < id:
		return -1
	case m.Envelope.ID > id:
		return 1
	}
	return 0
}

// SetCore sets the transports and counts that View returns.
func (q *Queue) SetCore(v qmgr.View) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.core = v
}

// SetDestinations sets the destinations, in the order of lists.
func (q *Queue) SetDestinations(all ...qmgr.DestinationView) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.known = all
}

// Silence makes the core stop answering.
func (q *Queue) Silence() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.silent = true
}

// Finish ends the deliveries of a busy message, so that an order for it takes
// effect.
func (q *Queue) Finish(id mail.QueueID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	m := q.find(id)
	if m == nil {
		return
	}
	m.Busy = false
	if do := q.ordered[id]; do != nil {
		do(m)
	}
	q.sweep()
}

// Place returns where a message is; AreaNone if it is gone.
func (q *Queue) Place(id mail.QueueID) mail.Area {
	q.mu.Lock()
	defer q.mu.Unlock()
	if m := q.find(id); m != nil {
		return m.Place.Area
	}
	return mail.AreaNone
}

// Retried returns the messages that Retry was called for, and the number of calls
// of RetryAll.
func (q *Queue) Retried() (ids []mail.QueueID, all int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.retried), q.flushes
}

// Reads returns the number of messages that were looked up.
func (q *Queue) Reads() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.reads
}

func (q *Queue) find(id mail.QueueID) *Message {
	if i, ok := slices.BinarySearchFunc(q.messages, id, byID); ok {
		return q.messages[i]
	}
	return nil
}

// sweep removes messages that were dropped.
func (q *Queue) sweep() {
	q.messages = slices.DeleteFunc(q.messages, func(m *Message) bool { return m.Place.Area == mail.AreaNone })
}

// Find implements admin.Store.
func (q *Queue) Find(ctx context.Context, area mail.Area, from mail.Cursor, max int) (mail.Found, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var all []mail.Cursor
	for _, m := range q.messages {
		at := m.Place.Cursor(m.Envelope.ID)
		at.Bucket = 0
		if m.Place.Area == area && !at.Before(from) {
			all = append(all, at)
		}
	}
	slices.SortFunc(all, func(a, b mail.Cursor) int {
		if a.Before(b) {
			return -1
		}
		return 1
	})
	found := mail.Found{Cursors: all, Next: from, NextDue: mail.Never}
	if len(all) > max {
		found.Cursors, found.More = all[:max], true
	}
	if n := len(found.Cursors); n > 0 {
		found.Next = found.Cursors[n-1]
		found.Next.ID++
	}
	return found, ctx.Err()
}

// Sweep implements admin.Store. It passes over what an implementation may pass over.
func (q *Queue) Sweep(ctx context.Context, from mail.QueueID, in admin.Interest, visit func(*admin.Sight) bool) error {
	q.mu.Lock()
	var all []admin.Sight
	for _, m := range q.messages {
		if m.Envelope.ID >= from {
			all = append(all, admin.Sight{Message: m.Message, Recipients: slices.Clone(m.Recipients), Long: len(m.Recipients) > longList || m.Damaged || m.Unreadable})
		}
	}
	q.mu.Unlock()
	for i := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		m := &all[i]
		if !meets(&in, m) {
			if in.Passed != nil && !in.Passed(1, m.Envelope.ID+1) {
				return nil
			}
			continue
		}
		if m.Long || in.Brief {
			m.Recipients = nil
		}
		m.Long = m.Long && !in.Brief
		if !visit(m) {
			return nil
		}
	}
	return nil
}

// meets reports whether a message meets the conditions of a sweep.
func meets(in *admin.Interest, m *admin.Sight) bool {
	if m.Damage != "" {
		return true
	}
	if in.Envelope != nil && !in.Envelope(&m.Envelope) {
		return false
	}
	if in.Recipient != nil && !m.Long && !slices.ContainsFunc(m.Recipients, func(r mail.RecipientOutcome) bool { return in.Recipient(r.Recipient.Address) }) {
		return false
	}
	if in.Outcome == nil || in.Envelope != nil || in.Recipient != nil || m.Long || m.Reason != "" && in.Outcome(m.Reason, &mail.Outcome{}) {
		return true
	}
	return slices.ContainsFunc(m.Recipients, func(r mail.RecipientOutcome) bool {
		return !r.Outcome.Result.Settled() && in.Outcome(m.Reason, &r.Outcome)
	})
}

// longList is the number of recipients from which on a sweep leaves them out.
const longList = 50

// Show implements admin.Store.
func (q *Queue) Show(ctx context.Context, id mail.QueueID) (admin.Message, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.reads++
	if m := q.find(id); m != nil {
		return m.Message, ctx.Err()
	}
	return admin.Message{}, fmt.Errorf("memory: %w", admin.ErrGone)
}

// Recipients implements admin.Store.
func (q *Queue) Recipients(ctx context.Context, id mail.QueueID, query admin.RecipientQuery) (admin.RecipientList, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	m := q.find(id)
	switch {
	case m == nil:
		return admin.RecipientList{}, fmt.Errorf("memory: %w", admin.ErrGone)
	case m.Damaged:
		return admin.RecipientList{}, fmt.Errorf("memory: %w", admin.ErrDamaged)
	case m.Unreadable:
		return admin.RecipientList{}, errors.New("memory: input/output error")
	}
	list := admin.RecipientList{Next: query.From}
	for i := int(query.From); i < len(m.Recipients); i++ {
		if len(list.Recipients) >= query.Max {
			list.More = true
			break
		}
		list.Next = uint32(i) + 1
		if !query.Waiting || !m.Recipients[i].Outcome.Result.Settled() {
			list.Recipients = append(list.Recipients, m.Recipients[i])
		}
	}
	return list, ctx.Err()
}

// Content implements admin.Store.
func (q *Queue) Content(ctx context.Context, id mail.QueueID) (io.ReadCloser, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	m := q.find(id)
	switch {
	case m == nil:
		return nil, fmt.Errorf("memory: %w", admin.ErrGone)
	case m.Damaged:
		return nil, fmt.Errorf("memory: %w", admin.ErrDamaged)
	}
	return io.NopCloser(strings.NewReader(m.Content)), ctx.Err()
}

// SetDamaged sets the damaged files that Counts returns.
func (q *Queue) SetDamaged(files ...admin.DamagedFile) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.damaged = files
}

// Counts implements admin.Store.
func (q *Queue) Counts(ctx context.Context) (admin.Counts, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := admin.Counts{Free: 50 << 30, Damaged: q.damaged}
	for _, m := range q.messages {
		c.Used += m.Envelope.Size
		switch m.Place.Area {
		case mail.AreaIncoming:
			c.Incoming++
		case mail.AreaDeferred:
			c.Deferred++
		case mail.AreaHold:
			c.Hold++
		case mail.AreaCorrupt:
			c.Corrupt++
		}
	}
	return c, ctx.Err()
}

// order applies do to messages, to busy ones when Finish is called.
func (q *Queue) order(ids []mail.QueueID, do func(*Message)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, id := range ids {
		switch m := q.find(id); {
		case m == nil:
		case m.Busy:
			q.ordered[id] = do
		default:
			do(m)
		}
	}
	q.sweep()
}

// Hold implements admin.Control.
func (q *Queue) Hold(ids []mail.QueueID, reason string) {
	q.order(ids, func(m *Message) { m.Place, m.Reason, m.InCore = mail.Place{Area: mail.AreaHold}, reason, false })
}

// Release implements admin.Control.
func (q *Queue) Release(ids []mail.QueueID) {
	q.order(ids, func(m *Message) {
		switch {
		case m.Place.Area == mail.AreaHold && m.Place.Due == 0 && m.Envelope.Release > mail.Instant(time.Now().UnixNano()):
			m.Place.Due, m.Reason = m.Envelope.Release, "its sender has it kept"
		case m.Place.Area == mail.AreaHold, m.Place.Area == mail.AreaCorrupt: // all of it can be read
			m.Place, m.Reason = mail.Place{Area: mail.AreaDeferred, Due: m.Envelope.Arrived}, ""
		}
	})
}

// Drop implements admin.Control.
func (q *Queue) Drop(ids []mail.QueueID) {
	q.order(ids, func(m *Message) { m.Place.Area = mail.AreaNone })
}

// Settle implements admin.Control.
func (q *Queue) Settle(id mail.QueueID, outcomes []mail.Outcome, _ bool) {
	q.order([]mail.QueueID{id}, func(m *Message) {
		for _, o := range outcomes {
			if known := &m.Recipients[o.Index].Outcome; !known.Result.Settled() {
				*known = o
				m.Settled++
			}
		}
		if m.Settled == m.Envelope.Recipients {
			m.Place.Area = mail.AreaNone
		}
	})
}

// SetRoute implements admin.Control.
func (q *Queue) SetRoute(id mail.QueueID, r mail.Reroute) {
	q.mu.Lock()
	q.rerouted = max(q.rerouted, len(r.Recipients))
	q.mu.Unlock()
	q.order([]mail.QueueID{id}, func(m *Message) {
		for _, i := range r.Recipients {
			if one := &m.Recipients[i]; !one.Outcome.Result.Settled() {
				one.Outcome.Ordered, one.Recipient.Ordered = r.To, r.To
			}
		}
	})
}

// MostRerouted returns the largest number of recipients of one SetRoute.
func (q *Queue) MostRerouted() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.rerouted
}

// Reserve implements admin.Control.
func (q *Queue) Reserve(int64) (mail.QueueID, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.full {
		return 0, fmt.Errorf("memory: %w", admin.ErrFull)
	}
	q.reserved++
	return mail.NewQueueID(mail.Instant(4e18), q.reserved), nil
}

// Fill makes Reserve fail, as if the spool were full.
func (q *Queue) Fill() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.full = true
}

// Split implements admin.Control.
func (q *Queue) Split(id mail.QueueID, s mail.Split, _ bool) {
	var part Message
	q.order([]mail.QueueID{id}, func(m *Message) {
		part = Message{Message: m.Message, Content: m.Content}
		part.Envelope.ID, part.Place, part.Reason, part.Settled = s.Into, mail.Place{Area: mail.AreaHold}, s.Reason, 0
		if q := s.Requeue; q != nil {
			part.Envelope.Sender, part.Envelope.Flow, part.Envelope.Requeued, part.Envelope.Attempts = q.Sender, q.Flow, id, 0
			if part.Place, part.Reason = m.Place, m.Reason; m.Place.Area != mail.AreaHold {
				part.Place = mail.Place{Area: mail.AreaDeferred, Due: m.Envelope.Arrived}
			}
		}
		for _, i := range s.Recipients {
			if r := &m.Recipients[i]; !r.Outcome.Result.Settled() {
				part.Recipients = append(part.Recipients, requeuedAs(*r, s.Requeue)...)
				r.Outcome = mail.Outcome{Index: i, Result: mail.Moved, Reply: mail.Reply{Text: "moved to " + s.Into.String()}}
				m.Settled++
			}
		}
		if s.Requeue != nil && m.Settled == m.Envelope.Recipients {
			m.Place.Area = mail.AreaNone
		}
	})
	if part.Envelope.Recipients = uint32(len(part.Recipients)); part.Envelope.Recipients > 0 {
		q.Add(part)
	}
}

// requeuedAs returns who is in place of a recipient; himself without a requeue.
func requeuedAs(r mail.RecipientOutcome, q *mail.Requeue) (list []mail.RecipientOutcome) {
	if q == nil {
		return []mail.RecipientOutcome{r}
	}
	to := r.Outcome.Ordered
	if !q.KeepRoute {
		to = nil
	}
	for _, one := range q.Replacements(r.Recipient.Index) {
		list = append(list, mail.RecipientOutcome{Recipient: mail.Recipient{Address: one.Address, ORcpt: one.ORcpt, Notify: one.Notify, Ordered: to}, Outcome: mail.Outcome{Ordered: to}})
	}
	if list == nil {
		r.Outcome, r.Recipient.Ordered = mail.Outcome{Ordered: to}, to
		list = append(list, r)
	}
	return list
}

// Outcomes returns the outcomes of a message's recipients; nil if it is gone.
func (q *Queue) Outcomes(id mail.QueueID) []mail.RecipientOutcome {
	q.mu.Lock()
	defer q.mu.Unlock()
	if m := q.find(id); m != nil {
		return slices.Clone(m.Recipients)
	}
	return nil
}

// Retry implements admin.Control.
func (q *Queue) Retry(ids []mail.QueueID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.retried = append(q.retried, ids...)
}

// RetryAll implements admin.Control.
func (q *Queue) RetryAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flushes++
}

var errSilent = errors.New("memory: the core is silent")

// View implements admin.Control.
func (q *Queue) View(ctx context.Context, queues int) (qmgr.View, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.silent {
		return qmgr.View{}, errSilent
	}
	v := q.core
	if v.Now == 0 {
		v.Now = mail.Instant(time.Now().UnixNano())
	}
	v.Transports = slices.Clone(v.Transports)
	for i := range v.Transports {
		t := &v.Transports[i]
		t.Queues = t.Queues[:min(len(t.Queues), queues)]
	}
	return v, ctx.Err()
}

// InCore implements admin.Control.
func (q *Queue) InCore(ctx context.Context, ids []mail.QueueID) ([]bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.silent {
		return nil, errSilent
	}
	held := make([]bool, len(ids))
	for i, id := range ids {
		m := q.find(id)
		held[i] = m != nil && m.InCore
	}
	return held, ctx.Err()
}

// Busy implements admin.Control.
func (q *Queue) Busy(ctx context.Context, ids []mail.QueueID) ([]bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.silent {
		return nil, errSilent
	}
	busy := make([]bool, len(ids))
	for i, id := range ids {
		m := q.find(id)
		busy[i] = m != nil && (m.Busy || m.InCore)
	}
	return busy, ctx.Err()
}

// Destinations implements admin.Scheduler.
func (q *Queue) Destinations(ctx context.Context, query qmgr.DestinationQuery) (qmgr.DestinationList, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.silent {
		return qmgr.DestinationList{}, errSilent
	}
	var list qmgr.DestinationList
	begun := query.After == nil
	for i := range q.known {
		s := &q.known[i].DestinationSummary
		if query.Domain != "" || query.Match != nil && !query.Match(s.Transport, s.Queue.Nexthop) {
			continue
		}
		list.Matched++
		list.ByCondition[s.Condition]++
		switch wanted := len(query.In) == 0 || slices.Contains(query.In, s.Condition); {
		case !begun:
			begun = s.Place() == *query.After
		case wanted && len(list.Destinations) == query.Most:
			list.More = true
		case wanted:
			list.Destinations = append(list.Destinations, *s)
		}
	}
	return list, ctx.Err()
}

// SetSources sets the sources.
func (q *Queue) SetSources(all ...qmgr.SourceView) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sources = all
}

// AdjustWarmup implements admin.Control.
func (q *Queue) AdjustWarmup(o warmup.Order) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.warmups = append(q.warmups, o)
}

// Warmups returns the orders about warm-ups that it was given.
func (q *Queue) Warmups() []warmup.Order {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.warmups)
}

// Sources implements admin.Scheduler.
func (q *Queue) Sources(ctx context.Context, sites int) ([]qmgr.SourceView, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.silent {
		return nil, errSilent
	}
	all := slices.Clone(q.sources)
	for i := range all {
		all[i].Sites = all[i].Sites[:min(sites, len(all[i].Sites))]
	}
	return all, ctx.Err()
}

// SetFlows sets the flows, in the order of lists.
func (q *Queue) SetFlows(all ...qmgr.FlowView) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flows = all
}

// Flows implements admin.Scheduler.
func (q *Queue) Flows(ctx context.Context, query qmgr.FlowQuery) (qmgr.FlowList, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.silent {
		return qmgr.FlowList{}, errSilent
	}
	var list qmgr.FlowList
	for _, f := range q.flows {
		if query.Match != nil && !query.Match(f.Flow) {
			continue
		}
		if list.Matched++; len(list.Flows) < query.Most {
			list.Flows = append(list.Flows, f)
		}
	}
	list.More = list.Matched > len(list.Flows)
	return list, ctx.Err()
}

// Destination implements admin.Scheduler.
func (q *Queue) Destination(ctx context.Context, transport, nexthop string, most int) (qmgr.DestinationView, bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.silent {
		return qmgr.DestinationView{}, false, errSilent
	}
	for _, v := range q.known {
		if v.Transport == transport && v.Queue.Nexthop == nexthop {
			v.Hosts, v.Connections, v.Ended = v.Hosts[:min(len(v.Hosts), most)], v.Connections[:min(len(v.Connections), most)], v.Ended[:min(len(v.Ended), most)]
			return v, true, ctx.Err()
		}
	}
	return qmgr.DestinationView{}, false, ctx.Err()
}

// SetTrouble sets what Trouble returns.
func (q *Queue) SetTrouble(messages int, at time.Time, reason error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.trouble = func() (int, time.Time, error) { return messages, at, reason }
}

// Trouble implements admin.Scheduler.
func (q *Queue) Trouble() (messages int, at time.Time, reason error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.trouble == nil {
		return 0, time.Time{}, nil
	}
	return q.trouble()
}

// ExplainRecipient implements admin.Scheduler.
func (q *Queue) ExplainRecipient(ctx context.Context, id mail.QueueID, index uint32) (v qmgr.RecipientView, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.silent {
		return v, errSilent
	}
	if m := q.find(id); m != nil && m.InCore {
		v = m.Where[index]
		v.Held = true
	}
	return v, ctx.Err()
}

// Explain implements admin.Scheduler.
func (q *Queue) Explain(ctx context.Context, ids []mail.QueueID, most int) ([]qmgr.MessageView, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.silent {
		return nil, errSilent
	}
	views := make([]qmgr.MessageView, len(ids))
	for i, id := range ids {
		m := q.find(id)
		if m != nil {
			views[i].Parked = m.Parked
		}
		if m != nil && m.InCore {
			n := min(len(m.Places), most)
			views[i] = qmgr.MessageView{Held: true, Places: m.Places[:n], More: len(m.Places) - n, Ordered: m.Ordered}
			for _, p := range m.Places {
				views[i].Busy += p.Busy
			}
		}
	}
	return views, ctx.Err()
}
