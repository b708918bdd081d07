package shares

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/cluster"
	"github.com/posthaste-mta/posthaste/mail"
)

// A Config describes one limit at one node.
type Config struct {
	// Key names the limit, such as a site and a source.
	Key string
	// Limit is the limit of all nodes together, from 0 to LimitMax.
	Limit int64
	// Nodes are the names of all known nodes, Self that of this one.
	Nodes []string
	Self  string
	// Term is how long a loan lasts (default 8 s): how long a node that is cut off
	// misses what it lent, and must be several times what messages take.
	Term time.Duration
	// Incarnation is the start of this node, later than that of its last one.
	Incarnation uint64
	// Lent means that an earlier incarnation may have lent something within the last
	// terms. It is false only for what is certainly new.
	Lent bool
}

// A Message is what a node says to the others.
type Message struct {
	Node    string
	Version cluster.Version
	Stamp   mail.Instant // when it was said, on its node's clock
	Want    int64        // what its node could use
	Loans   []Loan
	// Knows has, for each lender, the version of its message by which this node goes.
	Knows []Known
}

// A Loan is what the node lends to another one.
type Loan struct {
	To     string
	Amount int64
	// Answers and Stamp are of the borrower's message that the loan answers.
	Answers cluster.Version
	Stamp   mail.Instant
}

// A Known is a lender with the version of its latest message that counts.
type Known struct {
	Lender  string
	Version cluster.Version
}

// An Account is one limit at one node. It belongs to one goroutine.
type Account struct {
	cfg      Config
	nodes    []string // sorted
	floors   []int64
	self     int
	want     int64
	used     int64
	sequence uint64
	frozen   mail.Instant // until then the floor may have been lent by an earlier incarnation
	others   []other      // by index of nodes; that of self is unused
}

// An other is what is known of another node.
type other struct {
	message Message // its latest
	heard   mail.Instant
	out     []lent // to it, by version; the last one is the latest
	in      borrowed
	offered cluster.Version // its message that in is of
	knows   cluster.Version // the same, once what is in use fits into the share
}

type lent struct {
	amount  int64
	version cluster.Version
	until   mail.Instant
}

type borrowed struct {
	amount int64
	until  mail.Instant
}

// New returns the account of a node at its start.
func New(cfg Config, now mail.Instant) (*Account, error) {
	cfg.Term = cmp.Or(cfg.Term, 8*time.Second)
	a := &Account{cfg: cfg, nodes: slices.Sorted(slices.Values(cfg.Nodes))}
	a.self = slices.Index(a.nodes, cfg.Self)
	switch {
	case a.self < 0:
		return nil, fmt.Errorf("node %q: not one of the known nodes", cfg.Self)
	case len(slices.Compact(slices.Clone(a.nodes))) != len(a.nodes):
		return nil, fmt.Errorf("known nodes %v: names are not unique", a.nodes)
	case cfg.Limit < 0 || cfg.Limit > LimitMax:
		return nil, fmt.Errorf("limit %d: want 0 to %d", cfg.Limit, int64(LimitMax))
	case cfg.Term < time.Second:
		return nil, fmt.Errorf("term %v: want at least a second", cfg.Term)
	}
	floors := Floors(cfg.Limit, cfg.Key, a.nodes)
	for _, node := range a.nodes {
		a.floors = append(a.floors, floors[node])
	}
	a.others = make([]other, len(a.nodes))
	if cfg.Lent {
		a.frozen = now.Add(a.lenderTerm())
	}
	return a, nil
}

// lenderTerm is how long a lender counts a loan.
func (a *Account) lenderTerm() time.Duration { return a.cfg.Term + a.cfg.Term/8 }

// Floor returns what the node has if it hears nothing from others.
func (a *Account) Floor() int64 { return a.floors[a.self] }

// Want sets what the node could use now: what it uses and what waits.
func (a *Account) Want(n int64) { a.want = max(0, min(n, a.cfg.Limit)) }

// Use sets what the node uses.
func (a *Account) Use(n int64) { a.used = n }

// Share returns what the node may use now. It may be 0 for a while.
func (a *Account) Share(now mail.Instant) int64 {
	share := a.own(now)
	for i := range a.others {
		if in := &a.others[i].in; now < in.until {
			share += in.amount
		}
	}
	return share
}

