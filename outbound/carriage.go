package outbound

import (
	"context"
	"time"

	"github.com/posthaste-mta/posthaste/internal/wiretap"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp/client"
	"github.com/posthaste-mta/posthaste/verp"
)

// A carriage is one transaction on a Conn, from its beginning until its result is
// reported.
type carriage struct {
	id         uint64
	delivery   mail.Delivery
	tx         client.Transaction
	content    content
	began      time.Time
	reused     int   // number of earlier transactions on the connection
	unreadable error // why the content could not be read
	done       bool  // result is complete
	result     mail.DeliveryResult
}

// start begins a transaction. Its content, if it has any, is opened now, and so
// verified before the server is sent anything about the message.
func (k *Conn) start(ctx context.Context, l letter) {
	k.telling.carries(&l.delivery)
	k.watch(&l.delivery)
	c := k.newCarriage()
	c.id, c.delivery, c.began, c.reused = l.id, l.delivery, time.Now(), k.line.session.Mails()
	k.carriages = append(k.carriages, c)
	k.client.count.depth.Observe(float64(len(k.carriages)))
	if err := k.open(ctx, c); err != nil {
		c.unreadable = err
		k.conclude(c)
		return
	}
	k.sender = c.tx.Envelope.Sender
	if a := verp.SenderOf(k.client.cfg.VERPSecrets, &l.delivery); k.line.session.Caps().UTF8 || isASCII(a) {
		c.tx.Envelope.Sender = a
	}
	c.tx.Recipients, c.tx.Callout = l.delivery.Recipients, l.delivery.Callout
	c.tx.RequireTLS = k.requires && l.delivery.Envelope.TLS == mail.TLSRequired
	c.tx.StrictBy = k.line.config.DeliverByStrict
	k.line.session.Tick(mail.Instant(c.began.UnixNano()))
	k.line.session.Start(&c.tx)
}

// watch shows the connection to those who watch it: also to those who have come since it was opened, or since it was first watched. It
// ends that when the last watcher has gone. An unwatched connection begins between two messages, since a tap has to know what the
// replies are to.
func (k *Conn) watch(d *mail.Delivery) {
	l, hub := k.line, k.client.cfg.Wiretap
	of := wiretap.Connection{Transport: d.Transport, Nexthop: d.Nexthop, Source: d.Source, Host: k.name}
	switch {
	case l.tap != nil && !hub.Join(l.tap, of):
		l.tap = nil
	case l.tap == nil && hub.Watched() && len(k.carriages) == 0 && l.session.Idle():
		l.tap = hub.Open(of, 0, k.redact)
	}
}

// isASCII reports whether an address can be sent to a server without SMTPUTF8. A VERP sender that cannot
// is replaced by the message's own, so that the recipient is refused and not the sender.
func isASCII(a mail.Address) bool {
	for i := range len(a) {
		if a[i] >= 0x80 {
			return false
		}
	}
	return true
}

// open opens the content.
func (k *Conn) open(ctx context.Context, c *carriage) error {
	if c.delivery.Callout {
		c.tx.Envelope = c.delivery.Envelope
		return nil
	}
	body, err := k.client.bodies.Body(ctx, c.delivery.Envelope.ID)
	if err != nil {
		return err
	}
	c.content.open(body, &k.client.pieces)
	c.tx.Envelope, err = k.client.fit(ctx, &c.content, c.delivery.Envelope, k.line.session.Caps())
	return err
}

// supply gives the session the next piece of a content. It reports whether that
// was the last one.
func (k *Conn) supply(t *client.Transaction) (last bool) {
	c := k.carriageOf(t)
	piece, last, err := c.content.next(t.Whole())
	if err != nil {
		c.unreadable = err
		k.line.session.Withhold()
		return false
	}
	k.line.tick()
	k.line.session.Supply(piece, last)
	return last
}

// conclude completes a result.
func (k *Conn) conclude(c *carriage) {
	c.done = true
	if len(c.tx.Results) == 0 {
		k.refuse(c)
		return
	}
	now := time.Now()
	c.result = mail.DeliveryResult{Outcomes: make([]mail.Outcome, len(c.tx.Results))}
	tried := false
	for i := range c.tx.Results {
		o := k.outcome(c, i)
		o.At = mail.Instant(now.UnixNano())
		c.result.Outcomes[i] = o
		tried = tried || o.Result != mail.Untried
	}
	if k.free.After(c.began) {
		c.began = k.free
	}
	c.result.Send = now.Sub(c.began)
	k.free = now
	if tried {
		c.result.Host, c.result.Security, c.result.Reused = k.name, k.security, c.reused
		if c.reused == 0 {
			c.result.Connect = k.connect
		}
		if f := k.line.session.Failure(); c.tx.Broken() && f.Kind != client.FailAbandoned {
			c.result.Site = f.Reply
		}
	}
	if c.tx.Astray() {
		k.client.cfg.Log.Error("message accepted under another message's envelope", "id", c.delivery.Envelope.ID, "host", k.name)
	}
	k.learn(c, tried)
}

