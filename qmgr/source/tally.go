package source

import "github.com/posthaste-mta/posthaste/mail"

// A Tally is what became of the recipients of deliveries on one day, which is that of UTC.
type Tally struct {
	Since mail.Instant // the beginning of the day, or when counting began; 0 if nothing was counted
	Count [results]uint64
}

// results is the number of what a recipient's outcome can be.
const results = mail.Failed + 1

// day is the length of a day.
const day = mail.Instant(24 * 60 * 60 * 1e9)

// Add counts an outcome.
func (t *Tally) Add(r mail.Result, now mail.Instant) {
	if t.Since == 0 {
		t.Since = now
	}
	*t = t.At(now)
	t.Count[r]++
}

// At returns the tally of the day of an instant, which is empty if that is a later day.
func (t Tally) At(now mail.Instant) Tally {
	if begin := now - now%day; t.Since != 0 && t.Since < begin {
		return Tally{Since: begin}
	}
	return t
}
