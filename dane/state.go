package dane

// A State is what the DNS says about DANE for a host (RFC 7672 2.1 and 2.2). The
// zero State is Failed, so that a result that was never filled in permits nothing.
type State uint8

const (
	// Failed: there is no trustworthy answer, because of a bogus signature, a
	// SERVFAIL or a timeout. The host must not be used for now, with or without
	// TLS: whoever can suppress an answer must gain nothing by it (RFC 7672 2.1.2).
	Failed State = iota
	// None: DNSSEC does not vouch for the host's addresses or its TLSA records, or it
	// proves that there are no such records. DANE does not apply to the host.
	None
	// Unusable: there are records, and none is usable. TLS is mandatory;
	// the certificate is not verified (RFC 7672 2.2).
	Unusable
	// Usable: TLS is mandatory, and Verify must succeed.
	Usable
)

// String returns the word for logs.
func (s State) String() string {
	switch s {
	case None:
		return "none"
	case Unusable:
		return "unusable"
	case Usable:
		return "usable"
	}
	return "failed"
}

// An Answer is the result of a lookup of a host's TLSA records. The zero Answer has
// failed.
type Answer struct {
	State State
	// Base is the TLSA base domain: the name that had the records, which may be
	// that of which the host's name is an alias (RFC 7672 2.2.3). It is the
	// server name of the handshake and the first reference identifier, without a
	// final dot; "" unless there are records.
	Base    string
	Records Records // all of them; only if the State is Usable or Unusable
	Why     string  // Failed: the reason, for people
}

// StateOf returns the state of a host with these records, for which DNSSEC vouches.
func StateOf(rs Records) State {
	for _, r := range rs {
		if r.Usable() {
			return Usable
		}
	}
	if len(rs) > 0 {
		return Unusable
	}
	return None
}
