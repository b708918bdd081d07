package inbound

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/header"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/rewrite"
	"github.com/posthaste-mta/posthaste/smtp"
	"github.com/posthaste-mta/posthaste/smtp/server"
)

// Edits are the changes to messages that arrive. They must not be modified while a Server has
// them.
type Edits struct {
	Listeners map[string]ListenerEdits // by Listener.Name
	Others    ListenerEdits            // of listeners without edits of their own
}

// ListenerEdits are the changes to the messages of one listener.
type ListenerEdits struct {
	Header    *header.Edits  // nil: nothing
	Addresses *rewrite.Rules // of envelopes; nil: nothing
}

// of returns the edits of a listener.
func (e *Edits) of(listener string) ListenerEdits {
	if e == nil {
		return ListenerEdits{}
	}
	if one, ok := e.Listeners[listener]; ok {
		return one
	}
	return e.Others
}

// SetEdits replaces the edits for messages that begin from now on; nil ends them.
func (s *Server) SetEdits(edits *Edits) { s.edits.Store(edits) }

// An editing is the edits of one message.
type editing struct {
	ListenerEdits
	editor *header.Editor // nil: the header is not edited
	sender mail.Address   // what is in place of the client's
	// taken are recipients that were added (true), and those of copies that will be at the end (false);
	// domains in lower case. Without rewriting and filters the session knows what was repeated.
	taken  map[mail.Address]bool
	copies []copied
}

// copied is a recipient of a copy of the mail to one of the client's recipients.
type copied struct {
	given mail.Address // the client's recipient
	to    mail.Address
}

// takenMax is the number of recipients of one message that are remembered so that none is
// added twice (duplicate_filter_limit).
const takenMax = 1000

// beginEdits finds the edits of the message that begins, and rewrites its sender.
func (c *connection) beginEdits(sender mail.Address) (refusal mail.Reply) {
	c.edits = editing{ListenerEdits: c.server.edits.Load().of(c.terms.Name), sender: sender}
	if c.edits.Addresses == nil {
		return mail.Reply{}
	}
	var err error
	c.edits.sender, err = c.edits.Addresses.Sender(sender)
	return c.endless(err)
}

// endless returns the reply for an address whose rewriting does not end. It is temporary: the
// fault is in our maps.
func (c *connection) endless(err error) mail.Reply {
	if err == nil {
		return mail.Reply{}
	}
	c.server.refusals.note(slog.LevelError, "an address cannot be rewritten", "all", err.Error(), "client", c.name(), "error", err)
	return mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 3, Detail: 5}, Text: "Error: the address cannot be rewritten now"}
}

// beginHeader prepares the edits of the header of the draft.
func (c *connection) beginHeader(now time.Time) {
	if c.edits.Header == nil || c.edits.Header.Idle() {
		return
	}
	c.edits.editor = c.server.editors.Get().(*header.Editor)
	c.edits.editor.Begin(c.edits.Header, header.Facts{
		Date:      c.server.dateOf(now),
		MessageID: now.UTC().Format("20060102150405") + "." + c.draft.ID().String() + "@" + c.server.cfg.Session.Hostname,
		Sender:    string(c.edits.sender),
	})
}

// addRewritten adds the recipients that one stands for, and those of copies. Whether the
// client may send there was decided by the address that it gave: what that stands for is our
// word, not the client's.
func (c *connection) addRewritten(ctx context.Context, r *server.Recipient) mail.Reply {
	addresses, err := c.edits.Addresses.Expand(r.Recipient.Address)
	if err != nil {
		return c.endless(err)
	}
	if len(addresses) == 1 { // of several, some may get the mail, and there are reports about the others
		if reason := c.verify(ctx, r.Client, addresses[0]); !reason.IsZero() {
			return about(r.Recipient.Address, reason)
		}
	}
	if refusal := c.screenRecipient(ctx, r); !refusal.IsZero() {
		return refusal
	}
	for _, a := range addresses {
		one := r.Recipient
		if one.Address = a; a != r.Recipient.Address && one.ORcpt == "" {
			one.ORcpt = originalRecipient(r.Recipient.Address)
		}
		if err := c.addOnce(one); err != nil {
			return c.failure(ctx, "add recipient", err)
		}
	}
	for _, a := range addresses {
		if err := c.copyLater(r.Recipient.Address, c.edits.Addresses.RecipientCopies(a)); err != nil {
			return c.failure(ctx, "add recipient", err)
		}
	}
	return mail.Reply{}
}

