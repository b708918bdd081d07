package quota

import (
	"time"

	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
)

// A Book is the limits with what was sent. It belongs to one goroutine at a time.
type Book struct {
	cfg     Config
	longest time.Duration // the longest time of a limit
	meters  map[name]*meter
	order   ilist.List[meter] // all meters, the one used longest ago first
	dirty   ilist.List[meter] // those that Save must look at, in the order in which they changed
	tenants int               // meters of tenants without limits of their own
	flows   int               // meters of flows
	ofOne   map[string]int    // of these, those of each tenant
	gone    []name            // saved meters that were forgotten since Save
	refused [kinds][resources]uint64
}

// A name identifies a meter.
type name struct {
	kind         Kind
	tenant, name string // tenant only with Flow
	slot         int    // of a meter that names share, from 1 on; then tenant and name are empty
}

// A meter counts what one class, tenant or flow has sent.
type meter struct {
	name
	link       ilist.Link[meter] // in Book.order
	unsaved    ilist.Link[meter] // in Book.dirty
	messages   rate.Bucket
	recipients rate.Bucket
	used       mail.Instant // last
	lasting    bool         // there is a limit of SavedPer or longer
	saved      bool         // Save has returned what it had
	refused    uint64
}

const (
	// metersMax is the number of tenants, and of flows, beyond which names share meters.
	// A meter takes some 500 bytes with two limits.
	metersMax = 1 << 16
	// flowsMax is the number of flows of one tenant beyond which they share meters.
	flowsMax = 1 << 12
	// slots is the number of meters that names share.
	slots = 256
	// SavedPer is the time of a limit from which on what it has counted is saved.
	SavedPer = time.Hour
	// remembered is the time for which a meter is kept at least, for its refusals.
	remembered = time.Hour
)

// New returns a Book in which nothing has been sent.
func New(cfg Config) *Book {
	b := &Book{meters: make(map[name]*meter), ofOne: make(map[string]int)}
	b.Configure(cfg, 0)
	return b
}

// Configure replaces the limits. What was sent counts under the new ones, too.
func (b *Book) Configure(cfg Config, now mail.Instant) {
	b.cfg, b.longest = cfg, remembered
	consider := func(l Limits) {
		for _, limits := range []rate.Limits{l.MessageRate, l.RecipientRate} {
			for _, one := range limits.All() {
				b.longest = max(b.longest, one.Per)
			}
		}
	}
	consider(cfg.EachTenant)
	consider(cfg.EachFlow)
	for _, l := range cfg.Classes { //archtest:anyorder a maximum
		consider(l)
	}
	for _, l := range cfg.Tenants { //archtest:anyorder a maximum
		consider(l)
	}
	b.tenants, b.flows = 0, 0
	clear(b.ofOne)
	for m := range b.order.All() {
		l := b.limits(m.kind, m.name.name)
		m.messages.Configure(l.MessageRate, now)
		m.recipients.Configure(l.RecipientRate, now)
		if m.lasting = l.lasting(); m.lasting {
			b.mark(m) // a new limit may count what older ones have
		}
		b.count(m, 1)
	}
}

// limits returns the limits of a class, a tenant or a flow.
func (b *Book) limits(kind Kind, of string) Limits {
	switch kind {
	case Class:
		return b.cfg.Classes[of]
	case Tenant:
		return b.cfg.Tenants[of].over(b.cfg.EachTenant)
	}
	return b.cfg.EachFlow
}

// own reports whether a class or tenant has limits of its own.
func (b *Book) own(n name) bool {
	if n.kind == Tenant {
		_, ok := b.cfg.Tenants[n.name]
		return ok && n.slot == 0
	}
	return n.kind == Class
}

// Known is which parts of a flow are certain.
type Known struct{ Class, Tenant, Flow bool }

// A Message has the properties of a message that quotas count.
type Message struct {
	Flow       mail.Flow
	Known      Known
	Moment     Moment
	Octets     int64 // of the content; before its end those announced, or 0
	Recipients int   // so far, with the one that is about to be added
}

