package qmgr

import (
	"cmp"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// A bound recipient is one whose destination is known.
type bound struct {
	recipient mail.Recipient
	transport string
	nexthop   string
}

// takeBatch takes recipients that were read and asks where they go.
func (q *Qmgr) takeBatch(m *message, b mail.RecipientBatch) {
	m.next, m.more = b.Next, b.More
	if m.order != orderNone {
		m.left = m.left || b.More || len(b.Recipients) > 0
		return
	}
	if len(b.Recipients) == 0 {
		return
	}
	m.unrouted = append([]mail.Recipient(nil), b.Recipients...)
	m.inCore += len(m.unrouted)
	q.recipients += len(m.unrouted)
	m.await(awaitsRoute)
	q.emit(Route{ID: m.id, Recipients: append([]mail.Recipient(nil), b.Recipients...)})
}

// routed binds recipients to their queues.
func (q *Qmgr) routed(ev Routed) {
	m := q.messages[ev.ID]
	if m == nil || !m.answered(awaitsRoute) {
		q.duplicate(ev.ID, "routed")
		return
	}
	assert.That(len(ev.Routes) == len(m.unrouted), "%d routes for %d recipients of %v", len(ev.Routes), len(m.unrouted), m.id)
	unrouted := m.unrouted
	m.unrouted = nil
	if m.order != orderNone {
		m.inCore -= len(unrouted)
		q.recipients -= len(unrouted)
		m.left = true
		q.advance(m)
		return
	}
	recipients := make([]bound, len(unrouted))
	for i, r := range unrouted {
		recipients[i] = q.bind(m, r, ev.Routes[i])
	}
	if len(recipients) > 1 {
		slices.SortStableFunc(recipients, compareBound)
	}
	q.assign(m, recipients)
	q.advance(m)
}

// bind says through which transport and to which nexthop a recipient goes. One
// that leads nowhere, and one whose destination is dead, goes to a transport
// whose nexthop is the reply.
func (q *Qmgr) bind(m *message, r mail.Recipient, to mail.Route) bound {
	switch {
	case to.Reply.Permanent():
		return bound{r, TransportError, replyText(to.Reply)}
	case !to.Reply.IsZero():
		return bound{r, TransportRetry, replyText(to.Reply)}
	}
	nexthop := strings.ToLower(to.Nexthop)
	t := q.transport(to.Transport)
	if d := t.queues[nexthop]; d != nil && d.window.State() == window.Dead {
		if m.from != originRetry {
			return bound{r, TransportRetry, replyText(d.reason)}
		}
		q.revive(d) // an operator wants it tried
	}
	return bound{r, t.name, nexthop}
}

// replyText is how a reply is written as the nexthop of TransportRetry and
// TransportError: its code, if it is not the ordinary one of the transport, is
// lost; status and text are what counts. The error agent reads it back.
func replyText(r mail.Reply) string {
	if r.Status == (mail.Status{}) {
		return r.Text
	}
	return r.Status.String() + " " + r.Text
}

// compareBound is the order in which recipients are assigned, which is Postfix's:
// by transport, nexthop, domain, address. Recipients that share a transaction
// come to stand side by side.
func compareBound(a, b bound) int {
	if c := cmp.Compare(a.transport, b.transport); c != 0 {
		return c
	}
	if c := cmp.Compare(a.nexthop, b.nexthop); c != 0 {
		return c
	}
	if c := compareFold(a.recipient.Address.Domain(), b.recipient.Address.Domain()); c != 0 {
		return c
	}
	return cmp.Compare(a.recipient.Address, b.recipient.Address)
}

// compareFold compares without regard to ASCII case and without allocating.
func compareFold(a, b string) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		if c := cmp.Compare(lower(a[i]), lower(b[i])); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// assign puts recipients, in their order, into entries: the last waiting one
// of their peer if it has room, else a new one.
func (q *Qmgr) assign(m *message, recipients []bound) {
	var t *transport
	var j *job
	for i := range recipients {
		b := &recipients[i]
		if t == nil || t.name != b.transport {
			t = q.transport(b.transport)
			j = q.jobFor(m, t)
		}
		p := j.peer(t.queue(b.nexthop))
		e := p.todo.Back()
		if e == nil || t.cfg.RecipientLimit > 0 && len(e.recipients) >= t.cfg.RecipientLimit {
			e = newEntry(p)
		}
		e.recipients = append(e.recipients, b.recipient)
	}
}

// jobFor returns the message's job on a transport, listed and not blocked.
func (q *Qmgr) jobFor(m *message, t *transport) *job {
	j := m.job(t)
	if j == nil {
		j = newJob(m, t)
	}
	if !j.listed {
		j.list()
	}
	if j.blocked() {
		j.blockerTag = 0
		t.current = t.jobs.Front()
	}
	return j
}

// firstRead is how many recipients to read of a message that comes into core.
func (q *Qmgr) firstRead() int {
	return min(max(q.cfg.RecipientLimit-q.recipients, q.cfg.RecipientMinimum), readMax)
}

// readMax bounds one read, so that it does not hold up the rest (Postfix has
// the same number).
const readMax = 5000

// refill asks for more recipients of a message if there are any and enough of
// them fit; if none is in core, whatever fits.
func (q *Qmgr) refill(m *message) {
	if !m.more || m.awaits&(awaitsRead|awaitsRoute) != 0 || m.order != orderNone || q.halt {
		return
	}
	n := min(max(q.cfg.RecipientLimit-q.recipients, q.cfg.RecipientMinimum-m.inCore), readMax)
	if n < 1 || m.inCore > 0 && n < q.cfg.RefillLimit {
		return
	}
	m.await(awaitsRead)
	q.emit(Read{ID: m.id, From: m.next, Max: n})
}

func (q *Qmgr) recipientsRead(ev Recipients) {
	m := q.messages[ev.ID]
	if m == nil || !m.answered(awaitsRead) {
		q.duplicate(ev.ID, "recipients")
		return
	}
	q.takeBatch(m, ev.Batch)
	q.advance(m)
}
