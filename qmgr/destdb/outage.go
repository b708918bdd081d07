package destdb

import (
	"net/netip"
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// An Outage detects when our own network fails, not the hosts.
//
// An outage is declared if four fifths of the destinations that were tried within OutageWindow
// failed, and these are at least OutageLeast. The caller leaves out failures of hosts that have
// never worked or have failed before, which are not evidence about the network. During an outage
// failures are not evidence about hosts: the caller stops recording them and lets one attempt begin
// every OutageProbe. Two consecutive successful probes end the outage, and results from before and
// during it are forgotten.
//
// One success is not enough, since a fifth of all hosts may be reachable during an
// outage; but if the network is back, the second comes with the next probe.
// Attempts that began before the outage was declared and end during it do not
// count.
//
// It keeps one result of each of the last outageMax addresses, in a slice that is
// searched linearly: for 256 of them a hash table would not pay, and results come
// with connections, not with messages. The zero Outage is ready for use.
type Outage struct {
	results []result // one per address, oldest first
	failed  int      // of these
	since   mail.Instant
	tried   mail.Instant // when the last probe began
	good    int          // consecutive successful probes
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
	outageProbes = 2 // consecutive successful probes that end an outage
)

// Since returns when the current outage began, 0 if there is none.
func (o *Outage) Since() mail.Instant { return o.since }

// ProbeAt returns when the next attempt may begin: 0, that is at once, unless there
// is an outage.
func (o *Outage) ProbeAt() mail.Instant {
	if o.since == 0 {
		return 0
	}
	return o.tried.Add(OutageProbe)
}

// Tried records that an attempt begins.
func (o *Outage) Tried(now mail.Instant) {
	if o.since != 0 {
		o.tried = now
	}
}

// Result records the result of an attempt to connect, which began at started. It
// reports whether that began or ended an outage.
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

// forget drops results that are too old, that of addr, and the oldest if there is
// no room for another.
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
