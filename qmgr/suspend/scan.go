package suspend

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
)

// scan is the search for what suspensions kept that have ended early. Invariant: while a scan is wanted or under way, or
// inCore is not 0 after one, the table has a record of the scope Resumed.
type scan struct {
	wanted bool         // one is to begin
	next   mail.Instant // when it may
	inCore int          // messages in core that rested with a mark when they came, and would not have been due
}

// pause is the shortest time between the beginnings of two scans. One that is under way then
// begins anew: what it has found and not taken would keep the mail of the second suspension waiting
// for room in core in front of it.
const pause = time.Second

// resumed is the key of the record that says that mail has to be found.
var resumed = measure.Key{Scope: measure.Resumed}

// Again has the mail found that waits for the end of a suspension, since one has ended early, or because what waits may go on for
// another reason.
func (b *Book) Again(now mail.Instant) {
	b.ended++
	b.wanted = true
	b.put(resumed, measure.Order{Since: now, Until: mail.Never})
}

// WakeAt returns when the next scan may begin; Never if none is wanted.
func (b *Book) WakeAt() mail.Instant {
	if b.wanted {
		return b.next
	}
	return mail.Never
}

// Begin notes that a scan begins.
func (b *Book) Begin(now mail.Instant) { b.wanted, b.next = false, now.Add(pause) }

// Remembered reports whether there is the record that says that mail has to be found, or may have to.
func (b *Book) Remembered() bool { return b.of[measure.Resumed] > 0 }

// Over notes that no scan is under way. When none is wanted either, and what scans have found has left the core, none need
// be made after a restart.
func (b *Book) Over() {
	if b.Remembered() && !b.wanted && b.inCore == 0 {
		b.put(resumed, measure.Order{})
	}
}

// A Stay is what is known of a message in core: whether it rested because of a suspension when it came, and whether some of its
// recipients are put off because of one.
type Stay struct {
	kept   bool
	until  mail.Instant // kept: the earliest end of these suspensions
	ended  uint64       // kept: how many had ended by then
	rested bool         // it counts in scan.inCore
}

// Kept reports whether some recipient waits until a suspension ends.
func (s *Stay) Kept() bool { return s.kept }

// Rests reports whether a message at a place waits there because of a suspension.
func Rests(at mail.Place, now mail.Instant) bool {
	return at.Area == mail.AreaDeferred && intake.Marked(at.Due) && at.Due > now
}

// Comes counts a message that comes into core.
func (b *Book) Comes(s *Stay, from mail.Place, now mail.Instant) {
	if Rests(from, now) {
		s.rested = true
		b.inCore++
	}
}

// Keep notes that some recipient of a message waits until an instant, because of a suspension.
func (b *Book) Keep(s *Stay, until mail.Instant) {
	if !s.kept {
		s.kept, s.until, s.ended = true, until, b.ended
	}
	s.until = min(s.until, until)
}

// Due returns when a message is looked at again whose recipients wait for suspensions to end, or others of them for their
// receivers: at an instant at the latest, to which the mark is added. One that ended after the first of them was put off may
// have been that one's: it is tried now.
func (b *Book) Due(s *Stay, latest, now mail.Instant) mail.Instant {
	if s.ended != b.ended {
		return now
	}
	return min(s.until, intake.MarkFrom(latest))
}

// Leaves is for a message that leaves the core. A suspension may have ended after it was put off, and the
// scan for it may have ended before it came to rest.
func (b *Book) Leaves(s *Stay, to mail.Place, now mail.Instant) {
	if s.rested {
		b.inCore--
	}
	if s.kept && s.ended != b.ended && to.Area == mail.AreaDeferred && to.Due > now {
		b.wanted = true
		if !b.Remembered() {
			b.put(resumed, measure.Order{Since: now, Until: mail.Never})
		}
	}
}
