package sim

import (
	"fmt"
	"time"

	"github.com/posthaste-mta/posthaste/internal/prng"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A source makes the messages of one class. What it draws depends on nothing
// but the seed, so that all runs get the same mail.
type source struct {
	event
	cfg    *Arrivals
	class  int // its place among the tallies
	sender mail.Address
	size   int64
	rng    prng.Source
	// table holds the recipients that its messages have: a message takes some in
	// a row, and goes on at the beginning behind the last. So neither addresses
	// nor routes are ever made for a single message.
	table  []tableEntry
	next   int            // place of the next message's first recipient
	starts map[string]int // recorded arrivals: where in the table a site begins
	made   int            // messages so far
	// unclassified is Run.Unclassified.
	unclassified bool
}

// A tableEntry is a recipient and where it goes.
type tableEntry struct {
	address mail.Address
	route   mail.Route
	to      *destination
}

func newSource(cfg *Arrivals, class int, seed uint64, destinations map[string][]*destination) *source {
	s := &source{cfg: cfg, class: class, sender: defaultSender, size: cfg.Size, rng: prng.New(seed), starts: make(map[string]int)}
	if cfg.NullSender {
		s.sender = ""
	}
	if s.size == 0 {
		s.size = 4096
	}
	var to []*destination
	for _, name := range cfg.To {
		s.starts[name] = len(to)
		to = append(to, destinations[name]...)
	}
	rows := max(cfg.Max, 1)
	for _, r := range cfg.Records {
		rows = max(rows, r.Recipients)
		if _, known := s.starts[r.To]; !known && r.To != "" {
			s.starts[r.To] = len(to)
			to = append(to, destinations[r.To]...)
		}
	}
	rows = (rows + len(to) - 1) / len(to) * len(to) // so that behind the last comes the first
	for i := range rows {
		r := to[i%len(to)]
		s.table = append(s.table, tableEntry{mail.Address(fmt.Sprintf("u%05d@%s", i, r.name)),
			mail.Route{Transport: r.transport, Nexthop: r.name}, r})
	}
	return s
}

// begin sets the first event, if there is any.
func (s *source) begin(w *world) {
	switch s.cfg.Pattern {
	case PatternBacklog:
		s.backlog(w)
	case PatternRecorded:
		if len(s.cfg.Records) > 0 {
			w.at(&s.event, s, w.start.Add(s.cfg.Records[0].At))
		}
	default:
		from := w.start.Add(s.cfg.From)
		if s.cfg.Pattern == PatternPoisson {
			from = from.Add(s.gap(s.cfg.From))
		}
		w.at(&s.event, s, from)
	}
}

// exhausted reports whether no message will come any more.
func (s *source) exhausted() bool { return !s.waits() }

// happen lets messages come, and sets the next event.
func (s *source) happen(w *world) {
	switch s.cfg.Pattern {
	case PatternOnce:
		for s.more() {
			s.arrive(w, s.recipients(), s.place())
		}
		return
	case PatternBursts:
		for n := s.cfg.Burst; n > 0 && s.more(); n-- {
			s.arrive(w, s.recipients(), s.place())
		}
	case PatternRecorded:
		r := s.cfg.Records[s.made]
		first := s.place()
		if r.To != "" {
			first = s.starts[r.To]
		}
		s.arrive(w, r.Recipients, first)
		if s.made < len(s.cfg.Records) {
			w.at(&s.event, s, w.start.Add(s.cfg.Records[s.made].At))
		}
		return
	default:
		s.arrive(w, s.recipients(), s.place())
	}
	next := w.now.Add(s.gap(w.now.Sub(w.start)))
	if s.more() && (s.cfg.Until == 0 || next < w.start.Add(s.cfg.Until)) {
		w.at(&s.event, s, next)
	}
}

func (s *source) more() bool { return s.cfg.Messages == 0 || s.made < s.cfg.Messages }

// gap is the time to the next event, from a time after the start on.
func (s *source) gap(since time.Duration) time.Duration {
	messages := 1.0 // that would come in that time on average
	switch s.cfg.Pattern {
	case PatternBursts:
		return s.cfg.Every
	case PatternPoisson:
		messages = -ln(unit(&s.rng))
	}
	if s.cfg.Curve == nil {
		return time.Duration(messages * float64(time.Second) / s.cfg.Rate)
	}
	return s.along(since, messages)
}

// along is how long it takes until so many messages come on average, where the
// rate follows the curve.
func (s *source) along(since time.Duration, messages float64) time.Duration {
	part := 24 * time.Hour / time.Duration(len(s.cfg.Curve))
	at := since
	for at < horizon {
		left := part - at%part
		rate := s.cfg.Rate * s.cfg.Curve[int(at/part)%len(s.cfg.Curve)] / float64(time.Second)
		if most := float64(rate * float64(left)); most < messages {
			messages -= most
			at += left
			continue
		}
		return at + time.Duration(messages/rate) - since
	}
	return horizon
}

func (s *source) recipients() int {
	low := max(s.cfg.Min, 1)
	if s.cfg.Max <= low {
		return low
	}
	return low + s.rng.IntN(s.cfg.Max-low+1)
}

// place returns where in the table the next message begins.
func (s *source) place() int {
	if s.cfg.Random {
		return s.rng.IntN(len(s.table))
	}
	return s.next
}

// arrive makes one message.
func (s *source) arrive(w *world, recipients, first int) {
	s.made++
	s.next = (first + recipients) % len(s.table)
	m := w.accept(s, first, recipients)
	batch := m.batch(0, mail.ArrivalRecipients, w.recipients[:0])
	w.recipients = batch.Recipients
	w.enter(m)
	step(w, qmgr.Arrived{Arrival: mail.Arrival{Envelope: m.envelope(), Place: m.place, Batch: batch}})
	if !w.core.InCore(m.id) {
		w.spool.add(m)
	}
}

// backlog fills the deferred area with what came before the start.
func (s *source) backlog(w *world) {
	for s.more() {
		s.made++
		n, first := s.recipients(), s.place()
		s.next = (first + n) % len(s.table)
		m := w.accept(s, first, n)
		m.arrived = w.start - mail.Instant(s.cfg.Age.draw(&s.rng))
		m.attempts, m.last = 1, m.arrived
		m.place = mail.Place{Area: mail.AreaDeferred, Due: w.start.Add(s.cfg.Due.draw(&s.rng)), Chunks: 1, Touched: true}
		w.spool.add(m)
	}
}
