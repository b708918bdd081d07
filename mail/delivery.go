package mail

import "time"

// A Delivery is one transaction to be attempted: some recipients of one
// message that share transport and nexthop.
type Delivery struct {
	Transport  string
	Nexthop    string
	Envelope   Envelope
	Recipients []Recipient
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
	// else is positive.
	Site Reply
	// Crashed tells that the outcomes say nothing about the nexthop: the
	// attempt was given up for reasons of our own.
	Crashed bool

	Host    string        // "name[address]:port" that decided; "" if none was reached
	Connect time.Duration // look-up, connection and handshake; 0 on a reused connection
	Send    time.Duration // the transaction
	Reused  int           // transactions that the connection had carried before
}
