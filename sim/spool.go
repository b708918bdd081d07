package sim

import (
	"strconv"

	"github.com/posthaste-mta/posthaste/mail"
)

// A message is what the model's spool has of one message, and what the world
// knows of it.
type message struct {
	id       mail.QueueID
	number   int // of the arrivals of a run, from 1 on
	source   *source
	ofSource int // its number among those of the source, from 0 on
	first    int // place of its first recipient in the source's table
	arrived  mail.Instant
	place    mail.Place
	attempts uint32
	last     mail.Instant // LastAttempt
	warned   bool
	indexed  bool
	entered  uint64    // order in which messages were shown to the core
	sent     bool      // a delivery of it has begun since
	counts   mail.Flow // to which flow the core counts it, where claims are reconstructed

	firstTry  mail.Instant // when a site first saw it; 0: none has
	busy      int          // deliveries under way
	changing  bool         // a change is under way
	unsettled int          // durably
	owing     int          // recipients that owe a report
	states    []recipientState
	one       [1]recipientState // states of a message with one recipient
}

// A recipientState is what has become of one recipient.
type recipientState uint8

const (
	stateTried     recipientState = 1 << iota // an attempt has ended
	stateDelivered                            // a receiver took it
	stateFailed                               // it failed for good
	stateSettled                              // durably delivered or failed
	stateOwes                                 // durably: a report is owed
	stateTaken                                // a receiver took it, and the client does not know
	stateBusy                                 // a delivery is under way
)

// flow returns whose a message is.
func (m *message) flow() mail.Flow {
	cfg := m.source.cfg
	if m.source.unclassified {
		return mail.Flow{}
	}
	f := cfg.Flow
	if cfg.Tenants > 1 {
		f.Tenant += strconv.Itoa(m.ofSource % cfg.Tenants)
	}
	if cfg.Flows > 1 {
		f.Flow += strconv.Itoa(m.ofSource / max(cfg.Tenants, 1) % cfg.Flows)
	}
	return f
}

func (m *message) envelope() mail.Envelope {
	return mail.Envelope{
		ID: m.id, Sender: m.source.sender, Size: m.source.size, Recipients: uint32(len(m.states)), Arrived: m.arrived,
		Flow: m.flow(), Attempts: m.attempts, LastAttempt: m.last, Warned: m.warned,
	}
}

// recipient returns where recipient i is in the source's table.
func (m *message) recipient(i int) *tableEntry {
	t := m.source.table
	n := m.first + i
	if n >= len(t) {
		n %= len(t)
	}
	return &t[n]
}

// batch returns unsettled recipients from an index on, appended to buffer.
func (m *message) batch(from uint32, count int, buffer []mail.Recipient) mail.RecipientBatch {
	b := mail.RecipientBatch{Recipients: buffer, Next: from}
	for i := int(from); i < len(m.states); i++ {
		if len(b.Recipients) == count {
			b.More = true
			break
		}
		b.Next = uint32(i + 1)
		if m.states[i]&stateSettled == 0 {
			b.Recipients = append(b.Recipients, mail.Recipient{Index: uint32(i), Address: m.recipient(i).address})
		}
	}
	return b
}

// A spool is the model of the disk: everything in it is durable.
type spool struct {
	messages map[mail.QueueID]*message
	areas    [mail.AreaCorrupt + 1]index
	lastID   mail.QueueID
	asked    *message   // for last; nil if it is gone
	spare    []*message // removed, for use again

	unsettled int // recipients, all messages
	untried   int // recipients that no attempt has ended for
}

// message returns a message, nil if it is not there. Mostly it is the one that was
// asked for last.
func (s *spool) message(id mail.QueueID) *message {
	if s.asked == nil || s.asked.id != id {
		s.asked = s.messages[id]
	}
	return s.asked
}

// remove takes a message out.
func (s *spool) remove(m *message) {
	delete(s.messages, m.id)
	s.asked = nil
}

