package mail

import "time"

// An Opening is a request to open a connection.
type Opening struct {
	Transport string
	Nexthop   string // the nexthop for whose mail it is opened; later it may be used for others
	Source    string // the configured source whose address the connection comes from; "" where none is chosen
	Security  string // what is demanded of its security (package tlspolicy); "" is TLS if the host offers it
	Host      Host
	Level     Level // the maximum, whatever the server offers
	InFlight  int   // messages under way at once at LevelStream; 0 means the default
	// Probe asks to find out at the end of the connection whether the host
	// supports LevelStream. Until that is proven, Level is below it.
	Probe bool
}

// An OpenedConnection is ready for its first transaction, or has in Reply the
// reason why it could not be opened.
type OpenedConnection struct {
	Reply Reply // zero if the connection is ready
	Stage Stage // where in the conversation Reply was given
	// Unavailable, with Reply, means that the transport cannot make a connection
	// to any host now, because it lacks something on our side. It does not count
	// against the host.
	Unavailable bool
	// Unbound, with Reply, means that the address of the Opening's source for this family
	// could not be used on this machine. It does not count against the host.
	Unbound bool
	// Insecure, with Reply, means that the host was there, but the connection could not be
	// secured as the Opening demands. It does not count against the host for other mail.
	Insecure   bool
	Measure    *Measure // what a rule demands for the destination because of Reply; nil if none does
	Security   Security // what was negotiated
	Level      Level    // what the server supports, at most the level of the Opening
	Mails      int      // transactions per connection that the server allows (RFC 9422 MAILMAX); 0 if it states no limit
	Extensions Extensions
	SizeMax    int64 // maximum size of a message that the server accepts, in octets (RFC 1870); 0 if it states none
	Probes     bool  // the server offers the extensions of LevelStream, and the requested Probe will be made
	// RTT is the round-trip time: of the TCP handshake, or of the reply to EHLO if
	// that took longer, as it does if a nearby device answers handshakes for a
	// distant server.
	RTT     time.Duration
	Connect time.Duration // TCP, greeting and EHLO together
}

// A Security describes the protection of a connection; the zero Security is plaintext.
type Security struct {
	Version string // "TLS 1.3"
	Cipher  string // the cipher suite's name
	Trust   Trust
}

// IsZero reports whether the connection is in plaintext.
func (s Security) IsZero() bool { return s.Version == "" }

// String returns "TLS 1.3 TLS_AES_128_GCM_SHA256 verified", or "" in plaintext.
func (s Security) String() string {
	if s.IsZero() {
		return ""
	}
	return s.Version + " " + s.Cipher + " " + s.Trust.String()
}

// A Trust is the degree to which a certificate identifies a server.
type Trust uint8

const (
	TrustNone     Trust = iota // not at all
	TrustChain                 // the certificate is valid, but not for this host
	TrustVerified              // it is the one that must be there
)

// String returns Postfix's word.
func (t Trust) String() string { return [...]string{"untrusted", "trusted", "verified"}[t] }

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

// A Closing reports how a connection ended. It comes after the results of all
// transactions that were sent on the connection.
type Closing struct {
	Why CloseReason
	// Level, with CloseStep and CloseLost, is the level at which the server did not,
	// or may not, follow; LevelLockStep if the level is not in question.
	Level Level
	Reply Reply // the server's reply, or our description of what happened; zero for CloseAsked
	Stage Stage // where in the conversation Reply was given
	Proof Proof // the result of the requested Probe
	// Measure is the measure that a rule demands for the destination because of Reply; nil if none does.
	Measure *Measure
}

// A CloseReason is the reason why a connection ended.
type CloseReason uint8

const (
	// CloseAsked is a normal end: Hangup; or the connection was used up
	// (MAILMAX, a message refused before it was complete); or we closed it for our
	// own reasons. It says nothing about the host.
	CloseAsked CloseReason = iota
	// CloseIdle means that the server closed the connection, sent 421, or began an
	// unsolicited reply, while nothing was under way or before it had replied to
	// anything that was.
	CloseIdle
	CloseBusy // the server sent 421 while something was under way
	// CloseLost means that the connection broke, or a reply did not come in time,
	// while something was under way. With several commands unanswered, the cause may
	// be the level at which they were sent (Closing.Level), or a shutdown of the
	// server; it cannot be known which.
	CloseLost
	// CloseStep means that the server responds, but its replies did not match the
	// commands; it may do better at a level of pipelining below Closing.Level.
	CloseStep
	// CloseMixed means that the server added commands to an earlier transaction
	// in spite of the fence between them: LevelStream must never be used with it
	// again.
	CloseMixed
	CloseWrong // the server violates the protocol in some other way
)

// String returns the word that logs and traces show.
func (r CloseReason) String() string {
	return [...]string{"asked", "idle", "busy", "lost", "step", "mixed", "wrong"}[r]
}
