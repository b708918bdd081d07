package milter

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// A Chain is the milters of a listener, in order. It must not change.
type Chain struct {
	Host    *Host
	Milters []*Milter
}

// A Session is a client in the eyes of all milters of a Chain. It belongs to one goroutine. Call
// Mail, then Recipient for each recipient, then Message, or Abort at any moment; and Close at the end.
// All calls block until each milter concerned has answered, or has failed.
type Session struct {
	host    *Host
	parts   []part
	facts   Facts
	sender  mail.Address
	hold    string     // why the message is held though no milter said so: one has failed
	refusal mail.Reply // of all that follows of the message: a milter has failed that it must not go without
	discard bool       // the message is thrown away
}

// A Verdict is the decision of the milters about a command. The zero Verdict means that the message goes on.
type Verdict struct {
	Reply   mail.Reply // the refusal; a code of 421 ends the session of the client
	Discard bool       // accept the message and discard it; no more of it needs to be shown to milters
}

// A part is the part of a session with one milter.
type part struct {
	milter    *Milter
	standing  standing
	talk      *conversation // nil unless standing is atClient, atMessage or atRest
	hello     string        // the EHLO and TLS data that it last received
	refusal   mail.Reply    // at standing atRefused
	skipsRcpt bool          // it wants no more recipients of the message
	idle      bool          // nothing was said since the message before
	gone      bool          // it was idle, and has closed the connection
}

// A standing is the state of a milter's work on a client.
type standing uint8

const (
	atNothing standing = iota // there is no connection; the next MAIL makes one
	atClient                  // it knows the client
	atMessage                 // it looks at a message
	atRest                    // it needs no more of this message
	atTrust                   // it needs no more of this client
	atRefused                 // it has refused the client
	standings
)

// mayFollow are the standings that may follow each.
var mayFollow = [standings][]standing{
	atNothing: {atClient, atTrust, atRefused},
	atClient:  {atNothing, atMessage, atTrust, atRefused},
	atMessage: {atNothing, atClient, atRest},
	atRest:    {atNothing, atClient},
	atTrust:   {},
	atRefused: {},
}

// Open returns the session of a client. Nothing is sent yet.
func (c *Chain) Open() *Session {
	s := &Session{host: c.Host, parts: make([]part, len(c.Milters))}
	for i, m := range c.Milters {
		s.parts[i].milter = m
	}
	return s
}

// become changes the standing.
func (p *part) become(to standing) {
	for _, may := range mayFollow[p.standing] {
		if may == to {
			p.standing = to
			return
		}
	}
	panic(fmt.Sprintf("milter: standing %d after %d", to, p.standing))
}

// Mail announces a new message to the milters. A milter that does not know the client or its EHLO yet
// gets these first. arguments are the parameters of MAIL.
func (s *Session) Mail(ctx context.Context, facts *Facts, sender mail.Address, arguments []string) Verdict {
	s.facts, s.sender, s.hold, s.discard, s.refusal = *facts, sender, "", false, mail.Reply{}
	for i := range s.parts {
		p := &s.parts[i]
		p.idle, p.gone = p.standing == atClient, false
		v, done := s.begin(ctx, p, arguments)
		if p.gone { // it was restarted, or has time limits of its own; nothing of the message was lost
			v, done = s.begin(ctx, p, arguments)
		}
		if done {
			if !v.Reply.IsZero() {
				s.Abort()
			}
			return v
		}
	}
	return Verdict{}
}

// begin announces a message to one milter.
func (s *Session) begin(ctx context.Context, p *part, arguments []string) (v Verdict, done bool) {
	p.skipsRcpt = false
	if v, done := s.introduce(ctx, p); done || p.standing != atClient {
		return v, done
	}
	p.become(atMessage)
	return s.tell(ctx, p, "MAIL", func(c *conversation) (ruling, error) {
		return s.command(ctx, c, noMail, mutedMail, cmdMail, stageMail, &occasion{sender: s.sender}, arguments, "<"+string(s.sender)+">")
	})
}

