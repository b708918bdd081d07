package inbound

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/posthaste-mta/posthaste/flow"
	"github.com/posthaste-mta/posthaste/internal/logline"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
	"github.com/posthaste-mta/posthaste/smtp/server"
)

// outputSize is enough for the output of a session before it requests a flush, and
// one long reply.
const outputSize = server.FlushSize + 2<<10

type outputBuffer [outputSize]byte

// A connection hosts one session. It belongs to its goroutine, except where noted
// at a field.
type connection struct {
	server *Server
	socket *socket  // that it came from
	terms  *terms   // of the listener
	conn   net.Conn // any goroutine may set deadlines and close it
	// tls is conn with TLS, nil without; for reading and writing. Its ConnectionState has
	// the exporter of keying material that channel bindings for AUTH need (RFC 9266).
	tls      *tls.Conn
	security server.Security // what was negotiated
	client   Client
	from     netip.Addr // of the peer: the client, or a proxy for it; not valid for a unix socket
	session  *server.Session
	login    login
	input    *input
	output   *outputBuffer // nil while there is nothing to write
	out      []byte        // replies not yet written
	draft    Draft         // nil while none is open
	dates    dates         // of the draft
	edits    editing       // of the draft
	origin   *flow.Client  // of all messages
	rules    *flow.Rules   // by which the message is classified; nil: it is not
	ahead    foreseen      // of the message, for quotas
	screen   screening     // by filters

	patience  patience
	settled   bool
	evicted   atomic.Bool   // set by the accepting goroutine
	fresh     *list.Element // the admission's, under its mutex
	leaving   bool          // likewise
	counts    *counts       // likewise: where it counts
	countedAs netip.Addr    // likewise: the client that it counts for; not valid if it does not count

	visitors int64    // those that attend has seen
	witness  *witness // nil: the session is not watched
	ended    string   // why, for those who watch; "" if the session has not begun
}

// run is the life of the connection.
func (c *connection) run(ctx context.Context) {
	defer c.end()
	defer c.survive()
	c.debug("connect", "listener", c.terms.Name)
	if !c.prelude() || !c.greetPause() {
		return
	}
	for done := false; !done; {
		if c.output == nil {
			c.output = c.server.outputs.Get().(*outputBuffer)
			c.out = c.output[:0]
		}
		if c.server.cfg.Wiretap.Visitors() != c.visitors {
			c.attend()
		}
		n, out, request := c.session.Step(c.input.waiting(), c.out)
		c.input.took(n)
		c.out = out
		if c.witness != nil {
			c.witness.replies(out)
		}
		if n > 0 && !c.session.Discards() {
			c.patience.consumed()
		}
		done = c.serve(ctx, request)
	}
}

// prelude handles what precedes SMTP: a proxy's header, and TLS. It makes the session.
func (c *connection) prelude() (alive bool) {
	if c.behindProxy() && !c.readProxy() {
		return false
	}
	c.open()
	if c.terms.Use != TLSImplicit {
		return true
	}
	if !c.mayShake() {
		return false
	}
	security, ok := c.handshake()
	if ok {
		c.session.Encrypted(security)
	}
	return ok
}

// serve handles a request of the session; true means that the connection has ended.
func (c *connection) serve(ctx context.Context, request server.Request) (done bool) {
	switch r := request.(type) {
	case *server.Read:
		c.read(r.For)
	case *server.Flush:
		if !c.flush() {
			c.session.Interrupt(mail.Reply{})
		}
	case *server.Pause:
		c.pause(ctx, r.For)
	case *server.Begin:
		c.begin(ctx, r)
	case *server.Recipient:
		c.answer(c.addRecipient(ctx, r))
	case *server.Content:
		c.session.Answer(c.failure(ctx, "write", c.content(r)))
	case *server.Commit:
		c.answer(c.commit(ctx, r))
	case *server.Abort:
		c.abort()
	case *server.StartTLS:
		if c.mayShake() {
			c.session.Answer(mail.Reply{})
		} else {
			c.session.Answer(tlsBusy())
		}
	case *server.Handshake:
		c.startTLS()
	case *server.Identify:
		c.identify(&r.Client)
	case *server.Authenticate:
		c.authenticate(ctx, r)
	case *server.ETRN:
		c.etrn(ctx, r)
	case *server.Rejected:
		c.server.counters.reject(r.Reply)
		c.server.refusals.note(slog.LevelInfo, "rejected", c.name(), kindOf(r.Reply), "command", r.Command, "reply", r.Reply.String())
	case *server.Early:
		c.server.counters.early.Add(1)
		c.server.refusals.note(slog.LevelInfo, "early talker", c.name(), "", "command", r.Command)
	case *server.Close:
		c.flush()
		c.debug("disconnect", "reason", r.Reason.String())
		if c.ended == "" {
			c.ended = r.Reason.String()
		}
		return true
	}
	return false
}

