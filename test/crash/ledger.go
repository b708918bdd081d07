package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// domains is the number of domains that recipients are in.
const domains = 8

// A key names a message: a number, from 1 on.
type key int

func (k key) envID() string     { return "k" + strconv.Itoa(int(k)) }
func (k key) messageID() string { return "<" + k.envID() + "@crash.test>" }

// recipient returns the address of a message's i-th recipient, which says so
// itself: a delivery under another message's envelope is seen at once.
func (k key) recipient(i int) mail.Address {
	return mail.Address(fmt.Sprintf("%d.%s@d%d.test", i, k.envID(), (int(k)+i)%domains+1))
}

// parseKey reads an envID back; 0 if it is none.
func parseKey(envID string) key {
	n, err := strconv.Atoi(strings.TrimPrefix(envID, "k"))
	if err != nil || n < 1 {
		return 0
	}
	return key(n)
}

// parseRecipient reads an address back and reports whether it is one of ours.
func parseRecipient(address mail.Address) (k key, i int, ok bool) {
	index, envID, _ := strings.Cut(address.Local(), ".")
	i, err := strconv.Atoi(index)
	k = parseKey(envID)
	return k, i, err == nil && k > 0 && k.recipient(i) == address
}

// A ledger has an entry for each message that was submitted. Its methods may be
// called from any goroutine.
type ledger struct {
	window time.Duration // see excuse

	mu      sync.Mutex
	entries map[key]*entry
	kills   []kill // in order
	open    int    // recipients of accepted messages that wait for a delivery or a report
	count   counts
	wrong   []string // what must not happen, the first of it
}

// An entry is a message.
type entry struct {
	fate       feed.Fate
	known      bool // fate is: the client has its result
	bodySum    uint32
	recipients []record
	resolved   int // recipients delivered or reported
}

// A record is a recipient.
type record struct {
	refused   bool  // in reply to RCPT
	delivered event // the last delivery
	reported  event // the last delivery of a report about it
	report    string
}

// An event is a delivery. The zero event means that there was none.
type event struct {
	at         time.Time
	by         receiver
	connection uint64 // of the receiver
	lost       bool   // the daemon was not told
}

func (e event) happened() bool { return !e.at.IsZero() }

// A receiver is one of two.
type receiver uint8

const (
	ofRecipients receiver = iota
	ofSender
)

// A kill is one, and how many connections each receiver had been given by then:
// higher numbers belong to the process that came after.
type kill struct {
	at          time.Time
	connections [2]uint64
}

// counts are the figures of the closing table.
type counts struct {
	messages   [4]int // by feed.Fate
	recipients int    // of accepted messages
	deliveries int
	reports    int // recipients reported
	wrong      int // what must not happen

	twiceByKill  int // deliveries made again because of a kill
	twiceByLoss  int // because of a lost reply
	reportsTwice int // reports delivered again because of a kill
	unknownTaken int // messages with fate unknown that were taken after all

	// distances are the times from first deliveries to the kills that explain
	// the second ones; negative where the daemon was dead already.
	distances []time.Duration
}

func newLedger(window time.Duration) *ledger {
	return &ledger{window: window, entries: make(map[key]*entry)}
}

// handIn makes an entry before the message can be delivered.
func (l *ledger) handIn(k key, recipients int, bodySum uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[k] = &entry{bodySum: bodySum, recipients: make([]record, recipients)}
}

// result notes what the client knows of its message.
func (l *ledger) result(k key, r feed.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[k]
	e.fate, e.known = r.Fate, true
	l.count.messages[r.Fate]++
	if r.Fate != feed.Accepted && r.Fate != feed.Unknown {
		return
	}
	for i := range e.recipients {
		if _, accepted := slices.BinarySearch(r.Accepted, i); !accepted {
			e.recipients[i].refused = true
		}
	}
	if r.Fate == feed.Accepted {
		l.count.recipients += len(r.Accepted)
		l.open += len(r.Accepted) - e.resolved
	}
}

// killed notes that the daemon was killed.
func (l *ledger) killed(k kill) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kills = append(l.kills, k)
}

// complain notes what must not happen. The mutex is held.
func (l *ledger) complain(format string, args ...any) {
	l.count.wrong++
	if len(l.wrong) < 20 {
		l.wrong = append(l.wrong, fmt.Sprintf(format, args...))
	}
}

// delivered notes a message that a receiver took.
func (l *ledger) delivered(d sink.Delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := parseKey(strings.TrimSuffix(strings.TrimPrefix(d.Key, "<"), "@crash.test>"))
	e := l.entries[k]
	if e == nil {
		l.complain("%q was delivered, but never submitted", d.Key)
		return
	}
	if d.BodySum != e.bodySum {
		l.complain("%s was delivered with another content, %d octets", d.Key, d.Size)
	}
	if d.EnvID != k.envID() {
		l.complain("%s was delivered with the envelope ID %q", d.Key, d.EnvID)
	}
	for _, to := range d.Recipients {
		if of, i, ok := parseRecipient(to); !ok || of != k || i >= len(e.recipients) {
			l.complain("%s was delivered to %s, who is not its recipient", d.Key, to)
		} else {
			l.deliveredTo(e, &e.recipients[i], to, d)
		}
	}
}

