package inbound

import "sync/atomic"

// Counters are facts about a Server since its start, for metrics.
type Counters struct {
	Connections int64 // admitted
	Open        int64 // open now
	Refused     int64 // not admitted, because of a limit
	Shed        int64 // closed to make room
	Messages    int64 // accepted
	Recipients  int64 // of these
	Octets      int64 // bytes of content of these
	Rejections  int64 // commands, recipients and messages refused
	Early       int64 // sessions that did not wait for replies
	ProxyFailed int64 // connections of proxies without a proper header
	TLS         int64 // TLS handshakes that succeeded
	TLSFailed   int64 // those that did not
	TLSRefused  int64 // those that were not begun, because of the limit
	Logins      int64 // clients that have logged in
	LoginFailed int64 // logins that failed
	LoginLater  int64 // those that were not tried, because of a limit
	Timeouts    int64 // sessions ended because the client was too slow
	Failures    int64 // errors of the Sink or the Gate
	Panics      int64 // connections lost to a bug
}

type counters struct {
	connections, open, refused, shed             atomic.Int64
	messages, recipients, octets                 atomic.Int64
	rejections, early, timeouts, failed, panicks atomic.Int64
	proxyFailed, tls, tlsFailed, tlsRefused      atomic.Int64
	logins, loginFailed, loginLater              atomic.Int64
}

// Counters returns the present values. Each is exact, but they are not a consistent
// snapshot.
func (s *Server) Counters() Counters {
	c := &s.counters
	return Counters{
		Connections: c.connections.Load(),
		Open:        c.open.Load(),
		Refused:     c.refused.Load(),
		Shed:        c.shed.Load(),
		Messages:    c.messages.Load(),
		Recipients:  c.recipients.Load(),
		Octets:      c.octets.Load(),
		Rejections:  c.rejections.Load(),
		Early:       c.early.Load(),
		ProxyFailed: c.proxyFailed.Load(),
		TLS:         c.tls.Load(),
		TLSFailed:   c.tlsFailed.Load(),
		TLSRefused:  c.tlsRefused.Load(),
		Logins:      c.logins.Load(),
		LoginFailed: c.loginFailed.Load(),
		LoginLater:  c.loginLater.Load(),
		Timeouts:    c.timeouts.Load(),
		Failures:    c.failed.Load(),
		Panics:      c.panicks.Load(),
	}
}
