package inbound

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/milter"
	"github.com/posthaste-mta/posthaste/smtp/server"
)

// Milters are the mail filters that look at sessions and messages. They must not change while a
// Server has them.
type Milters struct {
	Listeners map[string]*milter.Chain // by Listener.Name
	Others    *milter.Chain            // of listeners that are not there; nil: none
}

// of returns the filters of a listener, nil if it has none.
func (m *Milters) of(listener string) *milter.Chain {
	if m == nil {
		return nil
	}
	if one, ok := m.Listeners[listener]; ok {
		return one
	}
	return m.Others
}

// SetMilters replaces the filters for messages that begin from now on; nil: none. The new ones
// receive the whole session of a client that stays connected, from its beginning.
func (s *Server) SetMilters(m *Milters) { s.milters.Store(m) }

// NoteMilter logs an event of a filter as the server logs refusals: repetitions are counted.
func (s *Server) NoteMilter(level slog.Level, event, client, reason string, attributes ...any) {
	s.refusals.note(level, event, client, reason, attributes...)
}

// A screening is the state of the filters for a client and its message.
type screening struct {
	session *milter.Session // nil: the filters do not know the client yet
	chain   *milter.Chain   // of the session
	name    string          // of the client, by XCLIENT
	message *milter.Message // the content of the draft until filters have seen it; nil: it is in the draft
	given   mail.Address    // the recipient that is being added, as the client named it; "" if it did not
	holds   bool            // recipients are held, because a filter may remove some
	stuck   bool            // recipients are in the draft and cannot be removed
	seen    bool            // filters have seen the message: whatever they add is held, so that they can remove it
	held    []heldRecipient
	hangUp  bool // the reply ends the session
	slow    bool // the last answer took long
}

// A heldRecipient is one that is not in the draft yet.
type heldRecipient struct {
	// names are the forms for comparison of those that the client has named and that stand for the
	// recipient; none if it was added by us.
	names []mail.Address
	mail.Recipient
}

// removed takes back one name, and reports whether nothing is left that the recipient was named by.
func (r *heldRecipient) removed(name mail.Address) bool {
	if r.Address.Key() == name {
		return true
	}
	i := slices.Index(r.names, name)
	if i >= 0 {
		r.names = slices.Delete(r.names, i, i+1)
	}
	return i >= 0 && len(r.names) == 0
}

// heldMax is the number of recipients of one message that are held. In a message with more, which
// a program has made, filters cannot remove any.
const heldMax = 10_000

// slowAnswer is the longest time that filters may take for a recipient until the replies to those before it are
// sent first.
const slowAnswer = 100 * time.Millisecond

// screenSender announces a new message and its client to the filters, and returns their refusal.
func (c *connection) screenSender(ctx context.Context, r *server.Begin, id mail.QueueID) mail.Reply {
	s := &c.screen
	if chain := c.server.milters.Load().of(c.terms.Name); chain != s.chain {
		c.forgetClient(s.name)
		if chain != nil {
			s.session, s.chain = chain.Open(), chain
		}
	}
	if s.session == nil {
		return mail.Reply{}
	}
	longer := c.terms.cfg.Session.SizeLimit
	if longer == Unlimited {
		longer = 1 << 40
	}
	if refusal := c.rule(s.session.Mail(ctx, c.facts(r, id), r.Sender, milter.Arguments(r.Mail))); !refusal.IsZero() {
		return refusal
	}
	s.message = milter.NewMessage(s.chain.Host, longer)
	s.holds, s.stuck = s.session.MayRemove(), false
	return mail.Reply{}
}

// facts returns what filters learn about the client.
func (c *connection) facts(r *server.Begin, id mail.QueueID) *milter.Facts {
	f := &milter.Facts{ClientName: c.screen.name, Server: localAddr(c.socket, c.conn), Listener: c.terms.Name, Helo: r.Client.Helo,
		TLSVersion: c.security.Version, Cipher: c.security.Cipher, User: c.client.User, ID: id}
	if f.Listener == "" {
		f.Listener = "submission_socket"
	}
	if f.User != "" {
		f.Mechanism = c.login.how
	}
	if c.client.Addr.IsValid() {
		f.Client = netip.AddrPortFrom(c.client.Addr, 0)
		if tcp, ok := c.conn.RemoteAddr().(*net.TCPAddr); ok && c.client.Addr == c.from {
			f.Client = netip.AddrPortFrom(c.client.Addr, uint16(tcp.Port))
		}
	}
	return f
}

// rule returns the refusal in a verdict. A message that is discarded is accepted.
func (c *connection) rule(v milter.Verdict) mail.Reply {
	c.screen.hangUp = v.Reply.Code == 421
	return v.Reply
}

// answer answers a request that filters may have refused.
func (c *connection) answer(r mail.Reply) {
	c.session.Answer(r)
	if c.screen.hangUp {
		c.session.Interrupt(mail.Reply{})
	}
}

// screenRecipient returns the refusal of a recipient by filters.
func (c *connection) screenRecipient(ctx context.Context, r *server.Recipient) mail.Reply {
	s := &c.screen
	if s.message == nil {
		return mail.Reply{}
	}
	if s.slow && !c.flush() {
		c.session.Interrupt(mail.Reply{})
		return mail.Reply{}
	}
	start := time.Now()
	v := s.session.Recipient(ctx, &r.Recipient)
	s.slow = time.Since(start) > slowAnswer
	return c.rule(v)
}

