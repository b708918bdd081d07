package outbound

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/internal/wiretap"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp/client"
)

// A Conn is a connection to one host that carries transactions, pipelined up to
// its level. Run does the work, in the caller's goroutine; Send and Hangup may be
// called from any other.
type Conn struct {
	client  *Client
	line    *line
	host    mail.Host
	name    string                   // "name[address]:port" or "unix:/path"
	redact  func(text string) string // replaces secrets in a text; nil: there are none
	connect time.Duration            // time to connect
	hello   time.Duration            // time to the reply to EHLO

	protect  *protection   // until the session is ready
	security mail.Security // what was negotiated
	telling  *telling      // nil: the session is not reported
	requires bool          // mail for which REQUIRETLS was given passes it on here

	// Owned by the goroutine of Run.
	staged    []letter     // sent and not begun
	carriages []*carriage  // begun and not reported, oldest first
	used      []*carriage  // reported, whose content the line may still be writing
	spare     []*carriage  // free for reuse
	mails     int          // number of transactions counted
	seen      client.Tally // the part of the session's tally that was counted
	free      time.Time    // when the last transaction ended
	prove     bool         // make a probe before QUIT
	sender    mail.Address // of the last message, for the probe
	quitting  bool         // Hangup was called
	spent     bool         // the server accepts no more transactions on this connection
	broken    bool         // the session ended while something was under way
	stale     bool         // but the connection was lost before that began

	mu     sync.Mutex
	inbox  []letter // sent and not looked at
	hangup bool
	over   bool // Run no longer reads the inbox
}

// A letter is a transaction passed to Send.
type letter struct {
	id       uint64
	delivery mail.Delivery
}

func newConn(c *Client, config *TransportConfig, o mail.Opening, hello string, sock net.Conn, protect *protection) *Conn {
	label := hostLabel(o.Host)
	sc := client.Config{Hello: hello, Peer: label, Level: sessionLevel(o.Level), InFlight: o.InFlight, TLS: protect.use(), LMTP: config.LMTP}
	if protect.login != nil {
		sc.Auth, sc.Hide = protect.login.begin(), protect.login.redactor.Redact // in any reply, not only to AUTH
	}
	if !c.cfg.AllowSelf && !config.LMTP { // the mailboxes of a mail server may have its name
		sc.Self = c.cfg.Self
	}
	k := &Conn{
		client:  c,
		line:    newLine(sock, client.New(sc), config, &c.pieces),
		host:    o.Host,
		prove:   o.Probe,
		protect: protect,
		name:    hostAddress(o.Host),
		redact:  sc.Hide,
	}
	if c.cfg.Wiretap.Watched() {
		k.line.tap = c.cfg.Wiretap.Open(wiretap.Connection{Transport: o.Transport, Nexthop: o.Nexthop, Source: o.Source, Host: k.name}, 1, k.redact)
	}
	return k
}

// sessionLevel converts a level to the session's type.
func sessionLevel(l mail.Level) client.Level {
	return [...]client.Level{client.LockStep, client.Group, client.Overlap, client.Stream}[l]
}

// levelOf converts a session's level.
func levelOf(l client.Level) mail.Level {
	return [...]mail.Level{mail.LevelLockStep, mail.LevelGroup, mail.LevelOverlap, mail.LevelStream}[l]
}

// Send queues one more transaction. It never blocks. It has no effect once Run has
// returned or is about to.
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

// Hangup lets the queued transactions finish, and then ends the connection with
// QUIT. It never blocks.
func (k *Conn) Hangup() {
	k.mu.Lock()
	k.hangup = true
	k.mu.Unlock()
	k.line.call()
}

