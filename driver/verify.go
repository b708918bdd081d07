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
	reply  chan mail.Reply // buffer of one
}

func (r verifyRequest) ask(d *Driver) {
	d.asked++
	d.verifying[d.asked] = r.reply
	r.verify.Verification = d.asked
	d.step(r.verify)
}

// verified passes an answer to its caller, which may have stopped waiting.
func (d *Driver) verified(a qmgr.Verified) {
	d.verifying[a.Verification] <- a.Reply
	delete(d.verifying, a.Verification)
}

// verifyMargin is the time after the core's deadline at which the driver is assumed
// to have stopped.
const verifyMargin = time.Second

// Verify finds out for a client whether mail can be sent along a route that needs a
// lookup: the reply is zero if it can, otherwise it says why not, or that it is not
// known. It waits for a lookup, within the core's limits on lookups for clients, and
// at most until the core's deadline. It may be called from any number of goroutines.
func (d *Driver) Verify(ctx context.Context, client netip.Addr, to mail.Route) mail.Reply {
	return d.verify(ctx, qmgr.Verify{Client: client, Transport: to.Transport, Nexthop: to.Nexthop, Credential: to.Credential})
}

// CallOut finds out for a client whether the receiver would accept mail for a
// recipient, whose route may need a lookup: the reply is zero if it would, or if
// there is no receiver to ask. Otherwise it is as for Verify.
func (d *Driver) CallOut(ctx context.Context, client netip.Addr, recipient mail.Address, to mail.Route) mail.Reply {
	return d.verify(ctx, qmgr.Verify{Client: client, Transport: to.Transport, Nexthop: to.Nexthop,
		Routed: !to.NeedsLookup, Site: to.Site, Security: to.Security, Credential: to.Credential, Recipient: recipient})
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
