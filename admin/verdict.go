package admin

import (
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// A verdict is whether a reply meets the conditions on replies.
type verdict struct {
	text      bool // that on its text
	otherwise bool // the others, on its class and its host
}

// judgeReply finds a verdict.
func (s *selector) judgeReply(r *mail.Reply) verdict {
	return verdict{
		text:      len(s.text) == 0 || s.text.match(r.String()),
		otherwise: (len(s.said) == 0 || s.said.match(s.classify(*r))) && (len(s.host) == 0 || s.host.matchHost(r.By)),
	}
}

// verdictsMax bounds verdicts.
const verdictsMax = 1000

// Verdicts are those on some replies: most of the mail that waits has one of a few, and to classify one takes longer than to
// read a message. The zero value is ready to use. It belongs to one goroutine.
type verdicts struct{ known map[mail.Reply]verdict }

// of returns the verdict on a reply.
func (v *verdicts) of(s *selector, r *mail.Reply) verdict {
	if !s.aboutReply() {
		return verdict{text: true, otherwise: true}
	}
	found, known := v.known[*r]
	if !known {
		if found = s.judgeReply(r); len(v.known) < verdictsMax {
			if v.known == nil {
				v.known = make(map[mail.Reply]verdict)
			}
			own := *r // without a sweep's texts, which keep others alive
			own.Text, own.By = strings.Clone(r.Text), strings.Clone(r.By)
			v.known[own] = found
		}
	}
	return found
}

// interest returns what a sweep has to see for the selector, with recipients if they are read in any case.
func (s *selector) interest(reads bool) Interest {
	in := Interest{Brief: !reads && !s.aboutRecipients()}
	if s.aboutEnvelope() {
		in.Envelope = s.stored
	}
	if s.aboutAddress() {
		in.Recipient = s.addressed
	}
	// Where a recipient waits that was not tried is known to the core alone.
	if s.aboutReply() && !s.aboutWay() {
		own := &verdicts{} // of another goroutine
		outcome := func(reason string, o *mail.Outcome) bool {
			return s.answered(reason, own.of(s, &o.Reply)) || reason != "" && len(s.text) > 0 && s.text.match(reason)
		}
		if !outcome("", &mail.Outcome{}) {
			in.Outcome = outcome
		}
	}
	return in
}
