package intake

// An Origin is how a message came into core. It decides whether the message is still
// wanted when it has been opened, and in which line it waits for lookups.
type Origin uint8

const (
	FromIncoming Origin = iota // new mail
	FromDeferred               // deferred mail that was due
	FromFlush                  // found by the scan for RetryAll
	FromWarmup                 // deferred until a day ends, and sources may send more before
	FromResume                 // deferred because of a suspension, and one has ended
	FromRetry                  // named by an operator's Retry
	FromCallout                // not mail: a call-out's pseudo-message
	FromDebt                   // not to be tried: it is the message's turn to be reported on
)

// A Line is one of those in which messages wait for lookups.
type Line uint8

const (
	LineNew     Line = iota // mail that is tried for the first time, or because an operator named it
	LineRetries             // mail that was deferred
	lines
)

// Line returns the line in which a message waits.
func (o Origin) Line() Line {
	if o == FromDeferred || o == FromFlush || o == FromWarmup || o == FromResume {
		return LineRetries
	}
	return LineNew
}
