package replies

import (
	"cmp"
	"strings"

	"github.com/posthaste-mta/posthaste/idn"
	"github.com/posthaste-mta/posthaste/mail"
)

// A Book is patterns and rules, ready for use.
type Book struct {
	patterns []Pattern
	tests    []test // of the patterns
	rules    []compiled
	words    *vocabulary
}

// New returns a Book. The first pattern and the first rule that match a reply count.
func New(patterns []Pattern, rules []Rule) *Book {
	b := &Book{patterns: patterns, words: newVocabulary()}
	for i := range patterns {
		b.tests = append(b.tests, b.test(&patterns[i].Match))
	}
	for i := range rules {
		b.rules = append(b.rules, compiled{&rules[i], b.test(&rules[i].Match)})
	}
	return b
}

// RuleNames returns the names of the rules, in their order. A nil Book has none.
func (b *Book) RuleNames() (names []string) {
	if b == nil {
		return nil
	}
	for i := range b.rules {
		names = append(names, b.rules[i].Name)
	}
	return names
}

func (b *Book) test(m *Match) test {
	t := test{Match: *m}
	for _, w := range m.Words {
		t.words = append(t.words, b.words.number(w))
	}
	return t
}

// An Explanation is the result of matching a reply against a Book.
type Explanation struct {
	Class   Class
	Pattern *Pattern // that gave the class; nil if none matches
	Rule    *Rule    // that applies; nil if none does
}

// An Occasion is to what a host replied: the transport of the mail, the stage of the conversation, and whose mail it
// was, if that is known. Addresses in the text of a reply are not searched for words.
type Occasion struct {
	Transport         string
	Stage             mail.Stage
	Sender, Recipient mail.Address
}

// Explain returns what the reply of a host means. The host's name is that in
// mail.Reply.By. A rule about stages does not apply if the stage is unknown.
func (b *Book) Explain(r *mail.Reply, on Occasion) (e Explanation) {
	if b == nil || r.Code < 400 {
		return e
	}
	if text := withoutAddresses(r.Text, on.Sender, on.Recipient); text != r.Text {
		plain := *r
		plain.Text = text
		r = &plain
	}
	var room struct { // for most replies, and the shipped phrases
		text  [512]byte
		found [8]uint64
	}
	s := said{reply: r, mx: hostName(r.By), text: room.text[:], found: room.found[:]}
	if len(r.Text) > len(room.text) {
		s.text = make([]byte, len(r.Text))
	}
	if n := len(b.words.phrases); n > 64*len(room.found) {
		s.found = make(phraseSet, n/64+1)
	}
	s.text = s.text[:fold(s.text, r.Text)]
	b.words.find(s.text, s.found)
	e.Class = ClassOther
	for i := range b.tests {
		if b.tests[i].matches(&s) {
			e.Pattern = &b.patterns[i]
			e.Class = e.Pattern.Class
			break
		}
	}
	if r.By == "" {
		return e
	}
	for i := range b.rules {
		if b.rules[i].matches(&s, e.Class, on) {
			e.Rule = b.rules[i].Rule
			break
		}
	}
	return e
}

// Class returns the class of a reply; ClassNone of one that refuses nothing. Prefixes of
// this program (mail.Reply.Said) do not matter.
func (b *Book) Class(r mail.Reply) Class {
	r = r.Said()
	return b.Explain(&r, Occasion{}).Class
}

// Delivered applies the rules to the result of a transaction, in place: outcomes may
// change, and Measure is set. A recipient who may have the message already stays as it is.
func (b *Book) Delivered(d *mail.Delivery, r *mail.DeliveryResult) {
	if b == nil || len(b.rules) == 0 || d.Callout {
		return
	}
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		if o.Reply.By == "" || o.Reply.Code < 400 || o.Unknown || o.Result != mail.Deferred && o.Result != mail.Failed || d.Said.By != "" {
			continue
		}
		rule := b.Explain(&o.Reply, occasion(d, i, o.Stage)).Rule
		if rule == nil {
			continue
		}
		if r.Measure == nil {
			if r.Measure = rule.measure(&o.Reply); r.Measure != nil && r.Measure.Parties() {
				r.Measure.Refused = refused(d, i, o.Stage)
			}
		}
		switch rule.Result {
		case ResultPermanent:
			o.Result = mail.Failed
		case ResultTemporary:
			o.Result = mail.Deferred
		}
	}
}

// occasion is that of a reply about a recipient of a delivery.
func occasion(d *mail.Delivery, i int, stage mail.Stage) Occasion {
	on := Occasion{Transport: d.Transport, Stage: stage, Sender: d.Envelope.Sender}
	if i < len(d.Recipients) {
		on.Recipient = d.Recipients[i].Address
	}
	return on
}

// Opened applies the rules to the attempt to open a connection.
func (b *Book) Opened(o *mail.Opening, r *mail.OpenedConnection) {
	r.Measure = b.measure(&r.Reply, Occasion{Transport: o.Transport, Stage: r.Stage})
}

// Closed applies the rules to the end of a connection of a transport.
func (b *Book) Closed(transport string, c *mail.Closing) {
	c.Measure = b.measure(&c.Reply, Occasion{Transport: transport, Stage: c.Stage})
	if m := c.Measure; m != nil && m.Parties() && !beforeMail(c.Stage) {
		c.Measure = nil // whose mail was refused is not known here: the result of its transaction has said so
	}
}

// refused returns whose mail a reply about a recipient of a delivery refused.
func refused(d *mail.Delivery, i int, stage mail.Stage) mail.Refused {
	if beforeMail(stage) {
		return mail.Refused{}
	}
	e := &d.Envelope
	r := mail.Refused{Message: e.ID, Sender: cmp.Or(strings.ToLower(e.Sender.Domain()), "<>"), Tenant: e.Flow.Tenant}
	if stage != mail.StageMail && i < len(d.Recipients) {
		to := d.Recipients[i].Address
		local, _, _ := strings.Cut(to.Local(), "+")
		r.Domain = idn.Key(to.Domain())
		r.Recipient = strings.ToLower(local) + "@" + r.Domain
	}
	return r
}

// beforeMail reports whether what a host says at a stage cannot be about a message.
func beforeMail(s mail.Stage) bool {
	return s == mail.StageGreeting || s == mail.StageEhlo || s == mail.StageAuth
}

func (b *Book) measure(r *mail.Reply, on Occasion) *mail.Measure {
	if b == nil || len(b.rules) == 0 || r.By == "" || r.Code < 400 {
		return nil
	}
	if rule := b.Explain(r, on).Rule; rule != nil {
		return rule.measure(r)
	}
	return nil
}
