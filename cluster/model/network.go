package model

import (
	"time"

	"github.com/posthaste-mta/posthaste/internal/prng"
	"github.com/posthaste-mta/posthaste/mail"
)

// A Clock is the host's time.
type Clock interface {
	Now() mail.Instant
	// After calls f once, d from now or later, and not before After has returned.
	After(d time.Duration, f func())
}

// A Network decides about messages.
type Network interface {
	// Delay returns how long a message takes that is sent now; false if it is lost.
	Delay(from, to string, now mail.Instant) (time.Duration, bool)
}

// Links is a Network whose faults are set by calls.
type Links struct {
	// Least and Most are the range of delays; loss comes on top, in permille.
	Least, Most time.Duration
	Loss        int

	random prng.Source
	parts  map[string]int // by place; places in different parts do not hear each other
	pauses map[string]mail.Instant
	skews  map[string]time.Duration
}

// NewLinks returns a network without faults.
func NewLinks(least, most time.Duration, seed uint64) *Links {
	return &Links{
		Least: least, Most: most, random: prng.New(seed),
		parts: map[string]int{}, pauses: map[string]mail.Instant{}, skews: map[string]time.Duration{},
	}
}

// Partition divides the network: places of one group hear each other, others do not.
// Places in no group form one of their own. Without groups, it ends all partitions.
func (l *Links) Partition(groups ...[]string) {
	clear(l.parts)
	for i, group := range groups {
		for _, place := range group {
			l.parts[place] = i + 1
		}
	}
}

// Pause delays what is sent to a place until an instant, as for a stopped process. The
// host itself must not step the place until then.
func (l *Links) Pause(place string, until mail.Instant) { l.pauses[place] = until }

// Skew sets how far the clock of a place is ahead.
func (l *Links) Skew(place string, ahead time.Duration) { l.skews[place] = ahead }

// ClockOf returns what the clock of a place shows.
func (l *Links) ClockOf(place string, now mail.Instant) mail.Instant { return now.Add(l.skews[place]) }

// Delay implements Network. It draws two numbers for each message, whatever happens to
// it, so that a fault does not shift what is drawn afterwards.
func (l *Links) Delay(from, to string, now mail.Instant) (time.Duration, bool) {
	delay, lost := l.random.Between(l.Least, l.Most), l.random.Permille(l.Loss)
	if lost || l.parts[from] != l.parts[to] {
		return 0, false
	}
	if until := l.pauses[to]; now < until {
		delay = max(delay, until.Sub(now))
	}
	return delay, true
}