// Check returns the limit that a message exceeds, nil if it exceeds none. It counts only
// the refusal.
//
// Of several it returns the gravest. A client acts on the reply's first digit and its people
// on its text, so they must hear of the limit that will hold out longest:
//
//   - One that this message can never meet. A temporary reply would have it sent again for
//     days, only to be returned then.
//   - A full queue. When it has room is not known, and a time until which the client shall
//     wait for a rate would be a promise that this limit breaks.
//   - The rate with the longest wait. Nothing sent before that is accepted.
//   - The number of recipients of one message at RCPT. It asks a client to send the rest at
//     once (452 4.5.3), so it comes last: any other limit would refuse that, too.
//
// Of equal ones it is that of the flow, then that of the tenant: the client's own mail, which
// would be refused even if others had less.
func (b *Book) Check(now mail.Instant, m *Message, w mail.Waiting) *Refusal {
	var gravest *Refusal
	var whose name
	for _, part := range b.parts(m, &w) {
		if !part.known {
			continue
		}
		l := b.limits(part.kind, part.name.name)
		r := l.check(m, w.Known, part.waiting)
		if l.metered() {
			r = graver(r, b.find(part.name).check(now, m))
		}
		if r == nil {
			continue
		}
		r.Kind, r.Name = part.kind, part.name.name
		if gravest = graver(r, gravest); gravest == r {
			whose = part.name
		}
	}
	if gravest != nil {
		b.refuse(now, whose, gravest.Resource)
	}
	return gravest
}

// Admit is Check at the end of the content. If it returns nil, the message is counted.
func (b *Book) Admit(now mail.Instant, m *Message, w mail.Waiting) *Refusal {
	b.sweep(now)
	m.Moment, m.Known = AtEnd, Known{true, true, true}
	if r := b.Check(now, m, w); r != nil {
		return r
	}
	for _, part := range b.parts(m, &w) {
		if l := b.limits(part.kind, part.name.name); l.metered() {
			b.take(now, part.name, m.Recipients)
		}
	}
	return nil
}

// Retract takes a message back that was admitted at an instant and was not accepted after
// all.
func (b *Book) Retract(at mail.Instant, m *Message) {
	for _, part := range b.parts(m, &mail.Waiting{}) {
		meter := b.meters[part.name]
		if meter == nil {
			meter = b.meters[part.name.shared()]
		}
		if meter != nil {
			meter.messages.GiveBack(1, at)
			meter.recipients.GiveBack(m.Recipients, at)
			b.mark(meter)
		}
	}
}

// A part is one of those who must have room for a message.
type part struct {
	name
	known   bool
	waiting mail.Usage
}

func (b *Book) parts(m *Message, w *mail.Waiting) [kinds]part {
	f := &m.Flow
	return [kinds]part{
		{name{kind: Class, name: f.Class}, m.Known.Class, w.Class},
		{name{kind: Tenant, name: f.Tenant}, m.Known.Tenant, w.Tenant},
		{name{kind: Flow, tenant: f.Tenant, name: f.Flow}, m.Known.Tenant && m.Known.Flow, w.Flow},
	}
}

// check compares a message with limits that need no meter, and returns the gravest that it
// exceeds.
func (l *Limits) check(m *Message, known bool, w mail.Usage) (r *Refusal) {
	if l.Octets > 0 && m.Octets > l.Octets {
		r = &Refusal{Moment: m.Moment, Resource: Octets, Limit: l.Octets, Never: true}
	}
	if l.Recipients > 0 && m.Recipients > l.Recipients {
		r = graver(r, &Refusal{Moment: m.Moment, Resource: Recipients, Limit: int64(l.Recipients), Used: int64(m.Recipients), Never: true})
	}
	switch {
	case !known:
	case l.Messages > 0 && w.Messages >= int64(l.Messages):
		r = graver(r, &Refusal{Moment: m.Moment, Resource: Messages, Limit: int64(l.Messages), Used: w.Messages})
	case l.Octets > 0 && w.Octets > l.Octets-max(m.Octets, 1):
		r = graver(r, &Refusal{Moment: m.Moment, Resource: Octets, Limit: l.Octets, Used: w.Octets, Asked: m.Octets})
	}
	return r
}

// check compares a message with what was sent. A missing meter has counted nothing, so
// that only what the message alone exceeds counts; New meters of the limits say that.
func (m *meter) check(now mail.Instant, msg *Message) (r *Refusal) {
	n := max(msg.Recipients, 1)
	if l, until := m.messages.BindingFor(1, now); until > now {
		r = refusal(MessageRate, 1, &m.messages, l, now, until)
		r.Moment = msg.Moment
	}
	if l, until := m.recipients.BindingFor(n, now); until > now {
		other := refusal(RecipientRate, n, &m.recipients, l, now, until)
		other.Moment = msg.Moment
		r = graver(r, other)
	}
	return r
}

