package inbound

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp/server"
)

// ETRNUse is which clients of a listener may use ETRN.
type ETRNUse uint8

const (
	ETRNOff     ETRNUse = iota // none: it is not offered
	ETRNTrusted                // those that the Policy trusts
	ETRNAll                    // all
)

// String returns the word in configurations.
func (u ETRNUse) String() string { return [...]string{"off", "trusted", "all"}[u] }

// etrn executes ETRN. Earlier replies are written first, because the answer may take a while.
func (c *connection) etrn(ctx context.Context, r *server.ETRN) {
	if !c.flush() {
		c.session.Interrupt(mail.Reply{})
		c.session.Answer(mail.Reply{})
		return
	}
	asked := flushAsked{name: r.Argument, trusted: c.server.policy.Trusts(&c.client)}
	if !asked.trusted {
		asked.from = c.network()
	}
	var reply mail.Reply
	if c.terms.ETRN == ETRNTrusted && !asked.trusted {
		reply = notAllowed(r.Argument, "only permitted clients may use ETRN here")
	} else {
		reply = c.server.cfg.Flusher.flush(ctx, asked)
	}
	if reply.IsZero() || reply.Positive() {
		// Few lines, however often a client asks. Refusals are logged like those of other commands.
		c.server.refusals.note(slog.LevelInfo, "etrn", c.name(), "", "domain", r.Argument.String(), "reply", code(reply), "listener", c.terms.Name)
	}
	c.session.Answer(reply)
}

// code returns the code of a positive reply to ETRN.
func code(r mail.Reply) int {
	if r.IsZero() {
		return 250
	}
	return int(r.Code)
}

// notAllowed returns the reply of a request that is refused for good (RFC 1985 5.3).
func notAllowed(name fmt.Stringer, why string) mail.Reply {
	return mail.Reply{Code: 459, Status: mail.Status{Class: 4, Subject: 7, Detail: 1}, Text: fmt.Sprintf("Node %s not allowed: %s", name, why)}
}

// notNow returns the reply of a request that cannot be noted; subject and detail are those of the status.
func notNow(name fmt.Stringer, subject, detail uint16) mail.Reply {
	return mail.Reply{Code: 458, Status: mail.Status{Class: 4, Subject: subject, Detail: detail}, Text: fmt.Sprintf("Unable to queue messages for node %s", name)}
}
