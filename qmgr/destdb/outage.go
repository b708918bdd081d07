package destdb

import (
	"net/netip"
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// An Outage tells when it is not the hosts that fail but our own network.
//
// That is so if of the destinations that were tried within OutageWindow, at
// least OutageLeast, four fifths failed. The caller leaves out failures of those that
// have never worked or have failed before, which say nothing about the network. Then failures say nothing about hosts:
// the caller stops recording them and lets one attempt begin every
// OutageProbe. Two such probes in a row that succeed end the outage, and what
// was seen before it and during it is forgotten.
//
// One success is not enough, since at a fifth of all hosts it may be had in
// the midst of an outage; but if the network is back, the second comes with
// the next probe. Attempts that began before the outage was declared and end
// in it count neither way.
//
// It remembers one result of each of the last outageMax addresses, in a slice
// that is searched from one end: 256 of them are looked through in less time
// than a hash takes to pay, and results come with connections, not with
// messages. The zero Outage is ready.
type Outage struct {
	results []result // of different addresses, oldest first
	failed  int      // of these
	since   mail.Instant
	tried   mail.Instant // when the last probe began
	good    int          // probes in a row that succeeded
}

type result struct {
	addr netip.Addr
	at   mail.Instant
	ok   bool
}

const (
	OutageWindow = time.Minute
	OutageLeast  = 20          // destinations
	OutageProbe  = time.Second // between two attempts during an outage

	outageMax    = 256
	outageProbes = 2 // in a row that succeed are the end of it
)

// Since returns since when our network is down, 0 if it is not.
func (o *Outage) Since() mail.Instant { return o.since }

// ProbeAt returns when the next attempt may begin: 0, which is at once, unless
// there is an outage.
func (o *Outage) ProbeAt() mail.Instant {
	if o.since == 0 {
		return 0
	}
	return o.tried.Add(OutageProbe)
}

// Tried says that an attempt begins.
func (o *Outage) Tried(now mail.Instant) {
	if o.since != 0 {
		o.tried = now
	}
}

// Result says how an attempt to connect, which began at started, ended. It
// tells whether that began or ended an outage.
func (o *Outage) Result(addr netip.Addr, started, now mail.Instant, ok bool) (changed bool) {
	if o.since != 0 {
		return o.probed(started, ok)
	}
	o.forget(addr, now)
	o.results = append(o.results, result{addr, now, ok})
	if !ok {
		o.failed++
	}
	if ok || len(o.results) < OutageLeast || 5*o.failed < 4*len(o.results) {
		return false
	}
	*o = Outage{results: o.results[:0], since: max(now, 1), tried: now}
	return true
}

func (o *Outage) probed(started mail.Instant, ok bool) (changed bool) {
	switch {
	case started < o.since:
		return false
	case !ok:
		o.good = 0
		return false
	}
	o.good++
	if o.good < outageProbes {
		return false
	}
	*o = Outage{results: o.results}
	return true
}

// forget drops what is too old, what is known of addr, and the oldest if there
// is no room for another.
func (o *Outage) forget(addr netip.Addr, now mail.Instant) {
	if i := slices.IndexFunc(o.results, func(r result) bool { return r.addr == addr }); i >= 0 {
		o.remove(i, i+1)
	}
	old := slices.IndexFunc(o.results, func(r result) bool { return now < r.at.Add(OutageWindow) })
	if old < 0 {
		old = len(o.results)
	}
	o.remove(0, max(old, len(o.results)-outageMax+1))
}

func (o *Outage) remove(from, to int) {
	for _, r := range o.results[from:to] {
		if !r.ok {
			o.failed--
		}
	}
	o.results = slices.Delete(o.results, from, to)
}
