package conns

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// Odds distinguish the refusals by which a host says that it has enough connections from
// those that come by chance, as where one of several servers behind an address is down, or
// where it has not noticed yet that others have ended. These come although as many
// connections were accepted a moment ago. Where they are frequent, as many in a row as
// hardly ever come by chance say that the host is full.
type odds struct {
	accepted, noise uint32       // sessions lately, and refusals of this kind
	inRow, odd      uint32       // refusals since the last acceptance, and those of this kind
	oddAt           mail.Instant // when the last of these was
	most            int          // as many connections were open when a session was accepted, itself included
	mostAt          mail.Instant // when that was
}

const (
	// oddsMemory is of about how many sessions the odds are remembered.
	oddsMemory = 64
	// hardlyEver is how rarely so many refusals may come in a row by chance that the
	// host is taken to be full.
	hardlyEver  = 1.0 / 4096
	refusalsMax = 16 // in a row, whatever the odds
	// aMoment is for how long an acceptance shows how many connections a host takes.
	aMoment = 3 * time.Second
)

// accepts notes that a session has begun, with so many open, itself included.
func (o *odds) accepts(open int, now mail.Instant) {
	if open >= o.most || now >= o.mostAt.Add(aMoment) {
		o.most, o.mostAt = open, now
	}
	if now < o.oddAt.Add(aMoment) {
		o.noise += o.odd
	}
	o.inRow, o.odd = 0, 0
	o.accepted++
	if o.accepted+o.noise >= oddsMemory {
		o.accepted, o.noise = o.accepted/2, o.noise/2
	}
}

// byChance notes that one was refused beside so many that are open, and reports whether
// that may well have come by chance.
func (o *odds) byChance(open int, now mail.Instant) bool {
	o.inRow++
	if open < o.most && now < o.mostAt.Add(aMoment) {
		o.odd, o.oddAt = o.odd+1, now
	}
	if o.noise+o.odd == 0 || o.inRow >= refusalsMax {
		return false
	}
	share := float64(o.noise+1) / float64(o.noise+1+o.accepted)
	likely := 1.0
	for range o.inRow {
		likely *= share
	}
	return likely > hardlyEver
}
