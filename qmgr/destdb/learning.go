package destdb

import (
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A tally has the counters from which facts are learned. It is not worth saving.
type tally struct {
	// drops counts consecutive connections that the host dropped after dropsAt
	// messages.
	drops   int
	dropsAt uint32
	// cleanMessages and cleanConns count successes at the current level since its
	// hold ended.
	cleanMessages, cleanConns int
	// supported counts messages that succeeded above LevelLockStep, as evidence
	// against attributing a loss to the level.
	supported int
}

// StepDown records that a host did not support a level: it fell out of step, or
// left commands unanswered. From now on it is held at the level below. Below
// LevelLockStep there is none, so that this changes nothing.
//
// For a host that is already held below from, further calls come from connections
// that were made before; they change nothing either.
func (db *DB) StepDown(k Key, from mail.Level, now mail.Instant) {
	h := db.touch(k, now)
	if from == mail.LevelLockStep || h.rec.Levels.ceiling() < from {
		return
	}
	ttl := db.cfg.StepDownTTL
	for range h.rec.Levels.Strikes {
		ttl = min(2*ttl, db.cfg.StepDownMax)
	}
	hold := &h.rec.Levels.Holds[from-1]
	hold.Until = max(hold.Until, stamp(hold.Lifted, now.Add(ttl)))
	h.rec.Levels.Strikes = min(h.rec.Levels.Strikes+1, strikesMax)
	h.tally.cleanMessages, h.tally.cleanConns = 0, 0
	db.mark(h)
}

// Supports records that a message succeeded at a level. It need not be called for
// each one.
func (db *DB) Supports(k Key, at mail.Level, now mail.Instant) {
	if at > mail.LevelLockStep {
		t := &db.touch(k, now).tally
		t.supported = min(t.supported+1, supportedMax)
	}
}

// Suspect records that a connection was lost with several commands unanswered, sent
// at a level. It is unknown whether the level or something else was the cause, so
// that it is attributed to the level only if such losses are more than a third of the
// results: a server that does not support a level never supports it.
func (db *DB) Suspect(k Key, from mail.Level, now mail.Instant) {
	t := &db.touch(k, now).tally
	if t.supported >= lossWeight {
		t.supported -= lossWeight
		return
	}
	t.supported = 0
	db.StepDown(k, from, now)
}

const (
	supportedMax = 10 // so that five losses in a row are always enough
	lossWeight   = 2  // messages that outweigh one loss
)

// strikesMax is larger than any number that makes a difference.
const strikesMax = 16

// HoldForever permanently holds a host at a level, as when a message was sent under
// another's envelope. Nothing lifts this hold.
func (db *DB) HoldForever(k Key, at mail.Level, now mail.Instant) {
	h := db.touch(k, now)
	if at < mail.LevelStream {
		h.rec.Levels.Holds[at].Until = mail.Never
		h.tally.cleanMessages, h.tally.cleanConns = 0, 0
		db.mark(h)
	}
}

// ceiling returns the highest level that no hold forbids.
func (l *Levels) ceiling() mail.Level {
	for level, hold := range l.Holds {
		if hold.Until > hold.Lifted {
			return mail.Level(level)
		}
	}
	return mail.LevelStream
}

// ceiling returns the highest level that may be used with the host.
func (r *Record) ceiling() mail.Level {
	level := r.Levels.ceiling()
	if r.Proof.Executes {
		level = min(level, mail.LevelOverlap)
	}
	return level
}

// countClean lifts the hold at the host's level if enough messages succeeded there
// since it ended.
func (h *host) countClean(cfg *Config, life Life, now mail.Instant) {
	level := h.rec.Levels.ceiling()
	if level == mail.LevelStream || life.Clean == 0 || life.Level < level {
		return
	}
	hold := &h.rec.Levels.Holds[level]
	if life.MadeAt < hold.Until {
		return
	}
	t := &h.tally
	t.cleanMessages = min(t.cleanMessages+int(min(life.Clean, cleanMax)), cfg.StepUpMessages)
	t.cleanConns = min(t.cleanConns+1, cfg.StepUpConns)
	if t.cleanMessages == cfg.StepUpMessages && t.cleanConns == cfg.StepUpConns {
		hold.Lifted = max(now, hold.Until)
		t.cleanMessages, t.cleanConns = 0, 0
	}
}

// cleanMax keeps the sum in range where an int has 32 bits.
const cleanMax = 1 << 20

// dropsToLearn is the number of consecutive connections that must be dropped after
// the same number of messages.
const dropsToLearn = 3

// countDrops learns after how many messages the host closes connections. A
// connection that carried more without being dropped is counter-evidence.
//
// A connection that is dropped in its first message is not evidence: a connection
// must carry at least one to be of use.
func (h *host) countDrops(life Life, now mail.Instant) {
	messages := life.Messages
	if limit := h.rec.Limit; limit.Messages != 0 && messages > limit.Messages {
		h.rec.Limit = Limit{At: stamp(limit.At, now)}
	}
	t := &h.tally
	switch {
	case life.dropped() && (life.Outlived || messages == 0):
		t.drops = 0
	case !life.dropped():
		if messages > t.dropsAt {
			t.drops = 0
		}
	case t.drops == 0 || messages != t.dropsAt:
		t.drops, t.dropsAt = 1, messages
	default:
		t.drops++
	}
	if t.drops == dropsToLearn {
		t.drops = 0
		h.rec.Limit = Limit{Messages: messages, At: stamp(h.rec.Limit.At, now)}
	}
}

// limitTTL is the time after which such a number is tested again.
const limitTTL = 24 * time.Hour

func (r *Record) messagesMax(now mail.Instant) uint32 {
	if now >= r.Limit.At.Add(limitTTL) {
		return 0
	}
	return r.Limit.Messages
}

// Probed records how a host answered the probe for LevelStream.
func (db *DB) Probed(k Key, result mail.Proof, now mail.Instant) {
	h := db.touch(k, now)
	old := h.rec.Proof
	h.rec.Proof = Proof{At: stamp(old.At, now), Result: result, Executes: old.Executes || result == mail.ProofExecutes}
	db.mark(h)
}

// probeEvery is the minimum time between two such probes of one host, and proofTTL
// the time for which a passed probe is valid: the server may have been replaced by
// then.
const (
	probeEvery = 24 * time.Hour
	proofTTL   = 7 * 24 * time.Hour
)

// ObserveCaps records what a host offers. sizeMax is in bytes, 0 if the host
// declares no maximum.
func (db *DB) ObserveCaps(k Key, ext mail.Extensions, sizeMax int64, now mail.Instant) {
	h := db.touch(k, now)
	h.rec.Caps = Caps{At: stamp(h.rec.Caps.At, now), Extensions: ext, SizeMax: sizeMax}
}

// ObserveRTT records one round trip: from the last byte of a group of commands to
// the first of its replies, or the duration of connecting.
func (db *DB) ObserveRTT(k Key, d time.Duration, now mail.Instant) {
	p := db.observe(k, now)
	p.RTT, p.RTTMin = smooth(p.RTT, d), lower(p.RTTMin, d, p.RTT)
}

// ObserveService records one service time: from the last byte of a content to its
// final reply, less a round trip.
func (db *DB) ObserveService(k Key, d time.Duration, now mail.Instant) {
	p := db.observe(k, now)
	p.Service = smooth(p.Service, d)
	p.ServiceFloor = lower(p.ServiceFloor, p.Service, p.Service)
}

// observe does not mark the record as changed: Shut does, once for all observations
// on a connection.
func (db *DB) observe(k Key, now mail.Instant) *Pace {
	p := &db.touch(k, now).rec.Pace
	p.At = stamp(p.At, now)
	return p
}

// paceMax bounds observations, so that one of a host that stalled for hours does
// not dominate the average.
const paceMax = 10 * time.Minute

// smooth returns the smoothed round-trip time of RFC 6298 2.3, in which each new
// value has a weight of one eighth.
func smooth(old, sample time.Duration) time.Duration {
	sample = max(1, min(sample, paceMax))
	if old == 0 {
		return sample
	}
	return old + (sample-old)/8
}

// lower returns the new floor: it follows sample down at once, and the smoothed
// value up by a part in 1024, so that a host that has permanently moved farther
// away gets a new floor within some thousand messages.
func lower(floor, sample, smoothed time.Duration) time.Duration {
	sample = max(1, min(sample, paceMax))
	if floor == 0 || sample < floor {
		return sample
	}
	return floor + (smoothed-floor)/1024
}

// serviceLeast is a service time that never counts as slow: below it the noise of a
// disk is larger than any factor.
const serviceLeast = 20 * time.Millisecond

func (r *Record) slow(cfg *Config) bool {
	p := &r.Pace
	return p.Service > time.Duration(cfg.TarpitFactor)*max(p.ServiceFloor, serviceLeast)
}

// What hosts say is kept whole, unless many of them say much: texts longer than shortMax bytes
// take up at most longMost bytes together, and further ones are cut to shortMax. ownTextMax is the
// maximum length of a reason in our own words, which is the reply for mail, with advice at its end;
// nameMax is that of a host's name.
const (
	shortMax   = 120
	longMost   = 16 << 20
	ownTextMax = 300
	nameMax    = 120
)

// cut returns a reply that shares no memory with r.
func cut(r mail.Reply) mail.Reply {
	most := mail.ReplyTextMax
	if r.By == "" {
		most = ownTextMax
	}
	r.Text = strings.Clone(mail.CutText(r.Text, most))
	r.By = strings.Clone(mail.CutText(r.By, nameMax))
	return r
}

// long returns the length of the text of a reason that counts towards longMost.
func (h *Health) long() int {
	if n := len(h.Reason.Text); n > shortMax && h.Reason.By != "" {
		return n
	}
	return 0
}

// setHealth replaces what is known of a host's failures.
func (db *DB) setHealth(h *host, now Health) {
	db.long -= h.rec.Health.long()
	if n := now.long(); db.long+n > longMost && n > 0 {
		now.Reason.Text = strings.Clone(mail.CutText(now.Reason.Text, shortMax))
	}
	h.rec.Health = now
	db.long += now.long()
}
