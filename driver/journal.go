package driver

import (
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// Bounds of the memory that past attempts take: some 5 MB, at worst 10 MB.
const (
	journalMax      = 10_000 // attempts
	journalReplyMax = 500    // octets of each reply
)

// An Attempt is how an attempt ended for recipients that did not get the message. Recipients of one transaction with the same reply
// are one Attempt.
type Attempt struct {
	At     time.Time
	Number int // of the attempts at the message
	Result mail.Result
	Host   string // that gave the reply; "" if none did
	Source string // that the mail left from; "" without one
	Stage  mail.Stage
	Reply  string // as it came, its beginning if it is long
	First  mail.Address
	More   int // recipients besides First
}

// A journal has the last attempts that were no success, in memory: the spool keeps the last one of each recipient. It is safe for
// concurrent use.
type journal struct {
	mu   sync.Mutex
	ring []journalEntry       // grows up to journalMax
	next int                  // in the ring, once it is full
	last map[mail.QueueID]int // the place in ring of a message's last attempt
}

type journalEntry struct {
	id      mail.QueueID
	attempt Attempt
	before  int // the place of the message's attempt before it, -1 if there is none or it may be gone
	serial  uint64
	earlier uint64 // serial of that one
}

// note adds what an attempt has left to retry or to report.
func (j *journal) note(a *mail.Delivery, r *mail.DeliveryResult, now time.Time) {
	var one Attempt
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		if o.Result == mail.Delivered {
			continue
		}
		reply := o.Reply.String()
		reply = reply[:min(len(reply), journalReplyMax)]
		if one.First != "" && one.Result == o.Result && one.Reply == reply && one.Stage == o.Stage {
			one.More++
			continue
		}
		if one.First != "" {
			j.add(a.Envelope.ID, one)
		}
		one = Attempt{At: now, Number: int(a.Envelope.Attempts) + 1, Result: o.Result, Host: r.Host, Source: a.Source, Stage: o.Stage, Reply: reply, First: a.Recipients[i].Address}
	}
	if one.First != "" {
		j.add(a.Envelope.ID, one)
	}
}

func (j *journal) add(id mail.QueueID, a Attempt) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.last == nil {
		j.last = make(map[mail.QueueID]int)
	}
	e := journalEntry{id: id, attempt: a, before: -1, serial: 1}
	if at, known := j.last[id]; known {
		e.before, e.earlier = at, j.ring[at].serial
	}
	at := len(j.ring)
	if at < journalMax {
		j.ring = append(j.ring, e)
	} else {
		at = j.next
		j.next = (j.next + 1) % journalMax
		old := &j.ring[at]
		e.serial = old.serial + 1
		if last, known := j.last[old.id]; known && last == at {
			delete(j.last, old.id)
		}
		if e.before == at { // the only one
			e.before = -1
		}
		*old = e
	}
	j.last[id] = at
}

// of returns the attempts at a message, the oldest first.
func (j *journal) of(id mail.QueueID) (all []Attempt) {
	j.mu.Lock()
	defer j.mu.Unlock()
	at, known := j.last[id]
	for known {
		e := &j.ring[at]
		all = append(all, e.attempt)
		at = e.before
		known = at >= 0 && j.ring[at].id == id && j.ring[at].serial == e.earlier
	}
	for i, k := 0, len(all)-1; i < k; i, k = i+1, k-1 {
		all[i], all[k] = all[k], all[i]
	}
	return all
}

// Attempts returns the attempts at a message that left recipients to retry or to report, the oldest first, as far as they are
// remembered: since the start, and among the last 10,000 of all messages.
func (d *Driver) Attempts(id mail.QueueID) []Attempt { return d.journal.of(id) }
