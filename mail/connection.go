package mail

import (
	"fmt"
	"time"
)

// A Pipelining says how much a connection may have under way at once: how far
// the writer runs ahead of the replies (RFC 2920, RFC 3030). The names are those
// of the configuration.
type Pipelining uint8

const (
	// LockStep waits for the reply to each command.
	LockStep Pipelining = iota
	// Group sends MAIL, all RCPTs and DATA together, then waits.
	Group
	// Overlap sends the envelope of one message together with the content of
	// the one before: one round trip for each message, and at most one whose fate
	// is unknown if the connection breaks.
	Overlap
	// Stream sends whole messages one after the other (BDAT) without waiting. It
	// rests on a reading of RFC 3030 that not every server shares, so it is for
	// servers that are configured or proven.
	Stream
)

var pipeliningNames = [...]string{"lockstep", "group", "overlap", "stream"}

// String returns the level's name.
func (p Pipelining) String() string {
	if int(p) < len(pipeliningNames) {
		return pipeliningNames[p]
	}
	return fmt.Sprintf("pipelining %d", uint8(p))
}

// MarshalText returns the level's name.
func (p Pipelining) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads a level's name.
func (p *Pipelining) UnmarshalText(text []byte) error {
	for i, name := range pipeliningNames {
		if name == string(text) {
			*p = Pipelining(i)
			return nil
		}
	}
	return fmt.Errorf("pipelining %q: want lockstep, group, overlap or stream", text)
}

// An Opening is a connection that is to be made.
type Opening struct {
	Transport string
	Nexthop   string // for whose mail it is opened; it may be used for others later
	Host      Host
	Level     Pipelining // the most that may be used, whatever the server offers
	InFlight  int        // messages under way at once at level Stream; 0 means the default
}

// An OpenedConnection is ready for its first transaction, unless Reply says why
// there is none.
type OpenedConnection struct {
	Reply   Reply         // zero if the connection is ready
	Level   Pipelining    // what the server offers, at most what was asked for
	Mails   int           // how many transactions the server takes on one connection (RFC 9422 MAILMAX); 0 if it does not say
	RTT     time.Duration // what the TCP handshake took
	Connect time.Duration // TCP, greeting and EHLO together
}

// A Closing says how a connection ended. All transactions that were sent to it
// have had their results before.
type Closing struct {
	Why   CloseReason
	Level Pipelining // the level in use when the server fell out of step; otherwise without meaning
	Reply Reply      // what the server said, or our own words for what happened; zero for CloseAsked
}

// A CloseReason is a kind of end of a connection.
type CloseReason uint8

const (
	CloseAsked CloseReason = iota // Hangup
	CloseIdle                     // the server closed it or said 421 while nothing was under way
	CloseBusy                     // the server said 421 while something was under way
	CloseLost                     // it broke, or a reply did not come in time, while something was under way
	CloseStep                     // the replies do not fit the commands at this level of pipelining
	CloseWrong                    // the server does not keep to the protocol in any way known
)

// String returns the word that logs and traces show.
func (r CloseReason) String() string {
	return [...]string{"asked", "idle", "busy", "lost", "step", "wrong"}[r]
}