// begin opens a draft after waiting at the gate, unless a quota is known to be exhausted.
func (c *connection) begin(ctx context.Context, r *server.Begin) {
	if !c.settled {
		c.settled = true
		c.server.admission.settle(c)
	}
	if c.server.stopping.Load() {
		c.session.Answer(c.shutdown())
		c.session.Interrupt(mail.Reply{})
		return
	}
	if refusal := c.server.policy.Sender(&c.client, r.Sender); !refusal.IsZero() {
		c.session.Answer(refusal)
		return
	}
	dates, refusal := c.datesOf(r)
	if !refusal.IsZero() {
		c.session.Answer(refusal)
		return
	}
	rules := c.server.flows.Load()
	if refusal := c.beginEdits(r.Sender); !refusal.IsZero() {
		c.session.Answer(refusal)
		return
	}
	if refusal := c.foresee(rules, c.edits.sender, r); !refusal.IsZero() {
		c.session.Answer(refusal)
		return
	}
	if c.server.gate != nil {
		if err := c.server.gate.Wait(ctx); err != nil {
			c.session.Answer(c.failure(ctx, "wait for the gate", err))
			return
		}
	}
	draft, err := c.server.sink.Begin(ctx, r.Size)
	if err != nil {
		c.session.Answer(c.failure(ctx, "begin", err))
		return
	}
	if refusal := c.screenSender(ctx, r, draft.ID()); !refusal.IsZero() {
		draft.Abort()
		c.releaseEdits()
		c.answer(refusal)
		return
	}
	now := time.Now()
	c.draft, c.dates = draft, dates
	c.beginHeader(now)
	c.rules = rules
	c.session.Watch(c.rules.Watch())
	c.patience.beginTransaction(now)
	c.session.Begun(draft.ID(), c.server.dateOf(now))
}

func (c *connection) addRecipient(ctx context.Context, r *server.Recipient) mail.Reply {
	if refusal := c.server.policy.Recipient(&c.client, r.Sender, r.Recipient.Address); !refusal.IsZero() {
		return refusal
	}
	if refusal := c.roomFor(); !refusal.IsZero() {
		return refusal
	}
	c.screen.given = r.Recipient.Address
	if c.edits.Addresses != nil {
		return c.addRewritten(ctx, r)
	}
	if reason := c.verify(ctx, r.Client, r.Recipient.Address); !reason.IsZero() {
		return about(r.Recipient.Address, reason)
	}
	if refusal := c.screenRecipient(ctx, r); !refusal.IsZero() {
		return refusal
	}
	return c.failure(ctx, "add recipient", c.addNamed(r.Recipient))
}

// about returns the reason why a recipient is refused, for the client.
func about(recipient mail.Address, reason mail.Reply) mail.Reply {
	reason.Text = "<" + string(recipient) + ">: " + reason.Text
	return reason
}

// verify returns the reason why mail cannot be sent to a recipient. If that takes
// time, earlier replies are flushed first; otherwise a client that sends many
// recipients at once would get no reply until the last has been looked up.
func (c *connection) verify(ctx context.Context, client mail.Client, recipient mail.Address) mail.Reply {
	v := c.server.cfg.Verifier
	if v == nil {
		return mail.Reply{}
	}
	reason, known := v.Known(client, c.edits.sender, recipient)
	if known {
		return reason
	}
	if !c.flush() {
		c.session.Interrupt(mail.Reply{})
		return mail.Reply{}
	}
	return v.Verify(ctx, client, c.edits.sender, recipient)
}