// greet drives the session until it is ready for transactions. If that fails the
// connection is closed.
func (k *Conn) greet(ctx context.Context) (client.Failure, bool) {
	l := k.line
	release := l.obey(ctx)
	var asked time.Time
	for !l.session.Ready() && !l.session.Over() {
		l.checkWrite()
		if asked.IsZero() && l.session.Wait().Kind == client.WaitHello {
			asked = time.Now()
		}
		if l.flush(); l.session.Handshake() {
			// The goroutine that has written STARTTLS may not have said so yet. If that came after the
			// handshake, the session would not learn it, and would ask for TLS again, under TLS.
			if l.stop(); !l.down {
				k.secure(ctx)
			}
		} else if !l.down {
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

// secure negotiates TLS.
func (k *Conn) secure(ctx context.Context) {
	l := k.line
	state, err := l.negotiate(ctx, k.protect.config(resumption{k.client.sessions, k.protect.transport}), l.config.TLS.HandshakeTimeout)
	switch {
	case err == nil:
		k.security = k.protect.described(state)
		if l.tap != nil {
			l.tap.Note(k.security.String())
		}
		k.client.count.secured(state.Version)
		if k.protect.login != nil {
			k.protect.login.conversation.Secured(state)
		}
		l.session.Secured()
	case ctx.Err() == nil: // else alive ends the session
		k.client.count.tlsFailures.Add(1)
		if l.tap != nil {
			l.tap.Note("TLS handshake failed: " + k.protect.handshakeText(err))
		}
		l.fail(client.LossClosed) // nothing but an alert could be written
		l.session.HandshakeFailed(k.protect.handshakeText(err))
	}
}

// alive reports whether the session continues, after ending it if the line is
// down or the context has ended. All input has been processed before, because a
// reply that arrived counts.
func (k *Conn) alive(ctx context.Context) bool {
	l := k.line
	aborted := ctx.Err() != nil
	if aborted || l.down || l.session.Over() {
		l.stop() // and report to the session what was written
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

// Run executes the queued transactions until the connection is over, and returns
// how it ended. It calls done once for each of them, in the order of Send.
// Transactions that could no longer be begun are mail.Untried; those sent after Run
// has returned are ignored. When ctx ends, the transactions under way are broken
// off.
func (k *Conn) Run(ctx context.Context, done func(id uint64, r mail.DeliveryResult)) mail.Closing {
	release := k.line.obey(ctx)
	defer release()
	for k.alive(ctx) {
		if k.collect(); k.unusable() {
			k.line.fail(client.LossTimeout)
			continue
		}
		k.write(ctx)
		if k.report(done) {
			continue // there may be room for more
		}
		if k.finished() {
			k.part(ctx)
			break
		}
		if !k.line.down {
			k.line.receive()
		}
		k.report(done)
	}
	return k.end(done)
}

// collect moves the queued transactions to staged.
func (k *Conn) collect() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.quitting = k.hangup
	k.staged = append(k.staged, k.inbox...)
	clear(k.inbox)
	k.inbox = k.inbox[:0]
}

// unusable reports whether there is work that the session can no longer accept. The
// work need not wait for the server's last reply.
func (k *Conn) unusable() bool {
	return len(k.staged) > 0 && k.line.session.Wait().Kind == client.WaitUnasked
}

// begin begins as many transactions as the session has room for.
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

// write begins and writes everything that is possible now. A content is supplied
// together with what follows it, so that both go out in one write; only the pieces of
// a larger content are each written before the next one reuses the buffer.
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

// finished reports whether the connection is done and should be closed.
func (k *Conn) finished() bool {
	if len(k.carriages) > 0 || k.line.busy {
		return false
	}
	most := k.line.session.Caps().Limits.Mails
	k.spent = k.spent || most > 0 && k.line.session.Mails() >= most
	return k.spent || k.quitting && len(k.staged) == 0
}

// part sends QUIT. If requested, it first probes whether streaming can be used with
// the server.
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

// proof returns the result of the probe, if there was one.
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

// report reports the transactions that are done to done, and returns whether there were any.
func (k *Conn) report(done func(id uint64, r mail.DeliveryResult)) (told bool) {
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

// tally adds the session's tally to the counters.
func (k *Conn) tally() {
	session, count := k.line.session, k.client.count
	if n := session.Mails(); n > k.mails {
		count.transactions.Add(uint64(n - k.mails))
		k.mails = n
	}
	seen := session.Tally()
	count.emptyTaken.Add(uint64(seen.EmptyTaken - k.seen.EmptyTaken))
	count.astray.Add(uint64(seen.Astray - k.seen.Astray))
	k.seen = seen
}

// end reports the remaining transactions, and closes the connection.
func (k *Conn) end(done func(id uint64, r mail.DeliveryResult)) mail.Closing {
	k.mu.Lock()
	k.over = true
	k.mu.Unlock()
	k.report(done) // those that alive has ended
	k.collect()
	for _, s := range k.staged {
		done(s.id, verdict(s.delivery, mail.Untried, mail.Reply{}))
	}
	k.staged, k.inbox = nil, nil
	k.line.close()
	k.recycle()
	k.client.count.carried.Observe(float64(k.mails))
	return k.closing()
}

// closing returns why the session is over, and the result of a probe. How a server
// handles a probe says nothing about how it accepts mail.
func (k *Conn) closing() mail.Closing {
	closing := k.ending()
	if proof := k.proof(); proof != mail.ProofNone {
		return mail.Closing{Proof: proof}
	}
	return closing
}

// ending returns why the session is over, and counts it. It returns CloseAsked if we
// ended the session normally or for our own reasons.
func (k *Conn) ending() mail.Closing {
	f := k.line.session.Failure()
	why := k.reason(f)
	count := k.client.count
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
	closing := mail.Closing{Why: why, Reply: f.Reply, Stage: stageOf(&f.Reply, f.Stage)}
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
		case k.stale || !k.broken: // a 421 between messages prevents no delivery
			return mail.CloseIdle
		}
		return mail.CloseWrong
	}
	return mail.CloseAsked
}
