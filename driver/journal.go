package driver

import (
	"slices"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// Bounds of the memory that past attempts take: 2.8 MB with replies of 80 octets, 8.9 MB with replies of 4 KB, of which there is room for
// 1,530 (go test ./driver -bench Journal).
const (
	journalMax     = 10_000  // attempts
	journalTextMax = 6 << 20 // octets of their replies, hosts and recipients together
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
	Reply  string // as it came
	First  mail.Address
	More   int // recipients besides First
}

// A journal has the last attempts that were no success, in memory: the spool keeps the last one of each recipient. It is safe for
// concurrent use.
//
// It begins with the daemon. To keep the attempts over a restart, each deferral would have to write those before it again with the
// message, up to 4 KB for each reply, so that an operator may see in one place what the log has anyway.
type journal struct {
	mu sync.Mutex
	// Each attempt has a number, from 1 on. Those from first up to but without next are kept, in ring at their number modulo journalMax.
	ring        []journalEntry // grows up to journalMax
	first, next uint64
	last        map[mail.QueueID]uint64 // of a message's last attempt
	text        int                     // octets of the texts
}

type journalEntry struct {
	id      mail.QueueID
	attempt Attempt
	before  uint64 // the message's attempt before it; 0 if there is none
}

// size returns the octets of an attempt's texts.
func (a *Attempt) size() int { return len(a.Reply) + len(a.Host) + len(a.First) }

// note adds what an attempt has left to retry or to report.
func (j *journal) note(a *mail.Delivery, r *mail.DeliveryResult, now time.Time) {
	var one Attempt
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		if o.Result == mail.Delivered {
			continue
		}
		reply := o.Reply.Lines()
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
		j.last, j.first, j.next = make(map[mail.QueueID]uint64), 1, 1
	}
	for j.text += a.size(); j.next-j.first >= journalMax || j.text > journalTextMax && j.first < j.next; {
		j.forget()
	}
	e := journalEntry{id: id, attempt: a, before: j.last[id]}
	if at := j.next % journalMax; at < uint64(len(j.ring)) {
		j.ring[at] = e
	} else {
		j.ring = append(j.ring, make([]journalEntry, int(at)+1-len(j.ring))...)
		j.ring[at] = e
	}
	j.last[id] = j.next
	j.next++
}

// forget forgets the oldest attempt.
func (j *journal) forget() {
	e := &j.ring[j.first%journalMax]
	if j.last[e.id] == j.first {
		delete(j.last, e.id)
	}
	j.text -= e.attempt.size()
	*e = journalEntry{}
	j.first++
}

// of returns the attempts at a message, the oldest first.
func (j *journal) of(id mail.QueueID) (all []Attempt) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for at := j.last[id]; at != 0 && at >= j.first; {
		e := &j.ring[at%journalMax]
		all = append(all, e.attempt)
		at = e.before
	}
	slices.Reverse(all)
	return all
}

// Attempts returns the attempts at a message that left recipients to retry or to report, the oldest first, as far as they are
// remembered: since the start, and among the last 10,000 of all messages, or fewer if their replies are long.
func (d *Driver) Attempts(id mail.QueueID) []Attempt { return d.journal.of(id) }