// refuse completes the result of a message whose content could not be opened.
func (k *Conn) refuse(c *carriage) {
	k.client.logUnreadable(c.delivery.Envelope.ID, c.unreadable)
	c.result = verdict(c.delivery, mail.Deferred, cannotBeRead())
	c.result.Crashed = true
}

// outcome returns the outcome of one recipient.
func (k *Conn) outcome(c *carriage, i int) mail.Outcome {
	rcpt, r := &c.delivery.Recipients[i], &c.tx.Results[i]
	o := mail.Outcome{Index: rcpt.Index, Result: mail.Deferred, Reply: r.Reply, Stage: stageOf(&r.Reply, r.Stage)}
	switch r.Verdict {
	case client.Delivered:
		o.Result, o.Report = mail.Delivered, k.reportOn(c, rcpt)
	case client.Failed:
		o.Result = mail.Failed
	case client.Again:
		o.Result = mail.Untried
	case client.Doubtful:
		o.Unknown = true
		k.client.count.doubtful.Add(1)
	}
	if c.delivery.Callout && c.tx.SenderRefused() && o.Result != mail.Untried {
		o.Result, o.Unknown = mail.Deferred, true
	}
	return o
}

// reportOn returns the report that a sender receives when the server has taken a message for a recipient.
func (k *Conn) reportOn(c *carriage, rcpt *mail.Recipient) mail.ReportKind {
	e := &c.delivery.Envelope
	wanted := rcpt.Notify.Success() && !k.line.session.Caps().DSN && e.Sender != ""
	switch {
	case wanted && k.line.config.LMTP: // into the mailbox
		return mail.ReportDelivered
	case wanted, !k.line.config.LMTP && e.ReportsRelay(rcpt, c.tx.TookDeadline(), mail.Instant(c.began.UnixNano())):
		return mail.ReportRelayed
	}
	return mail.ReportNone
}

// learn updates the state of the connection and the counters after a transaction.
func (k *Conn) learn(c *carriage, tried bool) {
	count := k.client.count
	session := k.line.session
	if c.unreadable != nil {
		k.crash(c)
	}
	if !session.Over() {
		if c.reused > 0 && tried {
			count.reused.Add(1)
		}
		// The server's limits admitted no recipient, before anything was sent.
		k.spent = k.spent || !tried && c.tx.Stale()
		return
	}
	if session.Failure().Kind == client.FailAbandoned && c.unreadable == nil {
		k.crash(c)
	}
	k.stale = k.stale || !k.broken && c.tx.Stale()
	k.broken = true
}

// crash marks the result of a transaction that we broke off ourselves.
func (k *Conn) crash(c *carriage) {
	if c.unreadable != nil {
		k.client.logUnreadable(c.delivery.Envelope.ID, c.unreadable)
	}
	for i := range c.result.Outcomes {
		o := &c.result.Outcomes[i]
		if o.Result != mail.Deferred || o.Unknown {
			continue
		}
		c.result.Crashed = true
		if c.unreadable != nil && o.Reply == interrupted() { // and not the server's reply
			o.Reply = cannotBeRead()
		}
	}
}

// carriageOf returns the carriage of a transaction that is under way.
func (k *Conn) carriageOf(t *client.Transaction) *carriage {
	for _, c := range k.carriages {
		if &c.tx == t {
			return c
		}
	}
	panic("outbound: the session returned an unknown transaction")
}

// newCarriage returns a carriage, reusing an old one if possible.
func (k *Conn) newCarriage() *carriage {
	n := len(k.spare)
	if n == 0 {
		return new(carriage)
	}
	c := k.spare[n-1]
	k.spare[n-1] = nil
	k.spare = k.spare[:n-1]
	return c
}

// resultsKept is the number of results for which a carriage keeps memory.
const resultsKept = 50

// recycle closes the contents of transactions that are over, and keeps the
// carriages for reuse. No write may be in progress.
func (k *Conn) recycle() {
	for i, c := range k.used {
		c.content.close()
		results := c.tx.Results
		clear(results)
		if cap(results) > resultsKept {
			results = nil
		}
		*c = carriage{tx: client.Transaction{Results: results[:0]}}
		k.used[i] = nil
		k.spare = append(k.spare, c)
	}
	k.used = k.used[:0]
}