// copyLater has recipients of copies added when the client has named all of its own: who is
// among those gets the reports that the client asks for, wherever he comes. Beyond what is remembered they
// are added at once.
func (c *connection) copyLater(given mail.Address, addresses []mail.Address) error {
	e := &c.edits
	for i, a := range addresses {
		key := a.Key()
		if _, known := e.taken[key]; known {
			continue
		}
		if len(e.taken) >= takenMax {
			return c.addCopies(addresses[i:])
		}
		e.take(key, false)
		e.copies = append(e.copies, copied{given, a})
	}
	return nil
}

// originalRecipient returns ORCPT for an address that was rewritten, so that reports name the
// one that the sender knows (RFC 3461 4.2).
func originalRecipient(a mail.Address) string {
	if strings.IndexFunc(string(a), func(r rune) bool { return r >= 0x80 }) >= 0 {
		return "" // it would need an encoding that not all servers know (RFC 6533)
	}
	return "rfc822;" + smtp.EncodeXtext(string(a))
}

// addCopies adds recipients of copies. Reports about them would show the sender who reads his
// mail.
func (c *connection) addCopies(addresses []mail.Address) error {
	for _, a := range addresses {
		if err := c.addOnce(mail.Recipient{Address: a, Notify: mail.NotifyNever}); err != nil {
			return err
		}
	}
	return nil
}

// addOnce adds a recipient unless the draft has the address already.
func (c *connection) addOnce(r mail.Recipient) error {
	e := &c.edits
	key := r.Address.Key()
	added, known := e.taken[key]
	if added {
		c.screen.nameAgain(key)
		return nil
	}
	if known || len(e.taken) < takenMax {
		e.take(key, true)
	}
	return c.add(r)
}

// addNamed adds a recipient that the client has named, where addresses are not rewritten. Filters may add
// the same.
func (c *connection) addNamed(r mail.Recipient) error {
	if c.screen.message != nil && len(c.edits.taken) < takenMax {
		c.edits.take(r.Address.Key(), true)
	}
	return c.add(r)
}

func (e *editing) take(key mail.Address, added bool) {
	if e.taken == nil {
		e.taken = make(map[mail.Address]bool)
	}
	e.taken[key] = added
}

// add adds a recipient to the draft.
func (c *connection) add(r mail.Recipient) error {
	err := c.put(r)
	if err == nil {
		c.patience.addRecipient()
		c.ahead.recipients++
	}
	return err
}

// content writes content to the draft. Edits come before the draft has it, so that what is
// signed, counted and sent is the same. Our own Received field is no part of them.
func (c *connection) content(r *server.Content) error {
	octets := r.Octets
	if c.edits.editor != nil && !r.Trace {
		octets = c.edits.editor.Next(octets)
	}
	return c.keep(octets, r.Trace)
}

// endEdits completes the envelope and writes what the edits add at the end of the content, or
// returns the reason why the message is refused. The draft is still that of the connection.
func (c *connection) endEdits(ctx context.Context, e *mail.Envelope) mail.Reply {
	c.screen.given = ""
	if c.edits.Addresses != nil {
		e.Sender = c.edits.sender
		if err := c.addAllCopies(); err != nil {
			return c.failure(ctx, "add recipient", err)
		}
		e.Recipients = uint32(c.ahead.recipients)
	}
	if c.edits.editor == nil {
		return mail.Reply{}
	}
	rest := c.edits.editor.End()
	if p := c.edits.editor.Problem(); p != header.ProblemNone {
		return mail.Reply{Code: 554, Status: mail.Status{Class: 5, Subject: 6}, Text: "Error: " + p.String()}
	}
	if len(rest) == 0 {
		return mail.Reply{}
	}
	return c.failure(ctx, "write", c.keep(rest, false))
}

// addAllCopies adds the recipients of copies: of those of the recipients first, who belong to a
// recipient where filters are concerned.
func (c *connection) addAllCopies() error {
	for _, one := range c.edits.copies {
		c.screen.given = one.given
		if err := c.addCopies([]mail.Address{one.to}); err != nil {
			return err
		}
	}
	c.screen.given = ""
	return c.addCopies(c.edits.Addresses.SenderCopies(c.edits.sender))
}

// releaseEdits ends the edits of the message.
func (c *connection) releaseEdits() {
	if c.edits.editor != nil {
		c.server.editors.Put(c.edits.editor)
	}
	c.edits = editing{}
}
