package outbound

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp/client"
)

// A Conn is a connection to one host that carries transactions, pipelined as
// far as its level allows. Run does the work, in the caller's goroutine; Send and
// Hangup may be called from any other.
type Conn struct {
	client  *Client
	line    *line
	host    mail.Host
	name    string        // "name[address]:port"
	connect time.Duration // what it took to make it
	hello   time.Duration // what the reply to EHLO took

	// Of the goroutine of Run.
	staged    []letter     // sent and not begun
	carriages []*carriage  // begun and not told, oldest first
	used      []*carriage  // told, whose content may still be in the line's hands
	spare     []*carriage  // to be used again
	mails     int          // how many transactions were counted
	seen      client.Tally // what was counted of the session's own counts
	free      time.Time    // when the last transaction ended
	prove     bool         // a probe is to go before QUIT
	sender    mail.Address // of the last message, for the probe
	quitting  bool         // Hangup was called
	spent     bool         // the server takes nothing more on this connection
	broken    bool         // the session ended while something was under way
	stale     bool         // but the connection was gone before that began

	mu     sync.Mutex
	inbox  []letter // sent and not looked at
	hangup bool
	over   bool // nobody looks any more
}

// A letter is a transaction that was sent.
type letter struct {
	id       uint64
	delivery mail.Delivery
}

func newConn(c *Client, config *TransportConfig, o mail.Opening, sock net.Conn) *Conn {
	label := hostLabel(o.Host)
	sc := client.Config{Hello: c.cfg.Hello, Peer: label, Level: sessionLevel(o.Level), InFlight: o.InFlight}
	if !c.cfg.AllowSelf {
		sc.Self = c.cfg.Self
	}
	return &Conn{
		client: c,
		line:   newLine(sock, client.New(sc), config, &c.pieces),
		host:   o.Host,
		prove:  o.Probe,
		name:   label + portSuffix(o.Host.Addr.Port()),
	}
}

// sessionLevel returns what a session calls a level.
func sessionLevel(l mail.Level) client.Level {
	return [...]client.Level{client.LockStep, client.Group, client.Overlap, client.Stream}[l]
}

// levelOf returns what the program calls a session's level.
func levelOf(l client.Level) mail.Level {
	return [...]mail.Level{mail.LevelLockStep, mail.LevelGroup, mail.LevelOverlap, mail.LevelStream}[l]
}

// Send hands one more transaction over. It never blocks. When Run has returned,
// or is about to, nothing happens.
func (k *Conn) Send(id uint64, d mail.Delivery) {
	k.mu.Lock()
	over := k.over
	if !over {
		k.inbox = append(k.inbox, letter{id, d})
	}
	k.mu.Unlock()
	if !over {
		k.line.call()
	}
}

// Hangup lets what was sent finish, and then ends the connection with QUIT. It
// never blocks.
func (k *Conn) Hangup() {
	k.mu.Lock()
	k.hangup = true
	k.mu.Unlock()
	k.line.call()
}

// greet drives the session up to where it takes transactions. Without success
// the connection is closed.
func (k *Conn) greet(ctx context.Context) (client.Failure, bool) {
	l := k.line
	release := l.obey(ctx)
	var asked time.Time
	for !l.session.Ready() && !l.session.Over() {
		l.checkWrite()
		if asked.IsZero() && l.session.Wait().Kind == client.WaitHello {
			asked = time.Now()
		}
		if l.flush(); !l.down {
			l.receive()
		}
		k.alive(ctx)
	}
	k.hello = time.Since(asked)
	if !release() && !l.session.Over() {
		l.session.End(client.LossAbandoned)
	}
	if l.session.Over() {
		l.close()
		return l.session.Failure(), false
	}
	return client.Failure{}, true
}

