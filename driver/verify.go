package driver

import (
	"context"
	"net/netip"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A verifyRequest asks whether mail can be sent.
type verifyRequest struct {
	verify qmgr.Verify
	reply  chan mail.Reply // has room for one
}

func (r verifyRequest) ask(d *Driver) {
	d.asked++
	d.verifying[d.asked] = r.reply
	r.verify.Verification = d.asked
	d.step(r.verify)
}

// verified hands an answer to whoever waits for it, or has waited.
func (d *Driver) verified(a qmgr.Verified) {
	d.verifying[a.Verification] <- a.Reply
	delete(d.verifying, a.Verification)
}

// verifyMargin is how much longer than the core's deadline an answer may take
// before the driver is taken to have stopped.
const verifyMargin = time.Second

// Verify finds out, for a client, whether mail can be sent to where a route leads
// that needs a look-up: the reply is zero if it can, else it says why not, or that it
// is not known. It waits for a look-up, with the core's limits on those for clients,
// and never longer than until its deadline. It may be called from any number of
// goroutines.
func (d *Driver) Verify(ctx context.Context, client netip.Addr, to mail.Route) mail.Reply {
	return d.verify(ctx, qmgr.Verify{Client: client, Transport: to.Transport, Nexthop: to.Nexthop})
}

// CallOut finds out, for a client, whether the receiver would take mail for a
// recipient whose route is given, complete or not: the reply is zero if it would, or
// if there is nobody who could be asked. Otherwise it is as Verify.
func (d *Driver) CallOut(ctx context.Context, client netip.Addr, recipient mail.Address, to mail.Route) mail.Reply {
	return d.verify(ctx, qmgr.Verify{Client: client, Transport: to.Transport, Nexthop: to.Nexthop,
		Routed: !to.NeedsLookup, Site: to.Site, Recipient: recipient})
}

func (d *Driver) verify(ctx context.Context, v qmgr.Verify) mail.Reply {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(d.deadline.Load())+verifyMargin)
	defer cancel()
	req := verifyRequest{v, make(chan mail.Reply, 1)}
	d.inbox.put(item{question: req})
	select {
	case r := <-req.reply:
		return r
	case <-ctx.Done():
	case <-d.atRest:
	}
	return mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 3, Detail: 2}, Text: "recipients cannot be verified now"}
}
