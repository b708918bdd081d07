package outbound

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp/client"
)

// recipientState is where a recipient is in an attempt.
type recipientState uint8

const (
	toTry   recipientState = iota // at the present host
	later                         // the present host refused it for now; the next one may not
	settled                       // its outcome stands
)

// use is what a connection was good for.
type use uint8

const (
	useDone  use = iota // every recipient has an answer from this host
	useStale            // the connection was gone before anything happened
	useDown             // the host is to be tried again in lock-step
	useMore             // the host wants the remaining recipients in another transaction
	useNone             // nobody was tried: the limits of the session are reached
)

// An attempt is one call of Client.Deliver.
type attempt struct {
	client *Client
	config *TransportConfig
	d      mail.Delivery
	result mail.DeliveryResult

	states  []recipientState
	open    int  // recipients that are not settled
	halted  bool // no further host is to be tried
	crashed bool
	good    bool       // some session ran a transaction to its end
	site    mail.Reply // how the last host failed, if it was not for the message's sake
	loop    mail.Reply // set when a host turned out to be this one

	sessions int // with the present nexthop's hosts that came as far as a transaction
	tried    []netip.AddrPort
	subset   []mail.Recipient // of a transaction that does not have all recipients
	places   []int            // their places in the delivery

	fewStates [4]recipientState
}

func newAttempt(c *Client, config *TransportConfig, d mail.Delivery) *attempt {
	a := &attempt{client: c, config: config, d: d, open: len(d.Recipients)}
	a.states = append(a.fewStates[:0], make([]recipientState, len(d.Recipients))...)
	a.result.Outcomes = make([]mail.Outcome, len(d.Recipients))
	for i := range d.Recipients {
		a.result.Outcomes[i].Index = d.Recipients[i].Index
	}
	return a
}

// run tries the nexthop and then the fallback relays.
func (a *attempt) run(ctx context.Context) {
	trusted := a.client.trusts(a.d)
	a.visit(ctx, a.d.Nexthop, trusted, len(a.config.FallbackRelays) == 0)
	for _, relay := range a.config.FallbackRelays {
		if a.over() {
			return
		}
		a.visit(ctx, relay, true, false)
	}
}

func (a *attempt) over() bool { return a.halted || a.open == 0 }

// visit tries the hosts of one nexthop. sure tells whether the answer that it
// has no hosts is final.
func (a *attempt) visit(ctx context.Context, nexthop string, trusted, sure bool) {
	hop := hopKey{a.d.Transport, nexthop}
	a.sessions, a.tried = 0, a.tried[:0]
	a.nextHost()
	if trusted || !bracketed(nexthop) { // or a session of a trusted route would serve one that is not
		a.visitIdle(ctx, hop)
	}
	if a.over() || !a.moreSessions() {
		return
	}
	began := time.Now()
	set, reply := a.client.resolver.Hosts(ctx, nexthop)
	a.result.Connect += time.Since(began)
	if ctx.Err() != nil {
		a.halt(interrupted())
		return
	}
	if !reply.IsZero() {
		a.unresolved(reply, sure)
		return
	}
	list, blocked := a.client.candidates(set, a.config, trusted)
	switch {
	case len(list) == 0 && blocked > 0:
		a.unresolved(allBlocked(nexthop), sure)
		return
	case len(list) == 0:
		a.unresolved(noHosts(nexthop), sure)
		return
	}
	a.visitHosts(ctx, hop, a.sift(list))
}

// sift leaves out the hosts that were already tried over an idle session, puts
// those that have swallowed this message last, and cuts the rest to the limit.
func (a *attempt) sift(list []candidate) []candidate {
	list = slices.DeleteFunc(list, func(h candidate) bool { return slices.Contains(a.tried, h.Addr) })
	slices.SortStableFunc(list, func(x, y candidate) int { return a.reluctance(x) - a.reluctance(y) })
	return balance(list, a.config.MXAddressLimit)
}

func (a *attempt) reluctance(h candidate) int {
	if a.client.memory.avoid(a.d.Envelope.ID, h.Addr) {
		return 1
	}
	return 0
}

