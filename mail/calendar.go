package mail

const secondsPerDay = 24 * 60 * 60

// Date returns the Gregorian date, in universal time, of a second counted from 1970, and the
// seconds since the beginning of that day. Months and days count from 1.
func Date(second int64) (year, month, day, ofDay int64) {
	days := floorDiv(second, secondsPerDay)
	year, month, day = civil(days)
	return year, month, day, second - days*secondsPerDay
}

// civil returns the Gregorian date of a day counted from 1970-01-01. Years
// are counted from March, so that the leap day is the last of its year and
// month lengths follow one formula.
func civil(day int64) (year, month, date int64) {
	day += 719468 // days from 0000-03-01
	era := floorDiv(day, 146097)
	d := day - era*146097
	y := (d - d/1460 + d/36524 - d/146096) / 365
	d -= 365*y + y/4 - y/100
	m := (5*d + 2) / 153
	date = d - (153*m+2)/5 + 1
	year = era*400 + y
	month = m + 3
	if month > 12 {
		month -= 12
		year++
	}
	return year, month, date
}

// DayOf returns the day counted from 1970-01-01 of a Gregorian date. A date past the end of its month
// gives a day of the next one.
func DayOf(year, month, date int64) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	era := floorDiv(year, 400)
	y := year - era*400
	d := (153*(month-3)+2)/5 + date - 1
	return era*146097 + 365*y + y/4 - y/100 + d - 719468
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
