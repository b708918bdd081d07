package intake

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// Mail that a suspension keeps waiting is deferred until the suspension ends, or
// until its age has a consequence. If the suspension is ended earlier, that mail has to be
// found among all that is deferred. Its due time has a mark for this: it is one nanosecond
// after a whole millisecond, and of other mail one in a million is due at such an instant.
// So the scan for it reads the index and nothing else of what does not concern it, the spool
// needs no further index, and to any other version the mark is a due time like all others.

const (
	markUnit = mail.Instant(time.Millisecond)
	mark     = 1
)

// Marked reports whether a due time has the mark.
func Marked(due mail.Instant) bool { return due%markUnit == mark }

// MarkFrom returns the first instant with a mark that is not before an instant, which must
// not be Never.
func MarkFrom(at mail.Instant) mail.Instant {
	return MarkUntil(at + markUnit - 1)
}

// MarkUntil returns the last instant with a mark that is not after an instant.
func MarkUntil(at mail.Instant) mail.Instant {
	return (at-mark)/markUnit*markUnit + mark
}