// introduce connects to a milter and describes the client to it.
func (s *Session) introduce(ctx context.Context, p *part) (v Verdict, done bool) {
	switch p.standing {
	case atTrust:
		return Verdict{}, false
	case atRefused:
		return Verdict{Reply: p.refusal}, true
	case atNothing:
		talk, err := p.milter.open(ctx)
		if err != nil {
			return s.fail(ctx, p, "connect", err)
		}
		p.talk, p.hello = talk, ""
		p.become(atClient)
		name, at := s.facts.peer()
		v, done := s.tell(ctx, p, "connect", func(c *conversation) (ruling, error) {
			c.out = c.agreed.appendMacros(c.out, cmdConnect, stageConnect, s.about(c, &occasion{}))
			if c.agreed.steps&noConnect != 0 {
				return ruling{}, nil
			}
			return c.tell(ctx, c.cfg.CommandTimeout, mutedConnect, cmdConnect, func(b []byte) []byte {
				b = appendText(b, name)
				family := byte('4')
				if at.Addr().Is6() {
					family = '6'
				}
				b = append(b, family)
				b = binary.BigEndian.AppendUint16(b, at.Port())
				return appendText(b, at.Addr().String())
			})
		})
		if done || p.standing != atClient {
			return v, done
		}
	}
	hello := s.facts.Helo + " " + s.facts.TLSVersion + " " + s.facts.Cipher
	if p.hello == hello {
		return Verdict{}, false
	}
	p.hello = hello
	return s.tell(ctx, p, "EHLO", func(c *conversation) (ruling, error) {
		return s.command(ctx, c, noHelo, mutedHelo, cmdHelo, stageHelo, &occasion{}, nil, s.facts.Helo)
	})
}

// about completes an occasion.
func (s *Session) about(c *conversation, o *occasion) *occasion {
	o.Facts, o.host, o.daemon = &s.facts, s.host, c.cfg.DaemonName
	return o
}

// command sends macros, and a command with texts unless the milter does not want it. It may want the
// macros all the same, and gets them from Sendmail and Postfix.
func (s *Session) command(ctx context.Context, c *conversation, unwanted, muted uint32, command byte, at stage, o *occasion, arguments []string, texts ...string) (ruling, error) {
	if c.agreed.knows(command) {
		c.out = c.agreed.appendMacros(c.out, command, at, s.about(c, o))
	}
	if c.agreed.steps&unwanted != 0 {
		return ruling{}, nil
	}
	timeout := c.cfg.CommandTimeout
	if command == cmdEOH {
		timeout = c.cfg.ContentTimeout // as Postfix
	}
	return c.tell(ctx, timeout, muted, command, func(b []byte) []byte {
		for _, t := range append(texts, arguments...) {
			b = appendText(b, t)
		}
		return b
	})
}

// tell has say send a command to one milter, and acts on the milter's ruling. done means that the
// other milters need not get the command.
func (s *Session) tell(ctx context.Context, p *part, what string, say func(*conversation) (ruling, error)) (v Verdict, done bool) {
	r, err := say(p.talk)
	idle := p.idle
	p.idle = false
	if idle && errors.Is(err, errClosed) {
		p.gone = true
		p.leave()
		return Verdict{}, false
	}
	if err != nil {
		return s.fail(ctx, p, what, err)
	}
	c := &p.milter.counters
	client := p.standing == atClient
	switch r.word {
	case wordAccepted:
		if client {
			p.talk.quit()
			p.talk = nil
			p.become(atTrust)
		} else {
			p.become(atRest)
		}
	case wordSkip:
		if what != "RCPT" {
			return s.fail(ctx, p, what, broken("it skips where there is nothing to skip"))
		}
		p.skipsRcpt = true
	case wordDiscarded:
		if client {
			return s.fail(ctx, p, what, broken("it discards where there is no message"))
		}
		c.discarded.Add(1)
		s.note(slog.LevelInfo, eventDiscarded, p, what)
		s.discard = true
		return Verdict{Discard: true}, true
	case wordRefused:
		s.refuse(p, what, r.reply)
		if client {
			p.refusal = r.reply
			p.talk.quit()
			p.talk = nil
			p.become(atRefused)
		}
		return Verdict{Reply: r.reply}, true
	}
	return Verdict{}, false
}

// refuse counts and logs a refusal.
func (s *Session) refuse(p *part, what string, r mail.Reply) {
	if r.Permanent() {
		p.milter.counters.refused.Add(1)
	} else {
		p.milter.counters.deferred.Add(1)
	}
	s.note(slog.LevelInfo, "a milter refuses", p, what, "reply", r.String())
}

