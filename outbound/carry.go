package outbound

import (
	"context"
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp/client"
)

// carry runs transactions over a connection for all recipients that are to be
// tried, and then keeps or closes it.
func (a *attempt) carry(ctx context.Context, k *conn) use {
	detach := k.attach(ctx)
	u, before := useMore, a.remaining()
	for u == useMore && k.session.Idle() && !a.over() {
		u = a.transact(ctx, k)
	}
	if u == useDone {
		a.sessions++
	}
	switch {
	case !detach():
		k.close()
	case u == useNone:
		k.goodbye()
	default:
		a.client.keep(k)
	}
	if u == useNone && a.remaining() < before {
		u = useMore
	}
	return u
}

// transact runs one transaction. useMore means that recipients remain.
func (a *attempt) transact(ctx context.Context, k *conn) use {
	body, err := a.client.bodies.Body(ctx, a.d.Envelope.ID)
	if err != nil {
		a.unreadable(err)
		return useDone
	}
	src := &k.content
	src.open(body, &a.client.pieces)
	defer src.close()
	if k.tx.Envelope, err = a.client.adapt(ctx, a.d.Envelope, k.session.Caps()); err != nil {
		a.unreadable(err)
		return useDone
	}
	k.tx.Recipients = a.chosen()
	mails, reused := k.session.Mails(), k.carried
	began := time.Now()
	k.session.Start(&k.tx)
	t, err := k.run(ctx, src)
	a.result.Send += time.Since(began)
	if k.session.Mails() > mails {
		k.carried++
		a.client.count.transactions.Add(1)
	}
	u := a.conclude(k, t, reused > 0)
	if u != useStale && u != useNone {
		a.result.Host, a.result.Reused = k.name, reused
	}
	if err != nil {
		a.unreadable(err)
	}
	k.release()
	return u
}

// chosen returns the recipients that are to be tried, and sets places.
func (a *attempt) chosen() []mail.Recipient {
	a.places, a.subset = a.places[:0], a.subset[:0]
	if !slices.ContainsFunc(a.states, func(s recipientState) bool { return s != toTry }) {
		return a.d.Recipients
	}
	for i, s := range a.states {
		if s == toTry {
			a.places = append(a.places, i)
			a.subset = append(a.subset, a.d.Recipients[i])
		}
	}
	return a.subset
}

// conclude takes the results of a transaction over.
func (a *attempt) conclude(k *conn, t *client.Transaction, reused bool) use {
	failure := k.session.Failure()
	broken := k.session.Over()
	again := 0
	for i := range t.Results {
		place := i
		if len(a.places) > 0 {
			place = a.places[i]
		}
		if t.Results[i].Verdict == client.Again {
			again++
			continue
		}
		a.take(k, place, t.Results[i])
	}
	switch {
	case broken && again > 0 && t.Stale():
		a.wentStale(k)
		return useStale
	case broken:
		a.broke(k, failure)
	default:
		a.good, a.site = true, mail.Reply{}
		if reused {
			a.client.count.reused.Add(1)
			a.client.memory.kept(k.host.Addr)
		}
		a.client.count.emptyTaken.Add(k.emptyTaken())
	}
	switch {
	case again == 0:
		return useDone
	case again == len(t.Results) && !broken:
		return useNone
	case broken && failure.Kind == client.FailStep:
		return useDown
	}
	return useMore
}

// take records one recipient's result.
func (a *attempt) take(k *conn, place int, r client.Result) {
	o := &a.result.Outcomes[place]
	o.Reply = r.Reply
	o.Result = mail.Deferred
	switch r.Verdict {
	case client.Delivered:
		o.Result = mail.Delivered
		rcpt := &a.d.Recipients[place]
		if rcpt.Notify.Success() && !k.session.Caps().DSN && a.d.Envelope.Sender != "" {
			o.Report = mail.ReportRelayed
		}
		a.settle(place)
	case client.Failed:
		o.Result = mail.Failed
		a.settle(place)
	case client.Doubtful:
		// Another host would only make a second copy, if this one has the first.
		a.client.count.doubtful.Add(1)
		a.client.memory.doubtful(a.d.Envelope.ID, k.host.Addr)
		a.settle(place)
	default:
		a.states[place] = later
	}
}

func (a *attempt) settle(place int) {
	if a.states[place] != settled {
		a.states[place] = settled
		a.open--
	}
}

// broke records how a session ended in the middle of a transaction. Postfix
// counts only what happens to the connection against the site; 421 and a
// refusal of the content are said about the message.
func (a *attempt) broke(k *conn, f client.Failure) {
	a.client.noteFailure(k.host.Addr, f)
	switch f.Kind {
	case client.FailAbandoned:
		a.halt(f.Reply)
	case client.FailLost, client.FailTimeout:
		a.client.count.lost.Add(1)
		a.site = f.Reply
	case client.FailProtocol, client.FailStep:
		a.client.count.protocol.Add(1)
		a.site = soften(f.Reply)
	default:
		a.good, a.site = true, mail.Reply{}
	}
}
