package destdb

import (
	"cmp"
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Known is the record of one host with its key.
type Known struct {
	Key    Key
	Record Record
}

// Load adds saved records to an empty database, the most recently used ones if
// there are too many. It returns the keys of those that are not worth keeping.
func (db *DB) Load(records []Known, now mail.Instant) (stale []Key) {
	slices.SortStableFunc(records, func(a, b Known) int { return cmp.Compare(b.Record.Used, a.Record.Used) })
	for _, r := range records {
		if !db.Learn(r.Key, r.Record, now) {
			stale = append(stale, r.Key)
		}
	}
	return stale
}

// Learn merges a record of another node. It reports whether the record was
// accepted: not if it has expired, nor if it is of an unknown host and there is no
// room. Records of other nodes never displace local ones, so they are also the
// first to be dropped.
func (db *DB) Learn(k Key, r Record, now mail.Instant) bool {
	r = r.clamp(&db.cfg, now)
	if r.keepUntil(&db.cfg) <= now {
		return false
	}
	h := db.hosts[k]
	if h == nil {
		if db.idle.Len() >= db.cfg.HostLimit {
			return false
		}
		h = db.add(k)
		db.idle.PushFront(&h.recent, h)
	}
	db.join(h, r)
	return true
}

// join merges a record into that of a host.
func (db *DB) join(h *host, r Record) {
	r = Merge(h.rec, r)
	db.setHealth(h, r.Health)
	r.Health = h.rec.Health
	h.rec = r
}

// News is what a record of another node says about the last attempt to connect to a host.
type News uint8

const (
	NewsNone  News = iota // nothing that was not known here
	NewsFails             // it failed, later than the last attempt that was known here
	NewsWorks             // the host had failed here, and has worked since
)

// Hear merges a record of another node that is running now, as Learn does, and reports what is new about the last
// attempt to connect. A failure counts as one of this node: only retry resets that come later forgive it, not RetryResetStart, so
// that each dead host is tried once and not once by each node.
func (db *DB) Hear(k Key, r Record, now mail.Instant) News {
	var before Record
	h := db.hosts[k]
	if h != nil {
		before = h.rec
		db.join(h, r.clamp(&db.cfg, now)) // also a success, which alone is not worth a record
	} else if !db.Learn(k, r, now) {
		return NewsNone
	}
	if h = db.hosts[k]; h.rec != before {
		db.mark(h)
	}
	switch was, is := &before.Health, &h.rec.Health; {
	case *was == *is:
		return NewsNone
	case is.Failures > 0:
		h.failed = db.resets
		return NewsFails
	case was.Failures > 0:
		return NewsWorks
	}
	return NewsNone
}

// clamp limits the record to what could have been made here and now: the node that
// made it may have had another clock, other limits, or malicious intent.
func (r Record) clamp(cfg *Config, now mail.Instant) Record {
	r.Used = past(r.Used, now)
	r.Health.At = past(r.Health.At, now)
	r.Health.Failures = min(r.Health.Failures, failuresMax)
	r.Health.RetryAt = within(r.Health.RetryAt, now.Add(cfg.RetryMax+cfg.RetryMax/jitter))
	r.Health.Reason = cut(r.Health.Reason)
	if r.Health.Failures == 0 {
		r.Health = Health{At: r.Health.At}
	}
	r.Closed = Closing{MadeAt: past(r.Closed.MadeAt, now), At: past(r.Closed.At, now)}
	for l := range r.Levels.Holds {
		hold := &r.Levels.Holds[l]
		if hold.Lifted = past(hold.Lifted, now); hold.Until != mail.Never {
			hold.Until = within(hold.Until, now.Add(cfg.StepDownMax))
		}
	}
	r.Levels.Strikes = min(r.Levels.Strikes, strikesMax)
	r.Limit.At = past(r.Limit.At, now)
	r.Proof.At = past(r.Proof.At, now)
	r.Proof.Result = min(r.Proof.Result, mail.ProofExecutes)
	r.Caps.At = past(r.Caps.At, now)
	r.Caps.SizeMax = max(r.Caps.SizeMax, 0)
	r.Pace = r.Pace.clamp(now)
	return r
}

func (p Pace) clamp(now mail.Instant) Pace {
	p.At = past(p.At, now)
	for _, d := range []*time.Duration{&p.RTT, &p.RTTMin, &p.Service, &p.ServiceFloor} {
		*d = max(0, min(*d, paceMax))
	}
	return p
}

func past(i, now mail.Instant) mail.Instant { return within(i, now) }

func within(i, latest mail.Instant) mail.Instant { return max(0, min(i, latest)) }