func (s *Session) note(level slog.Level, event string, p *part, what string, attributes ...any) {
	if s.host.Note == nil {
		return
	}
	attributes = append([]any{"milter", p.milter.cfg.Name, "at", what}, attributes...)
	if s.facts.ID != 0 {
		attributes = append(attributes, "id", s.facts.ID.String())
	}
	client := "local"
	if s.facts.Client.IsValid() {
		client = s.facts.Client.Addr().String()
	}
	s.host.Note(level, event, client, p.milter.cfg.Name+" "+what, attributes...)
}

// leave ends the conversation with a milter of which nothing more can be expected on this connection.
func (p *part) leave() {
	if p.talk != nil {
		p.talk.close()
		p.talk = nil
	}
	if p.standing != atNothing {
		p.become(atNothing)
	}
}

// fail leaves a milter that cannot be asked, and does with the message what the operator wants. Where
// that is to refuse it, nothing more of the message is accepted: the milter will not see it.
func (s *Session) fail(ctx context.Context, p *part, what string, err error) (v Verdict, done bool) {
	p.leave()
	if ctx.Err() != nil { // it is the program that ends
		s.refusal = mail.Reply{Code: 421, Status: mail.Status{Class: 4, Subject: 3, Detail: 2}, Text: s.host.Hostname + " Service shutting down"}
		return Verdict{Reply: s.refusal}, true
	}
	p.milter.counters.failures.Add(1)
	action := p.milter.cfg.OnFailure
	s.note(slog.LevelError, "a milter failed", p, what, "error", err, "action", action.String())
	switch action {
	case FailAccept:
		return Verdict{}, false
	case FailQuarantine:
		if s.hold == "" {
			s.hold = "milter " + p.milter.cfg.Name + " failed: " + oneLine(err.Error())
		}
		return Verdict{}, false
	case FailReject:
		s.refusal = mail.Reply{Code: 554, Status: mail.Status{Class: 5, Subject: 3, Detail: 0}, Text: "Error: the message cannot be checked"}
	default:
		s.refusal = mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 3, Detail: 0}, Text: "Error: the message cannot be checked now; try again later"}
	}
	return Verdict{Reply: s.refusal}, true
}

// Recipient shows the milters a recipient that passed all other checks.
func (s *Session) Recipient(ctx context.Context, r *mail.Recipient) Verdict {
	if v := (Verdict{s.refusal, s.discard}); v != (Verdict{}) {
		return v
	}
	for i := range s.parts {
		p := &s.parts[i]
		if p.standing != atMessage || p.skipsRcpt {
			continue
		}
		v, done := s.tell(ctx, p, "RCPT", func(c *conversation) (ruling, error) {
			return s.command(ctx, c, noRcpt, mutedRcpt, cmdRcpt, stageRcpt, &occasion{sender: s.sender, recipient: r.Address}, parameters(r), "<"+string(r.Address)+">")
		})
		if done {
			return v
		}
	}
	return Verdict{}
}

// parameters returns the parameters of RCPT.
func parameters(r *mail.Recipient) (list []string) {
	if r.Notify != 0 {
		list = append(list, "NOTIFY="+r.Notify.String())
	}
	if r.ORcpt != "" {
		list = append(list, "ORCPT="+r.ORcpt)
	}
	return list
}

// Arguments returns the parameters of MAIL, but for those of which nothing depends on a milter: AUTH, and until when the
// message is kept.
func Arguments(m *smtp.Mail) (list []string) {
	if m.Size > 0 {
		list = append(list, "SIZE="+strconv.FormatInt(m.Size, 10))
	}
	if m.Body == mail.Body8BitMIME {
		list = append(list, "BODY=8BITMIME")
	}
	if m.SMTPUTF8 {
		list = append(list, "SMTPUTF8")
	}
	if m.Ret != 0 {
		list = append(list, "RET="+m.Ret.String())
	}
	if m.EnvID != "" {
		list = append(list, "ENVID="+m.EnvID)
	}
	if m.Prioritized {
		list = append(list, "MT-PRIORITY="+strconv.Itoa(int(m.Priority)))
	}
	if m.RequireTLS {
		list = append(list, "REQUIRETLS")
	}
	return list
}