// put adds a recipient to the draft, or holds it.
func (c *connection) put(r mail.Recipient) error {
	s := &c.screen
	if !s.holds {
		return c.draft.AddRecipient(r)
	}
	if len(s.held) == heldMax && !s.seen {
		s.stuck = true
		if err := c.releaseHeld(); err != nil {
			return err
		}
	}
	s.held = append(s.held, heldRecipient{s.names(), r})
	return nil
}

// find returns where a recipient is among those that are held, -1 if it is not.
func (s *screening) find(key mail.Address) int {
	return slices.IndexFunc(s.held, func(r heldRecipient) bool {
		return r.Address.Local() == key.Local() && strings.EqualFold(r.Address.Domain(), key.Domain())
	})
}

// names returns the name by which the client has named the recipient that is being added, if it did.
func (s *screening) names() []mail.Address {
	if s.given == "" {
		return nil
	}
	return []mail.Address{s.given.Key()}
}

// nameAgain notes that the client has named a recipient once more, perhaps by another name: if filters
// remove the one, he stays for the other.
func (s *screening) nameAgain(key mail.Address) {
	if s.given == "" {
		return
	}
	i := s.find(key)
	if name := s.given.Key(); i >= 0 && !slices.Contains(s.held[i].names, name) {
		s.held[i].names = append(s.held[i].names, name)
	}
}

// releaseHeld adds the recipients that were held to the draft.
func (c *connection) releaseHeld() error {
	for i := range c.screen.held {
		if err := c.draft.AddRecipient(c.screen.held[i].Recipient); err != nil {
			return err
		}
	}
	c.screen.held = c.screen.held[:0]
	return nil
}

// keep writes content to the draft, or to where filters will see it.
func (c *connection) keep(octets []byte, trace bool) error {
	var err error
	switch m := c.screen.message; {
	case m == nil:
		_, err = c.draft.Write(octets)
	case trace:
		m.Trace(octets)
	default:
		_, err = m.Write(octets)
	}
	return err
}

// screenContent shows the content to the filters, makes the changes that they want, and writes the
// result to the draft. hold is the reason to hold the message, "" if there is none.
func (c *connection) screenContent(ctx context.Context, e *mail.Envelope) (hold string, discard bool, refusal mail.Reply) {
	s := &c.screen
	changes, v, err := s.session.Message(ctx, s.message, !s.stuck)
	if err != nil {
		return "", false, c.failure(ctx, "show it to milters", err)
	}
	if v.Discard || !v.Reply.IsZero() {
		return "", v.Discard, c.rule(v)
	}
	if err := c.changeRecipients(changes.Recipients); err != nil {
		return "", false, c.failure(ctx, "change recipients", err)
	}
	if c.ahead.recipients == 0 {
		c.server.cfg.Logger.Info("discarded", "id", c.draft.ID().String(), "from", string(e.Sender), "client", c.name(), "reason", "milters have removed all recipients")
		return "", true, mail.Reply{}
	}
	if changes.NewSender {
		e.Sender = changes.Sender
	}
	e.Recipients = uint32(c.ahead.recipients)
	if err = c.releaseHeld(); err == nil {
		_, err = s.message.WriteTo(c.draft)
	}
	if err != nil {
		return "", false, c.failure(ctx, "write", err)
	}
	if s.message.EightBit() {
		e.Body = mail.Body8BitMIME
	}
	return changes.Hold, false, mail.Reply{}
}

// changeRecipients adds and removes recipients. Our own rules, such as aliases, apply to a recipient
// that is added. If one is removed, so is everything that these rules have made of it.
func (c *connection) changeRecipients(changes []milter.RecipientChange) error {
	s := &c.screen
	s.given, s.seen = "", !s.stuck
	for _, one := range changes {
		key := one.Recipient.Address.Key()
		if one.Remove {
			c.removeHeld(key)
			continue
		}
		list := []mail.Address{one.Recipient.Address}
		if c.edits.Addresses != nil {
			var err error
			if list, err = c.edits.Addresses.Expand(one.Recipient.Address); err != nil {
				return err
			}
		}
		for _, a := range list {
			key := a.Key()
			if s.find(key) >= 0 {
				continue
			}
			r := one.Recipient
			r.Address = a
			if err := c.addOnce(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeHeld removes the recipients that stand for a name that a filter has removed.
func (c *connection) removeHeld(name mail.Address) {
	left := c.screen.held[:0]
	for _, r := range c.screen.held {
		if !r.removed(name) {
			left = append(left, r)
			continue
		}
		delete(c.edits.taken, r.Address.Key())
		c.ahead.recipients--
	}
	clear(c.screen.held[len(left):])
	c.screen.held = left
}

// endScreening ends what filters do with the message.
func (c *connection) endScreening() {
	s := &c.screen
	if s.session == nil {
		return
	}
	s.session.Abort() // of a message that they have not seen to its end
	if s.message != nil {
		s.message.Close()
	}
	s.message, s.holds, s.stuck, s.seen, s.slow, s.given = nil, false, false, false, false, ""
	s.held = nil
}

// forgetClient ends what filters know of the client.
func (c *connection) forgetClient(name string) {
	if c.screen.session != nil {
		c.screen.session.Close()
	}
	c.screen = screening{name: name}
}
