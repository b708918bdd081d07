package inbound

import (
	"time"

	"github.com/posthaste-mta/posthaste/smtp/server"
)

// A patience decides how long a connection waits for its client. Only time
// spent waiting counts against the rate at which content must come: while the
// server itself is slow, the client is not.
type patience struct {
	cfg         *Config
	transaction time.Time // when MAIL was given; zero without
	line        time.Time // when the first octet of an incomplete command came; zero without
	waited      time.Duration
	octets      int // that came in waited
}

// deadline returns until when to wait now.
func (p *patience) deadline(now time.Time, w server.Waiting, stress bool) time.Time {
	silence := p.cfg.CommandTimeout
	if stress {
		silence = min(silence, p.cfg.StressTimeout)
	}
	until := now.Add(silence)
	switch w {
	case server.ForLine:
		if p.line.IsZero() {
			p.line = now
		}
		until = earlier(until, p.line.Add(p.cfg.LineTimeout))
	case server.ForContent:
		until = now.Add(p.cfg.DataRatePeriod - p.waited)
	}
	if !p.transaction.IsZero() {
		until = earlier(until, p.transaction.Add(p.cfg.TransactionTimeout))
	}
	return until
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// received notes what came while the connection waited for w. It tells
// whether the client keeps up.
func (p *patience) received(from, now time.Time, w server.Waiting, octets int) (keepsUp bool) {
	if w != server.ForContent {
		p.waited, p.octets = 0, 0
		return true
	}
	p.waited += now.Sub(from)
	p.octets += octets
	if p.waited < p.cfg.DataRatePeriod {
		return true
	}
	keepsUp = float64(p.octets) >= float64(p.cfg.DataRate)*p.waited.Seconds()
	p.waited, p.octets = 0, 0
	return keepsUp
}

// lasts tells whether there is any patience left at a deadline: content may
// keep its rate although nothing came at the end of a period.
func (p *patience) lasts(now time.Time, w server.Waiting) bool {
	return w == server.ForContent && now.Sub(p.transaction) < p.cfg.TransactionTimeout
}

// consumed notes that the session took input: a command that was incomplete
// is complete.
func (p *patience) consumed() { p.line = time.Time{} }

func (p *patience) beginTransaction(now time.Time) { p.transaction = now }

func (p *patience) endTransaction() { p.transaction = time.Time{} }