// MayRemove reports whether a milter that looks at the message may remove recipients.
func (s *Session) MayRemove() bool {
	for i := range s.parts {
		if p := &s.parts[i]; p.standing == atMessage && p.talk.agreed.may&mayDelRcpt != 0 {
			return true
		}
	}
	return false
}

// Message has each milter look at the content, with the changes of those before it, and returns what
// they want changed in the envelope. removable is whether recipients can still be removed. An error
// is one of this machine, such as a full disk.
func (s *Session) Message(ctx context.Context, m *Message, removable bool) (all Changes, v Verdict, err error) {
	if v := (Verdict{s.refusal, s.discard}); v != (Verdict{}) {
		s.Abort()
		return Changes{}, v, nil
	}
	for i := range s.parts {
		p := &s.parts[i]
		if p.standing != atMessage {
			continue
		}
		if err := m.split(); err != nil {
			s.Abort()
			return Changes{}, Verdict{}, err
		}
		w := &wish{}
		v, done, err := s.look(ctx, p, m, w)
		if err == nil && !done {
			if !removable && removes(w) {
				v, done = s.fail(ctx, p, "end of content", errors.New("it removes recipients of a message with too many for that"))
			} else if p.standing != atNothing {
				s.grant(p, w, m, &all)
			}
		}
		w.drop()
		if err != nil || done {
			s.Abort()
			return Changes{}, v, err
		}
	}
	s.Abort()
	if all.Hold == "" {
		all.Hold = s.hold
	}
	return all, Verdict{}, nil
}

func removes(w *wish) bool {
	for _, r := range w.Recipients {
		if r.Remove {
			return true
		}
	}
	return false
}

// grant makes the changes that a milter wants.
func (s *Session) grant(p *part, w *wish, m *Message, all *Changes) {
	c := &p.milter.counters
	c.messages.Add(1)
	if w.count == 0 && w.body == nil {
		return
	}
	c.changed.Add(1)
	attributes := []any{"changes", w.summary()}
	if w.Hold != "" {
		c.held.Add(1)
		w.Hold = "milter " + p.milter.cfg.Name + ": " + w.Hold
		attributes = append(attributes, "hold", w.Hold)
	}
	w.grant(m, all)
	s.note(slog.LevelInfo, eventChanged, p, "end of content", attributes...)
}

// look shows the content to one milter, and reads the changes that it wants.
func (s *Session) look(ctx context.Context, p *part, m *Message, w *wish) (v Verdict, done bool, err error) {
	failed := func(what string, cause error) (Verdict, bool, error) {
		var own hostError
		if errors.As(cause, &own) && ctx.Err() == nil {
			p.leave() // the rest of what it was saying is not to be taken for other answers
			return Verdict{}, true, own.error
		}
		v, done := s.fail(ctx, p, what, cause)
		return v, done, nil
	}
	p.talk.end = time.Now().Add(max(lookMax, p.talk.cfg.ContentTimeout))
	what := "DATA"
	r, err := s.command(ctx, p.talk, noData, mutedData, cmdData, stageData, &occasion{sender: s.sender}, nil)
	if err == nil && r.word == wordContinue {
		what = "header"
		r, err = s.header(ctx, p.talk, m)
	}
	if err == nil && r.word == wordContinue {
		what = "end of header"
		r, err = s.command(ctx, p.talk, noEOH, mutedEOH, cmdEOH, stageEOH, &occasion{sender: s.sender}, nil)
	}
	if err == nil && r.word == wordContinue {
		what = "body"
		r, err = s.body(ctx, p.talk, m)
	}
	if err == nil && r.word == wordContinue {
		what = "end of content"
		if r, err = s.end(ctx, p.talk, m, w); err == nil {
			p.become(atClient) // it is ready for the next message
			p.talk.rest()
		}
	}
	if err != nil {
		return failed(what, err)
	}
	switch r.word {
	case wordDiscarded:
		p.milter.counters.discarded.Add(1)
		s.note(slog.LevelInfo, eventDiscarded, p, what)
		return Verdict{Discard: true}, true, nil
	case wordRefused:
		s.refuse(p, what, r.reply)
		return Verdict{Reply: r.reply}, true, nil
	case wordSkip:
		return failed(what, broken("it skips where there is nothing to skip"))
	}
	return Verdict{}, false, nil
}

