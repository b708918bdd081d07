package mail

import "time"

// A Delivery is one transaction to attempt: some recipients of one
// message that share transport and nexthop.
type Delivery struct {
	Transport  string
	Nexthop    string
	Source     string // that of the connection, or "" where none is chosen
	Security   string // what is demanded of connections (Route.Security)
	Envelope   Envelope
	Recipients []Recipient
	// Origin is the original destination of mail that is given to another
	// transport in order to be deferred; zero otherwise. Logs name it, and Nexthop
	// is the reason.
	Origin Origin
	// Said is the reply that caused that, a remote host's if By is set, unchanged except for a
	// prefix of ours in Text; zero if none did.
	Said Reply
	// Callout asks only whether the recipients would be accepted: there is no
	// content, and the envelope has only the sender. An outcome of Delivered means
	// that the next hop would accept mail for the recipient.
	Callout bool
}

// An Origin is the transport and nexthop to which mail was routed that cannot be
// delivered there now, and what was demanded of connections.
type Origin struct{ Transport, Nexthop, Security string }

// Destination returns the transport and nexthop to which the mail was routed, even
// if it is given to another transport in order to be deferred.
func (d *Delivery) Destination() (transport, nexthop string) {
	if d.Origin != (Origin{}) {
		return d.Origin.Transport, d.Origin.Nexthop
	}
	return d.Transport, d.Nexthop
}

// Via returns the way of the delivery.
func (d *Delivery) Via() Via {
	transport, nexthop := d.Destination()
	return Via{Transport: transport, Nexthop: nexthop, Source: d.Source}
}

// Demanded returns what is demanded of connections, or was where the mail was routed to.
func (d *Delivery) Demanded() string {
	if d.Origin != (Origin{}) {
		return d.Origin.Security
	}
	return d.Security
}

// A DeliveryResult is the result of a Delivery.
type DeliveryResult struct {
	// Outcomes has one element for each recipient of the Delivery, in the same
	// order. Report is left ReportNone except for ReportRelayed and
	// ReportDelivered where NOTIFY=SUCCESS requests one, and for ReportRelayed where the
	// message's deadline demands one (Envelope.ReportsRelay); the core sets
	// ReportFailed itself.
	Outcomes []Outcome
	// Site is not zero when the nexthop as a whole could not be used: no
	// address, no connection, no handshake, or a lost connection on the last
	// host to try. It is negative feedback for the nexthop's window; any other
	// result is positive. For a transaction on a connection that the core opened,
	// it means that the connection ended before the server had given its verdict,
	// and why; Closing determines what that means for the nexthop.
	Site Reply
	// Crashed means that the outcomes say nothing about the nexthop: the
	// attempt was abandoned for our own reasons.
	Crashed bool
	// Unavailable is not zero when the transport's agent cannot work at all,
	// whatever the nexthop: it is not configured, or lacks a resource. Crashed
	// is set, too. Other mail of the transport is delayed for a while.
	Unavailable Reply

	// Measure is the measure that a rule demands for the destination because of a reply in Outcomes;
	// nil if none does.
	Measure *Measure

	Host     string        // "name[address]:port" that decided; "" if none was reached
	Security Security      // what protected the connection to it
	Connect  time.Duration // lookup, connection and handshake; 0 on a reused connection
	Send     time.Duration // the transaction
	Reused   int           // number of earlier transactions on the connection
}