func (c *connection) commit(ctx context.Context, r *server.Commit) mail.Reply {
	draft, e := c.draft, r.Envelope
	refusal := c.endEdits(ctx, &e)
	var hold string
	var discard bool
	if c.screen.message != nil && refusal.IsZero() {
		hold, discard, refusal = c.screenContent(ctx, &e)
	}
	c.draft = nil
	messageID := c.messageID(r.Fields)
	c.releaseEdits()
	c.endScreening()
	c.patience.endTransaction()
	if discard || !refusal.IsZero() {
		draft.Abort()
		return refusal
	}
	if e.Sender == "" { // as an edit may have made it
		e.VERP = mail.VERP{}
	}
	e.Flow = c.classify(&e, r.Fields)
	if e.TLS == mail.TLSUnset && c.rules != nil && c.terms.TLSOptional && c.rules.TLSOptional(r.Fields) {
		e.TLS = mail.TLSOptional
	}
	e.Arrived, e.By = instant(time.Now()), c.dates.by
	if c.dates.release > e.Arrived {
		e.Release = c.dates.release
	}
	if e.By.Returns(e.Arrived) { // the content has taken longer
		draft.Abort()
		return mail.Reply{Code: 554, Status: mail.Status{Class: 5, Subject: 4, Detail: 7}, Text: "Error: delivery time expired"}
	}
	e.Size = draft.Finish(&c.client, &e)
	retract, refusal, err := c.admit(&e, draft)
	if err != nil || !refusal.IsZero() {
		draft.Abort()
		if err != nil {
			return c.failure(ctx, "reserve", err)
		}
		return refusal
	}
	if err := draft.Commit(ctx, e, hold); err != nil {
		retract()
		return c.failure(ctx, "commit", err)
	}
	c.patience.accepted()
	c.server.counters.messages.Add(1)
	c.server.counters.recipients.Add(int64(e.Recipients))
	c.server.counters.octets.Add(e.Size)
	if c.server.level(slog.LevelInfo) {
		logline.Log(c.server.cfg.Logger, slog.LevelInfo, "accepted",
			slog.String("id", e.ID.String()), slog.String("from", string(e.Sender)), slog.String("client", c.name()),
			slog.String("helo", e.Client.Helo), slog.String("proto", e.Client.Proto), slog.Int64("size", e.Size), slog.Uint64("nrcpt", uint64(e.Recipients)),
			slog.String("class", e.Flow.Class), slog.String("tenant", e.Flow.Tenant), slog.String("flow", e.Flow.Flow), slog.String("listener", c.terms.Name), optional("message_id", messageID), kept(e.Release), deadline(e.By), c.loggedIn(), c.secured(), asks(e.TLS), personal(e.VERP), forwarded(&r.Forwarded), optional("hold", hold))
	}
	return mail.Reply{}
}

func instant(t time.Time) mail.Instant { return mail.Instant(t.UnixNano()) }

// dates are the dates of MAIL.
type dates struct {
	release mail.Instant   // until when it is kept; 0 if it is sent at once
	by      mail.DeliverBy // its deadline
}

// datesOf returns the dates of a message, or why it may not have them.
func (c *connection) datesOf(r *server.Begin) (d dates, refusal mail.Reply) {
	if r.Hold.IsZero() && r.By.Mode == mail.ByNone {
		return dates{}, mail.Reply{}
	}
	refuse := func(format string, args ...any) (dates, mail.Reply) {
		return dates{}, mail.Reply{Code: 501, Status: mail.Status{Class: 5, Subject: 5, Detail: 4}, Text: fmt.Sprintf(format, args...)}
	}
	now, most := instant(time.Now()), c.terms.FutureRelease
	d = dates{r.Hold.At(now), r.By.Deadline(now)}
	switch {
	case d.release > now.Add(most): // RFC 4865 4
		return refuse("Error: mail is kept for at most %d seconds, now until %s", most/time.Second, smtp.FormatHoldUntil(now.Add(most)))
	case d.by.Mode != mail.ByNone && d.release > d.by.At: // RFC 4865 5.2.2
		return refuse("Error: it would be kept until %s, and must be delivered by %s", smtp.FormatHoldUntil(d.release), smtp.FormatHoldUntil(d.by.At))
	}
	return d, mail.Reply{}
}

// messageID returns the Message-ID of a message for the log, that in its header or the one that was added to it.
func (c *connection) messageID(fields []smtp.Field) (id string) {
	if !c.server.level(slog.LevelInfo) {
		return ""
	}
	if c.rules != nil {
		id = c.rules.MessageID(fields)
	}
	if id == "" && c.edits.editor != nil {
		id = c.edits.editor.AddedMessageID()
	}
	return id
}

// optional returns a field for the log, nothing if its value is empty.
func optional(name, value string) slog.Attr {
	if value == "" {
		return slog.Attr{}
	}
	return slog.String(name, value)
}