func refusal(of Resource, asked int, b *rate.Bucket, l rate.Limit, now, until mail.Instant) *Refusal {
	r := &Refusal{Resource: of, Limit: int64(l.N), Asked: int64(asked), Per: l.Per, Never: until == mail.Never}
	if !r.Never {
		r.Wait = until.Sub(now)
	}
	for _, use := range b.Uses(now) {
		if use.Limit == l {
			r.Used = int64(use.Used)
		}
	}
	return r
}

// find returns the meter of a name, one that has counted nothing if there is none.
func (b *Book) find(n name) *meter {
	if m := b.meters[n]; m != nil {
		return m
	}
	if b.crowded(n) {
		if m := b.meters[n.shared()]; m != nil {
			return m
		}
	}
	return b.fresh(n)
}

func (b *Book) fresh(n name) *meter {
	l := b.limits(n.kind, n.name)
	return &meter{name: n, messages: rate.New(l.MessageRate), recipients: rate.New(l.RecipientRate), lasting: l.lasting()}
}

// crowded reports whether a name that has no meter must share one.
func (b *Book) crowded(n name) bool {
	switch n.kind {
	case Class:
		return false
	case Tenant:
		return !b.own(n) && b.tenants >= metersMax
	}
	return b.flows >= metersMax || b.ofOne[n.tenant] >= flowsMax
}

// shared returns the name of the meter that a name shares with others. Flows share it
// with those of the same tenant only, as far as tenants do not share one.
func (n name) shared() name {
	h := uint32(2166136261) // FNV-1a
	for _, text := range [...]string{n.tenant, n.name} {
		for i := 0; i < len(text); i++ {
			h = (h ^ uint32(text[i])) * 16777619
		}
	}
	return name{kind: n.kind, slot: 1 + int(h%slots)}
}

// take counts a message.
func (b *Book) take(now mail.Instant, n name, recipients int) {
	m := b.touch(now, n)
	m.messages.Take(now)
	m.recipients.TakeMany(recipients, now)
	b.mark(m)
}

// touch returns the meter of a name, making it if there is none, as the one used last.
func (b *Book) touch(now mail.Instant, n name) *meter {
	m := b.meters[n]
	if m == nil && b.crowded(n) {
		n = n.shared()
		m = b.meters[n]
	}
	if m == nil {
		m = b.fresh(n)
		b.insert(m)
	}
	m.used = max(m.used, now)
	b.order.MoveToBack(&m.link)
	return m
}

func (b *Book) insert(m *meter) {
	b.meters[m.name] = m
	b.order.PushBack(&m.link, m)
	b.count(m, 1)
}

func (b *Book) forget(m *meter) {
	delete(b.meters, m.name)
	b.order.Remove(&m.link)
	if m.unsaved.Listed() {
		b.dirty.Remove(&m.unsaved)
	}
	if m.saved {
		b.gone = append(b.gone, m.name)
	}
	b.count(m, -1)
}

// count adds a number to those of which crowded has limits. Meters that names share do not
// count.
func (b *Book) count(m *meter, n int) {
	switch {
	case m.slot > 0:
	case m.kind == Tenant && !b.own(m.name):
		b.tenants += n
	case m.kind == Flow:
		b.flows += n
		if b.ofOne[m.tenant] += n; b.ofOne[m.tenant] == 0 {
			delete(b.ofOne, m.tenant)
		}
	}
}

// sweep forgets a few of the meters that count nothing any more. It is called for each
// message, which makes at most three of them.
func (b *Book) sweep(now mail.Instant) {
	const few = 4
	for range few {
		m := b.order.Front()
		if m == nil || m.used.Add(b.longest+b.longest/8) > now {
			return
		}
		b.forget(m)
	}
}

// refuse counts a refusal. Only a name that has a meter has a count of its own: one that
// was never accepted anything costs no memory.
func (b *Book) refuse(now mail.Instant, n name, of Resource) {
	b.refused[n.kind][of]++
	if b.own(n) {
		b.touch(now, n)
	}
	if m := b.meters[n]; m != nil {
		m.refused++
	}
}
