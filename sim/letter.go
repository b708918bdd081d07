package sim

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A letter is an entry that was sent over a session: one transaction. How its
// times follow from each other is what a level of pipelining is:
//
//	lockstep  each command waits for its reply: n+3 round trips
//	group     the envelope is one round trip, the content another
//	overlap   the envelope goes with the content before: one round trip
//	stream    all goes at once, a few messages ahead of their replies
//
// To this comes what the server takes: for the envelope (what each recipient adds)
// and, with the final reply, for the content. It does one thing after the other, so
// with overlap and stream it is never idle while something is on its way.
type letter struct {
	task
	times
	answered bool
}

// times are when what happens to a letter.
type times struct {
	sent    mail.Instant // by the core
	written mail.Instant // when the client writes MAIL
	content mail.Instant // when the content is written
	served  mail.Instant // when the server has taken, or refused, it
	final   mail.Instant // when the client reads its final reply
}

// complete reports whether the content was written to its end before what happens now.
func (l *letter) complete(now mail.Instant) bool { return l.content < now }

// roundTripsInLockStep are those of MAIL, each RCPT, DATA, and the content.
func roundTripsInLockStep(recipients int) time.Duration { return time.Duration(recipients + 3) }

// plan fixes the times of a letter, which is sent now, behind those that were sent
// before.
func (s *session) plan(w *world, l *letter) {
	b, rng := &s.host.now, &s.host.rng
	content := b.Transaction.draw(rng)
	envelope := b.Recipient.drawSum(rng, len(l.recipients))
	start, rtt, last := max(w.now, s.host.frozen), s.rtt, &s.last
	switch s.level {
	case mail.LevelLockStep:
		l.written = max(start, last.final)
		l.content = l.written.Add(roundTripsInLockStep(len(l.recipients))*rtt - rtt + envelope)
		l.served = l.content.Add(rtt/2 + content)
	case mail.LevelGroup:
		l.written = max(start, last.final)
		l.content = l.written.Add(rtt + envelope)
		l.served = l.content.Add(rtt/2 + content)
	case mail.LevelOverlap:
		l.written = max(start, last.content)
		l.content = max(l.written.Add(rtt/2), last.served).Add(envelope + rtt - rtt/2)
		l.served = l.content.Add(rtt/2 + content)
	default:
		l.written = max(start, s.turnAt())
		l.content = l.written
		l.served = max(l.written.Add(rtt/2), last.served).Add(envelope + content)
	}
	l.final = l.served.Add(rtt - rtt/2)
	if w.sabotage.hang() {
		s.last = l.times
		l.final = mail.Never
		return
	}
	s.doom(w, l, b.DropPercent)
	s.last = l.times
}

// turnAt is when one more message may be in flight at level stream.
func (s *session) turnAt() mail.Instant {
	if n := len(s.letters) - max(s.inFlight, 1); n >= 0 {
		return s.letters[n].final
	}
	return 0
}

// doom decides whether the connection is going to break in the course of a
// letter, or whether the client will lose its patience.
func (s *session) doom(w *world, l *letter, dropPercent float64) {
	rng := &s.host.rng
	if l.message.poisonous() {
		s.breakAt(l.served, replyLost)
	}
	if s.faulty && s.carried == 0 && len(s.letters) == 0 || percent(rng, dropPercent) {
		s.breakAt(l.written.Add(rng.Between(0, l.final.Sub(l.written))), replyLost)
	}
	s.hurry(l, max(l.sent, s.last.final))
}

// hurry breaks the session if the client would have to wait for too long.
func (s *session) hurry(l *letter, since mail.Instant) {
	if limit := s.client.ReplyTimeout; limit > 0 && l.final.Sub(since) > limit {
		s.breakAt(since.Add(limit), replyNoReply)
	}
}

// breakAt has the session break at an instant, if it does not before.
func (s *session) breakAt(at mail.Instant, why mail.Reply) {
	if s.loss.at == 0 || at < s.loss.at {
		s.loss = loss{at, why}
	}
}

// freeze lets nothing come through until an instant: what was to happen before
// that happens after it, in the same order and distances.
func (s *session) freeze(w *world, until mail.Instant) {
	more := until.Sub(w.now)
	for i := range s.letters {
		l := &s.letters[i]
		l.shift(w.now, more)
		if i == 0 && l.final != mail.Never {
			s.hurry(l, max(l.sent, s.ended))
		}
	}
	s.last.shift(w.now, more)
	s.schedule(w)
}

func (l *times) shift(now mail.Instant, more time.Duration) {
	for _, at := range []*mail.Instant{&l.written, &l.content, &l.served, &l.final} {
		if *at > now && *at != mail.Never {
			*at = at.Add(more)
		}
	}
}