// kept returns until when a message is kept for the log, nothing if it is sent at once.
func kept(until mail.Instant) slog.Attr {
	if until == 0 {
		return slog.Attr{}
	}
	return slog.String("until", smtp.FormatHoldUntil(until))
}

// deadline returns the deadline of a message for the log, nothing if it has none.
func deadline(by mail.DeliverBy) slog.Attr {
	if by.Mode == mail.ByNone {
		return slog.Attr{}
	}
	return slog.String("deliver_by", smtp.FormatHoldUntil(by.At)+";"+smtp.ByModeText(by.Mode, by.Trace))
}

// secured returns what was negotiated by TLS for the log, nothing without TLS.
func (c *connection) secured() slog.Attr {
	if c.tls == nil {
		return slog.Attr{}
	}
	return slog.Group("", slog.String("tls", c.security.Version), slog.String("cipher", c.security.Cipher))
}

// asks returns what the sender asks of TLS for the log, nothing if that is nothing.
func asks(r mail.TLSRequest) slog.Attr {
	if r == mail.TLSUnset {
		return slog.Attr{}
	}
	return slog.String("requiretls", map[mail.TLSRequest]string{mail.TLSRequired: "yes", mail.TLSOptional: "no"}[r])
}

// personal returns how recipients are put into the sender for the log, nothing if they are not.
func personal(v mail.VERP) slog.Attr {
	if v.IsZero() {
		return slog.Attr{}
	}
	return slog.String("verp", v.String())
}

// classify returns the flow of a message. A class that the client has named and that
// does not exist is only logged: to refuse the message would be worse than a wrong
// class.
func (c *connection) classify(e *mail.Envelope, fields []smtp.Field) mail.Flow {
	if c.rules == nil {
		return mail.Flow{}
	}
	f, unknown := c.rules.Classify(&flow.Message{Client: c.origin, Sender: e.Sender, Recipients: int(e.Recipients), Priority: e.Priority, Fields: fields})
	if unknown != "" {
		c.server.refusals.note(slog.LevelWarn, "no such class", c.name(), unknown, "id", e.ID.String(), "named", unknown, "class", f.Class)
	}
	return f
}

func (c *connection) abort() {
	draft := c.draft
	c.draft = nil
	c.releaseEdits()
	c.endScreening()
	c.patience.endTransaction()
	draft.Abort()
}

// kindOf returns the code and status of a refusal, which identify its kind, without the
// text, which may name a recipient.
func kindOf(r mail.Reply) string {
	return fmt.Sprintf("%d %d.%d.%d", r.Code, r.Status.Class, r.Status.Subject, r.Status.Detail)
}

// failure returns the reply for an internal error, zero if there is none. Details
// go to the log, not to the client.
func (c *connection) failure(ctx context.Context, attempt string, err error) mail.Reply {
	if err == nil {
		return mail.Reply{}
	}
	if ctx.Err() != nil {
		return c.shutdown()
	}
	c.server.counters.failed.Add(1)
	if errors.Is(err, ErrFull) {
		// A full disk refuses all clients alike, so they are counted together.
		c.server.refusals.note(slog.LevelError, "no room for messages", "all", ErrFull.Error(), "attempt", attempt, "error", err)
		return mail.Reply{Code: 452, Status: mail.Status{Class: 4, Subject: 3, Detail: 1}, Text: "Error: insufficient system storage"}
	}
	c.server.refusals.note(slog.LevelError, "cannot accept a message", c.name(), attempt, "attempt", attempt, "error", err)
	return mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 3, Detail: 0}, Text: "Error: local error in processing"}
}

