package inbound

import (
	"time"

	"github.com/posthaste-mta/posthaste/smtp/server"
)

// A patience decides how long a connection waits for its client. Only time spent
// waiting counts, not time that the server itself takes.
//
// With a limit on silence alone, a client that sends a byte now and then could stay
// forever. So every phase has a limit that grows with the client's progress, not
// with the bytes that it sends, and all phases together have one until a message is
// accepted:
//
//	any phase   a line: LineTimeout from its first octet to its last
//	none        silence: CommandTimeout; in all: IdleTime
//	envelope    silence: CommandTimeout; in all: EnvelopeTime, and RecipientTime for each recipient
//	content     DataRate over each DataRatePeriod; in all: TransactionTimeout
//	message     from MAIL to its end: TransactionTimeout
type patience struct {
	cfg         *Config
	transaction time.Time // when MAIL was given; zero without
	line        time.Time // when the first byte of an incomplete command came; zero without

	period     time.Duration // waited for content since the rate was last checked
	octets     int           // received in period
	envelope   time.Duration // waited since MAIL, except for content
	recipients int           // accepted since MAIL
	fruitless  time.Duration // waited since the start or the last accepted message
}

// deadline returns the read deadline.
func (p *patience) deadline(now time.Time, w server.Waiting, phase server.Phase, stress bool) time.Time {
	silence := p.cfg.CommandTimeout
	if stress {
		silence = min(silence, p.cfg.StressTimeout)
	}
	if phase == server.PhaseContent {
		silence = p.cfg.DataRatePeriod - p.period
	}
	until := now.Add(min(silence, p.left(phase)))
	if w == server.ForLine {
		if p.line.IsZero() {
			p.line = now
		}
		until = earlier(until, p.line.Add(p.cfg.LineTimeout))
	}
	if !p.transaction.IsZero() {
		until = earlier(until, p.transaction.Add(p.cfg.TransactionTimeout))
	}
	return until
}

// left returns the remaining waiting time of this phase, however active the client
// is.
func (p *patience) left(phase server.Phase) time.Duration {
	switch phase {
	case server.PhaseContent:
		return p.cfg.TransactionTimeout - p.fruitless
	case server.PhaseEnvelope:
		return min(p.envelopeTime()-p.envelope, max(p.cfg.IdleTime, p.envelopeTime())-p.fruitless)
	}
	return p.cfg.IdleTime - p.fruitless
}

// envelopeTime returns the time limit of the current envelope.
func (p *patience) envelopeTime() time.Duration {
	return p.cfg.EnvelopeTime + time.Duration(p.recipients)*p.cfg.RecipientTime
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// received records input and the time spent waiting for it. It reports whether the
// client is within its limits.
func (p *patience) received(from, now time.Time, phase server.Phase, octets int) (keepsUp bool) {
	waited := now.Sub(from)
	p.fruitless += waited
	if phase == server.PhaseEnvelope {
		p.envelope += waited
	}
	if p.left(phase) <= 0 {
		return false
	}
	if phase != server.PhaseContent {
		p.period, p.octets = 0, 0
		return true
	}
	p.period += waited
	p.octets += octets
	if p.period < p.cfg.DataRatePeriod {
		return true
	}
	keepsUp = float64(p.octets) >= float64(p.cfg.DataRate)*p.period.Seconds()
	p.period, p.octets = 0, 0
	return keepsUp
}

// lasts reports whether the client is within its limits at a deadline: content may
// be fast enough although nothing came at the end of a period.
func (p *patience) lasts(now time.Time, w server.Waiting, phase server.Phase) bool {
	return phase == server.PhaseContent && w != server.ForLine && now.Sub(p.transaction) < p.cfg.TransactionTimeout
}

// consumed records that the session took input: an incomplete command is now
// complete.
func (p *patience) consumed() { p.line = time.Time{} }

func (p *patience) beginTransaction(now time.Time) {
	p.transaction, p.envelope, p.recipients = now, 0, 0
}

// addRecipient records an accepted recipient.
func (p *patience) addRecipient() { p.recipients++ }

func (p *patience) endTransaction() { p.transaction = time.Time{} }

// accepted records an accepted message.
func (p *patience) accepted() { p.fruitless = 0 }
