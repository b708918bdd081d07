package outbound

import "crypto/tls"

const (
	// sessionsKept is the number of TLS sessions that can be resumed, each of another host.
	sessionsKept = 2048
	// sessionMax is the maximum number of octets of one. Most have 2000 to 6000; a server may send
	// a quarter of a million, and each of its names has a session of its own.
	sessionMax = 16 << 10
)

// A resumption is the TLS sessions of one transport among those of all. Transports do not resume
// each other's: a session stands for the certificate that we have shown in it, and a relay would
// take the mail of one for that of another.
type resumption struct {
	all       tls.ClientSessionCache
	transport string
}

func (r resumption) key(server string) string { return r.transport + "\n" + server }

// Get returns the session with a server.
func (r resumption) Get(server string) (*tls.ClientSessionState, bool) {
	return r.all.Get(r.key(server))
}

// Put keeps a session, unless it is too large.
func (r resumption) Put(server string, s *tls.ClientSessionState) {
	if s != nil && octetsOf(s) > sessionMax {
		return
	}
	r.all.Put(r.key(server), s)
}

// octetsOf returns the size of a session, with the certificates of the server.
func octetsOf(s *tls.ClientSessionState) int {
	ticket, state, err := s.ResumptionState()
	if err != nil || state == nil {
		return 0 // there is nothing in it
	}
	rest, err := state.Bytes()
	if err != nil {
		return sessionMax + 1 // what cannot be measured is not kept
	}
	return len(ticket) + len(rest)
}
