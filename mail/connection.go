package mail

import "time"

// An Opening is a connection that is to be made.
type Opening struct {
	Transport string
	Nexthop   string // for whose mail it is opened; it may be used for others later
	Host      Host
	Level     Level // the most that may be used, whatever the server offers
	InFlight  int   // messages under way at once at LevelStream; 0 means the default
	// Probe asks to find out at the end of the connection whether the host bears
	// LevelStream. Until that is proven, Level is below it.
	Probe bool
}

// An OpenedConnection is ready for its first transaction, unless Reply says why
// there is none.
type OpenedConnection struct {
	Reply Reply // zero if the connection is ready
	// Unavailable, with Reply, means that no connection of the transport can be
	// made now, to whatever host, for want of something of our own. The host is not
	// to blame.
	Unavailable bool
	Level       Level // what the server offers, at most what was asked for
	Mails       int   // how many transactions the server takes on one connection (RFC 9422 MAILMAX); 0 if it does not say
	Extensions  Extensions
	SizeMax     int64 // octets of a message that the server takes at most (RFC 1870); 0 if it does not say
	Probes      bool  // the server offers what LevelStream takes, and the Probe that was asked for will be made
	// RTT is what a round trip takes: the TCP handshake, or the reply to EHLO if
	// that took longer, as it does if something near answers handshakes for a
	// server that is far.
	RTT     time.Duration
	Connect time.Duration // TCP, greeting and EHLO together
}

// Extensions is a set of SMTP extensions that a server offers.
type Extensions uint16

const (
	ExtPipelining Extensions = 1 << iota // RFC 2920
	ExtChunking                          // RFC 3030
	Ext8BitMIME                          // RFC 6152
	ExtSMTPUTF8                          // RFC 6531
	ExtDSN                               // RFC 3461
	ExtStartTLS                          // RFC 3207
	ExtRequireTLS                        // RFC 8689
	ExtBurl                              // RFC 4468
)

// A Closing says how a connection ended. All transactions that were sent to it
// have had their results before.
type Closing struct {
	Why CloseReason
	// Level, with CloseStep and CloseLost, is the level that the server did not
	// follow, or may not have; LevelLockStep if that is no question.
	Level Level
	Reply Reply // what the server said, or our own words for what happened; zero for CloseAsked
	Proof Proof // what the Probe has found out that was asked for
}

// A CloseReason is a kind of end of a connection.
type CloseReason uint8

const (
	// CloseAsked is a good end: Hangup; or the connection had served its turn
	// (MAILMAX, a message refused before it was complete); or we broke it off for
	// reasons of our own. It says nothing about the host.
	CloseAsked CloseReason = iota
	// CloseIdle means that the server closed it, said 421, or began to say something
	// else that nothing had asked for, while nothing was under way or before it had
	// said anything to what was.
	CloseIdle
	CloseBusy // the server said 421 while something was under way
	// CloseLost means that it broke, or a reply did not come in time, while
	// something was under way. With several commands unanswered that may be for
	// the level at which they were sent (Closing.Level), or because the server is
	// going down; nobody can tell.
	CloseLost
	// CloseStep means that the server speaks, and may do better at a lower level of
	// pipelining than Closing.Level: its replies did not fit the commands.
	CloseStep
	// CloseMixed means that the server attached what followed to an earlier
	// transaction in spite of the fence between them: nothing may ever be streamed
	// to it again.
	CloseMixed
	CloseWrong // the server does not keep to the protocol in any way known
)

// String returns the word that logs and traces show.
func (r CloseReason) String() string {
	return [...]string{"asked", "idle", "busy", "lost", "step", "mixed", "wrong"}[r]
}