// header sends the fields of the header.
func (s *Session) header(ctx context.Context, c *conversation, m *Message) (ruling, error) {
	if c.agreed.steps&noHeaders != 0 {
		return ruling{}, nil
	}
	for i := range m.fields {
		f := &m.fields[i]
		if f.own {
			continue
		}
		value := string(f.value())
		if c.agreed.wants(leadingSpace) {
			value = strings.TrimPrefix(value, " ")
		}
		value = strings.ReplaceAll(value, "\r\n", "\n") // as Sendmail does
		r, err := c.tell(ctx, c.cfg.ContentTimeout, mutedHeader, cmdHeader, func(b []byte) []byte {
			return appendText(appendText(b, f.name), value)
		})
		if err != nil || r.word != wordContinue {
			if r.word == wordSkip {
				r.word = wordContinue
			}
			return r, err
		}
	}
	return ruling{}, nil
}

// body sends the body in pieces.
func (s *Session) body(ctx context.Context, c *conversation, m *Message) (ruling, error) {
	if c.agreed.steps&noBody != 0 {
		return ruling{}, nil
	}
	from, err := m.reader()
	if err != nil {
		return ruling{}, hostError{err}
	}
	buf := buffers.Get().(*buffer)
	defer buffers.Put(buf)
	for {
		n, err := io.ReadFull(from, buf[:])
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return ruling{}, hostError{err}
		}
		if n == 0 {
			return ruling{}, nil
		}
		r, err := c.tell(ctx, c.cfg.ContentTimeout, mutedBody, cmdBody, func(b []byte) []byte { return append(b, buf[:n]...) })
		if err != nil || r.word != wordContinue {
			if r.word == wordSkip {
				r.word = wordContinue
			}
			return r, err
		}
	}
}

// end ends the content, and reads changes until the last word.
func (s *Session) end(ctx context.Context, c *conversation, m *Message, w *wish) (ruling, error) {
	c.out = c.agreed.appendMacros(c.out, cmdEnd, stageEnd, s.about(c, &occasion{sender: s.sender}))
	b, at := beginPacket(c.out, cmdEnd)
	c.out = endPacket(b, at)
	timeout := c.cfg.ContentTimeout
	if err := c.flush(ctx, timeout); err != nil {
		return ruling{}, err
	}
	for {
		code, size, err := c.next(ctx, timeout)
		if err != nil {
			return ruling{}, err
		}
		if code == answerReplaceBody {
			if err := w.takeBody(ctx, c, m, size); err != nil {
				return ruling{}, err
			}
			continue
		}
		a, err := c.remainder(ctx, timeout, code, size)
		if err != nil {
			return ruling{}, err
		}
		if !isChange(code) {
			if err := w.endBody(); err != nil {
				return ruling{}, err
			}
			return c.ruling(a)
		}
		if err := w.take(a, c.agreed); err != nil {
			return ruling{}, err
		}
	}
}

func isChange(code byte) bool {
	switch code {
	case answerAddRcpt, answerDelRcpt, answerAddRcptPar, answerChangeFrom, answerAddHeader, answerInsertHeader, answerChangeHeader, answerQuarantine:
		return true
	}
	return false
}

// Abort ends the message, whose content is not complete or is refused. Without a message it does
// nothing.
func (s *Session) Abort() {
	for i := range s.parts {
		p := &s.parts[i]
		if p.standing != atMessage && p.standing != atRest {
			continue
		}
		b, at := beginPacket(p.talk.out, cmdAbort)
		p.talk.out = endPacket(b, at)
		p.become(atClient)
		p.talk.conn.SetWriteDeadline(time.Now().Add(time.Second)) // then Write fails too
		_, err := p.talk.conn.Write(p.talk.out)
		p.talk.rest()
		if err != nil {
			p.leave()
		}
	}
}

// Close ends the session.
func (s *Session) Close() {
	for i := range s.parts {
		if p := &s.parts[i]; p.talk != nil {
			p.talk.quit()
			p.talk = nil
		}
	}
}