// alive tells whether the session goes on, after telling it when the line is
// down or the context has ended. What was read has been concluded before, for
// a reply that made it here counts.
func (k *Conn) alive(ctx context.Context) bool {
	l := k.line
	aborted := ctx.Err() != nil
	if aborted || l.down || l.session.Over() {
		l.stop() // and tell the session what was written
		k.take()
	}
	switch {
	case aborted:
		l.session.End(client.LossAbandoned)
	case l.down:
		l.session.End(l.why)
	}
	return !l.session.Over()
}

// Run carries what is sent until the connection is over, and returns how it
// ended. It calls done once for each transaction that was sent, in that order.
// Those that could not be begun any more are mail.Untried, and those that are
// sent when Run has returned are not looked at. When ctx ends, what is under way
// is broken off.
func (k *Conn) Run(ctx context.Context, done func(id uint64, r mail.DeliveryResult)) mail.Closing {
	release := k.line.obey(ctx)
	defer release()
	for k.alive(ctx) {
		if k.collect(); k.unusable() {
			k.line.fail(client.LossTimeout)
			continue
		}
		k.write(ctx)
		if k.tell(done) {
			continue // there may be room for more
		}
		if k.finished() {
			k.part(ctx)
			break
		}
		if !k.line.down {
			k.line.receive()
		}
		k.tell(done)
	}
	return k.end(done)
}

// collect takes over what was sent.
func (k *Conn) collect() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.quitting = k.hangup
	k.staged = append(k.staged, k.inbox...)
	clear(k.inbox)
	k.inbox = k.inbox[:0]
}

// unusable reports whether there is work that the session will not take any more. The
// work need not wait for the server's last words.
func (k *Conn) unusable() bool {
	return len(k.staged) > 0 && k.line.session.Wait().Kind == client.WaitUnasked
}

// begin begins as many transactions as the session takes.
func (k *Conn) begin(ctx context.Context) {
	n := 0
	for n < len(k.staged) && !k.spent && !k.line.down && k.line.session.Room() {
		k.start(ctx, k.staged[n])
		n++
	}
	left := copy(k.staged, k.staged[n:])
	clear(k.staged[left:])
	k.staged = k.staged[:left]
}

// write begins and writes all that can be now. A content is supplied together with
// what comes behind it, so that both go out in one write; only of a content of
// several pieces each is written before the next one takes its buffer.
func (k *Conn) write(ctx context.Context) {
	l := k.line
	for l.checkWrite(); !l.busy && !l.down; {
		k.begin(ctx)
		if t := l.session.Wanting(); t != nil && k.supply(t) {
			continue
		}
		if !l.flush() {
			return
		}
	}
}

// finished tells whether the connection has served its turn.
func (k *Conn) finished() bool {
	if len(k.carriages) > 0 || k.line.busy {
		return false
	}
	most := k.line.session.Caps().Limits.Mails
	k.spent = k.spent || most > 0 && k.line.session.Mails() >= most
	return k.spent || k.quitting && len(k.staged) == 0
}

// part says goodbye. If that was asked for it finds out before whether the server can
// be streamed to.
func (k *Conn) part(ctx context.Context) {
	l := k.line
	if !k.prove || !l.session.MayProbe() {
		l.session.Quit()
		return
	}
	l.session.Probe(k.sender)
	for k.alive(ctx) {
		l.checkWrite()
		if l.flush(); !l.down {
			l.receive()
		}
	}
}

// proof returns what the probe has found out, if there was one.
func (k *Conn) proof() mail.Proof {
	switch s := k.line.session; s.Probed() {
	case client.ProbePassed:
		return mail.ProofPassed
	case client.ProbeExecuted:
		return mail.ProofExecutes
	case client.ProbeOdd, client.ProbeLost:
		if s.Failure().Kind != client.FailAbandoned {
			return mail.ProofFailed
		}
	}
	return mail.ProofNone
}

// take concludes the transactions that are done.
func (k *Conn) take() {
	for t := k.line.session.Next(); t != nil; t = k.line.session.Next() {
		k.conclude(k.carriageOf(t))
	}
}

