package destdb

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A View is everything that is known of a host at an instant. The zero View is that
// of an unknown host.
//
//archtest:fields a copy of what is known, to be read
type View struct {
	Open  int // connections, including those being opened
	State State
	At    mail.Instant // as DB.State returns it

	// RetryAt is the instant before which no further connection may be opened; 0 if
	// one may be. Reason and Failures give the cause; they stay until an attempt
	// succeeds.
	RetryAt  mail.Instant
	Failures int
	FailedAt mail.Instant // time of the last failure; 0 if there was none
	Reason   mail.Reply

	// Level is the highest level that may be used with the host. LevelStream also
	// needs a configuration that allows it, or Streams. HeldUntil is the earliest
	// instant at which the hold may be lifted; 0 if there is none.
	Level     mail.Level
	HeldUntil mail.Instant
	// Streams means that the host was proven to support LevelStream; ProbeAt is
	// when that may be probed (again), mail.Never if a probe is useless.
	Streams bool
	ProbeAt mail.Instant
	// Executes means that the host executes the content of a refused BDAT as
	// commands: no content may be sent before a recipient was accepted.
	Executes bool
	// MessagesMax is the number of messages after which it closes a connection; 0
	// if unknown.
	MessagesMax int

	RTT, RTTMin time.Duration // smoothed, and the minimum; 0 if unknown
	Service     time.Duration // from content to final reply, smoothed, less RTT; 0 if unknown
	// Slow means that Service is TarpitFactor times its best value. More
	// connections would not help.
	Slow bool
	Caps Caps
}

// View returns what is known of a host.
func (db *DB) View(k Key, now mail.Instant) View {
	h := db.hosts[k]
	if h == nil || h.open == 0 && h.rec.keepUntil(&db.cfg) <= now {
		return View{Level: mail.LevelStream}
	}
	return h.view(&db.cfg, now)
}

func (h *host) view(cfg *Config, now mail.Instant) View {
	r := &h.rec
	v := View{
		Open:        h.open,
		State:       InUse,
		Failures:    int(r.Health.Failures),
		Reason:      r.Health.Reason,
		Level:       r.ceiling(),
		Executes:    r.Proof.Executes,
		MessagesMax: int(r.messagesMax(now)),
		RTT:         r.Pace.RTT,
		RTTMin:      r.Pace.RTTMin,
		Service:     r.Pace.Service,
		Slow:        r.slow(cfg),
		Caps:        r.Caps,
	}
	if h.open == 0 {
		v.State, v.At = r.state(cfg, now)
	}
	if r.Health.Failures > 0 {
		v.FailedAt = r.Health.At
	}
	if r.Health.Failures > 0 && now < r.Health.RetryAt {
		v.RetryAt = r.Health.RetryAt
	}
	if held := r.Levels.ceiling(); held < mail.LevelStream {
		v.HeldUntil = r.Levels.Holds[held].Until
	}
	v.Streams = v.Level == mail.LevelStream && r.Proof.Result == mail.ProofPassed && now < r.Proof.At.Add(proofTTL)
	switch {
	case r.Proof.Executes:
		v.ProbeAt = mail.Never
	case v.Streams:
		v.ProbeAt = r.Proof.At.Add(proofTTL)
	case r.Proof.At != 0:
		v.ProbeAt = r.Proof.At.Add(probeEvery)
	}
	return v
}

// Record returns what is remembered of a host.
func (db *DB) Record(k Key) (Record, bool) {
	if h := db.hosts[k]; h != nil {
		return h.rec, true
	}
	return Record{}, false
}