// own is the part of the floor that was not lent.
func (a *Account) own(now mail.Instant) int64 {
	if now < a.frozen {
		return 0
	}
	own := a.Floor()
	for i := range a.others {
		own -= a.others[i].lent(now)
	}
	return own
}

// lent returns what may be lent to the node: the largest of the loans that count.
func (o *other) lent(now mail.Instant) (most int64) {
	for _, l := range o.out {
		if now < l.until {
			most = max(most, l.amount)
		}
	}
	return most
}

// Say returns what the node has to say now, and lends what it can.
func (a *Account) Say(now mail.Instant) Message {
	a.sequence++
	m := Message{
		Node: a.cfg.Self, Version: cluster.Version{Incarnation: a.cfg.Incarnation, Sequence: a.sequence},
		Stamp: now, Want: a.want,
	}
	m.Loans = a.lend(m.Version, now)
	for i := range a.others {
		o := &a.others[i]
		// While more is in use, lenders count the larger loans of before, until these end.
		if a.used <= a.Share(now) {
			o.knows = o.offered
		}
		if o.knows != (cluster.Version{}) {
			m.Knows = append(m.Knows, Known{Lender: a.nodes[i], Version: o.knows})
		}
	}
	return m
}

// lend decides about all loans of one message.
func (a *Account) lend(version cluster.Version, now mail.Instant) (loans []Loan) {
	a.forget(now)
	amounts := a.wanted(now)
	for i := range a.others {
		o := &a.others[i]
		if i == a.self || !a.fresh(o, now) || amounts[i] == 0 && len(o.out) == 0 {
			continue
		}
		// The loans that still count come out of the same floor, and what is in use stays.
		counts := o.lent(now)
		amount := min(amounts[i], counts+max(0, a.own(now)-a.keep(now)))
		o.out = append(o.out, lent{amount: amount, version: version, until: now.Add(a.lenderTerm())})
		loans = append(loans, Loan{To: a.nodes[i], Amount: amount, Answers: o.message.Version, Stamp: o.message.Stamp})
	}
	return loans
}

// keep is what the node itself uses of its floor.
func (a *Account) keep(now mail.Instant) int64 {
	lentToUs := a.Share(now) - a.own(now)
	return max(0, a.used-lentToUs)
}

// wanted returns what should be lent to each node if all is as it seems.
func (a *Account) wanted(now mail.Instant) []int64 {
	if now < a.frozen {
		return make([]int64, len(a.nodes))
	}
	wants := slices.Clone(a.floors) // of nodes that are silent: they have their floors
	for i := range a.others {
		switch o := &a.others[i]; {
		case i == a.self:
			wants[i] = max(a.want, a.used)
		case a.fresh(o, now):
			wants[i] = o.message.Want
		}
	}
	return matched(a.floors, Targets(a.floors, wants), a.self)
}

// fresh reports whether a node was heard lately.
func (a *Account) fresh(o *other, now mail.Instant) bool {
	return o.heard != 0 && now < o.heard.Add(a.cfg.Term/2)
}

// forget drops loans that are over.
func (a *Account) forget(now mail.Instant) {
	for i := range a.others {
		o := &a.others[i]
		o.out = slices.DeleteFunc(o.out, func(l lent) bool { return l.until <= now })
	}
}

// Hear takes what another node says. Old messages and those of unknown nodes change
// nothing.
func (a *Account) Hear(m Message, now mail.Instant) {
	i := slices.Index(a.nodes, m.Node)
	if i < 0 || i == a.self || !m.Version.After(a.others[i].message.Version) {
		return
	}
	o := &a.others[i]
	m.Want = max(0, min(m.Want, a.cfg.Limit))
	o.message, o.heard = m, now
	for _, loan := range m.Loans {
		if loan.To == a.cfg.Self {
			a.borrow(o, loan, m.Version, now)
		}
	}
	for _, known := range m.Knows {
		if known.Lender == a.cfg.Self {
			o.out = slices.DeleteFunc(o.out, func(l lent) bool { return known.Version.After(l.version) })
		}
	}
}

// borrow takes a loan in place of the one before of the same lender.
func (a *Account) borrow(o *other, loan Loan, version cluster.Version, now mail.Instant) {
	if loan.Answers.Incarnation != a.cfg.Incarnation || loan.Amount < 0 || loan.Amount > a.cfg.Limit {
		return
	}
	o.in = borrowed{amount: loan.Amount, until: min(loan.Stamp, now).Add(a.cfg.Term)}
	o.offered = version
}