// read gets more input, or interrupts the session.
func (c *connection) read(w server.Waiting) {
	if !c.flush() {
		c.session.Interrupt(mail.Reply{})
		return
	}
	phase := c.session.Phase()
	for {
		from := time.Now()
		c.conn.SetReadDeadline(c.patience.deadline(from, w, phase, c.server.stressed())) // then the read fails too
		// Checked after the deadline was set: wake's callers set the flag before
		// the deadline, so that one of the two is seen.
		if goodbye := c.dismissal(w); !goodbye.IsZero() {
			c.session.Interrupt(goodbye)
			return
		}
		n, err := c.input.fill(w == server.ForCommand || w == server.ForTransaction)
		now := time.Now()
		keepsUp := c.patience.received(from, now, phase, n)
		switch {
		case n > 0 && keepsUp:
			return
		case n == 0 && !isTimeout(err):
			c.ended = "the client has closed it"
			c.session.Interrupt(mail.Reply{})
			return
		case n == 0 && !c.dismissal(w).IsZero():
		case !keepsUp || !c.patience.lasts(now, w, phase):
			c.server.counters.timeouts.Add(1)
			c.ended = "timeout"
			c.server.refusals.note(slog.LevelInfo, "timeout", c.name(), phase.String(), "waiting", w.String(), "phase", phase.String())
			c.session.Interrupt(c.goodbye(4, 2, "Error: timeout exceeded"))
			return
		}
	}
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// dismissal returns the reply with which the connection must end early, zero if it
// need not. It never cuts off content in transfer.
func (c *connection) dismissal(w server.Waiting) mail.Reply {
	switch {
	case w == server.ForContent:
		return mail.Reply{}
	case c.server.stopping.Load():
		return c.shutdown()
	case c.evicted.Load():
		return c.goodbye(7, 0, "Error: too many connections")
	}
	return mail.Reply{}
}

// wake makes a waiting read check the flags again.
func (c *connection) wake() {
	c.conn.SetReadDeadline(time.Unix(1, 0)) // a closed connection needs no waking
}

func (c *connection) evict() {
	c.evicted.Store(true)
	c.wake()
}

// flush writes the replies and gives the buffer back.
func (c *connection) flush() (ok bool) {
	ok = true
	if len(c.out) > 0 {
		c.conn.SetWriteDeadline(time.Now().Add(c.server.cfg.WriteTimeout)) // then Write fails too
		_, err := c.write(c.out)
		if ok = err == nil; !ok {
			// A message whose 250 is among these stays accepted; its client may
			// send it again (RFC 1047).
			c.server.refusals.note(slog.LevelInfo, "cannot write replies", c.name(), "", "error", err)
		}
	}
	if c.output != nil {
		c.server.outputs.Put(c.output)
	}
	c.output, c.out = nil, nil
	if c.witness != nil {
		c.witness.shown = 0
	}
	return ok
}

func (c *connection) write(p []byte) (int, error) {
	if c.tls != nil {
		return c.tls.Write(p)
	}
	return c.conn.Write(p)
}

// startTLS makes the handshake that the session asks for.
func (c *connection) startTLS() {
	if !c.flush() {
		c.server.handshakes.end(c.network())
		c.session.NotEncrypted()
		return
	}
	security, ok := c.handshake()
	if !ok {
		c.session.NotEncrypted()
		return
	}
	c.logOut()
	c.session.Encrypted(security)
}

// greetPause waits to see whether a client speaks before the greeting.
func (c *connection) greetPause() (alive bool) {
	if c.terms.cfg.GreetPause == 0 || !c.session.RejectsEarly() {
		return true
	}
	c.conn.SetReadDeadline(time.Now().Add(c.terms.cfg.GreetPause)) // then the read fails too
	n, err := c.input.fill(true)
	return n > 0 || isTimeout(err)
}

func (c *connection) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// survive keeps a panic in one connection from ending the others.
func (c *connection) survive() {
	if bug := recover(); bug != nil {
		c.server.counters.panicks.Add(1)
		c.server.cfg.Logger.Error("panic in a connection", "client", c.name(), "panic", bug, "stack", string(debug.Stack()))
	}
}

// end releases everything that the connection holds.
func (c *connection) end() {
	if c.tls != nil {
		c.tls.Close() // with a close_notify; everything was written before
	} else {
		c.conn.Close() // everything was written before
	}
	c.server.admission.leave(c)
	c.server.counters.open.Add(-1)
	c.input.release()
	if c.draft != nil {
		c.abort()
	}
	c.forgetClient("")
	if c.witness != nil {
		c.witness.visit.End(c.ended)
	}
}

func (c *connection) shutdown() mail.Reply { return c.goodbye(3, 2, "Service shutting down") }

func (c *connection) goodbye(subject, detail uint16, text string) mail.Reply {
	return mail.Reply{
		Code:   421,
		Status: mail.Status{Class: 4, Subject: subject, Detail: detail},
		Text:   c.server.cfg.Session.Hostname + " " + text,
	}
}

// name returns the client's name in the log.
func (c *connection) name() string {
	if !c.client.Addr.IsValid() {
		return "local"
	}
	return c.client.Addr.String()
}

func (c *connection) debug(event string, attributes ...any) {
	if c.server.level(slog.LevelDebug) {
		c.server.cfg.Logger.Debug(event, append(attributes, "client", c.name())...)
	}
}
