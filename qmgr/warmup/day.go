package warmup

import (
	"fmt"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Day is a UTC day: its number since 1970-01-01, which is day 0. Leap seconds do not
// occur, as in all Unix time.
type Day int32

const dayLength = 24 * time.Hour

// DayOf returns the day that an instant lies in; day 0 for instants before 1970.
func DayOf(i mail.Instant) Day {
	return Day(max(i, 0) / mail.Instant(dayLength))
}

// Start returns the first instant of the day.
func (d Day) Start() mail.Instant { return mail.Instant(d) * mail.Instant(dayLength) }

// End returns the first instant of the next day.
func (d Day) End() mail.Instant { return (d + 1).Start() }

// DayOn returns the day of a date of the proleptic Gregorian calendar. Month and day of
// month must exist.
func DayOn(year, month, day int) Day {
	// Years begin in March, so that a leap day is the last of one.
	y, m := year, month-3
	if m < 0 {
		y, m = y-1, m+12
	}
	era := y / 400
	return Day(era*daysPerEra + y%400*365 + y%400/4 - y%400/100 + (153*m+2)/5 + day - 1 - epoch)
}

const (
	daysPerEra = 146_097 // days of 400 years
	epoch      = 719_468 // days from 0000-03-01 to 1970-01-01
)

// Date returns the day's year, month (from 1) and day of month.
func (d Day) Date() (year, month, day int) {
	n := int(d) + epoch
	era, n := n/daysPerEra, n%daysPerEra
	y := (n - n/1460 + n/36_524 - n/146_096) / 365
	n -= y*365 + y/4 - y/100
	m := (5*n + 2) / 153
	day = n - (153*m+2)/5 + 1
	if m += 3; m > 12 {
		m, y = m-12, y+1
	}
	return era*400 + y, m, day
}

// String returns the date, as in "2026-11-23".
func (d Day) String() string {
	y, m, day := d.Date()
	return fmt.Sprintf("%04d-%02d-%02d", y, m, day)
}