// tell reports the transactions that are done. It tells whether there were any.
func (k *Conn) tell(done func(id uint64, r mail.DeliveryResult)) (told bool) {
	k.take()
	n := 0
	for n < len(k.carriages) && k.carriages[n].done {
		c := k.carriages[n]
		done(c.id, c.result)
		k.used = append(k.used, c)
		n++
	}
	k.carriages = slices.Delete(k.carriages, 0, n)
	if !k.line.busy {
		k.recycle()
	}
	k.tally()
	return n > 0
}

// tally adds to the counts what the session has counted.
func (k *Conn) tally() {
	session, count := k.line.session, &k.client.count
	if n := session.Mails(); n > k.mails {
		count.transactions.Add(uint64(n - k.mails))
		k.mails = n
	}
	seen := session.Tally()
	count.emptyTaken.Add(uint64(seen.EmptyTaken - k.seen.EmptyTaken))
	count.astray.Add(uint64(seen.Astray - k.seen.Astray))
	k.seen = seen
}

// end reports what is left, and closes the connection.
func (k *Conn) end(done func(id uint64, r mail.DeliveryResult)) mail.Closing {
	k.mu.Lock()
	k.over = true
	k.mu.Unlock()
	k.tell(done) // what alive has ended
	k.collect()
	for _, s := range k.staged {
		done(s.id, verdict(s.delivery, mail.Untried, mail.Reply{}))
	}
	k.staged, k.inbox = nil, nil
	k.line.close()
	k.recycle()
	return k.closing()
}

// closing says why the session is over, and what a probe has found out. What a server
// makes of a probe says nothing about how it takes mail.
func (k *Conn) closing() mail.Closing {
	closing := k.ending()
	if proof := k.proof(); proof != mail.ProofNone {
		return mail.Closing{Proof: proof}
	}
	return closing
}

// ending says why the session is over, and counts it. Whoever ends it in good
// order, or for reasons of our own, gives CloseAsked.
func (k *Conn) ending() mail.Closing {
	f := k.line.session.Failure()
	why := k.reason(f)
	count := &k.client.count
	switch {
	case k.stale:
		count.stale.Add(1)
	case why == mail.CloseLost:
		count.lost.Add(1)
	case why == mail.CloseStep || why == mail.CloseMixed || why == mail.CloseWrong:
		count.protocol.Add(1)
	case why == mail.CloseAsked || why == mail.CloseIdle:
		if fell := k.line.session.Tally().FellBack; fell > client.LockStep {
			return mail.Closing{Why: mail.CloseStep, Level: levelOf(fell), Reply: contradicted()}
		}
	}
	if why == mail.CloseAsked {
		return mail.Closing{}
	}
	if f.Kind == client.FailLost && (f.Stage == client.WaitNothing || f.Stage == client.WaitUnasked) {
		f.Reply.Text = "connection closed by the server while it was idle"
	}
	k.client.logFailure(k.host.Addr, f)
	closing := mail.Closing{Why: why, Reply: f.Reply}
	if f.Down {
		closing.Level = levelOf(f.Level)
	}
	return closing
}

func (k *Conn) reason(f client.Failure) mail.CloseReason {
	idle := k.stale || !k.broken || f.Stage == client.WaitNothing || f.Stage == client.WaitUnasked
	switch f.Kind {
	case client.FailClosed:
		if idle {
			return mail.CloseIdle
		}
		return mail.CloseBusy
	case client.FailLost:
		if idle {
			return mail.CloseIdle
		}
		return mail.CloseLost
	case client.FailTimeout:
		return mail.CloseLost
	case client.FailFence:
		return mail.CloseMixed
	case client.FailStep, client.FailProtocol:
		switch {
		case f.Down:
			return mail.CloseStep
		case k.stale || !k.broken: // what it says between messages keeps none from being delivered
			return mail.CloseIdle
		}
		return mail.CloseWrong
	}
	return mail.CloseAsked
}