func (l *ledger) deliveredTo(e *entry, r *record, to mail.Address, d sink.Delivery) {
	l.count.deliveries++
	now := event{d.At, ofRecipients, d.Connection, d.Reply == sink.ReplyLost}
	switch {
	case r.refused:
		l.complain("%s got a message although the RCPT was refused", to)
	case r.reported.happened():
		l.complain("%s got a message after its failure was reported", to)
	case !r.delivered.happened():
		l.resolve(e)
	case r.delivered.lost:
		l.count.twiceByLoss++
	default:
		l.count.twiceByKill++
		l.demandExcuse(r.delivered, now, "message to "+string(to))
	}
	r.delivered = now
}

// demandExcuse judges that something was delivered again.
func (l *ledger) demandExcuse(first, again event, what string) {
	distance, excused := l.excuse(first, again)
	if !excused {
		l.complain("the %s was delivered at %s and, without a kill in between that could explain it, at %s",
			what, first.at.Format(clock), again.at.Format(clock))
	}
	l.count.distances = append(l.count.distances, distance)
}

// excuse reports whether the daemon may not have known of a delivery: it was
// killed at most a window later, or earlier already: what it had sent is taken
// even after its death. Distance is the time from the delivery to that kill.
func (l *ledger) excuse(first, again event) (distance time.Duration, excused bool) {
	i, _ := slices.BinarySearchFunc(l.kills, first.at, func(k kill, at time.Time) int { return k.at.Compare(at) })
	if i > 0 && first.connection <= l.kills[i-1].connections[first.by] {
		return l.kills[i-1].at.Sub(first.at), true
	}
	if i == len(l.kills) || l.kills[i].at.After(again.at) {
		return 0, false
	}
	distance = l.kills[i].at.Sub(first.at)
	return distance, distance <= l.window
}

// reported records that the sender got a report of a failure, by a report of which
// the delivery is given.
func (l *ledger) reported(to mail.Address, d sink.Delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k, i, ok := parseRecipient(to)
	e := l.entries[k]
	if !ok || e == nil || i >= len(e.recipients) {
		l.complain("a failure was reported for %s, who was never sent to", to)
		return
	}
	r := &e.recipients[i]
	now := event{d.At, ofSender, d.Connection, false}
	switch {
	case r.refused:
		l.complain("a failure was reported for %s, whose RCPT was refused", to)
	case r.reported.happened() && r.report != d.Key:
		l.complain("two reports were made about %s, %s and %s", to, r.report, d.Key)
	case r.reported.happened():
		l.count.reportsTwice++
		l.demandExcuse(r.reported, now, "report about "+string(to))
	case r.delivered.happened():
		if _, excused := l.excuse(r.delivered, now); !excused && !r.delivered.lost {
			l.complain("a failure was reported for %s, who got the message at %s", to, r.delivered.at.Format(clock))
		}
		l.count.reports++
	default:
		l.count.reports++
		l.resolve(e)
	}
	r.reported, r.report = now, d.Key
}

// resolve notes that one more recipient is accounted for. The mutex is held.
func (l *ledger) resolve(e *entry) {
	e.resolved++
	if e.known && e.fate == feed.Accepted {
		l.open--
	}
}

// clock is how instants are shown.
const clock = "15:04:05.000"

// waiting returns how many recipients of accepted messages are not accounted
// for.
func (l *ledger) waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// figures returns the counts so far.
func (l *ledger) figures() counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// balance closes the ledger: no message is on its way any more. It returns all
// that is wrong.
func (l *ledger) balance() (figures counts, wrong []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, e := range l.entries {
		l.balanceEntry(k, e)
	}
	return l.count, slices.Clone(l.wrong)
}

func (l *ledger) balanceEntry(k key, e *entry) {
	switch {
	case !e.known:
		l.complain("%s: the client never told what became of it", k.envID())
	case e.fate == feed.Accepted:
		if n := e.expected() - e.resolved; n > 0 {
			l.complain("%s was accepted, and %d of %d recipients are lost: neither delivered nor reported", k.envID(), n, e.expected())
		}
	case e.fate == feed.Unknown && e.resolved > 0:
		l.count.unknownTaken++
		if n := e.expected() - e.resolved; n > 0 {
			l.complain("%s was taken by halves: %d of %d recipients are missing", k.envID(), n, e.expected())
		}
	case e.fate != feed.Unknown && e.resolved > 0:
		l.complain("%s was %s, and delivered to %d recipients", k.envID(), e.fate, e.resolved)
	}
}

// expected is the number of recipients that were accepted.
func (e *entry) expected() (n int) {
	for i := range e.recipients {
		if !e.recipients[i].refused {
			n++
		}
	}
	return n
}
