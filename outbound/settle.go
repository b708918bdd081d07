package outbound

import "github.com/posthaste-mta/posthaste/mail"

// unresolved records that a nexthop's hosts could not be found.
func (a *attempt) unresolved(reply mail.Reply, sure bool) {
	if reply.Permanent() && sure {
		a.refuse(reply)
		return
	}
	a.postpone(soften(reply))
	a.site = soften(reply)
}

// unreadable records that the content could not be had, which says nothing
// about anybody's servers.
func (a *attempt) unreadable(err error) {
	a.client.logUnreadable(a.d.Envelope.ID, err)
	a.halt(cannotBeRead())
}

func (c *Client) logUnreadable(id mail.QueueID, err error) {
	c.cfg.Log.Debug("content unreadable", "id", id, "error", err)
}

func cannotBeRead() mail.Reply {
	return mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 3}, Text: "the message cannot be read from the queue"}
}

// halt ends the attempt for reasons of our own.
func (a *attempt) halt(reply mail.Reply) {
	a.postpone(reply)
	a.halted, a.crashed = true, true
}

func interrupted() mail.Reply {
	return mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 3, Detail: 2}, Text: "delivery interrupted on our side"}
}

// postpone gives a reply to all recipients that are not settled.
func (a *attempt) postpone(reply mail.Reply) {
	for i, s := range a.states {
		if s != settled {
			a.states[i] = later
			a.result.Outcomes[i].Result, a.result.Outcomes[i].Reply = mail.Deferred, reply
		}
	}
}

// refuse fails all recipients that are not settled.
func (a *attempt) refuse(reply mail.Reply) {
	for i, s := range a.states {
		if s != settled {
			a.result.Outcomes[i].Result, a.result.Outcomes[i].Reply = mail.Failed, reply
			a.settle(i)
		}
	}
}

// finish completes the result.
func (a *attempt) finish() mail.DeliveryResult {
	at := now()
	deferred := false
	for i := range a.result.Outcomes {
		o := &a.result.Outcomes[i]
		o.At = at
		if o.Result == mail.Pending { // a host set without hosts that were not tried already
			o.Result, o.Reply = mail.Deferred, mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 4, Detail: 4},
				Text: "no host was left to try"}
		}
		deferred = deferred || o.Result == mail.Deferred
	}
	a.result.Crashed = a.crashed
	if deferred && !a.good && !a.crashed {
		a.result.Site = a.site
	}
	return a.result
}

// soften makes a permanent reply a temporary one.
func soften(r mail.Reply) mail.Reply {
	if r.Permanent() {
		r.Code -= 100
		if r.Status.Class == 5 {
			r.Status.Class = 4
		}
	}
	return r
}