func (a *attempt) visitHosts(ctx context.Context, hop hopKey, list []candidate) {
	for _, h := range list {
		if a.over() || !a.moreSessions() {
			return
		}
		a.nextHost()
		a.tryHost(ctx, hop, h)
		if a.loop.IsZero() {
			continue
		}
		// Hosts that are no better would send the mail back to us (RFC 5321
		// 5.1), and so might a fallback relay.
		if h.tier == 0 {
			a.refuse(a.loop)
		}
		a.halted = true
		return
	}
}

func (a *attempt) moreSessions() bool {
	return a.config.MXSessionLimit < 0 || a.sessions < a.config.MXSessionLimit
}

// nextHost makes the recipients that the last host refused for now ready for
// another one.
func (a *attempt) nextHost() {
	for i, s := range a.states {
		if s == later {
			a.states[i] = toTry
		}
	}
}

// visitIdle uses an idle session for the nexthop, if there is one.
func (a *attempt) visitIdle(ctx context.Context, hop hopKey) {
	for !a.over() {
		k := a.client.idle.takeHop(hop)
		if k == nil {
			return
		}
		if a.client.memory.avoid(a.d.Envelope.ID, k.host.Addr) {
			k.goodbye()
			continue
		}
		host := k.host
		u := a.reuse(ctx, hop, k)
		if u == useStale {
			continue
		}
		if u != useDone {
			a.tryHost(ctx, hop, candidate{Host: host})
			// Should it have become ourselves while it was idle, the look at
			// all hosts finds that out, and what follows from it.
			a.loop = mail.Reply{}
		}
		if !a.over() {
			a.tried = append(a.tried, host.Addr)
		}
		return
	}
}

// tryHost tries one host for as long as it makes progress with it.
func (a *attempt) tryHost(ctx context.Context, hop hopKey, h candidate) {
	lockStepped := false
	for !a.over() {
		remaining := a.remaining()
		var u use
		if k := a.client.idle.takeAddr(addrKey{hop.transport, h.Addr}); k != nil {
			u = a.reuse(ctx, hop, k)
		} else {
			began := time.Now()
			k, failure := a.client.dial(ctx, hop, h.Host)
			a.result.Connect += time.Since(began)
			if k == nil {
				a.unreached(failure)
				return
			}
			u = a.carry(ctx, k)
		}
		switch {
		case u == useStale, u == useMore && a.remaining() < remaining:
		case u == useDown && !lockStepped:
			lockStepped = true
		default:
			a.giveUpHost()
			return
		}
	}
}

// remaining returns how many recipients the present host has not answered.
func (a *attempt) remaining() (n int) {
	for _, s := range a.states {
		if s == toTry {
			n++
		}
	}
	return n
}

// reuse is carry for a session that was idle.
func (a *attempt) reuse(ctx context.Context, hop hopKey, k *conn) use {
	k.hop = hop
	now := time.Now()
	if !now.Before(k.expires) || !k.alive(now) {
		if k.session.Over() {
			a.wentStale(k)
		}
		k.goodbye()
		return useStale
	}
	u := a.carry(ctx, k)
	if u == useNone {
		return useStale
	}
	return u
}

func (a *attempt) wentStale(k *conn) {
	a.client.count.stale.Add(1)
	a.client.memory.wentStale(k.host.Addr, k.carried)
}

// unreached records that no session could be had with a host.
func (a *attempt) unreached(f client.Failure) {
	switch f.Kind {
	case client.FailAbandoned:
		if f.Reply.IsZero() {
			a.halt(interrupted())
			return
		}
		a.halt(f.Reply)
		a.result.Unavailable = f.Reply
	case client.FailLoop:
		a.loop = f.Reply
	default:
		// A refusal at the door is about us or the host's state, not the mail:
		// after a 5yz, too, others are tried and the mail is kept
		// (smtp_skip_5xx_greeting).
		a.postpone(soften(f.Reply))
		a.site = soften(f.Reply)
	}
}

// giveUpHost turns recipients that the host would neither take nor refuse into
// postponed ones.
func (a *attempt) giveUpHost() {
	for i, s := range a.states {
		if s == toTry && a.result.Outcomes[i].Result == mail.Pending {
			a.result.Outcomes[i].Result = mail.Deferred
			a.result.Outcomes[i].Reply = mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 5, Detail: 3},
				Text: "the server did not take all recipients"}
		}
	}
}
