package mail

import "time"

// A Delivery is one transaction to be attempted: some recipients of one
// message that share transport and nexthop.
type Delivery struct {
	Transport  string
	Nexthop    string
	Envelope   Envelope
	Recipients []Recipient
	// Origin is where the mail was to go that is given to another transport, to
	// be deferred; zero otherwise. Logs name it, and the Nexthop is the reason.
	Origin Origin
	// Said is what a remote host has said that led to that, as it came but for a
	// prefix of ours in Text; zero if it was no host.
	Said Reply
	// Callout asks only whether the recipients would be taken: there is no content,
	// and the envelope has nothing but the sender to ask with. Of its outcomes
	// Delivered means that the next hop would take mail for the recipient.
	Callout bool
}

// An Origin is the transport and nexthop to which mail was routed that cannot
// go there now.
type Origin struct{ Transport, Nexthop string }

// Destination returns the transport and nexthop for which the mail is, whatever
// it is given to for the moment.
func (d *Delivery) Destination() (transport, nexthop string) {
	if d.Origin != (Origin{}) {
		return d.Origin.Transport, d.Origin.Nexthop
	}
	return d.Transport, d.Nexthop
}

// A DeliveryResult is what became of a Delivery.
type DeliveryResult struct {
	// Outcomes has one element for each recipient of the Delivery, in the same
	// order. Report is left ReportNone except for ReportRelayed and
	// ReportDelivered where NOTIFY=SUCCESS asks for one; the core sets
	// ReportFailed itself.
	Outcomes []Outcome
	// Site is not zero when the nexthop as a whole could not be used: no
	// address, no connection, no handshake, or a lost connection on the last
	// host to be tried. It is negative feedback for the nexthop's window; all
	// else is positive. Of a transaction on a connection that the core has asked
	// for it tells that the connection ended before the server had given its
	// verdict, and why; what that means for the nexthop, Closing says.
	Site Reply
	// Crashed tells that the outcomes say nothing about the nexthop: the
	// attempt was given up for reasons of our own.
	Crashed bool
	// Unavailable is not zero when the transport's agent cannot work at all,
	// whatever the nexthop: it is not configured, or lacks what it needs. Crashed
	// is set, too. The other mail of the transport is put off for a while.
	Unavailable Reply

	Host    string        // "name[address]:port" that decided; "" if none was reached
	Connect time.Duration // look-up, connection and handshake; 0 on a reused connection
	Send    time.Duration // the transaction
	Reused  int           // transactions that the connection had carried before
}