// accept puts a new message in.
func (s *spool) accept(src *source, first, recipients int, now mail.Instant) *message {
	s.lastID = max(s.lastID+1, mail.NewQueueID(now, 0))
	m := s.blank()
	*m = message{id: s.lastID, source: src, first: first, arrived: now, unsettled: recipients,
		place: mail.Place{Area: mail.AreaIncoming, Chunks: 1}, states: m.states}
	if recipients == 1 {
		m.states = m.one[:]
	} else {
		m.states = make([]recipientState, recipients)
	}
	s.messages[m.id], s.asked = m, m
	s.unsettled += recipients
	s.untried += recipients
	return m
}

func (s *spool) blank() *message {
	if n := len(s.spare); n > 0 {
		m := s.spare[n-1]
		s.spare = s.spare[:n-1]
		return m
	}
	return new(message)
}

// add puts a message into its area's index. What the core took in directly when it
// came is put there only if it stays: it is not needed before.
func (s *spool) add(m *message) {
	m.indexed = true
	s.areas[m.place.Area].insert(m.cursor())
}

func (m *message) cursor() mail.Cursor {
	return m.place.Cursor(m.id)
}

// move changes where a message is.
func (s *spool) move(m *message, to mail.Place) {
	if m.indexed {
		s.areas[m.place.Area].remove(m.cursor())
		m.indexed = false
	}
	m.place = to
	if to.Area == mail.AreaNone {
		s.remove(m)
		s.unsettled -= m.unsettled
		return
	}
	s.add(m)
}

// recycle lets a removed message's memory be used again.
func (s *spool) recycle(m *message) { s.spare = append(s.spare, m) }

// apply makes a change durable and returns its answer. m is nil if the message
// is not there any more, which makes every change a success that does nothing.
func (s *spool) apply(m *message, c *mail.Change) mail.Changed {
	if m == nil {
		return mail.Changed{ID: c.ID}
	}
	for i := range c.Outcomes {
		s.settle(m, &c.Outcomes[i])
	}
	to := func(area mail.Area, due mail.Instant) mail.Place {
		return mail.Place{Area: area, Due: due, Chunks: 1, Touched: true, Bucket: m.place.Bucket}
	}
	switch c.Op {
	case mail.ChangeDefer:
		if m.place.Area == mail.AreaHold && m.unsettled > 0 {
			break
		}
		m.attempts, m.last = m.attempts+1, c.At
		s.move(m, to(mail.AreaDeferred, c.Due))
	case mail.ChangeRemove:
		s.move(m, mail.Place{})
	case mail.ChangeHold:
		s.move(m, to(mail.AreaHold, c.Due))
	case mail.ChangeCorrupt:
		s.move(m, to(mail.AreaCorrupt, 0))
	case mail.ChangeLapse:
		if m.place.Area == mail.AreaHold && m.place.Due > 0 && m.place.Due <= c.At {
			s.move(m, mail.Place{})
		}
	case mail.ChangeRelease:
		if m.place.Area == mail.AreaHold {
			s.move(m, to(mail.AreaDeferred, c.Due))
		}
	case mail.ChangeExpire:
		s.expire(m)
	case mail.ChangeWarn:
		m.warned = true
		for i := range m.states {
			if m.states[i]&stateSettled == 0 {
				m.owe(i)
			}
		}
	}
	return mail.Changed{ID: m.id, Place: m.place, Reports: m.owing > 0 && m.place.Area != mail.AreaNone}
}

// settle makes one outcome durable.
func (s *spool) settle(m *message, o *mail.Outcome) {
	st := &m.states[o.Index]
	if o.Result.Settled() && *st&stateSettled == 0 {
		*st |= stateSettled
		m.unsettled--
		s.unsettled--
	}
	if o.Report != mail.ReportNone {
		m.owe(int(o.Index))
	}
}

func (s *spool) expire(m *message) {
	for i := range m.states {
		if m.states[i]&stateSettled != 0 {
			continue
		}
		if m.states[i]&stateTried == 0 {
			s.untried--
		}
		m.states[i] |= stateSettled | stateFailed | stateTried
		m.unsettled--
		s.unsettled--
		if m.source.sender != "" {
			m.owe(i)
		}
	}
}

func (m *message) owe(i int) {
	if m.states[i]&stateOwes == 0 {
		m.states[i] |= stateOwes
		m.owing++
	}
}

// report clears the debts of a message.
func (s *spool) report(m *message) {
	for i := range m.states {
		m.states[i] &^= stateOwes
	}
	m.owing = 0
}
